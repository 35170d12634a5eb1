"""ROUGE: values worked out by hand, laws, and what is refused."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.metrics import rouge as module
from nlptools.metrics.rouge import lcs_length, rouge, union_hits

PARTS = ("precision", "recall", "f1")


def scores(*arguments, **options):
    """The values of each example, (N, M)."""
    return rouge(*arguments, **options).rows.table[:, :-1]


def values(reference, prediction, kind, **options):
    """Precision, recall and F1 of one text."""
    made = rouge([[reference]], [prediction], [f"{kind}:{part}" for part in PARTS], **options).values()
    return tuple(made.values())


def test_n_grams_by_hand():
    reference, prediction = "The cat sat on the mat.", "the the the cat mat"
    assert values(reference, prediction, "rouge1") == pytest.approx((4 / 5, 4 / 6, 8 / 11))  # the twice, cat, mat
    assert values(reference, prediction, "rouge2") == pytest.approx((1 / 4, 1 / 5, 2 / 9))  # the cat
    assert values(reference, prediction, "rouge5") == (0, 0, 0)


def test_subsequences_by_hand():
    assert values("police killed the gunman", "police kill the gunman", "rougeL") == (0.75, 0.75, 0.75)
    assert values("police killed the gunman", "the gunman kill police", "rougeL") == (0.5, 0.5, 0.5)
    # the example of the paper: w1 w2 w3 w5 of the reference lie on common subsequences with either sentence
    assert values("w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "rougeLsum") == pytest.approx((0.4, 0.8, 8 / 15))
    turned = "w1 w3 w8 w9 w5\nw1 w2 w6 w7 w8"
    assert values("w1 w2 w3 w4 w5", turned, "rougeLsum")[1] == pytest.approx(4 / 5)
    assert values("w1 w2 w3 w4 w5", turned, "rougeL")[1] == pytest.approx(3 / 5)


def test_a_word_counts_once_however_many_sentences_it_is_found_in():
    assert values("a b\na c", "a", "rougeLsum")[:2] == (1.0, 0.25)
    assert values("a", "a b\na c", "rougeLsum")[:2] == (0.25, 1.0)


def test_stems():
    assert values("She runs, happiness", "she running happy", "rouge1", stem=True)[2] == 1
    assert values("She runs, happiness", "she running happy", "rouge1")[2] == pytest.approx(1 / 3)
    assert values("dies", "die", "rouge1", stem=True)[2] == 1
    assert values("was", "wa", "rouge1", stem=True)[2] == 0  # three letters: left alone


def test_tokenizers():
    assert values("naïve", "na ve", "rouge1")[2] == 1  # as rouge-score has it
    assert values("naïve Привет, мир!", "naïve привет мир ?", "rouge1", tokenize="words")[2] == 1
    assert values("naïve", "na ve", "rouge1", tokenize="words")[2] == 0
    assert values("a-b c", "A-B d", "rouge1", tokenize="whitespace")[2] == 0.5


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL", "rougeLsum"])
@pytest.mark.parametrize(("reference", "prediction"), [("", ""), ("a", ""), ("", "a"), ("...", "..."), ("\n", "\n\n")])
def test_nothing_scores_0(kind, reference, prediction):
    assert values(reference, prediction, kind) == (0, 0, 0)


def test_the_best_reference_counts_for_each_kind():
    references = [["a b c d", "x"], ["d c b a e f g h", "x y"], [None, "z y"]]
    made = scores(references, ["d c b a", "z y"], ["rouge1", "rougeL", "rouge1:precision"])
    assert made[0].tolist() == pytest.approx([1.0, 2 / 3, 1.0])
    assert made[1].tolist() == [1.0, 1.0, 1.0]
    assert scores([[None], ["a"]], ["b"], ["rouge1"]).tolist() == [[0.0]]


def test_values_are_means_and_resamples_are_weighted_means(english):
    predictions, references = english[:50], english[1:51]
    each = scores([references], predictions)
    made = rouge([references], predictions)
    assert made.names == ("rouge1", "rouge2", "rougeL", "rougeLsum")
    assert (made.count, made.unit) == (50, "lines")
    assert list(made.values().values()) == pytest.approx(each.mean(axis=0).tolist(), abs=1e-15)
    weights = np.random.default_rng(1).integers(0, 3, (4, 50))
    expected = [np.repeat(each, row, axis=0).mean(axis=0) for row in weights]
    np.testing.assert_allclose(made.compute(weights), expected, atol=1e-14)
    assert made.signature().startswith("nrefs:1|stem:no|tok:rouge|unit:lines|version:nlptools-")


def test_block_size_does_not_matter(english, monkeypatch):
    expected = scores([english[1:100], english[2:101]], english[:99], stem=True)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert np.array_equal(scores([english[1:100], english[2:101]], english[:99], stem=True), expected)


def table_of_lengths(first, second):
    table = np.zeros((len(first) + 1, len(second) + 1), int)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
    return table[-1, -1]


@settings(max_examples=examples(300), deadline=None)
@given(*[st.lists(st.integers(1, 4), max_size=15)] * 2)
def test_lengths_of_common_subsequences(first, second):
    length = lcs_length(first, second)
    assert length == table_of_lengths(first, second) == lcs_length(second, first)
    # an empty sentence more changes nothing, but keeps union_hits from the short way
    assert union_hits([first, []], [second]) == length


def test_long_texts():
    rng = random.Random(4)
    first, second = rng.choices(range(1, 30), k=700), rng.choices(range(1, 30), k=500)
    assert lcs_length(first, second) == table_of_lengths(first, second) == union_hits([first], [second, []])


def test_refusals():
    for kinds in ([], ["rouge0"], ["rouge10"], ["rougel"], ["rouge1:f2"], "rouge1"):
        with pytest.raises(UsageError, match="no such kind"):
            rouge([["a"]], ["a"], kinds)
    with pytest.raises(UsageError, match="tokenizer"):
        rouge([["a"]], ["a"], tokenize="13a")
    with pytest.raises(UsageError, match="at least one"):
        rouge([], ["a"])
    with pytest.raises(UsageError, match="list"):
        rouge(["a"], ["a"])
    with pytest.raises(UsageError, match="list"):
        rouge([["a"]], "a")
    with pytest.raises(DataError, match="unequal numbers of texts: 1 predictions, 2 in reference 2 of 2"):
        rouge([["a"], ["a", "b"]], ["a"])
    with pytest.raises(DataError, match="no texts"):
        rouge([[]], [])
    with pytest.raises(DataError, match="text 2 has no reference"):
        rouge([["a", None], ["b", None]], ["a", "b"])


# -- long texts -------------------------------------------------------------------------------------------------------


def plain_lcs(first: list[int], second: list[int]) -> int:
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for j, other in enumerate(second):
            before, row[j + 1] = row[j + 1], before + 1 if word == other else max(row[j + 1], row[j])
    return row[-1]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.integers(1, 5), max_size=14), st.lists(st.integers(1, 7), max_size=14), st.integers(0, 40))
def test_the_way_for_long_texts_gives_the_same(first, second, kept):
    with patch.multiple(module, _LONG=2, _KEPT_BITS=kept):
        for one, other in ((first, second), (first + second, first[:3] + second), (first, first)):
            assert lcs_length(one, other) == plain_lcs(one, other)


def test_texts_of_megabytes_that_are_nearly_the_same():
    """8 MB took more than 120 s: all pairs of words were looked at."""
    words = [f"w{i * i % 997}" for i in range(300_000)]
    changed = [*words[:150_000], "other", "same", *words[150_005:], "end"]
    (row,) = scores([[" ".join(words)]], [" ".join(changed)], ["rougeL:recall", "rougeLsum:recall"])
    assert row.tolist() == [299_995 / 300_000] * 2


def test_texts_that_are_too_long_are_named(call, tmp_path):
    long, other = " ".join(["a b"] * 400_000), " ".join(["b c a"] * 200_000)
    (tmp_path / "ref").write_text(f"a\n{long}\n")
    done = call("evaluate", "-m", "rougeL", "-r", "ref", stdin=f"a\n{other}\n")
    assert (done.code, done.out) == (65, b"")
    assert "line 2: texts of 800,000 and 400,000 words are too long for rougeL" in done.err
    assert "hint: ask for rouge1 and rouge2 only" in done.err
    assert call("evaluate", "-m", "rouge1,rouge2", "-r", "ref", stdin=f"a\n{other}\n").code == 0
    sentences = [[1, 2] * 60_000, [1]]
    with pytest.raises(DataError, match="sentences of 120,000 and 120,000 words are too long for rougeLsum"):
        union_hits(sentences, sentences)
