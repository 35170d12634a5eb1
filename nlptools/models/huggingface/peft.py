"""Directories of low-rank adapters, as the package PEFT writes and reads them: adapter_config.json and adapter_model.safetensors.

The adapters belong to the linear maps of a model of Hugging Face, the base; adapter_config.json
has its directory or name. Modules that are trained as a whole (heads) are in the same file. Directories of ours also have the
config.json of the model that base and adapters are together, and its tokenizer. When a directory is opened, the adapters are
added to the weights of the base, in float32.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nlptools.configs.lora import LoRA
from nlptools.errors import BundleError, display, shorten
from nlptools.files import artifacts, atomic, hub_cache
from nlptools.json_types import JsonObject
from nlptools.models import registry
from nlptools.models.huggingface import adapter_settings

if TYPE_CHECKING:
    from torch import Tensor

    from nlptools.models.contract import Configuration

CONFIG, WEIGHTS = artifacts.ADAPTER, "adapter_model.safetensors"
_PREFIX = "base_model.model."
_TASKS = {"sequence": "SEQ_CLS", "tokens": "TOKEN_CLS", "spans": "QUESTION_ANS"}  # a head here: the type of task there
_GPTS = ("gpt2", "openai-gpt")  # their linear maps within layers are stored as (in, out)
_IN_LAYER = re.compile(r"(^|\.)h\.\d+\.")


@dataclass(frozen=True)
class Adapter:
    """Adapters that are trained.

    Attributes:
        base: the name or the absolute path of the model that they are for.
        digest: identifies the weights of the base.
    """

    settings: LoRA
    base: str
    digest: str


# -- layout -----------------------------------------------------------------------------------------------------------


def modules(arch: str, name: str, rows: int, config: Configuration) -> tuple[dict[str, int], bool]:
    """The modules of Hugging Face that the linear map `name` of an architecture stands for, with the rows of each, and whether
    they are stored transposed.
    """
    import torch

    from nlptools.models.huggingface import directories

    # a matrix without columns is split and transposed like any other
    parts = directories.weights_to_hf(arch, {f"{name}.weight": torch.empty(rows, 0)}, config)
    theirs = {part.removesuffix(".weight"): max(matrix.shape) for part, matrix in parts.items()}
    return theirs, any(len(matrix) == 0 for matrix in parts.values())


def is_whole(arch: str, name: str) -> bool:
    """Whether a weight, by our name, is trained and saved as a whole, as weights of heads and of the pooler before them are."""
    return registry.with_heads(arch) == arch and (not name.startswith("encoder.") or name.startswith("encoder.pooler."))


# -- writing ------------------------------------------------------------------------------------------------------------


def save(
    directory: Path,
    adapter: Adapter,
    arch: str,
    weights: Mapping[str, Tensor],
    sizes: Configuration,
    config: JsonObject,
) -> list[str]:
    """Write the adapters and heads among `weights`, by our names; returns the names of the files. `config`: the config.json."""
    from nlptools.models.huggingface import checks, directories

    low, inner, turned = _adapters(arch, weights, sizes)
    heads = {name: tensor for name, tensor in weights.items() if is_whole(arch, name)}
    whole = directories.weights_to_hf(arch, heads, sizes)
    architecture = next(iter(checks.architectures(config)), "")
    bare = architecture.endswith("Model") and not architecture.endswith("LMHeadModel")  # a class without heads
    prefix = _prefix(config) if bare else ""
    tensors = {_PREFIX + name.removeprefix(prefix): tensor for name, tensor in {**low, **whole}.items()}
    artifacts.save_tensors(directory / WEIGHTS, tensors)
    settings, alpha = adapter.settings, adapter.settings.lora_alpha
    kinds = [kind for head, kind in _TASKS.items() if any(name.startswith(head) for name in heads)]
    kinds += [] if heads else ["CAUSAL_LM"]
    data = {
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION" if bare else kinds[0] if kinds else None,
        "base_model_name_or_path": adapter.base,
        "r": settings.lora,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": settings.lora_dropout,
        "target_modules": inner,
        "fan_in_fan_out": turned,
        "bias": "none",
        "modules_to_save": adapter_settings.modules_to_save(whole, _prefix(config)) or None,
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "inference_mode": True,
    }
    atomic.write_whole(directory / CONFIG, json.dumps(data, indent=2) + "\n")
    return [CONFIG, WEIGHTS]


def _adapters(
    arch: str, weights: Mapping[str, Tensor], sizes: Configuration
) -> tuple[dict[str, Tensor], list[str], bool]:
    """The matrices of all adapters under the names of PEFT, the modules that have them, as it selects them, and whether the
    base stores these transposed.
    """
    from nlptools.models.huggingface import directories

    out: dict[str, Tensor] = {}
    inner: dict[str, bool] = {}  # names of maps within a layer: whether they have adapters
    turned = False
    for name, weight in weights.items():
        name, kind = name.rpartition(".")[::2]
        in_block = ".blocks." in f".{name}" or f"{name}.lora_A" in weights
        if weight.dim() != 2 or kind != "weight" or not in_block:
            continue
        theirs, transposed = modules(arch, name, len(weight), sizes)
        up, down = weights.get(f"{name}.lora_B"), weights.get(f"{name}.lora_A")
        inner |= {re.split(r"\.\d+\.", part, maxsplit=1)[-1]: up is not None for part in theirs}
        if up is None or down is None:
            continue
        turned |= transposed
        ups = directories.weights_to_hf(arch, {f"{name}.weight": up}, sizes).values()
        for part, a, b in zip(theirs, down.chunk(len(theirs)), ups, strict=True):
            b = b.t() if transposed else b
            out[f"{part}.lora_A.weight"], out[f"{part}.lora_B.weight"] = a.contiguous(), b.contiguous()
    ends = {name: name.rsplit(".", 1)[-1] for name in inner}
    unique = {end for end, count in Counter(ends.values()).items() if count == 1}
    targets = sorted(ends[name] if ends[name] in unique else name for name, has in inner.items() if has)
    return out, targets, turned


def _prefix(config: JsonObject) -> str:
    """The prefix of the names of an encoder's weights in a model with heads and this config.json."""
    kind = str(config.get("model_type"))
    if kind.startswith("nlptools-"):
        return "encoder."
    from nlptools.models.huggingface import directories

    return directories.prefix(kind)


