"""Settings of `cluster` and `dedupe`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.combinations import check_combinations
from nlptools.errors import UsageError


def _model(excludes: tuple[str, ...]) -> str | None:
    return option(
        None,
        "Model for the vectors of the lines, as nlptools-embed(1) takes it: an encoder, static vectors, word vectors.",
        short="-m",
        metavar="MODEL",
        excludes=excludes,
    )


def _vectors() -> str | None:
    return option(None, "Array (npy) with the vectors of the lines, from nlptools-embed(1).", metavar="FILE")


@dataclass(frozen=True)
class Cluster:
    """Clustering options"""

    clusters: int = option(10, "Number of clusters.", flag="k", short="-k", low=1, metavar="N")
    model: str | None = _model(("vectors",))
    vectors: str | None = _vectors()
    summary: bool = option(False, "Write a line for each cluster: label, size, typical words, central lines.")
    words: int = option(10, "Words of each cluster in the summary.", low=0, metavar="N", needs=("summary",))
    central: int = option(3, "Lines of each cluster in the summary.", low=0, metavar="N", needs=("summary",))
    to: str = option("text", "Output format: tab-separated fields, or JSON lines.", choices=("text", "jsonl"))
    iterations: int = option(100, "Maximum number of iterations of k-means.", low=1, metavar="N")

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
        if self.model is None and self.vectors is None:
            raise UsageError("expected --model MODEL or --vectors FILE")


@dataclass(frozen=True)
class Dedupe:
    """Options of near-duplicates"""

    threshold: float = option(
        0.8,
        "Least similarity of duplicates: of sets of n-grams (Jaccard), or of vectors (cosine).",
        low=0.01,
        high=1,
        metavar="X",
    )
    ngrams: str = option(
        "chars", "n-grams of characters or of words.", choices=("chars", "words"), excludes=("model", "vectors")
    )
    n: int = option(
        5, "Length of the n-grams.", flag="n", short="-n", low=1, high=64, metavar="N", excludes=("model", "vectors")
    )
    model: str | None = _model(("vectors",))
    vectors: str | None = _vectors()
    labels: bool = option(
        False, "Write all lines, each after the number of the first line that it duplicates, otherwise its own number."
    )

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
