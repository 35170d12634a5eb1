"""Translation edit rate: edits counted by hand, laws, the tokenizer's rules, refusals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.metrics.translation import ter_shifts
from nlptools.metrics.translation.ter import Ter
from nlptools.metrics.translation.ter_tokens import split_ter


def edits(hypothesis, reference):
    return int(Ter().statistics([hypothesis], [[reference]])[0, 0])


@pytest.mark.parametrize(
    ("hypothesis", "reference", "count"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "A B c", 0),
        ("a x c", "a b c", 1),
        ("a c", "a b c", 1),
        ("a b b c", "a b c", 1),
        ("c d a b", "a b c d", 1),  # one block moves; without moves it would be four
        ("e a b c d", "a b c d e", 1),
        ("c d x a b", "a b x c d", 2),
        ("a b", "x y", 2),
        ("", "a b", 2),
        ("a b", "", 2),
        ("", "", 0),
    ],
)
def test_edits_by_hand(hypothesis, reference, count):
    assert edits(hypothesis, reference) == count


def test_statistics_take_the_nearest_reference_and_the_mean_length():
    table = Ter().statistics(["a b c", "a"], [["x", "a"], ["a b c d", None], ["a b", "b b b"]])
    assert table.tolist() == [[1, 7 / 3], [0, 2]]
    assert table.dtype == np.float64


def test_references_are_normalized_twice():
    table = Ter(normalized=True).statistics(["cat's\tx", "cat 's x"], [["cat's x", "cat's\tx"]])
    assert table.tolist() == [[2, 3], [0, 3]]


def test_scores():
    metric = Ter()
    assert metric.score(np.array([3, 4.0])).score == 75.0
    assert metric.score(np.array([3, 0.0])).score == 100.0
    assert metric.score(np.array([0, 0.0])).score == 0.0
    assert metric.scores(np.array([[3, 4], [3, 0], [0, 0]])).tolist() == [75.0, 100.0, 0.0]
    assert (metric.score(np.array([3, 4])).name, metric.score(np.array([3, 4])).verbose) == ("TER", "")
    assert metric.columns == ("edits", "reference_length")


def test_signature():
    assert Ter().signature() == (("case", "lc"), ("tok", "tercom"), ("norm", "no"), ("punct", "yes"), ("asian", "no"))
    other = Ter(True, True, True, True).signature()
    assert other == (("case", "mixed"), ("tok", "tercom"), ("norm", "yes"), ("punct", "no"), ("asian", "yes"))


def moved(rng, words, moves=3):
    words = list(words)
    for _ in range(moves):
        i = rng.randrange(len(words))
        block = words[i : i + rng.randrange(1, 5)]
        del words[i : i + len(block)]
        k = rng.randrange(len(words) + 1)
        words[k:k] = block
    return words


def test_no_more_edits_than_without_moves_and_no_fewer_than_for_bags_of_words():
    rng = random.Random(5)
    for _ in range(60):
        reference = rng.choices(range(12), k=rng.randrange(2, 30))
        hypothesis = moved(rng, reference)
        hypothesis[rng.randrange(len(hypothesis))] = 99
        count = int(ter_shifts.edits([(hypothesis, reference)])[0])
        pair = ter_shifts._Pair(hypothesis, reference)
        assert pair.least <= count <= pair.distance


def test_cells_and_bits_agree(monkeypatch):
    rng = random.Random(6)
    references = [rng.choices(range(15), k=rng.choice([1, 5, 20, 60])) for _ in range(80)]
    pairs = [(moved(rng, reference), reference) for reference in references]
    expected = ter_shifts.edits(pairs).tolist()
    assert sum(expected) > 100
    monkeypatch.setattr(ter_shifts, "POOL", 3)
    monkeypatch.setattr(ter_shifts, "CHUNK", 5)
    assert ter_shifts.edits(pairs).tolist() == expected
    monkeypatch.setattr(ter_shifts, "_safe_distance", lambda words, reference: -1)
    monkeypatch.setattr(ter_shifts, "CHUNK_CELLS", 100)
    assert ter_shifts.edits(pairs).tolist() == expected


def test_within_the_safe_distance_the_band_changes_nothing(monkeypatch):
    rng = random.Random(7)
    seen = 0
    for _ in range(300):
        reference = rng.choices(range(30), k=rng.randrange(25, 65))
        hypothesis = rng.choices(range(30), k=rng.randrange(1, 80)) + reference[: rng.randrange(65)]
        pair = ter_shifts._Pair(hypothesis, reference)
        if not pair.banded:
            seen += 1
            path = pair.align()
            pair.banded = True
            assert pair._fill_cells() == pair.distance
            assert pair.align() == path
    assert 20 < seen < 290


def test_long_segments():
    words = [f"w{i}" for i in range(500)]
    assert edits(" ".join(words[:200] + words[205:230] + words[200:205] + words[230:]), " ".join(words)) == 1
    assert edits("a", " ".join(words)) == 500


@pytest.mark.parametrize(
    ("text", "options", "tokens"),
    [
        ("The Cat's 3.5, “x”.", {}, "the cat's 3.5, “x”."),
        ("The Cat's 3.5, x-ray.", {"normalized": True, "case_sensitive": True}, "The Cat 's 3.5 , x-ray ."),
        ("(a&amp;b) 1-2 x/y", {"normalized": True}, "( a & b ) 1 - 2 x / y"),
        ("don't, stop! (now)", {"no_punct": True}, "don't stop now"),
        ("日本語です。", {"normalized": True}, "日本語です。"),
        ("日本語です。", {"normalized": True, "asian_support": True}, "日 本 語 です 。"),
        ("日本、語!", {"no_punct": True, "asian_support": True}, "日本語"),
        ("a\n-b\nc", {"normalized": True}, "ab c"),
        ("", {"normalized": True}, ""),
    ],
)
def test_tokens(text, options, tokens):
    assert split_ter([text, "x"], **options) == [tokens.split(), ["x"]]


def test_no_segments():
    assert split_ter([], normalized=True) == []
    assert Ter().statistics([], [[]]).shape == (0, 2)


def test_refusals():
    with pytest.raises(DataError, match="unequal"):
        Ter().statistics(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="text 1 has no reference"):
        Ter().statistics(["a"], [[None]])
    with pytest.raises(UsageError, match="reference"):
        Ter().statistics(["a"], [])