# -- reading ------------------------------------------------------------------------------------------------------------


def is_adapter(path: Path) -> bool:
    """Whether a directory holds adapters."""
    return (path / CONFIG).is_file()


def read(path: Path) -> JsonObject:
    """The content of adapter_config.json. Raises BundleError for other adapters than LoRA, and for variants of it."""
    data = artifacts.read_json(path / CONFIG)
    with _naming(path / CONFIG):
        adapter_settings.check(data)
    return data


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the name of a file before the message of any BundleError."""
    try:
        yield
    except BundleError as error:
        raise BundleError(f"{display(str(path))}: {error}", hint=error.hint) from None


def base_of(path: Path) -> Path:
    """The directory of the model that adapters are for: relative to the directory of the adapters or to the working directory,
    or a name in the local Hugging Face cache. Raises BundleError if there is none.
    """
    name = read(path).get("base_model_name_or_path")
    if not isinstance(name, str) or not name or "\0" in name:
        raise BundleError(f"{display(str(path / CONFIG))}: base_model_name_or_path is {name!r:.80}, expected a model")
    beside = path / name
    base = beside if beside.is_dir() else hub_cache.locate(name)
    if not (base / "config.json").is_file():
        raise BundleError(
            f"{display(str(path))}: adapters of {display(name)}, which is not a model directory here",
            hint=f'correct "base_model_name_or_path" in {CONFIG}',
        )
    if is_adapter(base):
        raise BundleError(f"{display(str(path))}: adapters of adapters ({display(name)}) are not supported")
    return base


def home(path: Path, names: Iterable[str]) -> Path:
    """The model directory that holds a file of one of these names: `path`; or the base, for adapters without such a file."""
    return path if not is_adapter(path) or any((path / name).is_file() for name in names) else base_of(path)


def read_config(path: Path) -> JsonObject:
    """The config.json of a model directory; for adapters, of the base with the adapters. Raises BundleError."""
    place = home(path, ["config.json"])
    config = artifacts.read_json(place / "config.json")
    if place == path:
        return config
    for head in (head for head, kind in _TASKS.items() if kind == read(path).get("task_type")):
        from nlptools.models.huggingface import directories

        arch, sizes = directories.config_from_hf(config)
        named = directories.config_to_hf(registry.with_heads(arch) or arch, sizes, (head,))
        config["architectures"] = named["architectures"]
    return config


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a model directory, by its names; adapters are added to the weights of their base.

    Adapters of an embedding that is also the output matrix change one of the two only: both are returned then. Every weight
    in the file of adapters is used, or is the one of the base, or is refused.

    Raises:
        BundleError: a damaged file, or adapters that do not belong to the base, or not to their settings.
    """
    if not is_adapter(path):
        return artifacts.load_weights(path)
    settings, base = adapter_settings.AdapterSettings(read(path)), base_of(path)
    if artifacts.verify(base):
        _check_base(path, base)
    config = artifacts.read_json(base / "config.json")
    if not (path / WEIGHTS).is_file():
        raise BundleError(f"{display(str(path))}: no {WEIGHTS}")
    file = artifacts.load_tensors(path / WEIGHTS)
    weights = _Weights(artifacts.load_weights(base), _prefix(config), config.get("model_type") in _GPTS)
    with _naming(path / WEIGHTS):
        low, whole = _split(file)
        encoder = weights.encoder()
        tied = _untie(weights, config)
        placed = weights.replace(whole, settings, tied)
        named = [name.removesuffix(".weight") for name, each in weights.tensors.items() if each.dim() == 2]
        for module, (down, up) in low.items():
            weights.add(module, down, up, settings)
    with _naming(path / CONFIG):
        settings.check_targets(
            low, [name for name in named if weights.prefixed(name) not in map(weights.prefixed, low)]
        )
    if tied is not None and weights.tensors[tied[0]] is weights.tensors[tied[1]]:
        del weights.tensors[tied[1]]
    with _naming(path / WEIGHTS):
        return weights.with_heads(placed, encoder)


