"""Numbers as text are short and give the same number again."""

from __future__ import annotations

import json

import numpy as np
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nlptools.vectors.files.decimals import decimals, floats


@settings(max_examples=examples(100), deadline=None)
@given(arrays("float32", 20, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_decimals_are_exact_and_short(values: np.ndarray) -> None:
    for text, value in zip(decimals(values), values, strict=True):
        assert np.float32(float(text)) == value
        assert float(json.loads(text)) == float(text) and len(text) <= len("-1.23456789e-05")


def test_decimals_by_hand() -> None:
    assert decimals(np.array([0.1, 1, -0.5, 16777216, 1e-10], np.float32)) == ["0.1", "1", "-0.5", "16777216", "1e-10"]
    assert decimals(np.array([0.1, 65504, 2.5], np.float16)) == ["0.09998", "6.55e+04", "2.5"]
    assert decimals(np.array([], np.float32)) == []


@given(arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
@settings(max_examples=examples(80))
def test_every_float32_survives_text(rows):
    text = " ".join(decimals(rows, (6, 9)))
    assert (floats(text.encode()) == rows.ravel()).all()


def test_numbers_are_short_where_they_can_be():
    values = np.array([0.1, 0.418, -1, 1e-5, 1 / 3], np.float32)
    assert decimals(values, (6, 9)) == ["0.1", "0.418", "-1", "1e-05", "0.333333343"]
