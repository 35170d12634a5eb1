"""ROUGE equals that of rouge-score, and stems equal those of nltk."""

from __future__ import annotations

import gzip
import json
import random
import re

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.metrics.rouge import rouge
from nlptools.text import stemming
from tests.real_data import published

rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
porter = pytest.importorskip("nltk.stem.porter")
pytestmark = pytest.mark.reference

KINDS = ["rouge1", "rouge2", "rouge3", "rouge9", "rougeL", "rougeLsum"]
COLUMNS = [f"{kind}:{part}" for kind in KINDS for part in ("precision", "recall", "f1")]
TEXT = "the cats sat on a mat running runs runner happily ponies 42 Über naïve -- . A's"
WORDS = TEXT.split()
SUFFIXES = "ed ing eed ied ies s sses ss y e ll at bl iz yy"  # those of the first and last steps


def theirs(references, predictions, stem):
    """The values of rouge-score: (N, M)."""
    scorer = rouge_scorer.RougeScorer(KINDS, use_stemmer=stem)
    made = [scorer.score_multi(list(texts), text) for *texts, text in zip(*references, predictions)]
    return np.array([[value for kind in KINDS for value in score[kind]] for score in made])


def check(references, predictions, stem=False):
    expected = theirs(references, predictions, stem)
    ours = rouge(references, predictions, COLUMNS, stem=stem)
    np.testing.assert_allclose(ours.rows.table[:, :-1], expected, rtol=0, atol=1e-12)
    values = ours.values()
    np.testing.assert_allclose(list(values.values()), expected.mean(axis=0), rtol=0, atol=1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stem", [False, True])
@pytest.mark.parametrize("num_references", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_random_texts(seed, num_references, stem):
    rng = random.Random(seed)

    def texts():
        return [
            "\n".join(" ".join(rng.choices(WORDS, k=rng.choice([0, 1, 3, 12]))) for _ in range(rng.randrange(5)))
            for _ in range(80)
        ]

    check([texts() for _ in range(num_references)], texts(), stem)


@settings(max_examples=examples(1000), deadline=None)
@given(st.text(st.sampled_from("abc \n"), max_size=40), st.text(st.sampled_from("abc \n"), max_size=40))
def test_few_words_in_many_orders(reference, prediction):
    """Three words of one letter: many longest common subsequences to choose from."""
    spaced = [" ".join(text).replace(" \n ", "\n") for text in (reference, prediction)]
    check([[spaced[0]]], [spaced[1]])
    check([[reference]], [prediction])


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text(max_size=30), min_size=3, max_size=3), st.booleans())
def test_any_text(texts, stem):
    check([[texts[0]], [texts[1]]], [texts[2]], stem)


@pytest.mark.parametrize("stem", [False, True])
def test_english(english, stem):
    rng = random.Random(5)
    texts = ["\n".join(english[i : i + 4]) for i in range(0, 400, 4)]
    noisy = [
        "\n".join(" ".join(rng.sample(line.split(), k=len(line.split()))) for line in t.split("\n")) for t in texts
    ]
    check([texts], noisy, stem)
    check([texts, texts[::-1]], noisy, stem)


# -- stems ------------------------------------------------------------------------------------------------------------


def check_stems(words):
    expected = porter.PorterStemmer()
    assert [w for w in words if stemming.stem(w) != expected.stem(w)] == []


def test_stems_of_english(english):
    words = set(re.findall(r"[a-z0-9]+", " ".join(english).lower()))
    assert len(words) > 3000
    check_stems(words)


def test_stems_of_words_made_of_suffixes():
    rng = random.Random(2)
    suffixes = [*stemming._STEP_2, *stemming._STEP_3, *stemming._STEP_4]
    suffixes += SUFFIXES.split()
    letters = "aeiybcstlz5"
    words = {
        "".join([*rng.choices(letters, k=rng.randrange(5)), *rng.choices(suffixes, k=rng.randrange(4))])
        for _ in range(40_000)
    }
    check_stems(words)


def test_mails_and_their_subjects():
    path = published("aeslc", "train.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        mails = [json.loads(line) for line in file]
    check_stems(set(re.findall(r"[a-z0-9]+", " ".join(mail["text"] for mail in mails).lower())))
    mails = [mail for mail in mails if len(mail["text"]) < 1500][:200]
    check([[mail["text"] for mail in mails]], [mail["text"][::2] + mail["subject"] for mail in mails[1:] + mails[:1]])
    check([[mail["subject"] for mail in mails]], [mail["text"] for mail in mails], stem=True)
