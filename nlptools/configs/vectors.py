"""Settings of commands on word vectors."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, option
from nlptools.errors import UsageError

FORMATS = ("word2vec", "word2vec-binary", "glove", "vec", "fasttext", "npy", "jsonl", "bundle")


@dataclass(frozen=True)
class Neighbors:
    """Search options"""

    neighbors: int = option(10, "How many neighbors to give.", flag="k", short="-k", low=1, metavar="N")
    method: str = option(
        "add", "What an expression means: 3CosAdd, or 3CosMul, whose scores are no cosines.", choices=("add", "mul")
    )
    restrict: int = option(
        0, "Answer with the first N words only, the most frequent in most files; 0: all.", low=0, metavar="N"
    )
    lines_file: str | None = option(
        None,
        "Where VECTORS is an array (npy): the text of which each line names a row.",
        flag="lines",
        metavar="FILE",
    )
    model: str | None = option(
        None,
        "Turn the queries into vectors with this model, the one that nlptools-embed(1) made VECTORS with, by its defaults.",
        metavar="MODEL",
    )
    embedded: bool = option(
        False, "The queries have vectors: they are JSON lines as nlptools-embed(1) writes with --to jsonl."
    )
    json: bool = option(False, "Write JSON lines.")
    source_format: str | None = option(
        None, "Format of VECTORS, if its name does not tell.", flag="from", choices=FORMATS
    )


@dataclass(frozen=True)
class Convert:
    """Conversion options"""

    source_format: str | None = option(
        None, "Format of SOURCE, if its name does not tell.", flag="from", choices=FORMATS
    )
    target_format: str | None = option(None, "Format of TARGET, if its name does not tell.", flag="to", choices=FORMATS)
    restrict: int = option(0, "Keep the first N words only; 0: all.", low=0, metavar="N")
    normalize: bool = option(False, "Scale vectors to length 1. N-grams of fastText are left out.")
    quantize: str = option(
        "none",
        "For a directory. int8: a byte per number; pq: a byte for every few numbers. What it costs is told.",
        choices=("none", "int8", "pq"),
    )
    subvectors: int = option(0, "Bytes per vector of --quantize pq; 0: one for every two numbers.", low=0, metavar="N")
    seed: int = option(1, "Seed of the centroids of --quantize pq.", low=0, high=LARGEST_SEED, metavar="N")
    force: bool = option(False, "Replace the target if it exists.")

    def check(self, target: str) -> None:
        """Raise UsageError for options that do not go together; `target` is the format that is written."""
        if self.quantize != "none" and target != "bundle":
            raise UsageError(f"--quantize {self.quantize} is for a directory of vectors, not for {target}")
        if self.subvectors and self.quantize != "pq":
            raise UsageError("--subvectors is for --quantize pq")
