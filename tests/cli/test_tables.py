"""Tables of users, from training to evaluation: their columns, the types of their labels, CSV as other programs write it."""

from __future__ import annotations

import csv
import io
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import Finished, Run
from table_files import BAD, BAG, GOOD, write_csv, write_objects, write_parquet

from nlptools.cli import COMMANDS


def first(done: Finished) -> list[str]:
    assert done.code == 0, done.err
    return [line.split("\t")[0] for line in done.lines]


# -- the columns of the training data ---------------------------------------------------------------------------------


def test_a_model_finds_the_columns_of_its_training_data(call: Run, tmp_path: Path) -> None:
    rows = [[str(i), GOOD if i % 2 else BAD, str(i % 3), "up" if i % 2 else "down"] for i in range(20)]
    names = ["nr", "What they said", "stars", "verdict"]
    write_csv(tmp_path / "train.csv", [names, *rows])
    columns = ("--text-column", "what they said", "--label-column", "verdict")
    done = call(*BAG, *columns, "train.csv")
    task = json.loads((tmp_path / "m" / "config.json").read_text())["nlptools"]["task"]
    assert (task["text_column"], task["label_column"]) == (["What they said"], "verdict")
    advice = shlex.split(next(line for line in done.err.split("\n") if line.startswith("try: "))[5:])
    assert advice[0] == "nlptools" and advice[1] in COMMANDS
    assert first(call(*advice[1:])) == [row[3] for row in rows]
    wanted = ["up", "down", "down"]
    tested = [["7", GOOD, "x"], ["8", BAD, "y"], ["9", BAD, "z"]]
    for place in ((1,), (0, 1), (1, 0), (2, 1, 0)):  # one column, more, in any order
        table = [[row[i] for i in place] for row in [["nr", "What They Said", "else"], *tested]]
        write_csv(tmp_path / "t.csv", table)
        (tmp_path / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in table))
        (tmp_path / "t.txt").write_bytes((tmp_path / "t.csv").read_bytes())
        for name in ("t.csv", "t.tsv", "t.txt"):
            assert first(call("predict", "m", name)) == wanted, (place, name)
            assert first(call("predict", "m", stdin=(tmp_path / name).read_bytes())) == wanted, (place, name)
    write_csv(tmp_path / "t.csv", [["nr", "What They Said", "else"], *tested], delimiter=";")
    assert first(call("predict", "m", "t.csv")) == wanted
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"What they said": row[1]}) + "\n" for row in tested))
    assert first(call("predict", "m", "t.jsonl")) == wanted
    assert first(call("predict", "m", stdin=f"{GOOD}\n{BAD}, and {BAD}\n")) == wanted[:2]  # lines of text still are
    for table, said in (
        ([["opinion"], *[row[1:2] for row in tested]], "1 column: the model was trained on 'What they said', which"),
        ([["nr", "opinion"], *[row[:2] for row in tested]], "2 columns: the model was trained on 'What they said'"),
    ):
        write_csv(tmp_path / "t.csv", table)
        refused = call("predict", "m", "t.csv")
        assert refused.code == 65 and f"t.csv:1: {said}" in refused.err and refused.out == b""
        assert "--text-column" in refused.err and "--header" in refused.err
        assert first(call("predict", "m", "--text-column", "opinion", "t.csv")) == wanted


def test_columns_without_names_are_those_of_the_training_data(call: Run, tmp_path: Path) -> None:
    rows = [["up" if i % 2 else "down", str(i), GOOD if i % 2 else BAD] for i in range(20)]
    write_csv(tmp_path / "train.csv", rows)
    assert call(*BAG, "--text-column", "3", "--label-column", "1", "train.csv").code == 0
    assert first(call("predict", "m", "train.csv")) == [row[0] for row in rows]
    assert first(call("predict", "m", "--text", GOOD)) == ["up"]
    write_csv(tmp_path / "t.csv", [row[1:] for row in rows])
    refused = call("predict", "m", "t.csv")
    assert refused.code == 65 and "2 columns: the model was trained on the columns '3' of 3" in refused.err


def test_two_texts_of_objects_are_found_in_a_table(call: Run, tmp_path: Path) -> None:
    pairs = [(GOOD, BAD, "no"), (GOOD, GOOD, "yes"), (BAD, BAD, "yes"), (BAD, GOOD, "no")] * 5
    lines = [json.dumps({"first": a, "then": b, "same": label}) for a, b, label in pairs]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    how = ("--text-column", "first", "--text-column", "then", "--label-column", "same", "--force")
    done = call("finetune", "--task", "pair", *BAG[3:], *how, "train.jsonl")
    assert done.code == 0, done.err
    by_key = call("predict", "m", "train.jsonl").lines
    write_csv(tmp_path / "t.csv", [["then", "nr", "first"], *([b, "0", a] for a, b, _ in pairs)])
    assert call("predict", "m", "t.csv").lines == by_key


