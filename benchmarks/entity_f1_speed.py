"""Entity F1: speed compared with seqeval.

    python benchmarks/entity_f1_speed.py [--tokens 200000] [--types 4] [--scheme iob2] [--rounds 3]

Random sentences of 5 to 45 tokens, of which one predicted tag in ten is another. Both sides are given lists of strings
in memory, and compute micro averages; the second of ours also reads the tags from a file of three columns.
Prints thousand tokens per second.
"""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import side_by_side
from seqeval import scheme as schemes
from seqeval.metrics.v1 import precision_recall_fscore_support

from nlptools.metrics import spans
from nlptools.metrics.tags import read_tags


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, tokens=200_000, types=4, scheme="iob2", rounds=3)
    gold, predicted = some_tags(options.tokens, options.types, options.scheme)
    warnings.simplefilter("ignore")

    def theirs() -> object:
        made = getattr(schemes, options.scheme.upper())
        return precision_recall_fscore_support(gold, predicted, average="micro", scheme=made)[:3]

    def ours() -> object:
        values = spans.entities(gold, predicted, options.scheme).values()
        return values["precision"], values["recall"], values["f1"]

    print(side_by_side.machine())
    print(f"precision, recall, F1: seqeval {theirs()}, nlptools {ours()}")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "tagged.txt")
        path.write_text(
            "\n".join("".join(f"word {g} {p}\n" for g, p in zip(*pair)) for pair in zip(gold, predicted)),
            encoding="utf-8",
        )

        def from_file() -> object:
            return spans.entities(*read_tags([path]), options.scheme).values()

        def speed(job: Callable[[], object]) -> side_by_side.Measure:
            return lambda: options.tokens / side_by_side.seconds(job) / 1e3

        sides = {"seqeval, strict": speed(theirs), "nlptools, file read too": speed(from_file), "nlptools": speed(ours)}
        title = f"entity F1, {options.scheme}, {options.tokens:,} tokens, {len(gold):,} sentences"
        side_by_side.compare(title, "thousand tokens per second", sides, options.rounds)


def some_tags(tokens: int, types: int, scheme: str) -> tuple[list[list[str]], list[list[str]]]:
    """Gold and predicted tags of a scheme, drawn at random: half of the tokens outside."""
    rng = random.Random(1)
    tags = [f"{prefix}-T{kind}" for prefix in spans.RULES[scheme].prefixes[1:] for kind in range(types)]
    gold: list[list[str]] = []
    while tokens:
        length = min(tokens, rng.randint(5, 45))
        gold.append(["O" if rng.random() < 0.5 else rng.choice(tags) for _ in range(length)])
        tokens -= length
    predicted = [[tag if rng.random() < 0.9 else rng.choice(tags) for tag in sentence] for sentence in gold]
    return gold, predicted


if __name__ == "__main__":
    main()
