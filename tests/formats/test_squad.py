"""SQuAD's files: questions, predictions and odds, and refusals that name the place."""

from __future__ import annotations

import json

import pytest

from nlptools.errors import DataError
from nlptools.formats.squad import gold_answers, read_no_answer, read_predictions


@pytest.fixture
def write(tmp_path):
    def write(value):
        path = tmp_path / "file.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
        return str(path)

    return write


def dataset(*qas):
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [*qas]}]}]}


def test_files(write):
    qas = (
        {"id": "a", "question": "?", "answers": [{"text": "x\u2028y", "answer_start": 0}, {"text": "z"}]},
        {"id": 7, "answers": [], "is_impossible": True, "plausible_answers": [{"text": "no"}]},
    )
    assert [*gold_answers(write(dataset(*qas)))] == [("a", ("x\u2028y", "z")), ("7", ())]
    assert read_predictions(write({"a": "", "7": "é"})) == {"a": "", "7": "é"}
    assert read_no_answer(write({"a": -3, "7": 1e-3})) == {"a": -3.0, "7": 0.001}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"data": [\n\n}', r"file\.json:3: not valid JSON: "),
        ("[" * 200_000, r"file\.json: not valid JSON: "),
        ([], "expected a JSON object, found a list"),
        ({}, "data is missing, expected a list"),
        ({"data": [3]}, r"data\[0\] is a number, expected an object"),
        ({"data": [{"paragraphs": "x"}]}, r"data\[0\]\.paragraphs is text, expected a list"),
        ({"data": [{"paragraphs": [{}]}]}, r"data\[0\]\.paragraphs\[0\]\.qas is missing"),
        ({"data": []}, "no questions"),
        (dataset({"answers": []}), r"qas\[0\]\.id is missing, expected text"),
        (dataset({"id": True, "answers": []}), r"qas\[0\]\.id is true or false"),
        (dataset({"id": "a"}), r"qas\[0\]\.answers is missing"),
        (dataset({"id": "a", "answers": [{"text": 1}]}), r"json:11: .*answers\[0\]\.text is a number"),
    ],
)
def test_malformed_questions(write, value, message):
    with pytest.raises(DataError, match=message):
        list(gold_answers(write(value)))


def test_malformed_predictions(write):
    with pytest.raises(DataError, match=r"file\.json:3: the prediction of question 'b' is missing, expected text"):
        read_predictions(write({"a": "x", "b": None}))
    with pytest.raises(DataError, match="found text"):
        read_predictions(write('"x"'))


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("NaN", "not a finite number"),
        ("-Infinity", "not a finite number"),
        ("1e999", "not a finite number"),
        ("1" + "0" * 400, "not a finite number"),
        ('"0.5"', "are text, expected a number"),
        ("true", "are true or false, expected a number"),
        ("[1]", "are a list, expected a number"),
    ],
)
def test_malformed_odds(write, number, message):
    with pytest.raises(DataError, match=r"file\.json:3: the odds of question 'ü' .*" + message):
        read_no_answer(write(f'{{"a": 0.5,\n\n"ü": {number}}}'))


def test_odds_with_more_digits_than_python_reads(write):
    with pytest.raises(DataError, match=r"file\.json: not valid JSON"):
        read_no_answer(write(f'{{"a": {"9" * 5000}}}'))
