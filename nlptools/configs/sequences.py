"""Settings of joining phrases and of random walks."""

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
        "Score of a pair: default, as gensim; npmi, from -1 to 1; word2phrase, as the C tool. Without it: default, or "
        "that of the --model.",
        choices=SCORINGS,
    )
    threshold: float | None = option(
        None, "Join pairs that score above this (10; npmi: 0.5; word2phrase: 100).", metavar="X"
    )
    min_count: int | None = option(
        None, f"Join only pairs that occur this often ({MIN_COUNT}); default subtracts it.", low=1, metavar="N"
    )
    delimiter: str | None = option(None, "What joins the words of a phrase (_).", metavar="TEXT")
    passes: int | None = option(
        None, "Learn and join this many times (1): two passes make phrases of up to four words.", low=1, metavar="N"
    )
    connectors: str | None = option(
        None,
        "Words that may stand inside a phrase, but not at its ends: separated by commas, or a file with one per line, "
        "or english.",
        metavar="WORDS|FILE",
    )
    max_vocab: int | None = option(
        None,
        f"Keep the counts of this many different pairs; when there are more, the rarest go ({MAX_VOCAB}).",
        low=1,
        metavar="N",
    )
    save: str | None = option(None, "Write what was learned to this file too.", metavar="MODEL")
    model: str | None = option(None, "Learn nothing; join what the file of an earlier --save says.", metavar="MODEL")


@dataclass(frozen=True)
class Walks:
    """Walk options"""

    p: float = option(1.0, "Return parameter: the higher, the rarer a step back.", low=1e-9, high=1e9, metavar="X")
    q: float = option(
        1.0,
        "In-out parameter: above 1 walks stay near where they come from, below 1 they lead away.",
        low=1e-9,
        high=1e9,
        metavar="X",
    )
    length: int = option(80, "Nodes in a walk.", low=1, metavar="N")
    walks: int = option(10, "Walks from each node.", low=1, metavar="N")
    weighted: bool = option(False, "Steps follow the weights, the third field of a line.")
    directed: bool = option(False, "Edges lead from the first node to the second only.")
    seed: int = option(1, "Seed of all random choices.", low=0, high=LARGEST_SEED, metavar="N")
    threads: int = option(
        0, "CPU threads; 0 takes all cores this process may use. The walks do not depend on it.", low=0, metavar="N"
    )
