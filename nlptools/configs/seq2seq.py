"""Options of encoder-decoders: training and translation."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import Training, interval, option
from nlptools.configs.lm import Generate
from nlptools.errors import UsageError


def _sizes(layers: int, hidden: int, heads: int, intermediate: int) -> dict[str, Any]:
    return {"layers": layers, "hidden": hidden, "heads": heads, "intermediate": intermediate}


# Sizes with a name, and how they are trained. transformer-base and -big: Vaswani et al. 2017, table 3; iwslt: fairseq's
# transformer_iwslt_de_en; multi30k: tiny, for 29,000 sentence pairs, sizes from Wu et al. 2021 (arXiv:2105.14462): 39.9 BLEU on
# test_2016 en-de, 40.3 lower-cased, with 6,000 pieces common to both languages, after 34 minutes on 2 cores of an AMD EPYC;
# 3 layers of 256 units with 512 inside, at a rate of 1e-3 for 32 epochs, came to 38.4 and 38.8.
PRESETS: dict[str, dict[str, Any]] = {
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


@dataclass(frozen=True)
class TrainSeq2Seq:
    """Model options"""

    tokenizer: str = option(
        MISSING,
        "Tokenizer of the source, and of the target unless that has its own: a SentencePiece .model, a tokenizer.json, a"
        " vocabulary, or a bundle.",
        short="-t",
    )
    target_tokenizer: str | None = option(None, "Tokenizer of the target, with embeddings of its own.", metavar="PATH")
    arch: str = option("transformer", "Architecture.", family="encoder-decoder")
    preset: str | None = option(None, "Sizes and training of a Transformer with a name.", choices=tuple(PRESETS))
    vocab: str | None = option(None, "Vocabulary for a tokenizer given by name.", metavar="FILE")
    layers: int = option(3, "Layers of the encoder; of the decoder, too, unless it is told.", low=1, metavar="N")
    decoder_layers: int = option(0, "Layers of the decoder; 0: as many as the encoder has.", low=0, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=2, metavar="N")
    heads: int = option(4, "Attention heads of a Transformer.", low=1, metavar="N")
    intermediate: int = option(0, "Inner width of a Transformer's layers; 0: 4 times --hidden.", low=0, metavar="N")
    embedding: int = option(0, "Width of the embeddings of an RNN or convolution; 0: --hidden.", low=0, metavar="N")
    norm: str = option(
        "post", "Layer norm after each sublayer (MarianMT) or before it (Pegasus).", choices=("post", "pre")
    )
    activation: str = option("relu", "Activation of a Transformer.", choices=("relu", "gelu", "swish"))
    cell: str = option("lstm", "Cell of an RNN.", choices=("lstm", "gru"))
    attention: str = option("bahdanau", "Attention of an RNN.", choices=("bahdanau", "luong"))
    input_feeding: bool = option(True, "Feed an RNN's attentional state back into its next step (Luong et al. 2015).")
    bidirectional: bool = option(True, "Read the source of an RNN from both ends.")
    kernel: int = option(3, "Width of convolutions, an odd number.", low=1, metavar="N")
    dropout: float = option(0.1, "Probability of dropout.", low=0, high=0.9, metavar="P")
    attention_dropout: float = option(
        0.0, "Dropout of a Transformer's attention weights.", low=0, high=0.9, metavar="P"
    )
    activation_dropout: float = option(0.0, "Dropout inside a Transformer's layers.", low=0, high=0.9, metavar="P")
    share_embeddings: bool = option(
        True, "One embedding for source, target and output, where both sides have one tokenizer."
    )
    label_smoothing: float = option(
        0.1, "Share of the target distribution spread evenly.", low=0, high=0.9, metavar="E"
    )
    r_drop: float = option(
        0.0,
        "Read each pair twice, with dropout drawn for each, and keep both answers together with this weight (Liang et al."
        " 2021; 5 is usual): better on few pairs, a step takes twice as long. 0: off.",
        low=0,
        high=100,
        metavar="X",
    )
    sample: float = option(
        0.0,
        "Draw the segmentation of each word anew every epoch (SentencePiece only): smoothing of a unigram model's"
        " probabilities (Kudo 2018; 0.2 is usual), or dropout of a BPE model's merges (0.1). 0: the best one always.",
        low=0,
        high=1,
        metavar="ALPHA",
    )
    max_source_length: int = option(0, "Longest source, in tokens; 0: any.", low=0, metavar="N")
    max_target_length: int = option(0, "Longest target, in tokens; 0: any.", low=0, metavar="N")
    long: str = option("skip", "What becomes of longer pairs; they are counted.", choices=("skip", "cut"))
    source: str | None = option(None, "File of sources, with --target in place of an INPUT.", metavar="FILE")
    target: str | None = option(None, "File of targets, line by line those of --source.", metavar="FILE")
    init: str | None = option(None, "Start from the weights and sizes of this bundle.", metavar="DIR")

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.r_drop and not (self.dropout or self.attention_dropout or self.activation_dropout):
            raise UsageError("--r-drop needs --dropout: without it both answers are the same")
        if (self.source is None) != (self.target is None):
            raise UsageError("--source and --target go together")
        if self.preset is not None and self.arch != "transformer":
            raise UsageError(f"--preset {self.preset} is a Transformer, --arch says {self.arch}")


@dataclass(frozen=True)
class PairTraining(Training):
    """Training options"""

    valid: str | None = option(None, "Held-out lines of `source TAB target` to measure on.", metavar="FILE")
    valid_source: str | None = option(
        None, "Held-out sources, with --valid-target in place of --valid.", metavar="FILE"
    )
    valid_target: str | None = option(None, "Held-out targets.", metavar="FILE")
    valid_bleu: bool = option(True, "Translate the held-out sources at each validation and give the BLEU.")
    valid_beam: int = option(1, "Hypotheses of the search at validations; 1 is greedy.", low=1, metavar="K")
    best: str = option(
        "bleu",
        "What says which weights are best, and when --patience is over: BLEU where it is measured, or the loss.",
        choices=("bleu", "loss"),
    )
    batch_tokens: int = option(
        4096,
        "Most tokens per step and process: pairs times the longest side, padding included.",
        low=0,
        metavar="N",
    )
    batch_size: int = option(0, "Most pairs per step and process; 0: --batch-tokens alone decides.", low=0, metavar="N")
    lr: float = option(1e-3, "Peak learning rate.", low=0, metavar="X")
    warmup: float = option(1000, "Linear warm-up: steps, or a share of all steps when below 1.", low=0, metavar="STEPS")
    schedule: str = option(
        "inverse-sqrt",
        "Learning rate after the warm-up: inverse-sqrt falls with the square root of the step (Vaswani et al. 2017);"
        " trapezoid holds it and falls over the last fifth.",
        choices=("inverse-sqrt", "cosine", "trapezoid", "linear", "constant"),
    )
    weight_decay: float = option(0.0, "Decay of matrices (AdamW).", low=0, metavar="X")
    beta2: float = option(0.98, "Second-moment decay of AdamW.", low=0, high=1, metavar="X")
    epochs: float = option(30.0, "Passes over the data, unless --steps is given.", low=0, metavar="X")
    log_every: str = option("50", "Report interval, as --save-every.", check=interval)

    @property
    def held_out(self) -> list[str]:
        """Files to measure on: one of pairs, or that of the sources and that of the targets."""
        return [name for name in (self.valid, self.valid_source, self.valid_target) if name is not None]

    @property
    def measures_bleu(self) -> bool:
        """Whether BLEU of held-out sentences is there to choose by."""
        return self.valid_bleu and bool(self.held_out)

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        super().check()
        if (self.valid_source is None) != (self.valid_target is None):
            raise UsageError("--valid-source and --valid-target go together")
        if self.valid is not None and self.valid_source is not None:
            raise UsageError("--valid does not go with --valid-source and --valid-target")
        if not self.batch_tokens and not self.batch_size:
            raise UsageError("--batch-tokens 0 needs --batch-size")


@dataclass(frozen=True)
class Translate:
    """Options of encoder-decoders"""

    coverage_penalty: float = option(
        0.0, "Weight of what is left of the source in the score of a beam's hypotheses (Wu et al. 2016).", metavar="X"
    )
    prefix: str | None = option(None, "Begin every output with this text.", metavar="TEXT")
    score_target: bool = option(
        False, "Read `source TAB target` and give the log-probability of each target instead of translating."
    )
    alignments: bool = option(
        False,
        "After a tab, give for each output token the source token it attends to most: i-j, both from 0 (Pharaoh).",
    )
    mbr: str | None = option(
        None,
        "Of --num-samples samples, give the one that is most like all the others (minimum Bayes risk).",
        choices=("bleu", "chrf"),
    )
    max_source_length: int = option(
        0,
        "Cut longer sources to so many tokens; they are counted. 0: cut none but what a model has no positions for.",
        low=0,
        metavar="N",
    )
    window: int = option(2048, "Lines read at a time, to decode those of like length together.", low=1, metavar="N")

    def check(self, generate: Generate) -> None:
        """Raises UsageError for options that do not go together."""
        if generate.nbest > 1 and generate.beam is None and generate.samples:
            raise UsageError("--nbest is for beam search, --temperature, --num-samples and the like are for sampling")
        if self.mbr is not None and generate.num_samples < 2:
            raise UsageError("--mbr chooses among samples", hint="give --num-samples 16, for example")
        if self.mbr is not None and (generate.beam or generate.temperature == 0):
            raise UsageError("--mbr chooses among samples: it does not go with --beam or --temperature 0")
        if self.alignments and generate.count > 1 and not generate.json and self.mbr is None:
            raise UsageError("--alignments of several outputs need --json")
        if self.score_target and (generate.count > 1 or self.mbr or self.prefix or self.alignments):
            raise UsageError("--score-target says nothing: no --nbest, --num-samples, --mbr, --prefix or --alignments")
        if self.coverage_penalty and generate.beam == 0:
            raise UsageError("--coverage-penalty is for beam search")

    def check_decoding(self, generate: Generate) -> None:
        """Raises UsageError for what a language model can do, and an encoder-decoder cannot."""
        if generate.stream:
            raise UsageError(
                "--stream is for language models", hint="--line-buffered writes each output as it is ready"
            )

    def refuse(self) -> None:
        """Raises UsageError when any of these is given, to a language model."""
        default = Translate()
        given = [name for name in vars(self) if getattr(self, name) != getattr(default, name)]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for encoder-decoders, the model is a language model")
