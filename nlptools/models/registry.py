"""The architectures: one row each, with names of classes that are imported on use.

A new architecture is one file in `models/`, with its sizes and its model, and one row here. `contract` has the protocols that
the model fulfils; commands train, load and write it by its row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from nlptools.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

    from torch import nn

    from nlptools.models.contract import Configuration, LanguageModel

C = TypeVar("C", covariant=True)
O = TypeVar("O")

LANGUAGE = "language"  # contract.LanguageModel: train-lm
BIDIRECTIONAL = "bidirectional"  # language.elmo.Elmo: a language model in each direction: train-lm
NGRAM = "n-gram"  # language.ngram.NGrams, which needs no PyTorch: train-lm
ENCODER_DECODER = "encoder-decoder"  # contract.EncoderDecoder: train-seq2seq
CAPTIONER = "captioner"  # contract.EncoderDecoder, of pictures to texts: train-seq2seq --source-images
ENCODER = "encoder"  # contract.Encoder, with any heads: pretrain-bert
READER = "reader"  # the layers of a decoder without its output head, perhaps reading in both directions: embed
TASK_DECODER = "task-decoder"  # a language model with heads of tasks instead of its output head: finetune
TEXT_CLASSIFIER = "text-classifier"  # trained without pretraining: finetune --scratch
LOGISTIC = "logistic"  # a linear model without pretraining: finetune --scratch logistic
IMAGE_CLASSIFIER = "image-classifier"  # of pictures: finetune --scratch vit
WORD_READER = "word-reader"  # LSTMs over words and the features of an ELMo, for any task: finetune --features
WORD_TAGGER = "word-tagger"  # labels of words, trained without pretraining: finetune --task tag --scratch
PAIRED = (ENCODER_DECODER, CAPTIONER)  # with a tokenizer of the source and one of the target
WITHOUT_PRETRAINING = (TEXT_CLASSIFIER, LOGISTIC, IMAGE_CLASSIFIER, WORD_READER, WORD_TAGGER)


class ModelClass(Protocol):
    """The class of a language model."""

    streams: bool  # see `contract.LanguageModel`

    def __call__(self, config: Configuration, /) -> LanguageModel: ...


class ClassOf(Protocol[C]):
    """A dataclass that makes a C of the values of its fields."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def __call__(self, **values: object) -> C: ...


class ConfigClass(ClassOf["Configuration"], Protocol):
    """The class of an architecture's sizes, see `Architecture`."""

    def from_options(self, options: object, *vocab_size: int, **vocabularies: int) -> Configuration: ...


@dataclass(frozen=True)
class Architecture:
    """How an architecture is called, and where its parts are.

    Attributes:
        name: as config.json has it.
        family: one of the above.
        model: "module:Class"; the class is built from a configuration.
        config: "module:Class": a frozen dataclass of sizes with `least_weights()`, a lower bound on the number of
            parameters. Where a command trains the architecture by --arch, it also has `from_options`: of a language model
            (options, vocab_size), of an encoder-decoder (options, **fields of `Vocabularies`).
        options: "module:Class": the settings of training it by --arch; "" where no command has that option for it.
        huggingface: the modules, or objects ("module:NAME"), that translate to and from layouts of Hugging Face, see
            `huggingface.directories`; the first that can express a configuration is taken. Where there is none,
            directories keep our names.
        attends: whether a language model has attention, as `contract.Attends` shows it; whether an encoder-decoder is a
            Transformer.
        reader: the architecture of its layers without an output head; "": there is none.
    """

    name: str
    family: str
    model: str
    config: str
    options: str = ""
    huggingface: tuple[str, ...] = ()
    attends: bool = False
    reader: str = ""

    @property
    def option(self) -> str:
        """The value of --arch."""
        return self.name.removeprefix("seq2seq-")

    @property
    def noun(self) -> str:
        """The architecture in messages."""
        return f"{self.family} model {self.option}"


