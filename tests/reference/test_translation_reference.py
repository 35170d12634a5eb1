"""chrF and TER equal sacrebleu's, in every statistic and to the last bit of every score."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from conftest import examples, this_month
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.metrics.translation import ter_shifts
from nlptools.metrics.translation.chrf import Chrf
from nlptools.metrics.translation.ter import Ter
from nlptools.metrics.translation.ter_tokens import split_ter
from tests.real_data import published

sacrebleu = pytest.importorskip("sacrebleu")
pytestmark = pytest.mark.reference

CHRF = [
    {},
    {"word_order": 2},
    {"word_order": 2, "eps_smoothing": True},
    {"char_order": 3, "word_order": 4, "beta": 1, "lowercase": True},
    {"whitespace": True, "beta": 3},
    {"char_order": 0, "word_order": 2},
]
TER = [
    {},
    {"case_sensitive": True},
    {"normalized": True},
    {"no_punct": True},
    {"normalized": True, "asian_support": True},
    {"normalized": True, "no_punct": True, "asian_support": True, "case_sensitive": True},
]
BOTH = [*((Chrf(**k), sacrebleu.CHRF(**k)) for k in CHRF), *((Ter(**k), sacrebleu.TER(**k)) for k in TER)]
WORDS = [
    "the",
    "The",
    "cat's",
    "sat",
    "on",
    "a",
    "a",
    ",",
    "mat.",
    "3.5",
    "(x-ray)",
    "„Hut“",
    "ßΣ",
    "日本。",
    "é!..",
    "'s",
]
SPACES = [" ", " ", " ", "  ", "\u00a0", "\n", "\t", ""]
QUIRKS = "aB's19.,-\n \u00a0&;\"(!/~Σひカㇰ漢㐀㈱㌀。・（\u3000\ud800&qmplt"


def check(ours, theirs, hypotheses, references):
    """Compare all that a score consists of."""
    total = theirs.corpus_score(hypotheses, references)
    expected = np.array(theirs._extract_corpus_statistics(hypotheses, references))
    table = ours.statistics(hypotheses, references)
    assert np.array_equal(table, expected)
    assert ours.score(table.sum(axis=0)).score == total.score
    assert ours.name == total.name
    for row in table[:20]:
        assert ours.score(row).score == theirs._compute_score_from_stats(row.tolist()).score
    signature = str(theirs.get_signature()).split("|")[1:-1]
    assert [":".join(pair) for pair in ours.signature()] == signature


def ids(pair):
    return f"{pair[0]}"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("num_references", [1, 2, 3])
@pytest.mark.parametrize("pair", BOTH, ids=ids)
def test_random_segments(pair, num_references):
    rng = random.Random(num_references)

    def segment():
        return rng.choice(SPACES).join(rng.choices(WORDS, k=rng.choice([0, 1, 2, 3, 5, 8, 14])))

    hypotheses = [segment() for _ in range(30)]
    references = [[segment() for _ in range(30)] for _ in range(num_references)]
    check(*pair, hypotheses, references)
    rows = [
        [reference if i == 0 or rng.random() < 0.6 else None for i, reference in enumerate(row)]
        for row in zip(*references)
    ]
    for row in rows:
        rng.shuffle(row)
    rows[0] = list(next(zip(*references)))  # sacrebleu looks at the first segment to see what it got
    check(*pair, hypotheses, list(zip(*rows)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pair", BOTH, ids=ids)
def test_english(english, pair):
    rng = random.Random(7)
    lines = english[:150]
    noisy = []
    for line in lines:
        words = line.split()
        for _ in range(rng.randrange(4)):
            i, j = sorted(rng.choices(range(len(words) + 1), k=2))
            words = words[j:] + words[i:j] + words[:i]
        words[: rng.randrange(2)] = []
        noisy.append(" ".join(words))
    check(*pair, noisy, [lines])
    check(*pair, lines[:50], [noisy[:50], lines[50:100]])


@pytest.mark.parametrize("pair", BOTH, ids=ids)
@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        ([""], [[""]]),
        (["", "a"], [["a", ""], ["", ""]]),
        (["a b c"], [["a b c"], ["a b c"]]),
        (["a"], [["b"], ["bcd e"]]),
        (["the the the the the"], [["the cat the"]]),
    ],
)
def test_corner_cases(pair, hypotheses, references):
    check(*pair, hypotheses, references)


@pytest.mark.parametrize("seed", this_month(range(4), 1))
def test_edits_and_shifts(seed):
    from sacrebleu.metrics.lib_ter import translation_edit_rate

    rng = random.Random(seed)
    pairs = []
    for _ in range(40):
        types = rng.choice([3, 10, 100, 1000])
        size = rng.choice([1, 3, 8, 20, 40, 63, 64, 65]) if types > 10 else rng.choice([2, 10, 20])
        reference = [rng.randrange(types) for _ in range(size)]
        hypothesis = list(reference)
        for _ in range(rng.randrange(8)):
            i = rng.randrange(len(hypothesis))
            block = hypothesis[i : i + rng.randrange(1, 14)]
            del hypothesis[i : i + len(block)]
            k = rng.randrange(len(hypothesis) + 1)
            hypothesis[k:k] = block
            hypothesis[rng.randrange(len(hypothesis))] = rng.randrange(types)
        if rng.random() < 0.3:  # far from the diagonal
            hypothesis = hypothesis[rng.randrange(len(hypothesis)) :] + [rng.randrange(types)] * rng.randrange(60)
        pairs.append((hypothesis, reference))
    assert ter_shifts.edits(pairs).tolist() == [translation_edit_rate(*pair)[0] for pair in pairs]
    banded = sum(ter_shifts._Pair(*pair).banded for pair in pairs)
    assert 0 < banded < 30


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text(st.sampled_from(QUIRKS), max_size=12), min_size=1, max_size=6))
def test_tokens_of_quirks(lines):
    from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

    for options in product([False, True], repeat=4):
        theirs = TercomTokenizer(*options)
        names = ("normalized", "no_punct", "asian_support", "case_sensitive")
        ours = split_ter(lines, **dict(zip(names, options)))
        assert ours == [theirs(line.rstrip()).split() for line in lines]


def test_tokens_of_every_character():
    from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

    characters = [c for c in map(chr, range(0x10000)) if not 0xD800 <= ord(c) < 0xE000]
    lines = [f"a{c}b 5{c}5 {c}'s{c}" for c in this_month(characters, 10_000)]
    for options in ((True, False, True, True), (False, True, True, False)):
        theirs = TercomTokenizer(*options)
        names = ("normalized", "no_punct", "asian_support", "case_sensitive")
        assert split_ter(lines, **dict(zip(names, options))) == [theirs(line.rstrip()).split() for line in lines]


def test_translations_of_wmt17():
    folder = published("wmt17_en_de_systems")
    lines = {path.name: path.read_text(encoding="utf-8").split("\n")[:-1] for path in folder.glob("*.de")}
    reference = lines["newstest2017-ref.de"]

    def score(metric, name):
        return metric.score(metric.statistics(lines[f"newstest2017.{name}.de"], [reference]).sum(axis=0)).score

    # sacrebleu 2.6
    assert score(Chrf(), "C-3MA.4959") == 51.95328040239268
    assert score(Chrf(), "LIUM-NMT.4900") == 55.92837490341378
    assert score(Chrf(word_order=2), "C-3MA.4959") == 49.16975151800492
    assert score(Chrf(eps_smoothing=True), "C-3MA.4959") == 51.9532755985333
    assert score(Chrf(word_order=2, eps_smoothing=True), "C-3MA.4959") == 49.16832873863175
    assert score(Chrf(whitespace=True), "C-3MA.4959") == 56.17463609299834
    # tercom itself
    rates = {
        "C-3MA.4959": 66.9,
        "FBK.4870": 63.6,
        "LIUM-NMT.4900": 63.3,
        "online-B.0": 63.2,
        "uedin-nmt.4722": 61.2,
    }
    for name, rate in rates.items():
        assert score(Ter(), name) == pytest.approx(rate, abs=0.1)
    check(Ter(), sacrebleu.TER(), lines["newstest2017.online-F.0.de"][:500], [reference[:500]])
