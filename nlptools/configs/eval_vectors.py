"""Settings of the evaluation of word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, confidence, option
from nlptools.configs.vectors import NAMES
from nlptools.errors import UsageError


@dataclass(frozen=True)
class EvalVectors:
    """Evaluation options"""

    analogies: tuple[str, ...] = option(
        (), "File of analogies, like questions-words.txt; can be repeated.", metavar="FILE", multiple=True
    )
    pairs: tuple[str, ...] = option(
        (), "File of word pairs with human scores, like WordSim-353; can be repeated.", metavar="FILE", multiple=True
    )
    restrict: int = option(
        30000,
        "Use only the first N words, usually the most frequent; 0: all.",
        low=0,
        metavar="N",
    )
    method: str = option("add", "Analogies by 3CosAdd or 3CosMul.", choices=("add", "mul"))
    case: str = option(
        "fold", "fold: ignore case, and use the first word of each spelling; keep: distinguish case.",
        choices=("fold", "keep"),
    )  # fmt: skip
    unknown: str = option(
        "skip",
        "Questions and pairs with unknown words: skip them, or count them as wrong and as similarity 0.",
        choices=("skip", "wrong"),
    )
    subwords: bool = option(
        False, "Vectors for unknown words, from n-grams of fastText or from the words after the first N."
    )
    confidence: int = confidence()
    seed: int = option(12345, "Seed of the resamples.", low=0, high=LARGEST_SEED, metavar="N")
    to: str = option(
        "text",
        "Output format: a table, or a record per score.",
        choices=("text", "tsv", "jsonl"),
        was={"--json": "--to jsonl", "--tsv": "--to tsv"},
    )
    source_format: str | None = option(
        None, "Format of VECTORS, if the file name does not tell.", flag="from", choices=NAMES
    )

    def check(self) -> None:
        """Raise UsageError without a file."""
        if not self.analogies and not self.pairs:
            raise UsageError(
                "nothing to evaluate on: expected --analogies FILE, --pairs FILE, or both",
                hint="questions-words.txt of word2vec and WordSim-353 are such files",
            )