def _row(
    name: str,
    family: str,
    module: str,
    model: str,
    huggingface: str = "",
    config: str = "",
    options: str = "",
    attends: bool = False,
    reader: str = "",
) -> Architecture:
    """A row. `huggingface`: names with spaces between them; `config`: the model's name with "Config", unless it has another;
    `options`: module and class in `configs.architectures`, without "Options".
    """
    models = f"nlptools.models.{module}"
    layouts = tuple(f"nlptools.models.huggingface.{layout}" for layout in huggingface.split())
    settings = options and f"nlptools.configs.architectures.{options}Options"
    return Architecture(
        name, family, f"{models}:{model}", f"{models}:{config or model + 'Config'}", settings, layouts, attends, reader
    )


_DECODERS = (
    "llama:FAMILY phi3:FAMILY olmo2:FAMILY smollm3:FAMILY stablelm:FAMILY starcoder2:FAMILY gpt_neox:FAMILY gemma:FAMILY"
    " opt:FAMILY gpt_neo:FAMILY gpt_bigcode:FAMILY"
)
_ENCODER_DECODERS = "marian:FAMILY bart:FAMILY m2m_100:FAMILY t5:FAMILY"
_BERTS = "bert:FAMILY roberta:FAMILY distilbert:FAMILY mpnet:FAMILY albert:FAMILY"

ARCHITECTURES = {
    row.name: row
    for row in (
        _row(
            "transformer",
            LANGUAGE,
            "language.gpt",
            "GPT",
            "gpt2 openai_gpt",
            options="transformer:Transformer",
            attends=True,
        ),
        _row(
            "modern",
            LANGUAGE,
            "language.modern",
            "Modern",
            _DECODERS,
            options="transformer:Modern",
            attends=True,
            reader="modern-reader",
        ),
        _row("rnn", LANGUAGE, "language.recurrent", "RecurrentLM", config="RNNConfig", options="recurrent:RNN"),
        _row("lstm", LANGUAGE, "language.recurrent", "RecurrentLM", config="LSTMConfig", options="recurrent:LSTM"),
        _row("gru", LANGUAGE, "language.recurrent", "RecurrentLM", config="GRUConfig", options="recurrent:GRU"),
        _row(
            "transformer-xl",
            LANGUAGE,
            "language.transformer_xl",
            "TransformerXL",
            options="transformer_xl:TransformerXL",
            attends=True,
        ),
        _row("convolution", LANGUAGE, "language.convolution", "ConvolutionLM", options="convolution:Convolution"),
        _row("feedforward", LANGUAGE, "language.feedforward", "FeedForwardLM", options="feedforward:FeedForward"),
        _row("elmo", BIDIRECTIONAL, "language.elmo", "Elmo", options="elmo:Elmo"),
        _row("ngram", NGRAM, "language.ngram", "NGrams", config="NGramConfig", options="ngram:NGram"),
        _row(
            "seq2seq-transformer",
            ENCODER_DECODER,
            "translation.transformer",
            "Transformer",
            _ENCODER_DECODERS,
            options="seq2seq:Seq2SeqTransformer",
            attends=True,
        ),
        _row(
            "seq2seq-rnn", ENCODER_DECODER, "translation.recurrent", "RecurrentTranslator", options="seq2seq:Seq2SeqRNN"
        ),
        _row(
            "seq2seq-convolution",
            ENCODER_DECODER,
            "translation.convolutional",
            "ConvolutionTranslator",
            options="seq2seq:Seq2SeqConvolution",
        ),
        _row("seq2seq-vision", CAPTIONER, "translation.vision", "Captioner"),
        _row("bert", ENCODER, "encoders.bert_with_heads", "BertWithHeads", _BERTS, "EncoderConfig"),
        _row(
            "rotary-encoder",
            ENCODER,
            "encoders.rotary",
            "RotaryEncoderWithHeads",
            "modernbert:FAMILY nomic_bert:FAMILY",
            "RotaryEncoderConfig",
        ),
        _row("deberta", ENCODER, "encoders.deberta", "DebertaWithHeads", "deberta_v2:FAMILY", "DebertaConfig"),
        _row("t5-encoder", ENCODER, "encoders.t5", "T5EncoderWithHeads", "t5_encoder:FAMILY", "T5EncoderConfig"),
        _row("modern-reader", READER, "language.modern", "ModernReader", _DECODERS, "ModernConfig"),
        _row("text-classifier", TEXT_CLASSIFIER, "tasks.text_classifiers", "TextClassifier"),
        _row("logistic", LOGISTIC, "tasks.logistic", "Logistic"),
        _row("vision-transformer", IMAGE_CLASSIFIER, "tasks.vision", "VisionTransformer", config="VisionConfig"),
        _row("word-reader", WORD_READER, "tasks.word_reader", "WordReader"),
        _row("word-tagger", WORD_TAGGER, "tasks.word_tagger", "WordTagger"),
    )
}

