"""Counting n-grams: by hand, and against counting them one by one."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from nlptools.metrics import ngrams
from nlptools.metrics.ngrams import Ids, matches


def slow(segments, order):
    """Clipped matches of one segment: the hypothesis and its references as lists of tokens."""

    def grams(tokens, n):
        return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))

    out = []
    for n in range(1, order + 1):
        most = Counter()
        for reference in segments[1:]:
            most |= grams(reference, n)
        out.append((grams(segments[0], n) & most).total())
    return out


def stream(segments):
    return np.array([token for segment in segments for token in [*segment, ngrams.END]], np.int64)


def test_by_hand():
    hypothesis, reference = stream([[1, 1, 1, 2], [3, 4]]), stream([[1, 2, 1, 3], [4, 3]])
    assert matches([hypothesis, reference], 5, 2, 3).tolist() == [[3, 1, 0], [2, 0, 0]]


@pytest.mark.parametrize("key_bits", [62, 20, 1])
@pytest.mark.parametrize("num_references", [1, 2, 5])
def test_as_one_by_one(num_references, key_bits, monkeypatch):
    monkeypatch.setattr(ngrams, "KEY_BITS", key_bits)
    rng = random.Random(num_references)
    for types, order in ((2, 1), (2, 9), (5, 6), (60, 4), (3000, 30)):
        texts = [
            [rng.choices(range(1, types + 1), k=rng.choice([0, 1, 2, 5, 30])) for _ in range(20)]
            for _ in range(1 + num_references)
        ]
        texts[1][:5] = texts[0][:5]
        found = matches([stream(text) for text in texts], types + 1, 20, order)
        assert found.tolist() == [slow(segments, order) for segments in zip(*texts)]


@pytest.mark.parametrize("segments", [0, 1, 3])
def test_nothing_matches_nothing(segments):
    empty = stream([[]] * segments)
    assert matches([empty, empty], 1, segments, 4).tolist() == [[0] * 4] * segments
    assert matches([empty, empty], 1, segments, 0).shape == (segments, 0)


def test_ids_are_given_in_order():
    ids = Ids({None: ngrams.END})
    assert [ids[token] for token in ("a", "b", "a", None)] == [1, 2, 1, 0]