def _untie(weights: _Weights, config: JsonObject) -> tuple[str, str] | None:
    """The names of the embedding and of the output matrix among the weights of a base that ties them; None if it does not.
    Afterwards the output matrix is among them, as the same tensor.
    """
    from nlptools.models.huggingface import checks, directories

    arch, sizes = directories.config_from_hf(config)
    names = directories.tied(arch, directories.as_stored(arch, sizes, weights.tensors))
    embedding = None if names is None else checks.name_in(weights.tensors, names[0])
    if names is None or embedding is None:
        return None
    output = checks.name_in(weights.tensors, names[1]) or names[1]
    weights.tensors[output] = weights.tensors[embedding]
    return embedding, output


def _check_base(path: Path, base: Path) -> None:
    """Raise BundleError if a base with a manifest has other weights than when the adapters were trained."""
    record = path / "training.json"
    marks = artifacts.read_json(record).get("fingerprint") if record.is_file() else None
    trained = marks.get("base") if isinstance(marks, dict) else None
    if trained is not None and trained != artifacts.weights_digest(base):
        raise BundleError(f"{display(str(path))}: adapters of other weights than {display(str(base))} has now")


def _split(tensors: Mapping[str, Tensor]) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
    """The matrices A (rank, in) and B (out, rank) of each module, and the weights that stand for themselves, among them weights
    of modules that also have matrices. Raises BundleError.
    """
    from nlptools.models.huggingface import checks

    low: dict[str, dict[str, Tensor]] = {}
    whole: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix(_PREFIX).replace(".base_layer.", ".")
        if match := re.fullmatch(r"(.+)\.lora_(?:([AB])\.weight|embedding_([AB]))", name):
            matrices, which = low.setdefault(match[1], {}), match[2]
            if match[3]:  # of an embedding: the other way round, (rank, tokens) and (out, rank)
                which = {"A": "B", "B": "A"}[match[3]]
                tensor = tensor.t() if tensor.dim() == 2 else tensor
            if which in matrices:
                raise BundleError(f"two matrices {match[2] or match[3]} of {shorten(match[1], 200)}")
            matrices[which] = tensor
        elif ".lora_" in name:
            raise BundleError(f"{shorten(name, 200)} is not supported")
        elif name in whole and not checks.are_equal(whole[name], tensor):
            raise BundleError(f"{shorten(name, 200)} occurs twice, with different numbers")
        else:
            whole[name] = tensor
    for module, pair in low.items():
        if len(pair) < 2:
            raise BundleError(f"{shorten(module, 200)} has only one of its two matrices")
    return {module: (pair["A"], pair["B"]) for module, pair in low.items()}, whole


