"""BLEU: laws, counts worked out by hand, and the tokenizer's rules."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, DataError, InputError, UsageError
from nlptools.metrics import ngrams
from nlptools.metrics.translation import bleu as bleu_module
from nlptools.metrics.translation import corpus
from nlptools.metrics.translation.bleu import SMOOTH_VALUES, Bleu
from nlptools.metrics.translation.corpus import bleu
from nlptools.text.mteval import split_13a, split_intl, split_zh

PERFECT = 100.00000000000004  # what four logarithms of 100 make, here as in sacrebleu
SEGMENTS = st.lists(st.text(st.sampled_from("abc .,5"), max_size=14), min_size=1, max_size=12)


def noisy(lines, seed):
    """`lines` with some of their words in another order."""
    rng = random.Random(seed)
    return [" ".join(rng.sample(words, len(words)) if rng.random() < 0.3 else words) for words in map(str.split, lines)]


# -- counts -----------------------------------------------------------------------------------------------------------


def test_a_perfect_match_scores_100(english):
    assert bleu(english, [english]).score == PERFECT
    assert bleu(english[:9], [english[:9], english[9:18]]).score == PERFECT


@pytest.mark.parametrize("order", range(1, 7))
@pytest.mark.parametrize("smooth", SMOOTH_VALUES)
def test_a_perfect_match_of_every_order_and_smoothing(order, smooth):
    segments = ["one two three four five six seven", "a b c d e f"]
    assert bleu(segments, [segments], order=order, smooth=smooth).score == pytest.approx(100, rel=1e-15)


def test_counts_by_hand():
    score = bleu(["the the the cat"], [["the cat the mat"]], tokenize="none")
    # the: 2 of 3, cat: 1 of 1; bigrams: "the cat" of 3; no trigram, no 4-gram
    assert score.counts == (3, 1, 0, 0)
    assert score.totals == (4, 3, 2, 1)
    assert score.precisions == (75.0, 100 / 3, 25.0, 25.0)
    assert (score.sys_len, score.ref_len, score.bp) == (4, 4, 1.0)


def test_an_example_of_a_lecture():
    hypothesis, references = "the cat cat on the mat", ["the cat is on the mat", "there is a cat on the cat mat"]
    # every word stands in a reference, "cat" twice in the second; of the bigrams "the cat", "on the", "the mat" and
    # "cat on" do in one or the other, "cat cat" in none
    both = bleu([hypothesis], [[reference] for reference in references], order=2)
    assert (both.counts, both.totals) == ((6, 4), (6, 5))
    assert both.score == pytest.approx(100 * math.sqrt(1 * 4 / 5))
    # without the second one "cat" is too many and "cat on" is lost
    first = bleu([hypothesis], [references[:1]], order=2)
    assert (first.counts, first.totals) == ((5, 3), (6, 5))
    # every word once more, and three of five bigrams: "the cat", "on the" and "the mat"
    third = bleu([hypothesis], [["cat the cat , on the mat"]], order=2)
    assert (third.counts, third.totals, third.precisions) == ((6, 3), (6, 5), (100.0, 60.0))
    assert third.score == pytest.approx(math.exp(1 - 7 / 6) * 100 * math.sqrt(3 / 5))
    assert bleu([hypothesis], [["cat the cat , on the mat"]], order=1).score == pytest.approx(100 * math.exp(1 - 7 / 6))


def test_clipping_takes_the_largest_count_of_any_reference():
    score = bleu(["a a a b"], [["a b"], ["a a c"]], tokenize="none")
    assert score.counts[:2] == (3, 2)  # a twice, b once; "a a" once, "a b" once


@pytest.mark.parametrize(("references", "length"), [([4, 8], 4), ([8, 4], 4), ([5, 8], 5), ([7], 7), ([9, 3, 7], 7)])
def test_the_nearest_reference_length_and_of_two_the_shorter(references, length):
    score = bleu(["x " * 6], [["x " * n] for n in references], tokenize="none")
    assert score.ref_len == length


def test_a_reference_that_is_not_there_is_none():
    score = bleu(["a b c d", "a b c d"], [["a b c d x", "a b c d x"], [None, "a b c d"]])
    assert (score.ref_len, score.counts) == (9, (8, 6, 4, 2))
    assert score.signature.startswith("nrefs:var|")
    empty = bleu(["a b c d", "a b c d"], [["a b c d x", "a b c d x"], ["", "a b c d"]])
    assert empty.signature.startswith("nrefs:2|"), "an empty one is a reference"
    assert bleu(["a", "b"], [["a", None], [None, "b"]]).signature.startswith("nrefs:1|")
    with pytest.raises(DataError, match="text 2 has no reference"):
        bleu(["a", "b"], [["a", None]])


def test_short_segments_and_no_matches_score_0():
    assert bleu(["a b c"], [["a b c"]]).score == 0.0
    assert bleu(["a b c"], [["a b c"]], effective_order=True).score == pytest.approx(100)
    assert bleu(["a b c d e"], [["f g h i j"]]).precisions == (0.0, 0.0, 0.0, 0.0)
    empty = bleu(["", ""], [["", "a"]])
    assert (empty.score, empty.bp, empty.sys_len, empty.ref_len) == (0.0, 0.0, 0, 1)
    assert "ratio = 0.000" in bleu([""], [[""]]).line()


def test_brevity():
    score = bleu(["a b c d"], [["a b c d e f"]])
    assert score.bp == pytest.approx(np.exp(1 - 6 / 4))
    assert score.score == pytest.approx(100 * score.bp)


def test_smoothings_by_hand():
    pair = ["a b x y e"], [["a b c d e"]]  # 3/5, 1/4, 0/3, 0/2
    assert bleu(*pair).precisions == (60.0, 25.0, 100 / 6, 100 / 8)
    assert bleu(*pair, smooth="none").score == 0.0
    assert bleu(*pair, smooth="floor").precisions == (60.0, 25.0, 100 * 0.1 / 3, 100 * 0.1 / 2)
    assert bleu(*pair, smooth="floor", smooth_value=0.5).precisions == (60.0, 25.0, 50 / 3, 50 / 2)
    added = bleu(*pair, smooth="add-k")
    assert (added.counts, added.totals) == ((3, 2, 1, 1), (5, 5, 4, 3))
    assert bleu(*pair, smooth="add-k", smooth_value=2).precisions == (60.0, 50.0, 40.0, 50.0)


def test_examples_that_others_have_published():
    # the tests of sacrebleu: two references, and a pair of Romanian sentences
    hypotheses = ["this is the second test .", "and this is the third ."]
    assert bleu(hypotheses, [hypotheses, ["x", "y"]], tokenize="none").score == PERFECT
    with_counts = Bleu().score(np.array([11, 11, 9, 7, 5, 3, 10, 8, 6, 4]))
    assert with_counts.score / 100 == pytest.approx(0.8375922397)


def test_the_statistics_of_a_concatenation_are_the_sum(english):
    hypotheses, references = english[:500], [english[1:501], english[2:502]]
    whole = Bleu().statistics(hypotheses, references)
    one_by_one = [Bleu().statistics([h], [[r] for r in rs]) for h, *rs in zip(hypotheses, *references, strict=True)]
    assert np.array_equal(whole, np.concatenate(one_by_one))
    score = bleu(hypotheses, references)
    total = whole.sum(axis=0).tolist()
    assert (score.sys_len, score.ref_len, *score.counts, *score.totals) == tuple(total)
    assert whole.dtype == np.int64
    assert len(Bleu().columns) == whole.shape[1] == 10


# -- laws -------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(SEGMENTS, st.sampled_from(["13a", "intl", "zh", "char", "none"]), st.booleans())
def test_a_text_against_itself(segments, tokenize, lowercase):
    score = bleu(segments, [segments], tokenize=tokenize, lowercase=lowercase)
    assert score.score == (PERFECT if score.totals[3] else 0.0)
    assert score.counts == score.totals


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(*[st.text(st.sampled_from("ab .,5"), max_size=14)] * 3), min_size=1), st.randoms())
def test_the_order_of_segments_and_of_references_does_not_matter(rows, rng):
    hypotheses, *references = zip(*rows)
    expected = bleu(hypotheses, references)
    hypotheses, *references = zip(*rng.sample(rows, len(rows)))
    assert bleu(hypotheses, references) == expected
    assert bleu(hypotheses, references[::-1]) == expected


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(*[st.text(st.sampled_from("ab .,5"), max_size=14)] * 2), min_size=1), st.data())
def test_another_reference_never_lowers_a_count(rows, data):
    hypotheses, references = map(list, zip(*rows))
    more = data.draw(st.permutations(references))
    one, two = bleu(hypotheses, [references]), bleu(hypotheses, [references, more])
    assert all(a <= b for a, b in zip(one.counts, two.counts))
    assert 0 <= two.score <= PERFECT


@pytest.mark.parametrize("size", [1, 7, 300, 5000])
def test_block_size_does_not_matter(size, english, monkeypatch):
    pair = noisy(english[:900], 1), [english[:900], english[3:903]]
    expected = bleu(*pair)
    monkeypatch.setattr(Bleu, "segments_at_once", size)
    monkeypatch.setattr(corpus, "BLOCK", size)
    assert bleu(*pair) == expected


def test_words_forgotten_between_blocks_do_not_matter(english, monkeypatch):
    pair = noisy(english[:400], 2), [english[:400]]
    expected = bleu(*pair)
    monkeypatch.setattr(Bleu, "segments_at_once", 9)
    monkeypatch.setattr(bleu_module, "MOST_IDS", 20)
    metric = Bleu()
    assert metric.score(metric.statistics(*pair).sum(axis=0)).score == expected.score
    assert len(metric._ids) < 500


def test_keys_too_large_for_64_bits_are_numbered_anew(english, monkeypatch):
    rng = random.Random(3)
    references = [" ".join(rng.choices(line.split(), k=8)) for line in english[:300]]
    expected = Bleu().statistics(english[:300], [references, english[5:305]])
    monkeypatch.setattr(ngrams, "KEY_BITS", 1)
    assert np.array_equal(Bleu().statistics(english[:300], [references, english[5:305]]), expected)


def test_one_long_segment_with_many_words():
    words = [f"w{i}" for i in range(70_000)]  # rank * width**3 passes 2**62
    swapped = words[:35_000] + words[35_001:] + words[35_000:35_001]
    table = Bleu(tokenize="none").statistics([" ".join(swapped)], [[" ".join(words)]])
    assert table[0, 2:6].tolist() == [70_000, 69_997, 69_995, 69_993]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("order", [1, 2, 4, 6])
@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize(("smooth", "value"), [*SMOOTH_VALUES.items(), ("floor", 0.0), ("add-k", 0.0), ("add-k", 2.5)])
def test_many_scores_at_once_are_scores_one_by_one(order, effective_order, smooth, value):
    metric = Bleu(order=order, effective_order=effective_order, smooth=smooth, smooth_value=value)
    rng = random.Random(order)
    texts = [[" ".join(rng.choices("abc", k=rng.randrange(9))) for _ in range(150)] for _ in range(3)]
    rows = metric.statistics(texts[0], texts[1:])
    rows = np.concatenate([rows, rows[:50] + rows[50:100], rows.cumsum(axis=0)[::10], np.zeros_like(rows[:1])])
    expected = [metric.score(row).score for row in rows]
    np.testing.assert_allclose(metric.scores(rows), expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(metric.scores(rows.astype(np.float64)), expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(metric.scores(rows.astype(np.float32)), expected, rtol=1e-5, atol=1e-4)


# -- use --------------------------------------------------------------------------------------------------------------


def test_refusals():
    with pytest.raises(DataError, match="no texts"):
        bleu([], [[]])
    with pytest.raises(DataError, match="unequal numbers of texts: 2 predictions, 1 in the reference"):
        bleu(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="1 predictions, 2 in reference 2 of 2"):
        bleu(["a"], [["a"], ["a", "b"]])
    with pytest.raises(DataError, match="unequal numbers of texts: 2 predictions, 1 in the reference"):
        Bleu().statistics(["a", "b"], [["a"]])
    for wrong in ((["a"], ["a"]), ("a", [["a"]]), (["a"], "a")):
        with pytest.raises(UsageError, match="list"):
            bleu(*wrong)
    with pytest.raises(UsageError, match="reference"):
        bleu(["a"], [])
    with pytest.raises(UsageError, match="reference"):
        Bleu().statistics(["a"], [])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tokenize": "xyz"}, UsageError, "no such tokenizer: 'xyz'"),
        ({"tokenize": "nowhere.model"}, InputError, r"nowhere\.model: no such file"),
        ({"smooth": "xyz"}, UsageError, "no such smoothing: 'xyz'"),
        ({"smooth": "exp", "smooth_value": 1.0}, UsageError, "'exp' takes no value"),
        ({"smooth": "none", "smooth_value": 1.0}, UsageError, "'none' takes no value"),
        ({"order": 0}, UsageError, "1 token or more"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        Bleu(**options)


def test_a_model_that_is_none(tmp_path):
    (tmp_path / "m.model").write_text("nothing of the kind")
    with pytest.raises(BundleError):
        Bleu(tokenize=str(tmp_path / "m.model"))


def test_unequal_numbers_far_down_are_all_counted():
    with pytest.raises(DataError, match="20000 predictions, 20001 in reference 1 of 2"):
        bleu(iter(["a"] * 20_000), [iter(["a"] * 20_001), ["a"] * 9])


def test_any_iterable_will_do_and_the_score_is_frozen():
    score = bleu(iter(["a b c d"]), [iter(["a b c d"])])
    assert score.score == PERFECT
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:nlptools-")
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.score = 1.0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "case:mixed|eff:no|tok:13a|smooth:exp"),
        ({"lowercase": True, "tokenize": "intl"}, "case:lc|eff:no|tok:intl|smooth:exp"),
        ({"effective_order": True, "smooth": "floor"}, "case:mixed|eff:yes|tok:13a|smooth:floor[0.10]"),
        ({"smooth": "add-k", "smooth_value": 0.25}, "case:mixed|eff:no|tok:13a|smooth:add-k[0.25]"),
        ({"smooth": "none", "order": 2}, "case:mixed|eff:no|tok:13a|smooth:none|order:2"),
    ],
)
def test_signatures(options, expected):
    assert "|".join(map(":".join, Bleu(**options).signature())) == expected


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
    assert split_13a([text]) == [tokens.split()]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text(st.sampled_from("a5.,-&;lt<>\"'/ \u00a0ü\ud800"), max_size=12), min_size=1, max_size=6))
def test_tokens_of_many_lines_are_those_of_each(lines):
    for split in (split_13a, split_intl, split_zh):
        rows = [split([line])[0] for line in lines]
        assert split(lines) == rows
        assert split(lines * 2000)[-len(lines) :] == rows


def test_the_option_knows_every_tokenizer():
    from nlptools.configs.bleu import TOKENIZERS
    from nlptools.text import mecab
    from nlptools.text.bleu_blocks import SEPARATE

    assert set(TOKENIZERS) == {*SEPARATE, *mecab.NAMES}


@pytest.mark.parametrize("smooth", SMOOTH_VALUES)
def test_without_matches_all_precisions_are_0(smooth):
    score = bleu(["a b c d e"], [["v w x y z"]], smooth=smooth)
    assert score.score == 0 and score.precisions == (0, 0, 0, 0)
    assert (score.counts, score.totals) == ((0, 0, 0, 0), (5, 4, 3, 2))


@pytest.mark.parametrize(("smooth", "effective_order"), [(s, e) for s in SMOOTH_VALUES for e in (False, True)])
def test_one_score_is_the_first_of_several(smooth, effective_order):
    rng = random.Random(3)
    texts = [[" ".join(rng.choices("abcde", k=rng.randrange(9))) for _ in range(80)] for _ in range(2)]
    metric = Bleu(smooth=smooth, effective_order=effective_order)
    table = metric.statistics(texts[0], texts[1:])
    assert [metric.score(row).score for row in table] == metric.scores(table).tolist()
