"""The one way from a path to a model at work: `load` finds what the path holds, and the class in the table of `uses`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast, overload

from nlptools.configs import Compute
from nlptools.configs.embed import Embed, EmbedWords
from nlptools.configs.fill import Fill
from nlptools.configs.finetuning import Predict
from nlptools.configs.generation import Generate
from nlptools.configs.rerank import Rerank
from nlptools.configs.scoring import Score, mixture_weights
from nlptools.errors import BundleError, UsageError, display
from nlptools.inference import mixture_directory, uses
from nlptools.inference.opening import Asked, Opened, holds_vectors, open_model
from nlptools.inference.uses import TABLE, AnyUse, Embeds, Predicts, Scores, Use, Uses
from nlptools.models import registry
from nlptools.vectors import static_directory

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from nlptools.configs.tasks.files import Files
    from nlptools.inference.language_model import TextLanguageModel
    from nlptools.inference.translation import Translator
    from nlptools.models.language.transformer_xl import TransformerXL

    Settings = Score | Generate | Embed | Predict | Rerank | Fill

    class Where(TypedDict, total=False):
        """Where and how `load` reads and computes."""

        errors: str
        device: str
        precision: str
        threads: int
        compute: Compute | None


U = TypeVar("U")


@dataclass(frozen=True)
class Source:
    """What was found at a path: a row of the table of uses.

    Attributes:
        uses: the row of its family in `uses.TABLE`.
        opened: one directory; several for an ensemble or a mixture, none for word vectors.
        weights: of a saved mixture.
    """

    path: str | Path
    uses: Uses
    opened: tuple[Opened, ...]
    weights: tuple[float, ...] | None = None

    def serves(self, use: Use[object]) -> bool:
        """Whether the model can be used so."""
        return use in self.uses.served

    @property
    def mixed(self) -> bool:
        """Whether it is a mixture."""
        return self.uses.mixed

    def asked(self, compute: Compute) -> Asked[object]:
        """The arguments to put the model to a use without settings."""
        return Asked(self.path, None, compute, self.weights)

    def check(self, use: Use[object]) -> None:
        """Raise UsageError, which names the commands that take such a model, unless it can be used so."""
        self.uses.serving(use, self.path)

    @property
    def default(self) -> Use[object]:
        """The use if none is asked for."""
        return self.uses.default

    def put_to(self, use: Use[U], asked: Asked[object]) -> U:
        """The model at work. Raises UsageError for another family, or for settings that the class does not have."""
        module, _, name = self.uses.serving(use, self.path).partition(":")
        opener = attrgetter(name)(import_module(f"nlptools.inference.{module}"))
        served: U = opener(asked, *self.opened)
        return served


def source(path: str | Path, *others: str | Path, use: Use[object] | None = None, errors: str = "strict") -> Source:
    """Open what is at some paths, each as in `load`.

    Args:
        use: the purpose; several models are a mixture to score with, and an ensemble otherwise.

    Raises:
        InputError, BundleError: see `open_model`.
        UsageError: the models cannot be used together.
    """
    if not others and holds_vectors(path) and (use in (None, uses.EMBED) or Path(path).is_dir()):
        return Source(path, TABLE[uses.VECTORS], ())
    if not others and static_directory.locate(path) is not None:
        return Source(path, TABLE[uses.STATIC], ())
    paths, weights = [path, *others], None
    mixed = bool(others) and use in (uses.SCORE, uses.CHOOSE)
    if not others and mixture_directory.is_saved(path):
        mixed = True
        parts, weights = mixture_directory.read(path)
        paths = [*parts]
    if len(paths) > 1 and (nested := [part for part in paths if mixture_directory.is_saved(part)]):
        raise UsageError(f"{display(str(nested[0]))} is a mixture: --with takes single models")
    opened = tuple(open_model(each, errors) for each in paths)
    families = [_family(each) for each in opened]
    if mixed:
        for each in opened:
            if each.bundle.family not in (registry.LANGUAGE, registry.NGRAM):
                raise UsageError(f"{display(str(each.path))} is not a language model: mixtures are of those")
        counts_only = all(each.bundle.family == registry.NGRAM for each in opened)
        row = TABLE[uses.NGRAM_MIXTURE if counts_only else uses.MIXTURE]
        return Source(path, row, opened, weights)
    for family, each in zip(families, opened, strict=True) if others else ():
        _check_ensemble(family, families[0], each.path, use or uses.GENERATE)
    return Source(path, TABLE[families[0]], opened)


def _check_ensemble(family: str, first: str, path: str | Path, use: AnyUse) -> None:
    """Raise UsageError or BundleError unless a model of this family can be in an ensemble with one of the family `first`."""
    served = TABLE[family].serving(use, path)
    if use not in TABLE[family].together:
        if use == uses.ASK:
            raise UsageError("predict --ask takes one model")
        raise BundleError(
            f"{display(str(path))}: only encoder-decoders form an ensemble",
            hint="score --with --save makes a mixture of language models, which generate takes",
        )
    if served != TABLE[first].served[use]:
        raise UsageError(f"{display(str(path))} is {TABLE[family].noun}, the first model is {TABLE[first].noun}")


def _family(opened: Opened) -> str:
    """The row of a model directory."""
    family = opened.bundle.family
    if family != registry.ENCODER:
        attends = registry.find(opened.bundle.arch).attends
        return family if attends else uses.WITHOUT_ATTENTION.get(family, family)
    if opened.steps is not None:
        return uses.SENTENCES
    if opened.has_task:
        return uses.FINE_TUNED
    return uses.MASKED_ENCODER if "masked" in opened.bundle.heads else family


def use_of(settings: Settings | None, several: bool = False) -> Use[object] | None:
    """The use of these settings; None: the default of the model's family. Several models generate."""
    match settings:
        case Predict(ask=str()):
            return uses.ASK
        case Score(masked=str()):
            return uses.MASKED
        case Score(choices=True):
            return uses.CHOOSE
        case Score():
            return uses.SCORE
        case Embed():
            return uses.EMBED
        case Generate():
            return uses.GENERATE
        case None:
            return uses.GENERATE if several else None
    return uses.PREDICT


