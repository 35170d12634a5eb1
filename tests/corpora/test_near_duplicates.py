"""Near-duplicates: n-grams, exact similarities, and how many are found."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.corpora.near_duplicates import HASHES, DuplicateIndex, bands, jaccard, ngrams


def sets(text: str, n: int) -> set[str]:
    plain = " ".join(text.lower().split())
    return {plain[i : i + n] for i in range(len(plain) - n + 1)} or {plain}


def test_similarities_are_those_of_the_sets() -> None:
    texts = [
        "The cat sat on the mat.",
        "the  cat sat on a mat",
        "ein ganz anderer Satz",
        "cat",
        "",
        "日本語の文です",
        "日本語の文",
    ]
    for first in texts:
        for second in texts:
            for n in (1, 3, 5):
                a, b = sets(first, n), sets(second, n)
                expected = len(a & b) / len(a | b)
                assert jaccard(ngrams(first, "chars", n), ngrams(second, "chars", n)) == pytest.approx(expected)
    assert len(ngrams("a b c d", "words", 2)) == 3
    assert jaccard(ngrams("a b c d", "words", 2), ngrams("b c d e", "words", 2)) == pytest.approx(2 / 4)


def test_bands_miss_one_pair_in_a_hundred() -> None:
    for threshold in (0.3, 0.5, 0.8, 0.95, 1.0):
        count, rows = bands(threshold)
        assert count * rows <= HASHES and (1 - threshold**rows) ** count <= 0.01


def test_most_pairs_at_the_threshold_are_found() -> None:
    random = np.random.default_rng(0)
    words = [f"word{i}" for i in range(5000)]
    found = 0
    index = DuplicateIndex(0.6, "words", 1)
    for number in range(1, 400, 2):
        base = list(random.choice(words, 40, replace=False))
        other = base[:30] + list(random.choice(words, 10, replace=False))  # Jaccard about 30 / 50
        similarity = jaccard(*(ngrams(" ".join(text), "words", 1) for text in (base, other)))
        first, second = index.add([" ".join(base), " ".join(other)], [number, number + 1])
        assert first == number and (second == number + 1 if similarity < 0.6 else True)
        found += second == number
    assert found >= 190