@dataclass(frozen=True)
class _Weights:
    """The weights of a base; the names in its encoder begin with `prefix`, or none does. `turned`: linear maps within layers
    are stored as (in, out).
    """

    tensors: dict[str, Tensor]
    prefix: str
    turned: bool
    changed: set[str] = field(default_factory=set)

    def prefixed(self, name: str) -> str:
        """A name with the prefix."""
        return self.prefix + name.removeprefix(self.prefix)

    def place(self, name: str) -> str | None:
        """The name here of a weight that may be called with or without the prefix."""
        for each in (name, self.prefix + name, name.removeprefix(self.prefix)):
            if each in self.tensors:
                return each
        return None

    def replace(
        self, whole: Mapping[str, Tensor], settings: adapter_settings.AdapterSettings, tied: tuple[str, str] | None
    ) -> dict[str, Tensor]:
        """Replace weights of the base; returns the new ones by the names here.

        Two tied matrices are replaced together, unless one of them is trained apart from the other. Raises BundleError for a
        weight that has two names.
        """
        from nlptools.models.huggingface import checks

        placed: dict[str, Tensor] = {}
        for name, tensor in whole.items():
            place = self.place(name) or name
            if place in placed and not checks.are_equal(placed[place], tensor):
                raise BundleError(f"{shorten(name, 200)} occurs twice, with different numbers")
            placed[place] = tensor
        for place, tensor in placed.items():
            both = tied is not None and place in tied and not set(tied) <= placed.keys()
            alone = settings.saves(place.removesuffix(".weight"))
            for each in tied if tied is not None and both and not alone else (place,):
                self.tensors[each] = tensor
        return placed

    def add(self, module: str, down: Tensor, up: Tensor, settings: adapter_settings.AdapterSettings) -> None:
        """Add the product of the matrices of a module, (rank, in) and (out, rank), to its weight. Raises BundleError."""
        name = shorten(module, 200)
        place = self.place(f"{module}.weight")
        if place is None:
            raise BundleError(f"adapters of {name}, which the base does not have")
        if place in self.changed:
            raise BundleError(f"two adapters of {name}")
        self.changed.add(place)
        if down.dim() != 2 or up.dim() != 2 or len(down) != up.shape[1] or len(down) == 0:
            raise BundleError(f"the matrices of {name} do not belong together")
        product = settings.scale(module, len(down)) * (up.float() @ down.float())
        product = product.t() if self.turned and _IN_LAYER.search(module) else product
        weight = self.tensors[place]
        if product.shape != weight.shape:
            raise BundleError(
                f"adapters of {name} for shape {tuple(product.shape)}, the base has {tuple(weight.shape)}"
            )
        self.tensors[place] = weight.float() + product

    def encoder(self) -> list[str]:
        """The names of all weights except heads."""
        return [name for name in self.tensors if name.startswith(self.prefix)] or list(self.tensors)

    def with_heads(self, placed: Iterable[str], encoder: Sequence[str]) -> dict[str, Tensor]:
        """These weights. If there are heads among those in `placed`, they replace all heads of the base. Raises BundleError for
        a change of another head.
        """
        heads = [name for name in placed if name in self.tensors and name not in encoder]
        if not heads:
            return self.tensors
        lost = [name for name in self.changed if name not in (*encoder, *heads)]
        lost += [name for name in heads if name.startswith("lm_head.") and len(heads) > 1]
        if lost:
            raise BundleError(f"{lost[0]} and weights of another head ({heads[-1]}): a model has one of them")
        return {self.prefixed(name): self.tensors[name] for name in encoder} | {
            name: self.tensors[name] for name in heads
        }
