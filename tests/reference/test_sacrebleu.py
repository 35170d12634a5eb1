"""BLEU equals sacrebleu's: the score to the last bit, and the printed line."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools import __version__
from nlptools.metrics.bleu import corpus_bleu
from nlptools.text.mteval_blocks import tokenize_13a, tokenize_13a_block

sacrebleu = pytest.importorskip("sacrebleu")
pytestmark = pytest.mark.reference

WORDS = ["the", "The", "cat", "sat", "on", "a", "mat", ".", "3.5", "1,000", "x-ray", "don't", "(see", "„Hut“", "ü"]
QUIRKS = "ab01 \t.,,..--/\\&;:!?\"'()[]{}<>~^@#$%*+=_`|äß„“–…\u00a0\u3000\u2028\x1c\x0b\r\n日"


def check(hypotheses, references, tokenize="13a"):
    """Compare everything that a score consists of."""
    metric = sacrebleu.BLEU(tokenize=tokenize)
    theirs = metric.corpus_score(hypotheses, references)
    ours = corpus_bleu(hypotheses, references, tokenize=tokenize)
    assert ours.score == theirs.score  # equal, not about equal
    assert list(ours.precisions) == theirs.precisions
    assert (list(ours.counts), list(ours.totals)) == (theirs.counts, theirs.totals)
    assert (ours.bp, ours.sys_len, ours.ref_len) == (theirs.bp, theirs.sys_len, theirs.ref_len)
    for width in (1, 2, 6):
        line = theirs.format(width=width, signature=str(metric.get_signature()))
        assert ours.line(width) == line.replace(f"version:{sacrebleu.__version__}", f"version:nlptools-{__version__}")


@pytest.mark.parametrize("tokenize", ["13a", "none"])
@pytest.mark.parametrize("num_references", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_random_segments(seed, num_references, tokenize):
    rng = random.Random(seed)

    def segments():
        return [" ".join(rng.choices(WORDS, k=rng.choice([0, 1, 2, 3, 5, 12, 40]))) for _ in range(60)]

    check(segments(), [segments() for _ in range(num_references)], tokenize)


@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_english(english, tokenize):
    rng = random.Random(7)
    noisy = []
    for line in english:
        words = line.split()
        if len(words) > 2:
            i = rng.randrange(len(words))
            words[i : i + 2] = reversed(words[i : i + 2])
            del words[rng.randrange(len(words))]
        noisy.append(" ".join(words))
    check(noisy, [english], tokenize)
    check(english, [noisy, english[::-1]], tokenize)


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        (["a b c d"], [["a b c d"]]),
        (["a b c"], [["a b c"]]),
        (["a"], [["a"]]),
        (["a"], [["b"]]),
        ([""], [[""]]),
        (["", "a b c d e"], [["x", ""], ["", "a b c d e"]]),
        (["a b c d e f"], [["a b c d"], ["a b c d e f g h"]]),
        (["the the the the the"], [["the cat the"], ["the the the mat"]]),
        (["1990. 3,a ... 1,000-2,000 a..5 7..5 7...5 .,5 5.,5"], [["1990 . 3 , a 1,000 - 2,000 a..5 .5 . , 5"]]),
        (["&quot;x&amp;lt;&gt;&apos; <skipped>y a\u00a0b"], [["\"x&lt;> ' y a b"]]),
        (["x \r y", "trailing \x1f ", "end-\n", "a-\nb"], [["x y", "trailing", "end -", "ab"]]),
        (["no match at all here"] * 3, [["völlig anders als jenes dort"] * 3]),
    ],
)
@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_corner_cases(hypotheses, references, tokenize):
    check(hypotheses, references, tokenize)


@settings(max_examples=1500, deadline=None)
@given(st.text(st.sampled_from(QUIRKS), max_size=16))
def test_13a_of_quirks(text):
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert tokenize_13a(text) == Tokenizer13a()(text)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.text(st.sampled_from("a5.,- "), max_size=10), min_size=1, max_size=8))
def test_13a_of_runs_of_points(lines):
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert tokenize_13a_block(lines) == [Tokenizer13a()(line) for line in lines]


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=30))
def test_13a_of_any_text(text):
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    assert tokenize_13a(text) == Tokenizer13a()(text)


def test_13a_of_every_character():
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    lines = [f"a{c}5{c}{c}b" for c in map(chr, range(0x11000)) if not 0xD800 <= ord(c) < 0xE000 and c != "\n"]
    theirs = Tokenizer13a()
    assert tokenize_13a_block(lines) == [theirs(line) for line in lines]


@pytest.mark.skipif("NLPTOOLS_DATA" not in os.environ, reason="NLPTOOLS_DATA names no folder of data")
@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_translations_of_wmt17(tokenize):
    folder = Path(os.environ["NLPTOOLS_DATA"]) / "wmt17_en_de_systems"
    reference, *systems = (path.read_text(encoding="utf-8").split("\n")[:-1] for path in sorted(folder.glob("*.de")))
    for system in systems:
        check(system, [reference], tokenize)
    check(systems[0], [reference, *systems[1:4]], tokenize)
