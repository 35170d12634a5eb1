"""Contexts with endings as rows: by hand, and what is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.errors import UsageError
from nlptools.formats.examples import Choice, Place
from nlptools.tasks.choice.features import choice_features, cut_pair
from tests.tasks.span_tokenizers import PAD, encoding, letters, shown

LETTERS = letters()
HERE = Place("-", 1)


def test_by_hand():
    examples = [Choice("ab c", ("d", "e f"), 1, HERE), Choice("", ("x", "", "y"), None, HERE)]
    features = choice_features(examples, encoding(LETTERS, 20))
    rows = np.arange(5)
    batch = features.rows.batch(rows, PAD)
    assert [" ".join(shown(LETTERS, ids[mask])) for ids, mask in zip(batch.ids, batch.mask)] == [
        "[CLS] a ##b c [SEP] d [SEP]",
        "[CLS] a ##b c [SEP] e f [SEP]",
        "[CLS] [SEP] x [SEP]",
        "[CLS] [SEP] [SEP]",
        "[CLS] [SEP] y [SEP]",
    ]
    assert batch.types[1].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert features.examples.tolist() == [0, 2, 5]
    assert features.cut == 0


def test_what_is_too_long():
    features = choice_features([Choice("a b c d", ("e", "f g h i j k"), 0, HERE)], encoding(LETTERS, 8))
    batch = features.rows.batch(np.arange(2), PAD)
    assert " ".join(shown(LETTERS, batch.ids[0])) == "[CLS] a b c d [SEP] e [SEP]"
    assert " ".join(shown(LETTERS, batch.ids[1])) == "[CLS] b c d [SEP] f g [SEP]"
    assert features.cut == 1
    with pytest.raises(UsageError, match="rows of 4 tokens"):
        choice_features([], encoding(LETTERS, 4))
    assert len(choice_features([], encoding(LETTERS, 5)).rows) == 0


@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 40))
def test_the_longer_side_is_cut(a, b, room):
    first, second = (int(length[0]) for length in cut_pair(np.array([a]), np.array([b]), room))
    while a + b > room:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    assert (first, second) == (a, b)