# -- the types of labels ----------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("truth", [(True, False), (1.0, 0.0), (1, 0), ("1.0", "0.0"), ("True", "False")])
def test_labels_of_any_type_are_right_when_they_are_right(call: Run, tmp_path: Path, truth: tuple[Any, Any]) -> None:
    texts, labels = [GOOD, BAD] * 6, [*truth] * 6
    write_objects(tmp_path / "t.jsonl", texts, labels)
    write_parquet(tmp_path / "t.parquet", text=texts, label=labels)
    write_csv(tmp_path / "t.csv", [["text", "label"], *zip(texts, map(str, labels))])  # as pandas writes them
    assert call(*BAG, "--valid", "t.csv", "t.jsonl").code == 0
    names = {"t.jsonl": "label", "t.parquet": "label", "t.csv": "label"}
    for name in names:
        (tmp_path / "out").write_text("\n".join(first(call("predict", "m", name))) + "\n")
        for gold, column in names.items():
            done = call("evaluate", "-m", "accuracy", "f1", "-b", "-r", gold, "--gold-column", column, "out")
            assert (done.code, done.lines, done.err) == (0, ["1.0000", "1.0000"], ""), (name, gold)


def test_no_label_in_common_is_a_warning(call: Run, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("yes\nno\n")
    done = call("evaluate", "-m", "accuracy", "-b", "-r", "gold", stdin="1\n0\n")
    assert done.lines == ["0.0000"]
    assert "warning: gold has no, yes, predictions have 0, 1: no label in common\n" in done.err
    done = call("evaluate", "-m", "accuracy", "-b", "-r", "gold", stdin="yes\t0.9\nno\t0.8\n")
    assert done.lines == ["0.0000"] and "no label in common; --text-column 1 reads the first" in done.err
    done = call("evaluate", "-m", "accuracy", "-b", "-r", "gold", "--text-column", 1, stdin="yes\t0.9\nno\t0.8\n")
    assert done.lines == ["1.0000"] and not done.err


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_no_labels(call: Run, tmp_path: Path, odd: float) -> None:
    texts = [GOOD, BAD, GOOD]
    write_objects(tmp_path / "f.jsonl", texts, [1, 0, odd])
    write_objects(tmp_path / "list.jsonl", texts, [["a"], ["b", "a"], ["b", odd]])
    write_parquet(tmp_path / "f.parquet", text=texts, label=[1.0, 0.0, odd])
    write_csv(tmp_path / "f.csv", [["text", "label"], *zip(texts, ["1", "0", str(odd)])])
    for name, place, more in (
        ("f.jsonl", 3, ()),
        ("f.parquet", 3, ()),
        ("f.csv", 4, ()),
        ("list.jsonl", 3, ("--multi-label",)),
    ):
        done = call(*BAG, *more, name)
        assert done.code == 65 and f"{name}:{place}: no label" in done.err, done.err
    (tmp_path / "p").write_text("1\n0\n1\n")
    for name, place in (("f.jsonl", 3), ("f.parquet", 3), ("f.csv", 4)):
        done = call("evaluate", "-m", "accuracy", "-r", name, "--gold-column", "label", "p")
        assert done.code == 65 and f"{name}:{place}: " in done.err, done.err


def test_a_label_may_be_called_nan(call: Run, tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [["text", "label"], *([GOOD, "nan"], [BAD, "hak"])])  # languages of ISO 639-3
    assert "labels: hak 1, nan 1" in call(*BAG, "t.csv").err


# -- CSV as other programs write it -----------------------------------------------------------------------------------


def test_what_goes_into_csv_comes_out(call: Run, tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", [["text", "label"], *[[GOOD, "up"], [BAD, "down"]] * 4])
    assert call(*BAG, "train.csv").code == 0
    draw = random.Random(5)
    pieces = ["a", '"', ",", ";", "\n", "\r", "\r\n", "\t", " ", "é", "\u2028", "\\", "'"]
    for delimiter, end in ((",", "\n"), (",", "\r\n"), (";", "\r\n"), ("\t", "\n")):
        fields = ["".join(draw.choices(pieces, k=draw.randint(0, 6))) for _ in range(90)]
        rows = [["nr", "text", "note"], *([str(i), *fields[2 * i : 2 * i + 2]] for i in range(45))]
        write_csv(tmp_path / "in.csv", rows, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
        done = call("predict", "m", "--columns", "--delimiter", delimiter, "in.csv", "-o", "out.csv", "--force")
        assert done.code == 0, done.err
        with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
            found = list(csv.reader(file, delimiter=delimiter, strict=True))
        assert [row[:3] for row in found] == rows
        assert found[0][3:] == ["prediction", "probability"] and {row[3] for row in found[1:]} <= {"up", "down"}
        again = call("evaluate", "-m", "accuracy", "-r", "out.csv", "--gold-column", "prediction", "--delimiter", delimiter,
                     "--text-column", "prediction", "out.csv")  # fmt: skip
        assert again.code == 0 and again.lines[0].startswith("accuracy\t1.0000\t45\t"), again.err


def test_dialects_of_csv(call: Run, tmp_path: Path) -> None:
    rows = [["text", "label"], *[["here; there", "up"], ["x, y\nz", "down"]] * 3]
    write_csv(tmp_path / "t.csv", rows, delimiter=";")
    refused = call(*BAG, "t.csv")
    assert refused.code == 65 and "hint: fields between semicolons: --delimiter ';'" in refused.err
    assert "labels: down 3, up 3" in call(*BAG, "--delimiter", ";", "t.csv").err
    assert first(call("predict", "m", "t.csv")) == ["up", "down"] * 3  # the model knows the delimiter, too
    (tmp_path / "excel.csv").write_text("sep=;\n" + (tmp_path / "t.csv").read_text())
    assert "labels: down 3, up 3" in call(*BAG, "excel.csv", "--force").err
    write_csv(tmp_path / "t.csv", rows, delimiter="\t")
    assert "--layout table or --delimiter tab" in call(*BAG, "t.csv", "--force").err
    assert "labels: down 3, up 3" in call(*BAG, "--delimiter", "tab", "t.csv", "--force").err
    (tmp_path / "mac.csv").write_bytes(b"text,label\rcalm,up\rfog,down\r")
    (tmp_path / "mac.tsv").write_bytes(b"calm\tup\rfog\tdown\r")
    for name in ("mac.csv", "mac.tsv"):
        done = call(*BAG, name, "--force")
        assert done.code == 65 and f"{name}:1: " in done.err and "tr '\\r' '\\n'" in done.err
    for bad in (";;", '"', "\n"):
        assert call(*BAG, "--delimiter", bad, "t.csv").code == 2
    wrong = call("finetune", "--task", "tag", *BAG[3:4], "lstm", "--delimiter", ";", "-o", "x", "t.csv")
    assert wrong.code == 2 and "--delimiter applies to --task classify, pair" in wrong.err


def test_columns_of_the_same_name_are_refused(call: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label,note,note\ncalm,up,1,2\nfog,down,3,4\n")
    (tmp_path / "t.tsv").write_text((tmp_path / "t.csv").read_text().replace(",", "\t"))
    (tmp_path / "t.jsonl").write_text('{"text": "calm", "label": "up", "text": "fog"}\n')
    for name, said in (("t.csv", "two columns have the name 'note'"), ("t.tsv", "two columns"), ("t.jsonl", "'text'")):
        for command in (BAG, ("prompt", "-t", "{text} is", "--text-column", "text")):
            done = call(*command, name)
            assert done.code == 65 and f"{name}:1: " in done.err and said in done.err, done.err


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("t.csv", "text,label\n{0},up\n\n\n{1},down\n\n", 2),
        ("t.tsv", "{0}\tup\n\n\n{1}\tdown\n\n", 2),
        ("t.jsonl", '{{"text": "{0}", "label": "up"}}\n\n\n{{"text": "{1}", "label": "down"}}\n\n', 2),
    ],
)
def test_empty_lines_in_the_middle_are_skipped_as_at_the_end(
    call: Run, tmp_path: Path, name: str, text: str, wanted: int
) -> None:
    (tmp_path / name).write_text(text.format(GOOD, BAD))
    done = call(*BAG, name)
    assert done.code == 0 and f"{name}: skipped {wanted} empty lines" in done.err and "labels: down 1, up 1" in done.err
    if name != "t.tsv":  # a line filter of lines of text answers every line
        predicted = call("predict", "m", "--columns", name)
        table = predicted.text if name.endswith("jsonl") else ""
        assert len(table.split("\n")[:-1] if table else list(csv.reader(io.StringIO(predicted.text)))[1:]) == 2
        column = ("--gold-column", "label", "--text-column", "label")
        assert call("evaluate", "-m", "accuracy", "-b", *column, "-r", name, name).lines == ["1.0000"]


def test_labels_that_differ_in_spaces_are_named(call: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\ncalm,up\nfog, up\nrain,down\n")
    assert "warning: the labels ' up' and 'up' differ in spaces only" in call(*BAG, "t.csv").err
