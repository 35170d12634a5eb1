"""The uses of a model, and one table of the classes that serve them, by family.

A new family is one row of `TABLE`. `loading.load` looks a class up here; all commands and the Python interface ask `load`.
An entry names a function under `nlptools.inference`, "module:function" or "module:Class.method", that is imported on use. It
takes an `opening.Asked` and the opened directories, and returns what the use promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from nlptools.configs.scoring import Score
from nlptools.errors import UsageError, display
from nlptools.json_types import JsonObject
from nlptools.models import registry

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from nlptools.files.streams import LineBlock
    from nlptools.inference.attention_rows import ReadsAttention
    from nlptools.inference.embedding.units import Units
    from nlptools.inference.filling import Filler
    from nlptools.inference.language_model import TextLanguageModel
    from nlptools.inference.line_score import LineScore, Total
    from nlptools.inference.mixture_parts import Mixed
    from nlptools.inference.position_vectors import PositionVectors
    from nlptools.inference.reranking import ScoresPairs
    from nlptools.inference.translation import Translator
    from nlptools.inference.words import WordScore
    from nlptools.layers.quantized import Rounding
    from nlptools.text.unknown import UnknownTokens
    from nlptools.vectors.table import Vectors

U = TypeVar("U", covariant=True)


class Scores(Protocol):
    """Log-probabilities of text.

    Attributes:
        total_columns: the names of the numbers in `totals`.
        mixed: the parts and weights of a mixture; None: a single model.
        unknown: counts the unknown tokens.
    """

    total_columns: ClassVar[tuple[str, ...]]
    unknown: UnknownTokens

    @property
    def mixed(self) -> Mixed | None: ...

    @property
    def roundings(self) -> Sequence[Rounding]:
        """See `quantization.Quantizable`."""

    def totals(self, lines: Sequence[str], settings: Score) -> Sequence[Total]:
        """(log-probability in nats, number of tokens) of each line, and what else `Total` has."""

    def score_batch(self, lines: Sequence[str], settings: Score) -> list[LineScore]:
        """The scores of some lines, token by token."""

    def words(self, lines: Sequence[str], settings: Score) -> list[WordScore]:
        """The surprisals of the words of each line."""

    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> JsonObject:
        """Perplexities of a text, and the protocol."""


class Embeds(Protocol):
    """Vectors of lines, a window of lines at a time, in the order of the lines."""

    @property
    def dimensions(self) -> int:
        """D, the width of the resulting vectors."""

    @property
    def roundings(self) -> Sequence[Rounding]:
        """See `quantization.Quantizable`."""

    def prepare(self, lines: Sequence[str]) -> Any:
        """Preprocessing of the lines that may run in another thread, such as tokenization; None if there is none."""

    def embed(self, lines: Sequence[str], prepared: Any = None) -> np.ndarray:
        """One vector per line, including empty lines: (N, D), float32. `prepared` is the result of `prepare`."""

    def embed_units(self, lines: Sequence[str], prepared: Any = None) -> list[Units]:
        """The tokens or words of each line (see the settings) with their vectors."""

    def count_tokens(self, text: str) -> int:
        """The number of tokens of a text, or of words where the model reads those."""

    def finish(self) -> None:
        """Called after the last line: report how much was cut or unknown."""


class Predicts(Protocol):
    """Predictions for the examples of files.

    Attributes:
        window: examples that are read together.
        layout: of the lines, as in `files.layout_names.check_output`; known with the first ones.
    """

    window: int
    layout: str

    @property
    def roundings(self) -> Sequence[Rounding]:
        """See `quantization.Quantizable`."""

    def count(self, paths: Sequence[str], errors: str = "strict") -> int:
        """The number of examples of files, which are read for it."""

    def lines(
        self, paths: Sequence[str], errors: str = "strict", force: bool = False, first: int = 0, end: int | None = None
    ) -> Iterator[list[str]]:
        """The lines that `predict` writes, a window of examples at a time."""


class FillsMasks(Protocol):
    """Fillers of the masks of a text.

    Attributes:
        unknown: counts the unknown tokens.
    """

    unknown: UnknownTokens

    @property
    def roundings(self) -> Sequence[Rounding]:
        """See `quantization.Quantizable`."""

    def fill(self, block: LineBlock) -> list[list[list[Filler]]]:
        """The fillers of each mask of each line, the most probable first; none for an empty line.

        Raises DataError for a line without a mask, or with more than the model can tell apart.
        """


@dataclass(frozen=True)
class Use(Generic[U]):
    """A purpose to load a model for; `load` returns a `U`.

    Attributes:
        name: the command, with the option if one belongs to it.
        suggested: whether refusals of other uses name this one.
    """

    name: str
    suggested: bool = True


# GENERATE is CONTINUE prompts or TRANSLATE sources
SCORE: Use[Scores] = Use("score")
CHOOSE: Use[TextLanguageModel] = Use("score --choices", suggested=False)
MASKED: Use[Scores] = Use("score --masked")
GENERATE: Use[TextLanguageModel | Translator] = Use("generate")
TRANSLATE: Use[Translator] = Use("generate", suggested=False)
CONTINUE: Use[TextLanguageModel] = Use("chat and serve", suggested=False)
EMBED: Use[Embeds] = Use("embed")
PREDICT: Use[Predicts] = Use("predict")
ASK: Use[Predicts] = Use("predict --ask")
FILL: Use[FillsMasks] = Use("fill")
ATTEND: Use[ReadsAttention] = Use("attend")
POSITIONS: Use[PositionVectors] = Use("plot --positions", suggested=False)
RERANK: Use[ScoresPairs] = Use("rerank")
CONVERT: Use[Vectors] = Use("convert", suggested=False)  # of embeddings to word vectors

# families in addition to the registry
MASKED_ENCODER = "masked encoder"  # an encoder with the head that predicts masked tokens
FINE_TUNED = "fine-tuned encoder"  # an encoder with the head of a task
SENTENCES = "sentence encoder"  # a sentence-transformers directory
VECTORS = "word vectors"
STATIC = "static vectors"
WITHOUT_ATTENTION = {  # of the registry's families, such as recurrent networks
    registry.LANGUAGE: "language model without attention",
    registry.TASK_DECODER: "decoder without attention with the head of a task",
    registry.ENCODER_DECODER: "recurrent or convolutional encoder-decoder",
}
MIXTURE = "mixture"  # of language models, neural ones among them
NGRAM_MIXTURE = "n-gram mixture"


AnyUse = Use[Any]


@dataclass(frozen=True)
class Uses:
    """The uses of a family.

    Attributes:
        noun: the family in messages.
        default: the use if none is asked for.
        served: the function for each use.
        together: the uses that several models can be loaded for, as an ensemble.
        also: more commands that take such models, for messages.
        mixed: whether the model is a mixture.
    """

    noun: str
    default: AnyUse
    served: Mapping[AnyUse, str]
    together: tuple[AnyUse, ...] = ()
    also: tuple[str, ...] = ()
    mixed: bool = False

    def serving(self, use: AnyUse, path: str | Path) -> str:
        """The function for a use. Raises UsageError, which names the commands that take such a model."""
        if use not in self.served:
            takers = [each.name for each in self.served if each.suggested] + list(self.also)
            listed = " and ".join([*filter(None, [", ".join(takers[:-1])]), takers[-1]])
            raise UsageError(
                f"{display(str(path))} is {self.noun}, which {use.name} cannot take", hint=f"{listed} can use it"
            )
        return self.served[use]


_LANGUAGE_MODEL = dict.fromkeys((SCORE, CHOOSE, GENERATE, CONTINUE), "language_model:TextLanguageModel.opened")
_NGRAMS = dict.fromkeys((CHOOSE, GENERATE, CONTINUE), "causal:of_ngrams")
_MIXED = dict.fromkeys((SCORE, CHOOSE, GENERATE, CONTINUE), "mixed_model:MixedLanguageModel.opened")
_ASK = {ASK: "pretraining_heads:PretrainingPredictor.opened"}
_POSITIONS = {POSITIONS: "position_vectors:of_model"}
_ENCODER = {
    EMBED: "embedding.text_embedder:of_encoder",
    ATTEND: "attention_rows:EncoderAttention.opened",
    POSITIONS: "position_vectors:of_encoder",
    RERANK: "reranking:CosineRanker.opened",
}
_TASK = {PREDICT: "prediction:Predictor.opened"}
_PAIRS = {RERANK: "reranking:CrossEncoder.opened"}
_WITHOUT_ATTENTION = Uses(
    "a language model without attention",
    GENERATE,
    {
        **_LANGUAGE_MODEL,
        EMBED: "embedding.text_embedder:of_language_model",
        CONVERT: "embedding.token_table:opened",
        **_POSITIONS,
    },
    also=("finetune",),
)
_TASK_WITHOUT_ATTENTION = Uses(
    "a decoder without attention with the head of a task",
    PREDICT,
    {
        EMBED: "embedding.text_embedder:of_task_decoder",
        POSITIONS: "position_vectors:of_task_decoder",
        **_TASK,
        **_PAIRS,
    },
    (PREDICT,),
    also=("finetune",),
)
_ENCODER_DECODER = Uses(
    "an encoder-decoder",
    GENERATE,
    {
        **dict.fromkeys((GENERATE, TRANSLATE), "translation:Translator.opened"),
        PREDICT: "prediction:PairPredictor.opened",
        ATTEND: "attention_rows:TranslatorAttention.opened",
        **_POSITIONS,
    },
    together=(GENERATE, TRANSLATE, PREDICT),
    also=("finetune --task seq2seq",),
)

TABLE: Mapping[str, Uses] = {
    registry.LANGUAGE: replace(
        _WITHOUT_ATTENTION,
        noun="a language model",
        served={**_WITHOUT_ATTENTION.served, ATTEND: "attention_rows:DecoderAttention.of_language_model"},
    ),
    WITHOUT_ATTENTION[registry.LANGUAGE]: _WITHOUT_ATTENTION,
    registry.READER: Uses("a decoder without an output matrix", EMBED, {EMBED: "embedding.text_embedder:of_reader"}),
    registry.BIDIRECTIONAL: Uses(
        "a bidirectional language model",
        GENERATE,
        {
            SCORE: "bidirectional:BidirectionalScorer.opened",
            **dict.fromkeys((GENERATE, CONTINUE), "causal:of_forward_direction"),
            EMBED: "embedding.elmo_embedder:ElmoEmbedder.opened",
        },
        also=("finetune --features",),
    ),
    registry.NGRAM: Uses("an n-gram model", SCORE, {SCORE: "ngram_scorer:NGramScorer.opened", **_NGRAMS}),
    MIXTURE: Uses("a mixture of language models", SCORE, _MIXED, mixed=True),
    NGRAM_MIXTURE: Uses(
        "a mixture of n-gram models", SCORE, {**_MIXED, SCORE: "mixture:NGramMixtureScorer.opened"}, mixed=True
    ),
    registry.ENCODER_DECODER: replace(
        _ENCODER_DECODER,
        served={
            **_ENCODER_DECODER.served,
            EMBED: "embedding.text_embedder:of_encoder_decoder",
            FILL: "span_filling:SpanFiller.opened",
        },
    ),
    WITHOUT_ATTENTION[registry.ENCODER_DECODER]: _ENCODER_DECODER,
    registry.CAPTIONER: Uses(
        "a model of pictures",
        GENERATE,
        dict.fromkeys((GENERATE, TRANSLATE), "translation:Translator.opened"),
        together=(GENERATE, TRANSLATE),
    ),
    registry.ENCODER: Uses(
        "an encoder without a head that predicts masked tokens", EMBED, {**_ENCODER, **_ASK}, also=("finetune",)
    ),
    MASKED_ENCODER: Uses(
        "an encoder",
        EMBED,
        {MASKED: "masked_scoring:MaskedScorer.opened", FILL: "filling:MaskFiller.opened", **_ENCODER, **_ASK},
        also=("finetune",),
    ),
    SENTENCES: Uses("a sentence-transformers model", EMBED, _ENCODER, also=("finetune",)),
    FINE_TUNED: Uses(
        "an encoder with the head of a task", PREDICT, {**_ENCODER, **_TASK, **_PAIRS}, (PREDICT,), also=("finetune",)
    ),
    registry.TASK_DECODER: replace(
        _TASK_WITHOUT_ATTENTION,
        noun="a decoder with the head of a task",
        served={**_TASK_WITHOUT_ATTENTION.served, ATTEND: "attention_rows:DecoderAttention.of_task_decoder"},
    ),
    WITHOUT_ATTENTION[registry.TASK_DECODER]: _TASK_WITHOUT_ATTENTION,
    registry.TEXT_CLASSIFIER: Uses("a model of finetune --scratch", PREDICT, _TASK, (PREDICT,)),
    registry.LOGISTIC: Uses("a model of finetune --scratch", PREDICT, _TASK, (PREDICT,)),
    registry.IMAGE_CLASSIFIER: Uses("a model of finetune --scratch", PREDICT, _TASK, (PREDICT,)),
    registry.WORD_TAGGER: Uses("a model of finetune --scratch", PREDICT, _TASK, (PREDICT,)),
    registry.WORD_READER: Uses("a model of finetune --features", PREDICT, _TASK, (PREDICT,)),
    STATIC: Uses("a directory of static vectors", EMBED, {EMBED: "embedding.static_embedder:StaticEmbedder.opened"}),
    VECTORS: Uses("a file of word vectors", EMBED, {EMBED: "embedding.word_embedder:WordEmbedder.opened"}),
}
