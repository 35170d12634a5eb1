"""Settings of word vector training."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import option, vectors
from nlptools.configs.combinations import check_combinations
from nlptools.configs.units import duration, interval
from nlptools.errors import UsageError

MODELS, LOSSES = ("skipgram", "cbow", "glove"), ("ns", "hs", "softmax")
NAMES = {"text": "word2vec", "binary": "word2vec-binary"}  # value of --to -> name of the format
# Skip-gram: the best of .03, .0375 and .045 after five epochs on novels (word2vec: .025, but see nlptools-train-w2v(1)).
# Corrected CBOW: the best of .075 (Irsoy et al. 2021), .1, .15 and .25 after one epoch on novels.
RATES = {"skipgram": 0.045, "cbow": 0.15, "positions": 0.05, "legacy": 0.05, "glove": 0.05}


def lengths(text: str) -> tuple[int, int]:
    """Shortest and longest n-gram of a text such as `3-6`. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,3})-(\d{1,3})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"not a range of lengths: {text!r}, expected something like 3-6")
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class TrainW2V:
    """Model options"""

    model: str = option("skipgram", "Skip-gram, continuous bag of words, or GloVe.", choices=MODELS)
    loss: str = option("ns", "Negative sampling, hierarchical softmax, or the softmax over all words.", choices=LOSSES,
                       only={"model": ("skipgram", "cbow")})  # fmt: skip
    dim: int = option(100, "Dimensions of the vectors.", low=1, high=10000, metavar="N")
    window: int = option(5, "Maximum distance between a word and its context.", low=1, high=1000, metavar="N")
    shrink_windows: bool = option(True, "Draw the size of each window from 1 to --window; otherwise use --window.")
    negative: int = option(5, "Negative samples for each predicted word (ns).", low=1, high=1000, metavar="N")
    ns_exponent: float = option(
        0.75, "Exponent of the counts in the distribution of negatives.", low=-10, high=10, metavar="X"
    )
    sample: float = option(
        1e-3, "Subsample words more frequent than this share of the text; 0: none (not glove).", low=0, metavar="X"
    )
    min_count: int = option(5, "Drop words that occur less often.", low=1, metavar="N")
    subwords: str | None = option(
        None,
        "Use character n-grams of these lengths (such as 3-6) too, as fastText.",
        metavar="A-B",
        check=lengths,
        only={"model": ("skipgram", "cbow")},
    )
    buckets: int = option(2_000_000, "Rows that n-grams are hashed onto (--subwords).", low=1, metavar="N")
    position_weights: bool = option(False, "Weight context words by their position in the window.",
                                    only={"model": ("cbow",)})  # fmt: skip
    cbow_gradient: str = option(
        "corrected",
        "corrected: each word of the mean gets its share of the gradient; legacy: the whole gradient, as word2vec.",
        choices=("corrected", "legacy"),
    )
    symmetric: bool = option(True, "Count context words on both sides; otherwise on the left only (glove).")
    distance_weighting: bool = option(True, "Words at distance d count 1/d; otherwise 1 (glove).")
    x_max: float = option(100.0, "Co-occurrence count from which a pair has full weight (glove).", low=1, metavar="X")
    alpha: float = option(0.75, "Exponent of the weights (count / --x-max) of rarer pairs (glove).", low=0, metavar="X")
    epochs: int = option(5, "Passes over the text; 0: the initial vectors.", low=0, metavar="N")
    lr: float | None = option(
        None, "Initial learning rate; it decays linearly, glove's by AdaGrad. (skipgram 0.045, cbow 0.15, legacy, glove 0.05)",
        low=0, metavar="X",
    )  # fmt: skip
    init: str | None = option(
        None, "Start from these vectors, with the same --dim, --subwords and --buckets; new words are added.",
        metavar="VECTORS", excludes=("vocab",),
    )  # fmt: skip
    vocab: str | None = option(None, "Train vectors of these words only: lines of word TAB count.", metavar="FILE")

    @property
    def rate(self) -> float:
        """The initial learning rate."""
        kind = self.model
        if kind == "cbow" and self.cbow_gradient == "legacy":
            kind = "legacy"
        elif self.position_weights:
            kind = "positions"
        return self.lr if self.lr is not None else RATES[kind]

    def check(self, kind: str) -> None:
        """Raise UsageError for incompatible options; `kind` is the output format."""
        check_combinations(self)
        refusals = (
            (self.lr is not None and self.lr == 0, "--lr must be greater than 0"),
            (kind not in vectors.NAMES, f"no such format: {kind}"),
        )
        for refused, message in refusals:
            if refused:
                raise UsageError(message)


@dataclass(frozen=True)
class VectorRun:
    """Run options"""

    output: str = option("-", "Where to write the vectors: a file, a directory, or - for standard output.", short="-o",
                         metavar="PATH", free=True)  # fmt: skip
    format: str | None = option(
        None,
        "Output format; by default selected by the file name. fasttext and bundle (a directory) store n-grams.",
        flag="to",
        choices=(*NAMES, *vectors.NAMES),
        was={"--format": "--to"},
        free=True,
    )
    valid: str | None = option(None, "Held-out text to measure the loss on after each epoch.", metavar="FILE")
    workers: int = option(
        0,
        "Training processes; 0: OMP_NUM_THREADS if set, else one for each core. One process gives the same bytes every time.",
        low=0,
        metavar="N",
        free=True,
    )
    run: str | None = option(
        None,
        "Directory for the state of the run. Default: the output if it is a directory, else FILE.run, until the output FILE is"
        " written.",
        metavar="DIR",
        free=True,
    )
    max_time: str | None = option(
        None,
        "Save the state and stop after this time (status 75).",
        metavar="TIME",
        check=duration,
        free=True,
    )
    show_pairs: int = option(
        0,
        "Print the first N training pairs of the text as a table, and do not train (not glove).",
        low=0,
        metavar="N",
        free=True,
        excludes=("output", "run", "valid", "init", "model glove"),
    )
    save_every: str = option("10m", "Checkpoint interval: time (10m), epochs (1e), never.", check=interval, free=True)
    resume: str = option("auto", "Continue from a checkpoint.", choices=("auto", "never", "must"), free=True)
    force: bool = option(False, "Replace the output, or a different run in its directory.", free=True)
