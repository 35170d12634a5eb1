"""Texts with three mentions as rows: by hand, and the file of GAP."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.formats.examples import Coreference, Place
from nlptools.formats.gap import read_coreference
from nlptools.formats.reading_options import Options
from nlptools.tasks.coreference.features import coreference_features
from tests.real_data import published
from tests.tasks.span_tokenizers import PAD, encoding, letters, minilm, shown

LETTERS = letters()


def mention(text, pronoun, a, b, label=None):
    def at(name):
        return name, text.index(name)

    return Coreference("1", text, *at(pronoun), *at(a), *at(b), label, Place("f", 7))


def spans(features):
    return features.targets["spans"].reshape(-1, 3, 2).tolist()


def test_by_hand():
    features = coreference_features([mention("Ann saw Bo, she did", "she", "Ann", "Bo", "A")], encoding(LETTERS, 30))
    batch = features.rows.batch(np.array([0]), PAD)
    assert " ".join(shown(LETTERS, batch.ids[0])) == "[CLS] a ##n ##n s ##a ##w b ##o [UNK] s ##h ##e d ##i ##d [SEP]"
    assert spans(features) == [[[10, 12], [1, 3], [7, 8]]]
    assert np.flatnonzero(batch.types[0]).tolist() == [1, 2, 3, 7, 8, 10, 11, 12]
    assert features.cut == 0


def test_what_is_too_long():
    text = "q w e r t A y u i o p B s d f g h C j k l"
    features = coreference_features([mention(text, "A", "B", "C", "neither")], encoding(LETTERS, 11))
    batch = features.rows.batch(np.array([0]), PAD)
    assert " ".join(shown(LETTERS, batch.ids[0])) == "[CLS] t a y p b s g? [SEP]".replace("g?", "h c j")
    assert spans(features) == [[[2, 2], [5, 5], [8, 8]]]
    assert features.cut == 1


def test_what_is_refused():
    with pytest.raises(DataError, match="f:7: pronoun and names have 8 tokens, more than the 6 of a row"):
        coreference_features([mention("ann bob him x", "him", "an", "bob")], encoding(LETTERS, 8))
    with pytest.raises(DataError, match=r"f:7: the tokenizer drops all of '\\x01'"):
        coreference_features([mention("a \x01 b", "\x01", "a", "b")], encoding(LETTERS, 8))
    with pytest.raises(UsageError, match="rows of 4 tokens"):
        coreference_features([], encoding(LETTERS, 4))
    assert len(coreference_features([], encoding(LETTERS, 5)).rows) == 0


@settings(deadline=None)
@given(st.lists(st.text("abcdefg", min_size=1, max_size=5), min_size=3, max_size=30), st.data())
def test_mentions_are_always_there(words, data):
    chosen = data.draw(st.lists(st.integers(0, len(words) - 1), min_size=3, max_size=3, unique=True))
    offsets = [sum(map(len, words[:n])) + n for n in chosen]
    pairs = [part for n, offset in zip(chosen, offsets) for part in (words[n], offset)]
    example = Coreference("1", " ".join(words), *pairs, None, Place("f", 1))
    least = sum(len(words[n]) for n in chosen)
    max_length = data.draw(st.integers(max(least, 3) + 2, 60))
    features = coreference_features([example], encoding(LETTERS, max_length))
    ids = features.rows.ids.tolist()
    assert len(ids) == min(max_length, sum(map(len, words)) + 2)
    for n, (first, last) in zip(chosen, spans(features)[0]):
        assert ids[first : last + 1] == LETTERS.encode(words[n])
        assert features.rows.types[first : last + 1].all()
    assert features.rows.types.sum() == least


def test_the_file_of_gap():
    tokenizer = minilm()
    examples = list(read_coreference(str(published("gap", "gap-development.tsv")), Options()))
    for max_length in (48, 512):
        features = coreference_features(examples, encoding(tokenizer, max_length))
        assert features.rows.lengths.max() <= max_length
        assert Counter(example.label for example in examples) == {"A": 874, "B": 925, "neither": 201}
        for n, example in enumerate(examples):
            row = features.rows.ids[features.rows.bounds[n] : features.rows.bounds[n + 1]]
            for name, (first, last) in zip((example.pronoun, example.name_a, example.name_b), spans(features)[n]):
                assert row[first : last + 1].tolist() == tokenizer.encode(name)
    assert features.cut == 0
