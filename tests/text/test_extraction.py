"""Sentences, and summaries made of them: cases done by hand, and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.errors import UsageError
from nlptools.text.extraction import METHODS, choose, extract, sentences_of, text_rank
from tests.real_data import published

TEXTS = st.text("ab AB1.!?\"')…。\n\t", max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It cost 3.50 at example.com today. Fine.", ["It cost 3.50 at example.com today.", "Fine."]),
        ("Mr. Smith met J. K. Rowling. They talked.", ["Mr. Smith met J. K. Rowling.", "They talked."]),
        ("The U.S. Senate met. No. 5 won. No. That lost.", ["The U.S. Senate met.", "No. 5 won.", "No.", "That lost."]),
        ("So do I. You too.", ["So do I.", "You too."]),
        ("well ... he said. and so on", ["well ... he said. and so on"]),
        ('He said "stop." (She did.) Then "Go."', ['He said "stop."', "(She did.)", 'Then "Go."']),
        ("Wait... What?! 5 of them. – Ours.", ["Wait...", "What?!", "5 of them.", "– Ours."]),
        ("1. Read this. 2. Sign it in 2001. Thanks", ["1. Read this.", "2. Sign it in 2001.", "Thanks"]),
        ("Dear Ann\nthis is new\n", ["Dear Ann", "this is new"]),
        ("今日は。明日も！次", ["今日は。", "明日も！", "次"]),
    ],
)
def test_sentences(text, expected):
    assert sentences_of(text) == expected


@given(TEXTS)
def test_sentences_are_the_text_in_order_and_nothing_else(text):
    assert "".join("".join(sentences_of(text)).split()) == "".join(text.split())
    assert all(s == s.strip() != "" for s in sentences_of(text))


@given(TEXTS, TEXTS)
def test_a_line_end_is_always_an_end(first, second):
    assert sentences_of(f"{first}\n{second}") == sentences_of(first) + sentences_of(second)


def test_two_sentences_that_share_a_word_vote_for_each_other_alone():
    assert text_rank(["the cat sat", "a cat ran", "nothing else here"]) == pytest.approx([1, 1, 0.15])


def test_the_ranks_of_a_chain_by_hand():
    """Ends vote only for the middle; it splits its vote by weights 1/log 4 and 1/log 6 (lengths 2 and 2, 2 and 3)."""
    left, right = 1 / math.log(4), 1 / math.log(6)
    middle = (0.15 + 2 * 0.85 * 0.15) / (1 - 0.85 * 0.85)
    ends = [0.15 + 0.85 * middle * weight / (left + right) for weight in (left, right)]
    assert text_rank(["a x", "x b.", "B, c d"]) == pytest.approx([ends[0], middle, ends[1]])


def test_sentences_of_one_word_have_no_weight_between_them():
    assert text_rank(["Yes.", "Yes!"]).tolist() == pytest.approx([0.15, 0.15])


@given(st.lists(st.text("abc ", max_size=12), max_size=8), st.randoms())
def test_the_order_of_the_sentences_moves_no_rank(sentences, random):
    order = list(range(len(sentences)))
    random.shuffle(order)
    shuffled = text_rank([sentences[i] for i in order])
    assert np.allclose(shuffled, text_rank(sentences)[order])


@given(st.lists(st.text("abc ", max_size=12), min_size=1, max_size=8))
def test_ranks_are_shared_out(sentences):
    scores = text_rank(sentences)
    voters = scores > 0.15 + 1e-9
    assert scores.sum() == pytest.approx(voters.sum() + 0.15 * (~voters).sum())


def test_the_best_sentences_come_in_the_order_of_the_text():
    text = "Hello all. The cat sat on the mat. Dogs bark. The cat left the mat. A cat on a mat is happy."
    assert choose(sentences_of(text), 2) == [1, 3]
    assert extract(text) == "The cat sat on the mat."
    assert extract(text, 2) == "The cat sat on the mat. The cat left the mat."
    assert extract(text, 2, "lead") == "Hello all. The cat sat on the mat."


def test_of_equals_the_first_is_taken():
    assert choose(["One two.", "Three four.", "Five six."]) == [0]


@pytest.mark.parametrize("method", METHODS)
@given(text=TEXTS, number=st.integers(1, 4))
def test_a_summary_is_one_line_made_of_sentences(method, text, number):
    sentences = sentences_of(text)
    chosen = choose(sentences, number, method)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(number, len(sentences))
    assert extract(text, number, method) == " ".join(" ".join(sentences[i].split()) for i in chosen)
    assert "\n" not in extract(text, number, method)
    if number >= len(sentences):
        assert extract(text, number, method).split() == " ".join(sentences).split()


def test_an_unknown_method_is_refused():
    with pytest.raises(UsageError, match="lead, textrank"):
        extract("A.", method="magic")


def test_first_sentences_of_mails():
    import json

    path = published("aeslc", "dev.jsonl")
    bodies = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").split("\n")[:200] if line]
    for body in bodies:
        for method in METHODS:
            assert extract(body, 1, method) in " ".join(body.split())
