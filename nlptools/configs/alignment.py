"""Settings of the alignment of word vectors."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from nlptools.configs import LARGEST_SEED, option
from nlptools.configs.vectors import FORMATS
from nlptools.errors import UsageError


@dataclass(frozen=True)
class Align:
    """Alignment options"""

    dictionary: str = option(MISSING, "Words and their translations, a pair per line.", short="-d", metavar="FILE")
    normalize: str = option(
        "center",
        "Before the rotation: unit makes all lengths 1; center also takes away the mean of each language and makes the "
        "lengths 1 again.",
        choices=("none", "unit", "center"),
    )
    refine: int = option(
        0, "Rounds that add words that are each other's nearest to the dictionary; for poor ones.", low=0, metavar="N"
    )
    restrict: int = option(
        200000, "Know the first N words of each side only, the most frequent in most files; 0: all.", low=0, metavar="N"
    )
    source_format: str | None = option(
        None, "Format of SOURCE and TARGET, if their names do not tell.", flag="from", choices=FORMATS
    )


@dataclass(frozen=True)
class Written:
    """Output options"""

    output: str = option("-", "Where to write the rotated vectors; - is standard output.", short="-o", metavar="FILE")
    target_format: str | None = option(
        None, "Format of what is written, if its name does not tell.", flag="to", choices=FORMATS
    )
    both: tuple[str, ...] = option(
        (), "Write the vectors of both sides in one table, words with these prefixes: de:,en:.", metavar="A,B"
    )
    target_output: str | None = option(None, "Also write the normalized vectors of TARGET.", metavar="FILE")
    force: bool = option(False, "Replace what is written if it exists.")

    def check(self) -> None:
        """Raise UsageError for prefixes that do not tell the sides apart."""
        if not self.both:
            return
        one, two = (*self.both, "", "")[:2]
        if len(self.both) != 2 or one.startswith(two) or two.startswith(one):
            raise UsageError(
                f"--both {','.join(self.both)}: expected two prefixes that tell the languages apart, such as de:,en:"
            )


@dataclass(frozen=True)
class Precision:
    """Evaluation options"""

    test: str | None = option(None, "Pairs to measure the precision of translations on.", metavar="FILE")
    held_out: float = option(
        0, "Keep words of the dictionary for that instead: their number, or a share below 1.", low=0, metavar="X"
    )
    report: str | None = option(None, "Write the precision there; - is standard output.", metavar="FILE")
    json: bool = option(False, "Write it as JSON lines instead of TSV.")
    confidence: int = option(
        0, "95% interval by bootstrap, from N resamples (1000 if N is left out).", low=0, bare=1000, metavar="[N]"
    )
    seed: int = option(12345, "Seed of --held-out and of the resamples.", low=0, high=LARGEST_SEED, metavar="N")

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        if self.test is not None and self.held_out:
            raise UsageError("--test and --held-out exclude each other")
        if self.report is not None and self.test is None and not self.held_out:
            raise UsageError("--report has nothing to tell without --test or --held-out")
