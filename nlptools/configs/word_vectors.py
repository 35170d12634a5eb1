"""Settings of training word vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import duration, interval, option, vectors
from nlptools.errors import UsageError

MODELS, LOSSES = ("skipgram", "cbow", "glove"), ("ns", "hs", "softmax")
NAMES = {"text": "word2vec", "binary": "word2vec-binary"}  # what --format calls them besides
# For skip-gram the best after five epochs of novels, of .03, .0375 and .045 (word2vec: .025, but see nlptools-train-w2v(1)).
# For the corrected CBOW the one that was best after an epoch of novels, of .075 (Irsoy et al. 2021), .1, .15 and .25.
RATES = {"skipgram": 0.045, "cbow": 0.15, "positions": 0.05, "legacy": 0.05, "glove": 0.05}


def lengths(text: str) -> tuple[int, int]:
    """Shortest and longest n-gram of a text such as `3-6`. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,3})-(\d{1,3})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"not a range of lengths: {text!r}, expected something like 3-6")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class TrainW2V:
    """Model options"""

    model: str = option("skipgram", "What predicts what: skipgram, cbow, or glove's co-occurrences.", choices=MODELS)
    loss: str = option("ns", "Negative sampling, hierarchical softmax, or the softmax over all words.", choices=LOSSES)
    dim: int = option(100, "Dimensions of the vectors.", low=1, high=10000, metavar="N")
    window: int = option(5, "Words on each side that belong together, at most.", low=1, high=1000, metavar="N")
    shrink_windows: bool = option(True, "Draw the size of each window from 1 to --window; otherwise all have it.")
    negative: int = option(5, "Negatives for each word (ns).", low=1, high=1000, metavar="N")
    ns_exponent: float = option(
        0.75, "Negatives are drawn by their count to this power.", low=-10, high=10, metavar="X"
    )
    sample: float = option(
        1e-3, "Thin out words more frequent than this share of the text; 0: none (not glove).", low=0, metavar="X"
    )
    min_count: int = option(5, "Leave out words that occur less often.", low=1, metavar="N")
    subwords: str | None = option(
        None, "Add up vectors from n-grams of so many characters too (3-6), as fastText.", metavar="A-B", check=lengths
    )
    buckets: int = option(2_000_000, "Rows of --dim numbers that n-grams share (--subwords).", low=1, metavar="N")
    position_weights: bool = option(False, "Weight words by their place in the window (cbow).")
    cbow_gradient: str = option(
        "corrected",
        "corrected: each word of the mean gets its share of the gradient; legacy: the whole, as word2vec.",
        choices=("corrected", "legacy"),
    )
    symmetric: bool = option(True, "Words on both sides are contexts; otherwise those to the left (glove).")
    distance_weighting: bool = option(True, "Words d places apart count 1/d; otherwise 1 (glove).")
    x_max: float = option(100.0, "Co-occurrences that count in full (glove).", low=1, metavar="X")
    alpha: float = option(0.75, "Rarer ones count by their share of --x-max to this power (glove).", low=0, metavar="X")
    epochs: int = option(5, "Passes over the text.", low=1, metavar="N")
    lr: float | None = option(
        None, "Learning rate at the start; it falls, glove's by AdaGrad. (skipgram 0.045, cbow 0.15, legacy, glove 0.05)",
        low=0, metavar="X",
    )  # fmt: skip
    init: str | None = option(
        None, "Go on from these vectors, with the same --dim, --subwords and --buckets; words that they lack are added.",
        metavar="VECTORS",
    )  # fmt: skip
    vocab: str | None = option(None, "Vectors for these words only: lines of word TAB count.", metavar="FILE")

    @property
    def rate(self) -> float:
        """The learning rate at the start."""
        kind = self.model
        if kind == "cbow" and self.cbow_gradient == "legacy":
            kind = "legacy"
        elif self.position_weights:
            kind = "positions"
        return self.lr if self.lr is not None else RATES[kind]

    def check(self, kind: str) -> None:
        """Raise UsageError for options that do not go together; `kind` is the format that is written."""
        refusals = (
            (self.model == "glove" and self.loss != "ns", "--loss is for skipgram and cbow"),
            (self.model == "glove" and self.subwords is not None, "--subwords is for skipgram and cbow"),
            (self.position_weights and self.model != "cbow", "--position-weights is for --model cbow"),
            (self.init is not None and self.vocab is not None, "--init brings its own words: no --vocab"),
            (self.lr is not None and self.lr == 0, "--lr 0 learns nothing"),
            (kind not in vectors.NAMES, f"no such format: {kind}"),
        )
        for found, message in refusals:
            if found:
                raise UsageError(message)


@dataclass(frozen=True)
class VectorRun:
    """Run options"""

    output: str = option("-", "Where the vectors go: a file, a directory, - for standard output.", short="-o",
                         metavar="PATH")  # fmt: skip
    format: str | None = option(
        None,
        "Format of the output, if not by its name; fasttext and bundle keep n-grams.",
        choices=(*NAMES, *vectors.NAMES),
    )
    valid: str | None = option(None, "Held-out text to measure the loss on, after each epoch.", metavar="FILE")
    workers: int = option(
        0,
        "Processes that train at once; 0: one for each core. One gives the same bytes every time.",
        low=0,
        metavar="N",
    )
    run: str | None = option(
        None,
        "Keep what is needed to go on here: the same command continues. A directory of vectors keeps it itself.",
        metavar="DIR",
    )
    max_time: str | None = option(
        None,
        "Stop after this long with everything saved (status 75), in --run or a directory of vectors.",
        metavar="TIME",
        check=duration,
    )
    save_every: str = option("10m", "Checkpoint interval: time (10m), epochs (1e), never.", check=interval)
    resume: str = option("auto", "Continue from a checkpoint.", choices=("auto", "never", "must"))
    force: bool = option(False, "Replace the output, or another run in its directory.")
