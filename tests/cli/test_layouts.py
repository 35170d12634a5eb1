"""The suffix of a file decides its layout in every command: for reading, and for what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run
from table_files import BAD, BAG, GOOD, write_csv, write_parquet
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

TEXTS = ["w1 w2", "w3, w1\nw2", "w2"]
LINES = ["w1 w2", "w3, w1 w2", "w2"]


def write_tables(folder: Path) -> list[str]:
    """The same texts in each layout; the names of the files."""
    write_csv(folder / "t.csv", [["id", "text"], *([str(i), text] for i, text in enumerate(TEXTS))])
    write_csv(folder / "only.csv", [["text"], *([text] for text in TEXTS)])
    (folder / "t.jsonl").write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(TEXTS)))
    (folder / "t.tsv").write_text("id\ttext\n" + "".join(f"{i}\t{line}\n" for i, line in enumerate(LINES)))
    write_parquet(folder / "t.parquet", id=list(range(3)), text=TEXTS)
    (folder / "t.txt").write_text("\n".join(LINES) + "\n")
    return ["t.csv", "only.csv", "t.jsonl", "t.tsv", "t.parquet"]


def test_commands_that_read_lines_read_tables_alike(call: Run, tmp_path: Path) -> None:
    names = write_tables(tmp_path)
    encoder_bundle(tmp_path / "bert")
    words_bundle(tmp_path / "lm")
    for command in (
        ("tokenize", "-t", "words"),
        ("split",),
        ("extract", "--method", "lead"),
        ("phrases", "--min-count", 1),
        ("build-vocab", "--min-count", 1),
        ("score", "lm"),
        ("score", "lm", "--per", "total"),
    ):
        plain = call(*command, "t.txt")
        assert plain.code == 0 and plain.lines, plain.err
        for name in names:
            assert call(*command, name).out == plain.out, (command, name)
    for name in (*names, "t.txt"):
        done = call("embed", "bert", "--to", "jsonl", "--threads", 1, name)
        assert [json.loads(line)["text"] for line in done.lines] == LINES, name
    plain = call("generate", "lm", "--max-new-tokens", 2, "t.txt")
    for name in ("t.csv", "t.parquet"):
        assert call("generate", "lm", "--max-new-tokens", 2, name).out == plain.out, name
    write_csv(tmp_path / "semi.csv", [["id", "text"], *([str(i), text] for i, text in enumerate(TEXTS))], delimiter=";")
    assert call("tokenize", "-t", "words", "--delimiter", ";", "semi.csv").out == call("tokenize", "t.csv").out
    write_csv(tmp_path / "two.csv", [["subject", "body"], ["a", "b"]])
    for command in (("embed", "bert"), ("tokenize",), ("score", "lm"), ("split",)):
        refused = call(*command, "two.csv")
        assert refused.code == 65 and "two.csv:1: which column has the texts?" in refused.err
        assert "2 columns" in refused.err and "--text-column" in refused.err
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    for command in (("tokenize",), ("split",), ("train-w2v", "-o", "v.txt")):
        assert call(*command, "a.npy").code == 2
    assert "expected lines of tokens" in call("train-w2v", "-o", "v.txt", "t.csv").err


def test_the_suffix_of_an_output_decides_or_is_refused(call: Run, tmp_path: Path) -> None:
    write_tables(tmp_path)
    (tmp_path / "g.txt").write_text("a b\n")
    encoder_bundle(tmp_path / "bert")
    words_bundle(tmp_path / "lm")
    for command in (
        ("embed", "bert", "t.txt"),
        ("tokenize", "t.txt"),
        ("split", "t.txt"),
        ("extract", "t.txt"),
        ("phrases", "t.txt"),
        ("build-vocab", "t.txt"),
        ("score", "lm", "t.txt"),
        ("generate", "lm", "t.txt"),
        ("walks", "g.txt"),
        ("prompt", "-t", "tldr", "t.txt"),
        ("predict", "lm", "t.txt"),
    ):
        for name in ("out.parquet", "out.csv", "out.xlsx", "out.parquet.gz"):
            done = call(*command, "-o", name)
            assert done.code == 2 and "name ends with" in done.err and name in done.err, (command, name, done.err)
            assert not (tmp_path / name).exists()
    for name in ("v.jsonl", "v.tsv", "v.txt", "v.npy"):
        assert call("embed", "bert", "t.txt", "-o", name, "--threads", 1).code == 0
    assert len(json.loads((tmp_path / "v.jsonl").read_text().split("\n")[0])["embedding"]) > 0
    assert (tmp_path / "v.tsv").read_text().startswith("w1 w2\t")
    assert (tmp_path / "v.txt").read_text().split("\n")[0].split(" ")[0] == "3"
    assert (tmp_path / "v.npy").read_bytes().startswith(b"\x93NUMPY")
    for name, form in (("x.npy", "jsonl"), ("x.jsonl", "npy"), ("x.npy", "tsv")):
        assert "the name ends with" in call("embed", "bert", "t.txt", "--to", form, "-o", name).err
    assert call("prompt", "-t", "{text} is", "t.jsonl", "-o", "p.jsonl").code == 0
    assert json.loads((tmp_path / "p.jsonl").read_text().split("\n")[0])["prompt"] == "w1 w2 is"


def test_predictions_have_the_layout_of_their_name(call: Run, tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [["text", "label"], *[[GOOD, "up"], [BAD, "down"]] * 4])
    assert call(*BAG, "t.csv").code == 0
    (tmp_path / "t.tsv").write_text(f"{GOOD}\n{BAD}\n")
    assert call("predict", "m", "t.csv", "-o", "p.jsonl").code == 0
    assert [json.loads(line)["prediction"] for line in (tmp_path / "p.jsonl").read_text().split("\n")[:2]] == [
        "up",
        "down",
    ]
    assert call("predict", "m", "t.csv", "-o", "p.tsv").code == 0
    assert (tmp_path / "p.tsv").read_text().startswith("up\t0.")
    assert call("predict", "m", "t.csv", "--columns", "-o", "p.csv").code == 0
    assert (tmp_path / "p.csv").read_text().startswith("text,label,prediction,probability\n")
    piped = call("predict", "m", "--columns", "-o", "q.csv", stdin=(tmp_path / "t.csv").read_bytes())
    assert piped.code == 0 and (tmp_path / "q.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()
    for name, args in (("x.csv", ("t.csv",)), ("x.tsv", ("--columns", "t.csv")), ("x.csv", ("--columns", "t.txt"))):
        (tmp_path / "t.txt").write_text(f"{GOOD}\n")
        done = call("predict", "m", *args, "-o", name)
        assert done.code == 2 and "the name ends with" in done.err and not (tmp_path / name).exists(), (name, args)


@pytest.mark.parametrize("key", ["prediction", "text"])
def test_lines_of_label_columns_count_records(call: Run, tmp_path: Path, key: str) -> None:
    """A place in a message is the line of the record, also behind a field of several lines."""
    write_csv(tmp_path / "g.csv", [[key, "label"], ["a\nb", "1"], ["c", ""]])
    (tmp_path / "p").write_text("1\n1\n")
    done = call("evaluate", "-m", "accuracy", "-r", "g.csv", "--gold-column", "label", "p")
    assert done.code == 65 and "g.csv:4: the label is empty" in done.err


def test_the_only_column_of_a_table_is_evaluated(call: Run, tmp_path: Path) -> None:
    write_csv(tmp_path / "gold.csv", [["label"], ["a, b"], ["c"]])
    write_csv(tmp_path / "p.csv", [["prediction"], ["a, b"], ["c"]])
    (tmp_path / "p.jsonl").write_text('{"verdict": "a, b"}\n{"verdict": "c"}\n')
    for name in ("p.csv", "p.jsonl", "gold.csv"):
        assert call("evaluate", "-m", "accuracy", "-r", "gold.csv", name).lines[0].startswith("accuracy\t1.0000\t2\t")
    write_csv(tmp_path / "two.csv", [["id", "label"], ["1", "a, b"], ["2", "c"]])
    done = call("evaluate", "-m", "accuracy", "-r", "two.csv", "p.csv")
    assert (
        done.code == 65 and "two.csv:1: which column is compared? 2 columns" in done.err and "--gold-column" in done.err
    )
