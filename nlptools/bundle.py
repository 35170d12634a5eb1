"""The model directory: save and load.

A bundle is a directory in the layout the field reads: config.json, model.safetensors, the tokenizer's files (an encoder-decoder
may have two: see `text.marian`), and besides training.json (how it was trained), log.jsonl and manifest.json; see `artifacts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Generic, cast

from nlptools.configs.layers import MIX_FILES
from nlptools.configs.vectors import FORMATS
from nlptools.errors import BundleError, display, reading
from nlptools.files import artifacts, atomic, hub_cache
from nlptools.files.json_fields import whole
from nlptools.json_types import JsonObject
from nlptools.models import text_ends
from nlptools.models.huggingface import peft

if TYPE_CHECKING:
    from torch import Tensor, nn
    from typing_extensions import TypeVar

    from nlptools.arrays import Array
    from nlptools.corpora.columns import Column
    from nlptools.models.contract import Configuration, EncoderDecoder, LanguageModel
    from nlptools.models.language.elmo import Elmo
    from nlptools.models.language.ngram import NGramConfig, NGrams
    from nlptools.models.tasks.task_model import TaskModel
    from nlptools.models.translation.vocabularies import Vocabularies
    from nlptools.text.pair_format import PairFormat
    from nlptools.text.tokenizer import Tokenizer

    M = TypeVar("M", covariant=True, default=LanguageModel)  # the contract of the model, see `models.registry`
    N = TypeVar("N")
    Weights = Mapping[str, Tensor] | Mapping[str, Column | Array]  # of an n-gram model, the latter
else:
    from typing import TypeVar

    M = TypeVar("M", covariant=True)

_NGRAM = "nlptools-ngram"  # in config.json
_WEIGHTS = "model.safetensors"
WEIGHTS_OF = "weights_of_steps"  # in training.json: the steps that the weights, or their mean, are from


@dataclass(frozen=True)
class Bundle(Generic[M]):
    """A loaded model directory."""

    path: Path
    arch: str
    model: M
    tokenizer: Tokenizer  # of the source
    config: JsonObject  # config.json
    training: JsonObject  # training.json, or empty
    target_tokenizer: Tokenizer | None = None  # of an encoder-decoder; may be the same object as `tokenizer`
    bos: int | None = None  # the token that the tokenizer of a foreign language model puts before each text
    ends: tuple[int, ...] = ()  # tokens besides `eos` that end a generated text
    format: PairFormat | None = None  # of an encoder-decoder: the tokens around sources and targets

    def weights(self: Bundle[LanguageModel]) -> dict[str, Tensor]:
        """The model's weights under our names."""
        return dict(self.model.state_dict())

    def with_model(self, model: N) -> Bundle[N]:
        """The same directory with another model."""
        return Bundle(**{**vars(self), "model": model})

    @property
    def ours(self) -> JsonObject:
        """What config.json says to nlptools alone; empty in directories that are not ours."""
        said = self.config.get("nlptools")
        return said if isinstance(said, dict) else {}

    @property
    def family(self) -> str:
        """The family of the architecture, see `models.registry`."""
        from nlptools.models import registry

        return registry.find(self.arch).family

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads of pretraining and of tasks; none in a language model or an encoder-decoder."""
        return tuple(getattr(self.model, "heads", ()))

    @property
    def eos(self) -> int:
        """The end-of-text token. Encoders have none."""
        return whole(self.config, "eos_token_id", "config.json")

    @property
    def start(self) -> int:
        """The token before a text, where scoring starts: `bos`, else the one in config.json, else `eos`, as in our models."""
        if self.bos is not None:
            return self.bos
        named = self.config.get("bos_token_id")
        if type(named) is int and 0 <= named < whole(self.config, "vocab_size", "config.json"):
            return named
        return self.eos

    @property
    def prepends_start(self) -> bool:
        """Whether prompts and embedded texts begin with `start`: in models of ours, and where a foreign tokenizer adds it."""
        return self.bos is not None or "nlptools" in self.config

    @property
    def document(self) -> str:
        """The unit of text in training: line, paragraph, file."""
        return str(self.ours.get("document", "file"))


# -- saving ---------------------------------------------------------------------------------------------------------


def save(
    directory: Path,
    arch: str,
    model: LanguageModel | NGrams | Elmo,
    weights: Weights,
    tokenizer: Tokenizer,
    *,
    eos: int,
    document: str,
    training: Mapping[str, object],
    files: Sequence[str] = (),
    start: int | None = None,
    ends: Sequence[int] = (),
    adapter: peft.Adapter | None = None,
    keeps_around: bool = False,
) -> None:
    """Write the bundle of a language model; the manifest last, with the `files` that are in the directory already.

    Args:
        start, ends: the token before the first one of a text, None: `eos`; and other tokens that end one.
        adapter: of a model with adapters; the other weights are left out.
        keeps_around: keep the tokens that the tokenizer puts around texts; otherwise it gets the tokens of our models.

    Raises:
        StreamError: disk full or another write error.
    """
    special = {"bos_token_id": eos if start is None else start, "eos_token_id": [eos, *ends] if ends else eos}
    more = {**special, "nlptools": {"document": document, "arch": arch}}
    names = [*files, *tokenizer.save(directory, None if keeps_around else text_ends.around(arch, tokenizer, special))]
    _save(directory, arch, model.config, weights, more, training, names, special, adapter=adapter)


def save_pair(
    directory: Path,
    arch: str,
    model: EncoderDecoder,
    weights: Mapping[str, Tensor],
    source: Tokenizer,
    target: Tokenizer | None = None,
    *,
    training: Mapping[str, object],
    form: PairFormat | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> None:
    """Write the bundle of an encoder-decoder; the manifest last.

    Args:
        target: the tokenizer of the target side; None: the same as `source`.
        form: the tokens around sources and targets; None: the end of a sentence alone.
        languages: of the sources and the targets, where `form` knows any.

    Raises:
        BundleError: the tokenizers do not go together, or have more tokens than the model.
        StreamError: disk full or another write error.
    """
    from nlptools.text import tokenizer_pairs

    sizes = model.config
    _check_pair(directory, *tokenizer_pairs.pair(source, target), sizes)
    special = {
        "pad_token_id": sizes.pad,
        "eos_token_id": sizes.eos,
        "decoder_start_token_id": sizes.start_token,
        "forced_eos_token_id": sizes.eos,
        "bad_words_ids": [[sizes.pad]],
        "max_length": min(512, asdict(sizes).get("max_position_embeddings", 512)),
        **({} if form is None else form.generation(*languages)),
    }
    files = tokenizer_pairs.save_pair(directory, source, target, form, languages)
    _save(directory, arch, sizes, weights, {"nlptools": {"arch": arch}}, training, files, special)


def save_encoder(
    directory: Path,
    model: TaskModel,
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    *,
    arch: str = "bert",
    training: Mapping[str, object],
    more: Mapping[str, object] | None = None,
    files: Sequence[str] = (),
    adapter: peft.Adapter | None = None,
) -> None:
    """Write the bundle of a model that reads whole texts, with the heads that it has; the manifest last.

    The directory may hold mixes of layers (`configs.layers.MIX_FILES`) and a chat template (`chat_templates.keep`) already.

    Args:
        model: with the heads to write, of the architecture `arch`.
        more: more for config.json, such as `id2label`; its entries under "nlptools" are added to ours.
        files: other files that are in the directory already.
        adapter: see `save`.

    Raises:
        BundleError: the tokenizer has more tokens than the model.
        StreamError: disk full or another write error.
    """
    from nlptools.text import chat_templates

    ours = (more or {}).get("nlptools")
    more = {**(more or {}), "nlptools": {"arch": arch, **(ours if isinstance(ours, Mapping) else {})}}
    check_tokenizer(directory, tokenizer, {"vocab_size": model.config.vocab_size})
    kept = [name for name in (*MIX_FILES.values(), *chat_templates.FILES) if (directory / name).is_file()]
    names = [*kept, *files, *tokenizer.save(directory, text_ends.around(arch, tokenizer, more))]
    _save(directory, arch, model.config, weights, more, training, names, heads=model.heads, adapter=adapter)


def _save(
    directory: Path,
    arch: str,
    sizes: Configuration | NGramConfig,
    weights: Weights,
    more: Mapping[str, object],
    training: Mapping[str, object],
    files: list[str],
    generation: Mapping[str, object] | None = None,
    heads: tuple[str, ...] = (),
    adapter: peft.Adapter | None = None,
) -> None:
    """Write all but the `files` of the tokenizers, which exist already, and the manifest of all. `more` of config.json."""
    from nlptools.models import registry

    names = ["config.json", "training.json", *files]
    if registry.find(arch).family == registry.NGRAM:
        config = {"model_type": _NGRAM, **asdict(sizes), **more}
        from nlptools.corpora import columns

        columns.save(directory / _WEIGHTS, cast("Mapping[str, Column | Array]", weights))
        names.append(_WEIGHTS)
    else:
        from nlptools.models.huggingface import directories

        config = {**directories.config_to_hf(arch, sizes, heads), **more}
        tensors = cast("Mapping[str, Tensor]", weights)
        if adapter is None:
            artifacts.save_tensors(directory / _WEIGHTS, directories.weights_to_hf(arch, tensors, sizes))
            names.append(_WEIGHTS)
        else:
            names += peft.save(directory, adapter, arch, tensors, sizes, config)
    atomic.write_whole(directory / "config.json", json.dumps(config, indent=2) + "\n")
    if generation is not None:
        atomic.write_whole(directory / "generation_config.json", json.dumps(generation, indent=2) + "\n")
        names.append("generation_config.json")
    artifacts.write_json(directory / "training.json", training)
    artifacts.write_manifest(directory, names)


# -- loading --------------------------------------------------------------------------------------------------------


def load(directory: str | Path) -> Bundle:
    """The bundle in `directory`, its model on the CPU in float32, ready for use: a language model, an encoder-decoder, or
    an encoder.

    Raises:
        InputError: no such directory.
        BundleError: a file is missing, damaged, of the wrong shape, or of a kind that is never read (pickles).
    """
    path = hub_cache.locate(directory)
    check_directory(path)
    if is_ngram(path):
        artifacts.verify(path)
        with reading(path):
            return _load(path)
    with ThreadPoolExecutor(1) as pool:
        verified = pool.submit(artifacts.verify, path)  # hashing and importing torch go on side by side
        import torch  # noqa: F401

        verified.result()
    with reading(path):
        return _load(path)


def _load(path: Path) -> Bundle:
    """See `load`; the files match the manifest."""
    config = peft.read_config(path)
    _check_ours(path, config)
    arch, found = load_model(path, config)
    training = artifacts.read_json(path / "training.json") if (path / "training.json").is_file() else {}
    from nlptools.models import registry
    from nlptools.text import pair_format, tokenizer_pairs
    from nlptools.text import tokenizer as tokenizers

    family = registry.find(arch).family
    model = cast("LanguageModel", found)  # or the contract of its family, which the caller knows
    if family in registry.PAIRED:
        source, target = tokenizer_pairs.load_pair(path)
        pair = cast("EncoderDecoder", found)
        sizes, start = pair.config, pair.start_token
        _check_pair(path, source, target, sizes)
        config["eos_token_id"] = sizes.eos
        form = pair_format.read(path, config, source, start, sizes.eos)
        return Bundle(path, arch, model, source, config, training, target, format=form)
    of_tokenizer = peft.home(path, tokenizers.BUNDLE_FILES)
    tokenizer = tokenizers.load_path(of_tokenizer)
    check_tokenizer(path, tokenizer, config)
    if family in (registry.ENCODER, *registry.WITHOUT_PRETRAINING):
        return Bundle(path, arch, model, tokenizer, config, training)
    from nlptools.text.text_boundaries import end_tokens, first_token

    config["eos_token_id"], *ends = end_tokens(peft.home(path, ["config.json"]), config, tokenizer)
    bos = None if "nlptools" in config else first_token(tokenizer, of_tokenizer)
    return Bundle(path, arch, model, tokenizer, config, training, bos=bos, ends=tuple(ends))


def load_model(path: Path, config: JsonObject) -> tuple[str, nn.Module | NGrams]:
    """(architecture, model on the CPU in float32) of a directory with this config.json. Raises BundleError."""
    if config.get("model_type") == _NGRAM:
        return "ngram", _load_ngrams(path, config)
    from nlptools.models.huggingface import directories

    said = peft.is_adapter(path) or config.get("tie_word_embeddings") is False
    return directories.build(config, peft.load_weights(path), path, warn="" if said else str(path))


def is_ngram(path: Path) -> bool:
    """Whether a model directory holds an n-gram model, which needs no PyTorch."""
    if not (path / "config.json").is_file():  # adapters of a published model
        return False
    with open(path / "config.json", "rb") as stream:  # which may be damaged or huge: `artifacts.verify` refuses that
        return _NGRAM.encode() in stream.read(1 << 16)


def ngram_config(config: JsonObject) -> NGramConfig:
    """The sizes of an n-gram model in its config.json. Raises BundleError."""
    from nlptools.models.language.ngram import NGramConfig

    return NGramConfig(**{each.name: whole(config, each.name, "config.json") for each in fields(NGramConfig)})


def _load_ngrams(path: Path, config: JsonObject) -> NGrams:
    from nlptools.models.language.ngram import NGrams

    return NGrams.from_arrays(ngram_config(config), artifacts.load_arrays(path / _WEIGHTS))


def check_directory(path: Path) -> None:
    """Raise InputError or BundleError unless `path` is a model directory."""
    described = (path / "config.json").is_file() or peft.is_adapter(path)
    if not described:
        artifacts.refuse_tensorflow(path)
    if not path.exists():
        raise hub_cache.no_model(path)
    if not path.is_dir():
        raise BundleError(f"{display(str(path))}: is a file, expected a model directory", hint=_hint(path))
    if not described:
        raise BundleError(f"{display(str(path))}: no config.json: not a model directory")


def _hint(path: Path) -> str | None:
    """What to do with a file that is no model directory."""
    if not path.is_file():  # reading a pipe could wait for ever
        return None
    magic = FORMATS["fasttext"].magic
    with open(path, "rb") as stream:
        fasttext = stream.read(len(magic)) == magic
    return "a fastText model: finetune --task classify --scratch bag trains such a classifier" if fasttext else None


def _check_ours(path: Path, config: JsonObject) -> None:
    ours = config.get("nlptools", {})
    if not isinstance(ours, dict) or ours.get("document", "file") not in ("line", "paragraph", "file"):
        raise BundleError(f'{display(str(path / "config.json"))}: not what nlptools writes: "nlptools" is {ours!r:.80}')


def check_tokenizer(path: Path, tokenizer: Tokenizer, config: JsonObject) -> None:
    """Raise BundleError when the tokenizer has no ids, or more of them than the model."""
    size = config.get("vocab_size")
    if tokenizer.vocab is None:
        raise BundleError(f"{display(str(path))}: the tokenizer has no vocabulary")
    if not isinstance(size, int) or len(tokenizer.vocab) > size:
        raise BundleError(f"{display(str(path))}: the tokenizer has {len(tokenizer.vocab)} tokens, the model {size}")


def _check_pair(path: Path, source: Tokenizer, target: Tokenizer, sizes: Vocabularies) -> None:
    """Raise BundleError when a tokenizer of an encoder-decoder has no ids, or more of them than the model."""
    for tokenizer, size in ((source, sizes.source_vocab_size), (target, sizes.target_vocab_size)):
        check_tokenizer(path, tokenizer, {"vocab_size": size})
