"""Settings of the evaluation of word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, option
from nlptools.configs.vectors import FORMATS
from nlptools.errors import UsageError


@dataclass(frozen=True)
class EvalVectors:
    """Evaluation options"""

    analogies: tuple[str, ...] = option(
        (), "Analogies to solve, as in questions-words.txt; may be repeated.", metavar="FILE", multiple=True
    )
    pairs: tuple[str, ...] = option(
        (), "Word pairs with human scores, as in WordSim-353; may be repeated.", metavar="FILE", multiple=True
    )
    restrict: int = option(
        30000,
        "Know the first N words only, the most frequent in most files; 0: all.",
        low=0,
        metavar="N",
    )
    method: str = option("add", "How analogies are solved: 3CosAdd or 3CosMul.", choices=("add", "mul"))
    case: str = option(
        "fold", "fold: upper and lower case are one, the first such word counts; keep: as written.",
        choices=("fold", "keep"),
    )  # fmt: skip
    unknown: str = option(
        "skip",
        "Questions and pairs with unknown words: left out, or counted as wrong and as similarity 0.",
        choices=("skip", "wrong"),
    )
    subwords: bool = option(
        False, "Take the vectors that n-grams of fastText, or words behind the first N, give to unknown words."
    )
    confidence: int = option(
        0, "95% interval by bootstrap, from N resamples (1000 if N is left out).", low=0, bare=1000, metavar="[N]"
    )
    seed: int = option(12345, "Seed of the resamples.", low=0, high=LARGEST_SEED, metavar="N")
    json: bool = option(False, "Write JSON lines, one for each score.")
    tsv: bool = option(False, "Write a line of TSV for each score.")
    source_format: str | None = option(
        None, "Format of VECTORS, if their names do not tell.", flag="from", choices=FORMATS
    )

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        if not self.analogies and not self.pairs:
            raise UsageError(
                "nothing to evaluate on: expected --analogies FILE, --pairs FILE, or both",
                hint="questions-words.txt of word2vec and WordSim-353 are such files",
            )
        if self.json and self.tsv:
            raise UsageError("--json and --tsv exclude each other")
