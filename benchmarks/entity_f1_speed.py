"""Entity F1: speed compared with seqeval.

    python benchmarks/entity_f1_speed.py [--tokens 200000] [--types 4] [--scheme iob2] [--rounds 3]

Random sentences of 5 to 45 tokens, of which one predicted tag in ten is another. Both sides are given lists of strings
in memory, and compute micro averages; the second of ours also reads the tags from a file of three columns.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
from side_by_side import bench, write

from nlptools.metrics import spans
from nlptools.metrics.tags import read_tags


def main() -> None:
    with bench(__doc__, tokens=200_000, types=4, scheme="iob2") as run:
        chosen = run.options
        gold, predicted = some_tags(chosen.tokens, chosen.types, chosen.scheme)
        rows = ("".join(f"word {g} {p}\n" for g, p in zip(*pair)) for pair in zip(gold, predicted))
        path, thousands = write(run.folder / "tagged.txt", [*rows]), chosen.tokens / 1e3

        def theirs() -> tuple[float, list[float]]:
            from seqeval import scheme as schemes
            from seqeval.metrics.v1 import precision_recall_fscore_support

            made = getattr(schemes, chosen.scheme.upper())
            return thousands, precision_recall_fscore_support(gold, predicted, average="micro", scheme=made)[:3]

        def ours() -> tuple[float, list[float]]:
            values = spans.entities(gold, predicted, chosen.scheme).values()
            return thousands, [values[name] for name in ("precision", "recall", "f1")]

        def from_file() -> tuple[float, object]:
            return thousands, spans.entities(*read_tags([path]), chosen.scheme).values()

        sides = {"seqeval, strict": theirs, "nlptools, file read too": from_file, "nlptools": ours}
        title = f"entity F1, {chosen.scheme}, {chosen.tokens:,} tokens, {len(gold):,} sentences"
        run.compare(title, "thousand tokens per second", sides, check=differences)


def differences(results: Mapping[str, list[float]]) -> str:
    """How far precision, recall and F1 are apart."""
    return f"values differ by at most {np.abs(np.subtract(results['seqeval, strict'], results['nlptools'])).max():.0e}"


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
