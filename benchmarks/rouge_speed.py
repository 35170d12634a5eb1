"""ROUGE: speed compared with rouge-score.

    python benchmarks/rouge_speed.py [--examples 1000] [--sentences 3] [--words 20] [--rounds 3] [--stem]

The references are sentences made of the words of CPython's help topics as often as they occur there; a prediction has
the sentences of its reference in another order, with a share of the words lost or replaced. Both sides read lists in
memory, and compute rouge1, rouge2, rougeL and rougeLsum.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import samples
from side_by_side import bench

from nlptools.metrics.rouge import KINDS, rouge


def main() -> None:
    with bench(__doc__, examples=1000, sentences=3, words=20, stem=False) as run:
        chosen = run.options
        references, predictions = some_summaries(chosen.examples, chosen.sentences, chosen.words)

        def theirs() -> tuple[int, dict[str, float]]:
            from rouge_score.rouge_scorer import RougeScorer

            scorer = RougeScorer(list(KINDS), use_stemmer=chosen.stem)
            each = [scorer.score(r, p) for r, p in zip(references, predictions)]
            return len(each), {kind: sum(scores[kind].fmeasure for scores in each) / len(each) for kind in KINDS}

        def ours() -> tuple[int, dict[str, float]]:
            return len(references), rouge([references], predictions, stem=chosen.stem).values()

        texts = f"{chosen.examples} texts of {chosen.sentences} sentences of {chosen.words} words"
        title = f"ROUGE-1, -2, -L, -Lsum of {texts}, {'stems' if chosen.stem else 'no stems'}"
        run.compare(title, "examples/s", {"rouge-score": theirs, "nlptools": ours}, check=differences)


def differences(results: Mapping[str, dict[str, float]]) -> str:
    """How far the scores are apart."""
    most = max(abs(value - results["nlptools"][kind]) for kind, value in results["rouge-score"].items())
    return f"scores differ by at most {most:.0e}"


def some_summaries(count: int, sentences: int, words: int) -> tuple[list[str], list[str]]:
    """`count` references and their predictions."""
    rng, known = random.Random(1), " ".join(samples.help_topics()).split()
    references, predictions = [], []
    for _ in range(count):
        rows = [rng.choices(known, k=words) for _ in range(sentences)]
        references.append("\n".join(map(" ".join, rows)))
        rng.shuffle(rows)
        noisy = [[rng.choice(known) if rng.random() < 0.3 else w for w in row if rng.random() < 0.7] for row in rows]
        predictions.append("\n".join(map(" ".join, noisy)))
    return references, predictions


if __name__ == "__main__":
    main()
