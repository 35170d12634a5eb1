"""Provisional ids of words by table and dictionary: the same as a dictionary alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.corpora.word_sequences import _END, _Places


def by_dictionary(places: _Places, chunks: list[bytes]) -> None:
    ids: dict[bytes, int] = {b"\n": _END}
    words: list[bytes] = []
    for chunk in chunks:
        found = places.ids(chunk)
        told = places.words()
        expected = [word for word in chunk.replace(b"\n", b" \n ").split(b" ") if word]
        assert [told[id] for id in found.tolist()] == expected
        words += expected
        for word, id in zip(expected, found.tolist(), strict=True):
            assert ids.setdefault(word, id) == id
    assert set(places.words()) == {b"\n", *words} and len(places.words()) == len(set(places.words()))


word = st.binary(max_size=20).map(lambda raw: raw.replace(b" ", b"").replace(b"\n", b""))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.tuples(word, st.sampled_from([b" ", b"\n", b"  ", b"\n\n"]))), max_size=5))
def test_any_bytes(chunks):
    by_dictionary(_Places(), [b"".join(a + b for a, b in chunk) for chunk in chunks])


@pytest.mark.parametrize("bits", [1, 4, 17])
def test_places_that_many_words_want(bits):
    generator = random.Random(bits)
    names = [bytes(generator.choices(b"ab\0c", k=generator.randint(1, 18))) for _ in range(300)]
    chunks = [b" ".join(generator.choices(names, k=500)) + b"\n" for _ in range(8)]
    by_dictionary(_Places(bits), chunks)


def test_words_that_differ_in_length_or_in_zeros_alone():
    places = _Places()
    found = places.ids(b"a a\0 a\0\0 aaaaaaaa aaaaaaaa\0 aaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa a\n")
    assert found.tolist() == [1, 2, 3, 4, 5, 6, 7, 1, _END]
    assert np.array_equal(places.ids(b"a\0 aaaaaaaaaaaaaaaa "), [2, 7])