_HEADS = "-tasks"  # after the name of a language model that has heads of tasks
_EARLIER = {"gpt-tasks": "transformer-tasks"}  # names in older directories


def names(*families: str) -> tuple[str, ...]:
    """The architectures of some families, in the order of the table."""
    return tuple(row.name for row in ARCHITECTURES.values() if row.family in families)


def with_heads(name: str) -> str | None:
    """The architecture of this one's models with heads of tasks; None: they cannot have any."""
    family = find(name).family
    if family == LANGUAGE:
        return name + _HEADS
    return name if family in (ENCODER, TASK_DECODER) else None


def names_heads(name: object) -> bool:
    """Whether this is the name of a language model with heads of tasks."""
    return isinstance(name, str) and name.endswith(_HEADS)


def is_known(name: str) -> bool:
    """Whether `find` finds the name."""
    body = ARCHITECTURES.get(name.removesuffix(_HEADS))
    return name in ARCHITECTURES or (names_heads(name) and body is not None and body.family == LANGUAGE)


def find(name: str) -> Architecture:
    """The row of an architecture, or of a language model with heads of tasks. Raises BundleError for an unknown name."""
    name = _EARLIER.get(name, name)
    if not is_known(name):
        from difflib import get_close_matches

        close = get_close_matches(name, ARCHITECTURES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise BundleError(f"unknown architecture {name!r} ({guess}known: {', '.join(ARCHITECTURES)})")
    if names_heads(name):
        return replace(ARCHITECTURES[name.removesuffix(_HEADS)], name=name, family=TASK_DECODER)
    return ARCHITECTURES[name]


def build(name: str, config: Configuration, **heads: object) -> nn.Module:
    """A model of an architecture. `heads`: the arguments of `TaskHeads` besides the configuration."""
    row = find(name)
    if row.family != TASK_DECODER:
        model: nn.Module = _imported(row.model)(config, **heads)
        return model
    new: Callable[..., nn.Module] = _imported("nlptools.models.tasks.with_heads:WithHeads")
    return new(_imported(row.model)(config), **heads)


def model_class(name: str) -> ModelClass:
    """The class of an architecture's model, without heads of tasks; its type is for language models, see `build` for others.

    Raises BundleError for an unknown name.
    """
    found: ModelClass = _imported(find(name).model)
    return found


def config_class(name: str) -> ConfigClass:
    """The dataclass of an architecture's sizes. Raises BundleError for an unknown name."""
    found: ConfigClass = _imported(find(name).config)
    return found


def options_class(name: str, base: type[O]) -> ClassOf[O]:
    """The dataclass of the settings that train an architecture, a kind of `base`. Raises BundleError for an unknown name."""
    imported = _imported(find(name).options)
    assert issubclass(imported, base)
    found: ClassOf[O] = imported
    return found


def options(*families: str) -> dict[str, str]:
    """The values of --arch of some families, each with "module:Class" of its settings."""
    return {row.option: row.options for row in ARCHITECTURES.values() if row.family in families and row.options}


def _imported(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
