"""The one way from a path to a model: `load` for a model to use, `open_model` for what its directory holds."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed, EmbedWords
from nlptools.configs.finetuning import Files, Predict
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score, mixture_weights
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import hub_cache
from nlptools.inference import arpa_bundle, mixture_directory
from nlptools.models import registry

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from nlptools.inference.bidirectional import BidirectionalScorer
    from nlptools.inference.embedding.contract import Embedder
    from nlptools.inference.embedding.sentence_steps import SentenceSteps
    from nlptools.inference.language_model import TextLanguageModel
    from nlptools.inference.masked_scoring import MaskedScorer
    from nlptools.inference.ngram_scorer import NGramScorer
    from nlptools.inference.prediction import PairPredictor, Predictor
    from nlptools.inference.translation import Translator

    AnyUse = (
        TextLanguageModel
        | NGramScorer
        | BidirectionalScorer
        | MaskedScorer
        | Translator
        | Predictor
        | PairPredictor
        | Embedder
    )

    class Where(TypedDict, total=False):
        """Where and how `load` reads and computes."""

        errors: str
        device: str
        precision: str
        threads: int
        compute: Compute | None


# families that only `predict` takes, and the option of finetune that trains them
_FOR_PREDICT = {
    registry.TEXT_CLASSIFIER: "--scratch",
    registry.WORD_TAGGER: "--scratch",
    registry.WORD_READER: "--features",
}


@dataclass(frozen=True)
class Opened:
    """A model directory.

    Attributes:
        path: the directory.
        bundle: its model and tokenizer, on the CPU in float32; of a sentence-transformers directory, those of its encoder.
        steps: pooling, dense layers, prompts of a sentence-transformers directory; None for other directories.
    """

    path: Path
    bundle: bundle.Bundle
    steps: SentenceSteps | None

    @property
    def predicts(self) -> bool:
        """Whether the model has a task head, so that it is for `predict`."""
        from nlptools.models.tasks.heads import TASK_HEADS

        if self.steps is not None:
            return False
        task = self.bundle.config.get("nlptools", {}).get("task")
        return task is not None or bool(set(self.bundle.heads) & set(TASK_HEADS))


def open_model(path: str | Path, errors: str = "strict") -> Opened:
    """The model directory or ARPA file `path`, or the model of this name in the local Hugging Face cache.

    Args:
        errors: what to do with invalid UTF-8 in an ARPA file: strict, replace, ignore.

    Raises:
        InputError: no such directory.
        BundleError: see `bundle.load` and `sentence_steps.read`.
    """
    if arpa_bundle.is_arpa(path):
        return Opened(Path(path), arpa_bundle.load(path, errors), None)
    where = hub_cache.locate(path)
    steps = None
    if (where / "modules.json").is_file():
        from nlptools.inference.embedding import sentence_steps

        steps = sentence_steps.read(where)
    loaded = bundle.load(where if steps is None else steps.encoder)
    loaded.report_unfinished()
    return Opened(where, loaded, steps)


@overload
def load(
    path: str | Path, *others: str | Path, settings: Generate, **where: Unpack[Where]
) -> TextLanguageModel | Translator: ...
@overload
def load(
    path: str | Path, *others: str | Path, settings: Score, **where: Unpack[Where]
) -> TextLanguageModel | NGramScorer | BidirectionalScorer | MaskedScorer: ...
@overload
def load(path: str | Path, *, settings: Embed, words: EmbedWords | None = ..., **where: Unpack[Where]) -> Embedder: ...
@overload
def load(
    path: str | Path, *, settings: Predict, files: Files | None = ..., **where: Unpack[Where]
) -> Predictor | PairPredictor: ...
@overload
def load(
    path: str | Path, *others: str | Path, settings: None = ..., **where: Unpack[Where]
) -> TextLanguageModel | NGramScorer | Translator | Predictor | Embedder: ...
def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    precision: str = "auto",
    threads: int = 0,
    compute: Compute | None = None,
    settings: Generate | Score | Embed | Predict | None = None,
    words: EmbedWords | None = None,
    files: Files | None = None,
    errors: str = "strict",
) -> AnyUse:
    """A trained model, ready for use.

    `path` is a directory of nlptools, Hugging Face or sentence-transformers, the name of a model in the local Hugging Face
    cache, an ARPA file, or a file or directory of word vectors. The class of `settings` selects the use:

    * `Score`: a `TextLanguageModel`, `NGramScorer` or `BidirectionalScorer`; `others` are mixed with it. With `masked`, a
      `MaskedScorer` for an encoder. Its `memory_length` applies from here on;
    * `Generate`: a `TextLanguageModel`, or a `Translator` for an encoder-decoder; `others` join it as an ensemble;
    * `Embed`: a `TextEmbedder` for an encoder or a language model, a `WordEmbedder` for word vectors;
    * `Predict`: a `Predictor` for a model with a task head, a `PairPredictor` for an encoder-decoder.

    Without `settings`, the model decides: word vectors and encoders embed, models with a task head predict, language models
    and encoder-decoders score and generate.

    Args:
        device, precision, threads: see `Compute`; ignored if `compute` is given.
        words: how word vectors are weighted (`Embed`).
        files: the layout of the input files (`Predict`).
        errors: what to do with invalid UTF-8 in files of word vectors and ARPA files: strict, replace, ignore.

    Raises:
        InputError, BundleError: see `open_model`.
        UsageError: the model cannot be used with these settings.
        Unavailable: no such device or precision.
    """
    compute = compute or Compute(device=device, precision=precision, threads=threads)
    if isinstance(settings, Generate | Score) and settings.quantize is not None:
        return _in_8_bits([path, *others], settings, compute, errors)
    if (settings is None or isinstance(settings, Embed)) and not others and _holds_vectors(path):
        from nlptools.inference.embedding import word_embedder

        return word_embedder.load(str(path), settings, words, errors)
    if words not in (None, EmbedWords()):
        raise UsageError(
            f"{path} holds no word vectors: --word-weights, --counts, --tokenizer and --lowercase go with those"
        )
    if isinstance(settings, Score) or mixture_directory.is_saved(path):
        return _scorer([path, *others], settings, compute, errors)
    first, *_ = opened = [open_model(each, errors) for each in (path, *others)]
    if first.bundle.family == registry.NGRAM:
        return _ngram_model(opened, settings, compute)
    if isinstance(settings, Predict) or (settings is None and not others and first.predicts):
        return _predictor(first, settings, files, compute)
    _refuse_features(first)
    embeds = first.steps is not None or (first.bundle.is_encoder and not others)
    if isinstance(settings, Embed) or (settings is None and embeds):
        return _embedder(first, settings, compute)
    return _generator(opened, compute)


def _in_8_bits(
    paths: list[str | Path], settings: Generate | Score, compute: Compute, errors: str
) -> TextLanguageModel | NGramScorer | BidirectionalScorer | MaskedScorer | Translator:
    """As `load`, with rounded weights, see `quantization.quantize`."""
    from nlptools.inference.quantization import quantize

    plain: Any = replace(settings, quantize=None)
    loaded: Any = load(*paths, compute=compute, settings=plain, errors=errors)
    quantize(loaded)
    return loaded  # type: ignore[no-any-return]


def _refuse_features(opened: Opened) -> None:
    """Raise UsageError for a model that only `predict` takes."""
    if how := _FOR_PREDICT.get(opened.bundle.family):
        raise UsageError(f"{display(str(opened.path))} is a model of finetune {how}", hint="predict takes such models")


def _scorer(
    paths: list[str | Path], settings: object, compute: Compute, errors: str
) -> TextLanguageModel | NGramScorer | BidirectionalScorer | MaskedScorer | Translator:
    """A model that scores text, or a mixture for any use. Raises UsageError for one that cannot."""
    mixed = len(paths) > 1 or mixture_directory.is_saved(paths[0])
    if isinstance(settings, Score):
        compute = _for_scoring(settings, compute, mixed)
    if mixed or not isinstance(settings, Score):
        return _mixture(paths, settings, compute, errors)
    opened = [open_model(paths[0], errors)]
    loaded = opened[0].bundle
    if settings.masked is not None:
        from nlptools.compute import backend, memory
        from nlptools.inference.masked_scoring import MaskedScorer

        memory.expect_new_shapes()
        return MaskedScorer(loaded, backend.Backend.detect(compute))
    if settings.memory_length is not None:
        _set_memory(settings.memory_length, loaded)
    if loaded.family == registry.NGRAM:
        return _ngram_model(opened, settings, compute)
    if loaded.family == registry.BIDIRECTIONAL:
        return _bidirectional_scorer(loaded, settings, compute)
    if loaded.is_encoder_decoder:
        raise UsageError(
            f"{display(str(loaded.path))} is an encoder-decoder", hint="generate --score-target scores its targets"
        )
    return _generator(opened, compute)


def _ngram_model(opened: list[Opened], settings: object, compute: Compute) -> TextLanguageModel | NGramScorer:
    """An n-gram model that scores, without PyTorch, or generates. Raises UsageError for other uses."""
    loaded = opened[0].bundle
    if isinstance(settings, (Embed, Predict)) or len(opened) > 1:
        raise UsageError(f"{display(str(loaded.path))} is an n-gram model: score and generate take those")
    model: Any = loaded.model
    if not isinstance(settings, Generate) and not (isinstance(settings, Score) and settings.choices):
        _refuse_streams(display(str(loaded.path)), settings)
        from nlptools.inference.ngram_scorer import NGramScorer

        return NGramScorer(loaded, model)
    from nlptools.compute.backend import Backend
    from nlptools.inference.language_model import TextLanguageModel
    from nlptools.models.language.ngram_decoder import NGramDecoder

    decoder: Any = NGramDecoder(model, loaded.eos)
    return TextLanguageModel(replace(loaded, model=decoder), Backend.detect(replace(compute, device="cpu")))


def _bidirectional_scorer(loaded: bundle.Bundle, settings: Score, compute: Compute) -> BidirectionalScorer:
    """Raises UsageError for options that see the text as one stream."""
    from nlptools.compute.backend import Backend
    from nlptools.inference.bidirectional import BidirectionalScorer

    _refuse_streams("a bidirectional model", settings)
    return BidirectionalScorer(loaded, Backend.detect(compute))


def _set_memory(length: int, *bundles: bundle.Bundle) -> None:
    """Let each position see `length` positions before it, in models with a memory. Raises UsageError if there are none."""
    models: list[Any] = [each.model for each in bundles]
    models = [model for model in models if "inference_memory" in vars(model.config)]
    if not models:
        raise UsageError(
            f"--memory-length: {display(str(bundles[0].path))} has no memory", hint="transformer-xl has one"
        )
    for model in models:
        model.config = replace(model.config, inference_memory=length)


def _mixture(
    paths: list[str | Path], settings: object, compute: Compute, errors: str
) -> TextLanguageModel | NGramScorer:
    """A mixture: a saved one, or of several models. Raises UsageError for other uses than scoring and generation."""
    from nlptools.inference.mixture import NGramMixtureScorer, parts_of

    if isinstance(settings, (Embed, Predict)):
        raise UsageError(f"{display(str(paths[0]))} is a mixture of language models: score and generate take those")
    weights = None
    if mixture_directory.is_saved(paths[0]) and len(paths) == 1:
        paths[:], weights = mixture_directory.read(paths[0])
    for path in paths:
        if mixture_directory.is_saved(path):
            raise UsageError(f"{display(str(path))} is a mixture: --with goes with single models")
    if isinstance(settings, Score) and settings.mix_weights is not None:
        weights = mixture_weights(settings.mix_weights)
    bundles = [open_model(path, errors).bundle for path in paths]
    if isinstance(settings, Score) and settings.memory_length is not None:
        _set_memory(settings.memory_length, *bundles)
    parts = parts_of(bundles, weights)
    if parts.counts_only:
        if not isinstance(settings, Generate):
            _refuse_streams("a mixture of n-gram models", settings)
            return NGramMixtureScorer(parts)
        compute = replace(compute, device="cpu", precision="fp32")
    from nlptools.compute.backend import Backend
    from nlptools.inference.mixed_model import MixedLanguageModel

    return MixedLanguageModel(parts, Backend.detect(compute))


def _for_scoring(settings: Score, compute: Compute, mixed: bool) -> Compute:
    """The settings to compute with. --dynamic trains in fp32: in 16 bits, small updates are lost.

    Raises UsageError for options that do not go with it, or with a model that is no mixture.
    """
    for flag, value in (("--mix-weights", settings.mix_weights), ("--save", settings.save)):
        if value is not None and not mixed:
            raise UsageError(f"{flag} goes with --with, or with a saved mixture")
    if settings.dynamic and compute.precision not in ("auto", "fp32"):
        raise UsageError("--dynamic computes in fp32", hint="leave --precision out")
    return replace(compute, precision="fp32") if settings.dynamic else compute


def _refuse_streams(what: str, settings: object) -> None:
    """Raise UsageError for options that see the text as one stream; n-gram models see nothing before a sentence."""
    if isinstance(settings, Score):
        given = {"--carry": settings.carry, "--cache": settings.cache, "--dynamic": settings.dynamic}
        for flag, value in given.items():
            if value:
                raise UsageError(f"{flag}: {what} sees nothing before the sentence of a token")


def _holds_vectors(path: str | Path) -> bool:
    """Whether `path` is a file or a directory of word vectors; a model directory is recognised without reading it."""
    if os.path.isdir(path) and os.path.isfile(os.path.join(path, "model.safetensors")):
        return False
    from nlptools.inference.embedding import word_embedder

    return word_embedder.is_vectors(str(path))


def _embedder(opened: Opened, settings: Embed | None, compute: Compute) -> Embedder:
    from nlptools.compute import backend, memory

    if opened.bundle.family == registry.BIDIRECTIONAL:
        from nlptools.inference.embedding.elmo_embedder import ElmoEmbedder

        return ElmoEmbedder(opened.bundle, backend.Backend.detect(compute), settings)
    if settings is not None and settings.stateful:
        raise UsageError("--stateful goes with an ELMo: other models begin each line anew")
    from nlptools.inference.embedding.text_embedder import TextEmbedder

    memory.expect_new_shapes()
    return TextEmbedder(opened.bundle, opened.steps, backend.Backend.detect(compute), settings)


def _predictor(
    opened: Opened, settings: Predict | None, files: Files | None, compute: Compute
) -> Predictor | PairPredictor:
    from nlptools.compute import backend, memory
    from nlptools.inference.prediction import PairPredictor, Predictor

    if opened.bundle.is_encoder_decoder:
        return PairPredictor(opened.bundle, backend.Backend.detect(compute), settings, files)
    memory.expect_new_shapes()
    return Predictor(opened.bundle, backend.Backend.detect(compute), settings, files)


def _generator(opened: list[Opened], compute: Compute) -> TextLanguageModel | Translator:
    """The model that scores and generates text. Raises UsageError for one that cannot."""
    from nlptools.compute.backend import Backend

    for each in opened:
        family = each.bundle.family
        generates = family in (registry.LANGUAGE, registry.BIDIRECTIONAL, registry.ENCODER_DECODER)
        if not generates or each.steps is not None or each.predicts:
            what = "an encoder" if family == registry.ENCODER else "a model for a task"
            takers = "score --masked, embed" if "masked" in each.bundle.heads else "embed"
            raise UsageError(
                f"{display(str(each.path))} is {what} and cannot generate text",
                hint=f"{takers}, finetune and predict take such models",
            )
    backend = Backend.detect(compute)
    if opened[0].bundle.is_encoder_decoder:
        from nlptools.inference.translation import Translator

        return Translator([each.bundle for each in opened], backend)
    if len(opened) > 1:
        raise BundleError(
            f"{display(str(opened[1].path))}: only encoder-decoders form an ensemble",
            hint="score --with --save makes a mixture of language models, which generate takes",
        )
    from nlptools.inference.language_model import TextLanguageModel

    if opened[0].bundle.family == registry.BIDIRECTIONAL:
        from nlptools.inference.bidirectional import forward_half

        half: Any = forward_half(opened[0].bundle)
        return TextLanguageModel(replace(opened[0].bundle, model=half), backend)
    return TextLanguageModel(opened[0].bundle, backend)
