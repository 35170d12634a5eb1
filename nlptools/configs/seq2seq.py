"""Options of encoder-decoders: training and translation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from nlptools.configs import REQUIRED, Compute, Training, delimiter_option, option, redefined, text_columns
from nlptools.configs.combinations import check_combinations
from nlptools.configs.generation import Generate
from nlptools.errors import UsageError


def _sizes(layers: int, hidden: int, heads: int, intermediate: int) -> dict[str, object]:
    return {"layers": layers, "hidden": hidden, "heads": heads, "intermediate": intermediate}


# transformer-base and -big: Vaswani et al. 2017, table 3; iwslt: fairseq's
# transformer_iwslt_de_en; multi30k: tiny, for 29,000 sentence pairs, sizes from Wu et al. 2021 (arXiv:2105.14462): 39.9 BLEU on
# test_2016 en-de, 40.3 lower-cased, with 6,000 pieces common to both languages, after 34 minutes on 2 cores of an AMD EPYC;
# 3 layers of 256 units with 512 inside, at a rate of 1e-3 for 32 epochs, came to 38.4 and 38.8.
PRESETS: dict[str, dict[str, object]] = {
    "transformer-base": {
        **_sizes(6, 512, 8, 2048),
        "dropout": 0.1,
        "lr": 7e-4,
        "warmup": 4000,
        "batch_tokens": 25_000,
        "steps": 100_000,
        "average": 5,
    },
    "transformer-big": {
        **_sizes(6, 1024, 16, 4096),
        "dropout": 0.3,
        "lr": 5e-4,
        "warmup": 4000,
        "batch_tokens": 25_000,
        "steps": 300_000,
        "average": 20,
    },
    "iwslt": {
        **_sizes(6, 512, 4, 1024),
        "dropout": 0.3,
        "lr": 5e-4,
        "warmup": 4000,
        "batch_tokens": 4096,
        "epochs": 50.0,
        "weight_decay": 1e-4,
        "average": 5,
    },
    "multi30k": {
        **_sizes(4, 128, 4, 256),
        "dropout": 0.3,
        "attention_dropout": 0.1,
        "lr": 3e-3,
        "warmup": 1000,
        "schedule": "cosine",
        "min_lr": 0.02,
        "batch_tokens": 4096,
        "epochs": 70.0,
        "valid_every": "2e",
        "average": 10,
    },
}


def source_language() -> str | None:
    """The option --source-lang."""
    code: str | None = option(
        None,
        "Language of the sources, for a multilingual model with a token for each (mBART, M2M-100, NLLB), for example en_XX, en or"
        " eng_Latn. Default: the language in the tokenizer_config.json of the model.",
        metavar="CODE",
    )
    return code


def target_language() -> str | None:
    """The option --target-lang."""
    code: str | None = option(None, "Language of the targets, likewise.", metavar="CODE")
    return code


@dataclass(frozen=True)
class PairTraining(Training):
    """Training options"""

    valid: str | None = redefined(Training, "valid", None, "Held-out lines of `source TAB target` for validation.")
    valid_source: str | None = option(
        None, "Held-out sources, instead of --valid.", metavar="FILE", needs=("valid_target",), excludes=("valid",)
    )
    valid_target: str | None = option(None, "Held-out targets.", metavar="FILE", needs=("valid_source",))
    best: str = option(
        "bleu",
        "Score that selects the best weights and ends a run with --patience: BLEU of greedy translations of the held-out"
        " sources, or the loss alone, without translations.",
        choices=("bleu", "loss"),
    )
    batch_tokens: int = option(
        4096,
        "Maximum tokens per step and process: pairs times the longest side, padding included; 0: no limit.",
        low=0,
        metavar="N",
        needs={"0": ("batch_size",)},
    )
    batch_size: int = option(0, "Maximum pairs per step and process; 0: no limit.", low=0, metavar="N")
    global_batch: int = redefined(
        Training,
        "global_batch",
        0,
        "Maximum tokens per optimizer step in all processes together (pairs, with --batch-tokens 0): the data of a step then"
        " depend on the seed alone, whatever the number of processes. --batch-tokens is about the most that a process"
        " computes with at a time. 0: --batch-tokens times --accumulate in each process.",
        excludes=("accumulate", "batch_size and batch_tokens"),
    )
    warmup: float = redefined(Training, "warmup", 1000.0)
    schedule: str = redefined(Training, "schedule", "inverse-sqrt")
    weight_decay: float = redefined(Training, "weight_decay", 0.0)
    beta2: float = redefined(Training, "beta2", 0.98)
    epochs: float = redefined(Training, "epochs", 30.0)
    log_every: str = redefined(Training, "log_every", "50")

    @property
    def held_out(self) -> list[str]:
        """Files for validation: one of pairs, or one of sources and one of targets."""
        return [name for name in (self.valid, self.valid_source, self.valid_target) if name is not None]

    @property
    def measures_bleu(self) -> bool:
        """Whether validations measure BLEU."""
        return self.best == "bleu" and bool(self.held_out)


@dataclass(frozen=True)
class SourceImages:
    """How names of image files are read: the size in pixels, the side of a patch, and whether other sizes are scaled."""

    width: int
    height: int
    patch: int
    resize: bool


@dataclass(frozen=True)
class TrainSeq2Seq:
    """Model options"""

    groups: ClassVar[tuple[type, ...]] = (PairTraining, Compute)  # the other options of training such a model

    tokenizer: str = option(
        REQUIRED,
        "Tokenizer of the source, and of the target without --target-tokenizer: a SentencePiece .model, a tokenizer.json, a"
        " vocabulary, or a model directory.",
        short="-t",
    )
    target_tokenizer: str | None = option(
        None, "Tokenizer of the target. The two sides then share no embeddings.", metavar="PATH"
    )
    arch: str = option("transformer", "Architecture.", metavar="NAME")
    preset: str | None = option(
        None,
        "Named sizes and training options; other options take precedence:",
        choices=tuple(PRESETS),
        metavar="NAME",
    )
    vocab: str | None = option(None, "Vocabulary of a tokenizer given by name.", metavar="FILE")
    layers: int = option(3, "Layers of the encoder.", low=1, metavar="N")
    decoder_layers: int = option(0, "Layers of the decoder; 0: as many as the encoder has.", low=0, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=2, metavar="N")
    dropout: float = option(0.1, "Probability of dropout.", low=0, high=0.9, metavar="P")
    label_smoothing: float = option(
        0.1, "Probability that is spread evenly over the vocabulary in each target.", low=0, high=0.9, metavar="E"
    )
    r_drop: float = option(
        0.0,
        "R-Drop: run each pair twice with different dropout, and add the divergence of the two predictions to the loss with"
        " this weight (Liang et al. 2021; 5 is usual). Better on few pairs; a step takes twice as long. 0: off.",
        low=0,
        high=100,
        metavar="X",
    )
    sample: float = option(
        0.0,
        "Segment words at random in every epoch (SentencePiece only): smoothing of a unigram model's probabilities (Kudo"
        " 2018; 0.2 is usual), or dropout of a BPE model's merges (0.1). 0: always the best segmentation.",
        low=0,
        high=1,
        metavar="ALPHA",
    )
    max_source_length: int = option(0, "Maximum length of a source in tokens; 0: no limit.", low=0, metavar="N")
    max_target_length: int = option(0, "Maximum length of a target in tokens; 0: no limit.", low=0, metavar="N")
    long: str = option("skip", "Skip or cut longer pairs; they are counted.", choices=("skip", "cut"))
    source: str | None = option(None, "File of sources, instead of an INPUT.", metavar="FILE", needs=("target",))
    target: str | None = option(
        None, "File of targets, line by line as in --source.", metavar="FILE", needs=("source",)
    )
    text_column: tuple[str, ...] = text_columns("the source and, given again, the target")
    delimiter: str | None = delimiter_option()
    init: str | None = option(None, "Start from the weights and sizes of this model directory.", metavar="DIR")
    source_lang: str | None = source_language()
    target_lang: str | None = target_language()

    @property
    def shared(self) -> dict[str, object]:
        """The options that all architectures have, but the architecture itself."""
        return {each.name: vars(self)[each.name] for each in fields(TrainSeq2Seq) if each.name != "arch"}

    @property
    def architecture(self) -> str:
        """The name of the architecture in `models.registry`."""
        return f"seq2seq-{self.arch}"

    @property
    def images(self) -> SourceImages | None:
        """How sources are read as images; None: they are texts."""
        return None

    @property
    def has_dropout(self) -> bool:
        """Whether two passes over a batch differ."""
        return self.dropout > 0

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
        if self.r_drop and not self.has_dropout:
            raise UsageError("--r-drop requires --dropout: without it both predictions are the same")
        if len(self.text_column) not in (0, 2):
            raise UsageError("--text-column: expected it twice, for the source and for the target")


@dataclass(frozen=True)
class Translate:
    """Options of encoder-decoders"""

    coverage_penalty: float = option(
        0.0,
        "Beam search: weight of the penalty for parts of the source that are not attended to (Wu et al. 2016).",
        metavar="X",
        excludes=("beam 0",),
    )
    prefix: str | None = option(None, "Begin every output with this text.", metavar="TEXT")
    source_lang: str | None = source_language()
    target_lang: str | None = target_language()
    score_target: bool = option(
        False,
        "Read `source TAB target` and write the log-probability of each target instead of translating.",
        excludes=("nbest", "num_samples", "mbr", "prefix", "alignments", "long split"),
    )
    alignments: bool = option(
        False,
        "Write a tab after each output, and for each of its tokens the source token with the most attention: i-j, both from"
        " 0 (Pharaoh format).",
    )
    mbr: str | None = option(
        None,
        "Write the one of --num-samples samples that is most similar to all others by this metric (minimum Bayes risk).",
        choices=("bleu", "chrf"),
        needs=("num_samples",),
        excludes=("beam", "temperature 0"),
    )
    max_source_length: int = option(
        0, "Maximum length of a source in tokens; 0: the model's limit, 1,024 where it has none.", low=0, metavar="N"
    )
    long: str = option(
        "cut",
        "Cut longer sources, or split them at sentences and join the outputs of the parts; they are counted. --strict refuses"
        " them.",
        choices=("cut", "split"),
    )
    window: int = option(2048, "Lines that are read and sorted by length together.", low=1, metavar="N")

    def check(self, generate: Generate, json: bool = True) -> None:
        """Raise UsageError for options that cannot be combined; `json`: whether the output is JSON lines."""
        check_combinations(self, generate)
        if generate.nbest > 1 and generate.beam is None and generate.samples:
            raise UsageError("--nbest is for beam search; --temperature, --num-samples and the like are for sampling")
        if self.alignments and generate.count > 1 and not json and self.mbr is None:
            raise UsageError("--alignments of several outputs need --to jsonl")

    def check_attention(self, attends: bool) -> None:
        """Raise UsageError for options that read attention weights, for a model without attention to the source."""
        for flag, given in (("--alignments", self.alignments), ("--coverage-penalty", self.coverage_penalty)):
            if given and not attends:
                raise UsageError(f"{flag} requires attention to source tokens, which the model does not have")

    def check_source(self, images: bool) -> None:
        """Raise UsageError for options that change texts, for a model that reads `images`."""
        for flag, given in (
            ("--max-source-length", self.max_source_length),
            ("--source-lang", self.source_lang),
            ("--long", self.long != "cut"),
        ):
            if given and images:
                raise UsageError(f"{flag} is for sources that are texts, and the model reads images")

    def check_stream(self, stream: bool) -> None:
        """Raise UsageError for --stream, which only language models have."""
        if stream:
            raise UsageError("--stream is for language models", hint="--line-buffered writes each output at once")

    def refuse(self) -> None:
        """Raise UsageError if any of these options is given, for a language model."""
        default = Translate()
        given = [name for name in vars(self) if vars(self)[name] != vars(default)[name]]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for encoder-decoders, the model is a language model")
