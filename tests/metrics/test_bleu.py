"""BLEU: laws, counts worked out by hand, and the tokenizer's rules."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.metrics import bleu, ngrams
from nlptools.metrics.bleu import corpus_bleu
from nlptools.text.mteval_blocks import tokenize_13a, tokenize_13a_block

PERFECT = 100.00000000000004  # what four logarithms of 100 make, here as in sacrebleu


def test_a_perfect_match_scores_100(english):
    assert corpus_bleu(english, [english]).score == PERFECT
    assert corpus_bleu(english[:9], [english[:9], english[9:18]]).score == PERFECT


def test_counts_by_hand():
    score = corpus_bleu(["the the the cat"], [["the cat the mat"]], tokenize="none")
    # the: 2 of 3, cat: 1 of 1; bigrams: "the cat" of 3; no trigram, no 4-gram
    assert score.counts == (3, 1, 0, 0)
    assert score.totals == (4, 3, 2, 1)
    assert score.precisions == (75.0, 100 / 3, 25.0, 25.0)
    assert (score.sys_len, score.ref_len, score.bp) == (4, 4, 1.0)


def test_clipping_takes_the_largest_count_of_any_reference():
    score = corpus_bleu(["a a a b"], [["a b"], ["a a c"]], tokenize="none")
    assert score.counts[:2] == (3, 2)  # a twice, b once; "a a" once, "a b" once


@pytest.mark.parametrize(("references", "length"), [([4, 8], 4), ([8, 4], 4), ([5, 8], 5), ([7], 7), ([9, 3, 7], 7)])
def test_the_nearest_reference_length_and_of_two_the_shorter(references, length):
    score = corpus_bleu(["x " * 6], [["x " * n] for n in references], tokenize="none")
    assert score.ref_len == length


def test_short_segments_and_no_matches_score_0():
    assert corpus_bleu(["a b c"], [["a b c"]]).score == 0.0
    assert corpus_bleu(["a b c d e"], [["f g h i j"]]).precisions == (0.0, 0.0, 0.0, 0.0)
    empty = corpus_bleu(["", ""], [["", "a"]])
    assert (empty.score, empty.bp, empty.sys_len, empty.ref_len) == (0.0, 0.0, 0, 1)
    assert "ratio = 0.000" in corpus_bleu([""], [[""]]).line()


def test_brevity():
    score = corpus_bleu(["a b c d"], [["a b c d e f"]])
    assert score.bp == pytest.approx(np.exp(1 - 6 / 4))
    assert score.score == pytest.approx(100 * score.bp)


def test_the_statistics_of_a_concatenation_are_the_sum(english):
    hypotheses, references = english[:500], [english[1:501], english[2:502]]
    whole = bleu.statistics(hypotheses, references)
    one_by_one = [bleu.statistics([h], [[r] for r in rs]) for h, *rs in zip(hypotheses, *references, strict=True)]
    assert np.array_equal(whole, np.concatenate(one_by_one))
    assert np.array_equal(bleu.total_statistics([(hypotheses, *references)]), whole.sum(axis=0))
    assert whole.dtype == np.int64


def test_block_size_does_not_matter(english, monkeypatch):
    expected = corpus_bleu(english[:900], [english[3:903]])
    monkeypatch.setattr(bleu, "_BLOCK", 7)
    assert corpus_bleu(english[:900], [english[3:903]]) == expected


def test_keys_too_large_for_64_bits_are_numbered_anew(english, monkeypatch):
    rng = random.Random(3)
    references = [" ".join(rng.choices(line.split(), k=8)) for line in english[:300]]
    expected = bleu.statistics(english[:300], [references, english[5:305]])
    monkeypatch.setattr(ngrams, "_KEY_BITS", 1)
    assert np.array_equal(bleu.statistics(english[:300], [references, english[5:305]]), expected)


def test_one_long_segment_with_many_words():
    words = [f"w{i}" for i in range(70_000)]  # rank * width**3 passes 2**62
    swapped = words[:35_000] + words[35_001:] + words[35_000:35_001]
    table = bleu.statistics([" ".join(swapped)], [[" ".join(words)]], "none")
    assert table[0, 2:6].tolist() == [70_000, 69_997, 69_995, 69_993]


def test_refusals():
    with pytest.raises(DataError, match="no segments"):
        corpus_bleu([], [[]])
    with pytest.raises(DataError, match="unequal"):
        corpus_bleu(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="unequal"):
        corpus_bleu(["a"], [["a"], ["a", "b"]])
    with pytest.raises(UsageError, match="list"):
        corpus_bleu(["a"], ["a"])
    with pytest.raises(UsageError, match="list"):
        corpus_bleu("a", [["a"]])
    with pytest.raises(UsageError, match="tokenizer"):
        corpus_bleu(["a"], [["a"]], tokenize="xyz")
    with pytest.raises(UsageError, match="reference"):
        corpus_bleu(["a"], [])


def test_any_iterable_will_do_and_the_score_is_frozen():
    score = corpus_bleu(iter(["a b c d"]), [iter(["a b c d"])])
    assert score.score == PERFECT
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:nlptools-")
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.score = 1.0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1990.", "1990 ."),
        ("3,a", "3 , a"),
        ("...", ". . ."),
        ("1,000-2,000", "1,000 - 2,000"),
        ("x.y", "x . y"),
        ("a..5", "a . .5"),
        ("7..5", "7 . . 5"),
        ("7...5", "7 . . .5"),
        (".5", ". 5"),
        ("5.", "5 ."),
        ("don't (stop)!", "don't ( stop ) !"),
        ("„Hallo“ – sagt’s", "„Hallo“ – sagt’s"),
        ("&quot;a&quot; &amp;lt; &lt;b&gt; &apos;", '" a " < < b > & apos ;'),
        ("a<skipped>b", "ab"),
        ("multi-\nline\ntext", "multiline text"),
        ("a\u00a0b\u3000c\u0085d\x1fe\u2028f", "a b c d e f"),
        ("  ", ""),
        ("", ""),
    ],
)
def test_13a(text, tokens):
    assert tokenize_13a(text) == tokens


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(st.sampled_from("a5.,-&;lt<>\"'/ \u00a0ü\ud800"), max_size=12), min_size=1, max_size=6))
def test_13a_of_a_block_is_13a_of_each_line(lines):
    assert tokenize_13a_block(lines) == [tokenize_13a(line) for line in lines]
