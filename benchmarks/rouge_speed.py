"""ROUGE: speed compared with rouge-score.

    python benchmarks/rouge_speed.py [--examples 1000] [--sentences 3] [--words 20] [--rounds 3] [--stem]

The references are sentences made of the words of CPython's help topics as often as they occur there; a prediction has
the sentences of its reference in another order, with a share of the words lost or replaced. Both sides read lists in
memory, compute rouge1, rouge2, rougeL and rougeLsum, and must agree to 1e-9. Prints examples per second, in turns.
"""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable
from importlib.metadata import version

import side_by_side
from rouge_score.rouge_scorer import RougeScorer
from side_by_side import compare

from nlptools import __version__
from nlptools.metrics.rouge import KINDS, rouge


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, examples=1000, sentences=3, words=20, rounds=3, stem=False)
    references, predictions = some_summaries(options.examples, options.sentences, options.words)

    def theirs() -> dict[str, float]:
        scorer = RougeScorer(list(KINDS), use_stemmer=options.stem)
        each = [scorer.score(r, p) for r, p in zip(references, predictions)]
        return {kind: sum(scores[kind].fmeasure for scores in each) / len(each) for kind in KINDS}

    def ours() -> dict[str, float]:
        return rouge([references], predictions, stem=options.stem).values()

    assert all(abs(value - ours()[kind]) < 1e-9 for kind, value in theirs().items())
    print(f"Python {platform.python_version()}, rouge-score {version('rouge-score')}, nlptools {__version__}")

    def speed(job: Callable[[], object]) -> Callable[[], float]:
        def measure() -> float:
            start = time.perf_counter()
            job()
            return options.examples / (time.perf_counter() - start)

        return measure

    stem = "stems" if options.stem else "no stems"
    title = f"ROUGE of {options.examples} texts of {options.sentences} sentences of {options.words} words, {stem}"
    compare(title, "examples/s", {"rouge-score": speed(theirs), "nlptools": speed(ours)}, options.rounds)


def some_summaries(count: int, sentences: int, words: int) -> tuple[list[str], list[str]]:
    """`count` references and their predictions."""
    from pydoc_data.topics import topics

    rng = random.Random(1)
    known = " ".join(topics.values()).split()
    references, predictions = [], []
    for _ in range(count):
        rows = [rng.choices(known, k=words) for _ in range(sentences)]
        references.append("\n".join(map(" ".join, rows)))
        rng.shuffle(rows)
        noisy = [
            [rng.choice(known) if rng.random() < 0.3 else word for word in row if rng.random() < 0.7] for row in rows
        ]
        predictions.append("\n".join(map(" ".join, noisy)))
    return references, predictions


if __name__ == "__main__":
    main()