@overload
def load(
    path: str | Path, *others: str | Path, use: Use[U], settings: Settings | None = ..., **where: Unpack[Where]
) -> U: ...
@overload
def load(
    path: str | Path, *others: str | Path, settings: Generate, **where: Unpack[Where]
) -> TextLanguageModel | Translator: ...
@overload
def load(path: str | Path, *others: str | Path, settings: Score, **where: Unpack[Where]) -> Scores: ...
@overload
def load(path: str | Path, *, settings: Embed, words: EmbedWords | None = ..., **where: Unpack[Where]) -> Embeds: ...
@overload
def load(
    path: str | Path, *others: str | Path, settings: Predict, files: Files | None = ..., **where: Unpack[Where]
) -> Predicts: ...
@overload
def load(
    path: str | Path, *others: str | Path, settings: None = ..., **where: Unpack[Where]
) -> Scores | TextLanguageModel | Translator | Predicts | Embeds: ...
def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    precision: str = "auto",
    threads: int = 0,
    compute: Compute | None = None,
    use: Use[object] | None = None,
    settings: Settings | None = None,
    words: EmbedWords | None = None,
    files: Files | None = None,
    errors: str = "strict",
) -> object:
    """A trained model, ready for use.

    `path` is a directory of nlptools, Hugging Face or sentence-transformers, the name of a model in the local Hugging Face
    cache, an ARPA file, or a file or directory of word vectors. The class of `settings` selects the use, and `uses.TABLE` the
    class of the model:

    * `Score`: a `TextLanguageModel`, `NGramScorer` or `BidirectionalScorer`, mixed with `others`; with `masked`, a `MaskedScorer`
      for an encoder. Its `memory_length` applies from here on;
    * `Generate`: a `TextLanguageModel`, or a `Translator` for an encoder-decoder; `others` join it as an ensemble;
    * `Embed`: a `TextEmbedder` for an encoder or a language model, a `WordEmbedder` for word vectors;
    * `Predict`: a `Predictor` for a model with a task head, a `PairPredictor` for an encoder-decoder; `others` join them as an
      ensemble. With `ask`, a `PretrainingPredictor` for an encoder with the head.

    Without `settings`, the model decides: word vectors and encoders embed, models with a task head predict, language models
    and encoder-decoders score and generate.

    Args:
        device, precision, threads: see `Compute`; ignored if `compute` is given.
        use: one of `uses` that is narrower than the class of the settings.
        words: how word vectors are weighted (`Embed`).
        files: the layout of the input files (`Predict`).
        errors: what to do with invalid UTF-8 in files of word vectors and ARPA files: strict, replace, ignore.

    Raises:
        InputError, BundleError: see `open_model`.
        UsageError: the model cannot be used with these settings.
        Unavailable: no such device or precision.
    """
    use = use or use_of(settings, bool(others))
    found = source(path, *others, use=use, errors=errors)
    compute = compute or Compute(device=device, precision=precision, threads=threads)
    asked = Asked(path, settings, compute, found.weights, words or EmbedWords(), files, errors)
    if found.opened and asked.words != EmbedWords():
        raise UsageError(
            f"{path} holds no word vectors, which --word-weights, --counts, --tokenizer and --lowercase are for"
        )
    if isinstance(settings, Score):
        asked = _for_scoring(found, asked, settings)
    served = found.put_to(use or found.default, asked)
    if settings is not None and settings.quantize is not None:
        from nlptools.inference.quantization import Quantizable, quantize

        quantize(cast(Quantizable, served), settings.quantize)  # as all classes in the table are
    return served


def _for_scoring(found: Source, asked: Asked[object], settings: Score) -> Asked[object]:
    """`asked` with the options of scoring that change the model. Raises UsageError for options that it does not have."""
    for flag, value in (("--mix-weights", settings.mix_weights), ("--save", settings.save)):
        if value is not None and not found.mixed:
            raise UsageError(f"{flag} requires a mixture: --with, or a saved one")
    if settings.mix_weights is not None:
        asked = replace(asked, weights=mixture_weights(settings.mix_weights))
    if settings.memory_length is not None:
        _set_memory(settings.memory_length, found.opened)
    if not settings.dynamic:
        return asked
    if asked.compute.precision not in ("auto", "fp32"):
        raise UsageError("--dynamic computes in fp32", hint="leave --precision out")
    return replace(asked, compute=replace(asked.compute, precision="fp32"))  # in 16 bits, small updates are lost


def _set_memory(length: int, opened: Sequence[Opened]) -> None:
    """Let each position see `length` positions before it, in models with a memory. Raises UsageError if there are none."""
    every = [cast("TransformerXL", each.bundle.model) for each in opened]
    models = [model for model in every if "inference_memory" in vars(model.config)]
    if not models:
        raise UsageError(
            f"--memory-length: {display(str(opened[0].path))} has no memory", hint="transformer-xl has one"
        )
    for model in models:
        model.config = replace(model.config, inference_memory=length)
