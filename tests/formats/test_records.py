"""Tables between commas, Parquet and RTE's XML: every task reads them through one reader."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.formats import records
from nlptools.formats.lines import InputLines
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.formats.texts import columns_with, header_with

CSV = 'review,"stars, of five",sentiment\n"Good, ""really""\nand long",5,pos\nbad,1,neg\n'


def examples(tmp_path: Path, task: str, text: str, name: str, **options: Any) -> list[Any]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return list(read(task, [str(tmp_path / name)], Options(**options)))


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    files.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


FIELD = st.text(st.characters(blacklist_characters="\ufeff\0", blacklist_categories=("Cs",)), max_size=6)


@given(st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=5))
def test_what_csv_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "f.csv"
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    path.write_bytes(text.getvalue().encode())
    found = list(records.rows(InputLines(str(path)), records.COMMA))
    assert [tuple(fields) for _, fields in found] == rows
    lines = text.getvalue().split("\n")
    for number, fields in found:
        assert fields[0].split("\n")[0].replace('"', '""') in lines[number - 1]


def test_columns_of_csv_by_their_names(tmp_path: Path) -> None:
    found = examples(tmp_path, "classify", CSV, "f.csv")
    assert [(e.texts[0], e.label, e.place.line) for e in found] == [
        ('Good, "really"\nand long', "pos", 2),
        ("bad", "neg", 4),
    ]
    stars = examples(tmp_path, "regress", CSV, "f.csv", label_column="stars, of five")
    assert [(e.texts, e.label) for e in stars] == [((found[0].texts[0],), "5"), (("bad",), "1")]
    plain = examples(tmp_path, "classify", "a,x\nb,y\n", "f.csv")
    assert [(e.texts[0], e.label) for e in plain] == [("a", "x"), ("b", "y")]
    given_layout = examples(tmp_path, "classify", "a,x\nb,y\n", "f.txt", layout="csv")
    assert [(e.texts[0], e.label) for e in given_layout] == [("a", "x"), ("b", "y")]


def test_predictions_go_back_into_csv(tmp_path: Path) -> None:
    found = examples(tmp_path, "classify", CSV, "f.csv", labelled=False)
    header = header_with(found[0], ["prediction"])
    assert header == 'review,"stars, of five",sentiment,prediction'
    lines = [header, *(columns_with(e, {"prediction": "a,b"}) for e in found)]
    assert list(csv.reader(io.StringIO("\n".join(lines))))[1:] == [
        ['Good, "really"\nand long', "5", "pos", "a,b"],
        ["bad", "1", "neg", "a,b"],
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('text,label\n"a,x\nb,y\n', 2, "malformed CSV"),
        ('text,label\na,x\n"b" c,y\n', 3, "malformed CSV"),
        ("text,label\na,x\nb, c,y\n", 3, "3 fields, expected 2"),
        ("text,label\rcalm,ok\rstorm,no\r", 1, "end at a carriage return alone"),
        ("text,label,label\na,x,y\n", 1, "two columns have the name 'label'"),
        ("text;label\na;x\nb;y\n", 1, "1 column, expected 2"),
    ],
)
def test_malformed_csv_is_reported_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(DataError, match=rf"f\.csv:{line}: .*{message}") as caught:
        examples(tmp_path, "classify", text, "f.csv")
    assert caught.value.hint


def test_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f.parquet", [{"text": "a\nb", "label": 1, "id": 7}, {"text": "c", "label": 0, "id": 8}])
    found: list[Any] = list(read("classify", [str(path)]))
    assert [(e.texts[0], e.label, e.id) for e in found] == [("a\nb", "1", "7"), ("c", "0", "8")]
    assert json.loads(columns_with(found[0], {"prediction": "0"})) == {
        "text": "a\nb",
        "label": 1,
        "id": 7,
        "prediction": "0",
    }
    answers = {"text": ["Rome"], "answer_start": [9]}
    path = parquet(
        tmp_path / "q.parquet",
        [{"id": "5", "question": "Where?", "context": "Ann's in Rome", "answers": answers}],
    )
    (question,) = list(read("answer", [str(path)]))
    assert question.answers[0].text == "Rome"  # type: ignore[union-attr]
    endings = [{"ctx": "a", "endings": ["b", "c"], "label": "1"}]
    (choice,) = list(read("choice", [str(parquet(tmp_path / "c.parquet", endings))]))
    assert (choice.endings, choice.label) == (("b", "c"), 1)  # type: ignore[union-attr]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=r"bad\.parquet:1: cannot be read as Parquet"):
        list(read("classify", [str(tmp_path / "bad.parquet")]))


RTE = """<?xml version="1.0" encoding="UTF-8"?>
<entailment-corpus>
<pair id="1" entailment="YES" task="IE"><t>Ann &amp; Bob
slept.</t><h>Ann slept.</h></pair>
<pair id="2" value="FALSE"><t>a</t><h>b</h></pair>
</entailment-corpus>
"""


def test_pairs_of_rte(tmp_path: Path) -> None:
    one, two = examples(tmp_path, "pair", RTE, "rte.xml")
    assert (one.texts, one.label, one.id, one.place.line) == (("Ann & Bob\nslept.", "Ann slept."), "YES", "1", 3)
    assert (two.texts, two.label, two.place.line) == (("a", "b"), "FALSE", 5)
    with pytest.raises(DataError, match="no texts") as caught:
        examples(tmp_path, "classify", RTE, "rte.xml")
    assert caught.value.hint == "--task pair takes two texts"
    only = examples(tmp_path, "classify", RTE, "rte.xml", text_column=("hypothesis",))
    assert [e.texts for e in only] == [("Ann slept.",), ("b",)]
    unlabelled = RTE.replace(' entailment="YES"', "")
    assert examples(tmp_path, "pair", unlabelled, "t.xml", labelled=False)[0].label is None
    with pytest.raises(DataError, match=r"t\.xml:3: no label"):
        examples(tmp_path, "pair", unlabelled, "t.xml")
    with pytest.raises(DataError, match=r"b\.xml:5: not valid XML"):
        examples(tmp_path, "pair", RTE.replace("<h>b</h>", "<h>b</t>"), "b.xml")


def test_questions_in_columns(tmp_path: Path) -> None:
    table = "Who?\tAnn saw Bob and Ann\tAnn\nWhen?\tToday it rains\t\n"
    who, when = examples(tmp_path, "answer", table, "q.tsv")
    assert (who.id, who.answers[0].text, who.answers[0].start, who.impossible) == ("1", "Ann", 0, False)
    assert (when.id, when.answers, when.impossible) == ("2", (), True)
    commas = 'context,question,answer\n"Ann, or Bob",Who?,Bob\n'
    (named,) = examples(tmp_path, "answer", commas, "q.csv")
    assert (named.question, named.context, named.answers[0].start) == ("Who?", "Ann, or Bob", 8)
    (asked,) = examples(tmp_path, "answer", "Who?\tAnn saw Bob\n", "q.txt", labelled=False)
    assert (asked.question, asked.context, asked.answers) == ("Who?", "Ann saw Bob", ())
    for text, message in (
        ("Who?\tAnn saw Bob\n", "2 columns, expected question TAB context TAB answer"),
        ("Who?\tAnn saw Bob\tEve\n", "the answer 'Eve' of question '1' does not occur in the context"),
    ):
        with pytest.raises(DataError, match=rf"q\.tsv:1: {message}"):
            examples(tmp_path, "answer", text, "q.tsv")
    (line,) = examples(tmp_path, "answer", '{"question": "Who?", "context": "Ann"}\n', "q", labelled=False)
    assert (line.id, line.question) == ("1", "Who?")


def test_numbers_of_single_texts(tmp_path: Path) -> None:
    assert [(e.texts, e.label) for e in examples(tmp_path, "regress", "a\t1\nb\t2.5\n", "f.tsv")] == [
        *((("a",), "1"), (("b",), "2.5"))
    ]
    assert examples(tmp_path, "regress", "a\tb\t2.5\n", "f.tsv")[0].texts == ("a", "b")
    assert examples(tmp_path, "regress", "text\tscore\na\t2\n", "f.tsv")[0].texts == ("a",)
    assert examples(tmp_path, "regress", '{"text": "a", "score": 2}\n', "f.jsonl")[0].texts == ("a",)
    (one,) = examples(tmp_path, "regress", "a b\n", "f.tsv", labelled=False, texts=1)
    assert (one.texts, one.label) == (("a b",), None)
    with pytest.raises(DataError, match="expected a finite number, got 'b'"):
        examples(tmp_path, "regress", "a\tb\n", "f.tsv", labelled=False, texts=1)
    with pytest.raises(UsageError, match="expected 1 or 2 times for the task regress"):
        examples(tmp_path, "regress", "a\tb\tc\t1\n", "f.tsv", text_column=("1", "2", "3"))


def test_a_header_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples(tmp_path, "classify", "sentiment\treview\nx\ta\n", "f.tsv")
    assert "the first line is a header: texts 'review', labels 'sentiment'" in capsys.readouterr().err


def test_columns_as_lines_for_other_commands(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(CSV)
    (tmp_path / "f.tsv").write_text("a\tb\nc\td\n")

    def lines(name: str, *columns: str) -> list[str]:
        return [line for block in records.texts([str(tmp_path / name)], columns) for line in block.lines]

    assert lines("f.csv", "review") == ['Good, "really" and long', "bad"]
    assert lines("f.csv", "sentiment", "review") == ['pos\tGood, "really"\\nand long', "neg\tbad"]
    assert lines("f.tsv", "2") == ["b", "d"] and lines("f.tsv", "a") == ["c"]
    with pytest.raises(DataError, match=r"f\.csv: ?.*no column 'text': the columns are review"):
        lines("f.csv", "text")
    path = parquet(tmp_path / "f.parquet", [{"text": "a\nb", "label": 1}, {"text": None, "label": 0}])
    assert lines(path.name, "text") == ["a b", ""]


def test_json_lines_without_a_text(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"

    def lines(errors: str = "strict") -> list[str]:
        return [line for block in records.texts([str(path)], [], errors) for line in block.lines]

    path.write_text('{"text": "a", "x": 1}\n{"text": null}\n{"text": ""}\n')
    assert lines() == ["a", "", ""]
    path.write_text('{"text": "a", "x": 1}\n{"x": 2}\n')
    with pytest.raises(DataError, match=r"f\.jsonl:2: no key 'text'") as caught:
        lines()
    assert caught.value.hint == 'for an empty text, write "text": null'
    path.write_text('{"text": "a"}\n{"text": "b\\ud800é\\ud83d\\ude00"}\n')
    with pytest.raises(DataError, match=r"f\.jsonl:2: the text under 'text' holds half a surrogate pair"):
        lines()
    assert lines("replace") == ["a", "b\ufffdé\U0001f600"]
