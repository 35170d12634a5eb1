"""Settings of `phrases` and `walks`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, option

SCORINGS = ("default", "npmi", "word2phrase")
THRESHOLDS = {"default": 10.0, "npmi": 0.5, "word2phrase": 100.0}
ENGLISH = ("a", "an", "the", "for", "of", "with", "without", "at", "from", "to", "in", "on", "by", "and", "or")
MIN_COUNT, MAX_VOCAB = 5, 40_000_000


@dataclass(frozen=True)
class Phrases:
    """Phrase options"""

    scoring: str | None = option(
        None,
        "Score of a pair: default (as in gensim), npmi (from -1 to 1), word2phrase (as in the C tool). Default: default, or"
        " the scoring of --model.",
        choices=SCORINGS,
    )
    threshold: float | None = option(
        None, "Join pairs with higher scores (default 10; npmi: 0.5; word2phrase: 100).", metavar="X"
    )
    min_count: int | None = option(
        None,
        f"Least frequency of a phrase (default {MIN_COUNT}); the default scoring subtracts it.",
        low=1,
        metavar="N",
    )
    delimiter: str | None = option(None, "Separator of the words in a phrase (default _).", metavar="TEXT")
    passes: int | None = option(
        None,
        "Number of times to learn and join (default 1): two passes find phrases of up to four words.",
        low=1,
        metavar="N",
    )
    connectors: str | None = option(
        None,
        "Words allowed inside a phrase, but not at its ends: separated by commas, or a file with one per line, or english.",
        metavar="WORDS|FILE",
    )
    max_vocab: int | None = option(
        None,
        f"Maximum number of distinct pairs in memory; beyond it, the rarest are dropped (default {MAX_VOCAB}).",
        low=1,
        metavar="N",
    )
    save: str | None = option(None, "Write the learned phrases to this file.", metavar="MODEL")
    model: str | None = option(
        None,
        "Join the phrases in this file, from --save, instead of learning.",
        metavar="MODEL",
        excludes=("min_count", "delimiter", "passes", "connectors", "max_vocab", "save"),
    )


@dataclass(frozen=True)
class Walks:
    """Walk options"""

    p: float = option(1.0, "Return parameter: high values make steps back rare.", low=1e-9, high=1e9, metavar="X")
    q: float = option(
        1.0, "In-out parameter: above 1, walks stay near; below 1, they move away.", low=1e-9, high=1e9, metavar="X"
    )
    length: int = option(80, "Number of nodes in a walk.", low=1, metavar="N")
    walks: int = option(10, "Number of walks from each node.", low=1, metavar="N")
    weighted: bool = option(False, "Choose steps by weight, the third field of a line.")
    directed: bool = option(False, "Edges lead only from the first node to the second.")
    seed: int = option(1, "Seed of all random choices.", low=0, high=LARGEST_SEED, metavar="N")
    threads: int = option(
        0,
        "CPU threads; 0: OMP_NUM_THREADS if set, else all cores available. The result does not depend on it.",
        low=0,
        metavar="N",
    )
