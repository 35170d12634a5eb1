"""Settings of the alignment of word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, REQUIRED, confidence, option
from nlptools.configs.vectors import NAMES
from nlptools.errors import UsageError


@dataclass(frozen=True)
class Align:
    """Alignment options"""

    dictionary: str = option(
        REQUIRED, "Dictionary with a word and its translation per line.", short="-d", metavar="FILE"
    )
    normalize: str = option(
        "center",
        "Normalization before the rotation. unit: scale vectors to length 1; center: also subtract the mean of each"
        " language, and scale again.",
        choices=("none", "unit", "center"),
    )
    refine: int = option(
        0,
        "Rounds that add mutual nearest neighbors to the dictionary. For poor dictionaries.",
        low=0,
        metavar="N",
    )
    restrict: int = option(
        200000, "Use only the first N words of each side, usually the most frequent; 0: all.", low=0, metavar="N"
    )
    source_format: str | None = option(
        None, "Format of SOURCE and TARGET, if the file name does not tell.", flag="from", choices=NAMES
    )


@dataclass(frozen=True)
class Written:
    """Output options"""

    output: str = option("-", "Output for the rotated vectors; -: standard output.", short="-o", metavar="FILE")
    target_format: str | None = option(None, "Output format, if the file name does not tell.", flag="to", choices=NAMES)
    both: tuple[str, ...] = option(
        (), "Write both sides to one table, with these prefixes of words: de:,en:.", metavar="A,B"
    )
    target_output: str | None = option(
        None, "Also write the normalized vectors of TARGET to this file.", metavar="FILE"
    )
    force: bool = option(False, "Replace existing outputs.")

    def check(self) -> None:
        """Raise UsageError for prefixes that do not distinguish the sides."""
        if not self.both:
            return
        one, two = (*self.both, "", "")[:2]
        if len(self.both) != 2 or one.startswith(two) or two.startswith(one):
            raise UsageError(
                f"--both {','.join(self.both)}: expected two prefixes that distinguish the languages, such as de:,en:"
            )


@dataclass(frozen=True)
class Precision:
    """Evaluation options"""

    test: str | None = option(
        None,
        "Dictionary for measuring the precision of translations.",
        metavar="FILE",
        excludes=("held_out",),
    )
    held_out: float = option(
        0,
        "Measure the precision on held-out words of the dictionary instead: their number, or a fraction below 1.",
        low=0,
        metavar="X",
    )
    report: str | None = option(
        None,
        "File for the precision: JSON lines if the name ends with .jsonl, otherwise TSV; -: standard output.",
        metavar="FILE",
        was={"--json": "--report NAME.jsonl"},
        needs=("test or held_out",),
    )
    confidence: int = confidence()
    seed: int = option(12345, "Seed of --held-out and of the resamples.", low=0, high=LARGEST_SEED, metavar="N")
