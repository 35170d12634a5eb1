"""--text-column: commands that read lines of text read columns of tables as well."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Run
from tiny_encoders import encoder_bundle

from nlptools.corpora.sentence_pairs import read_pairs

TABLE = 'id,text,target\n1,"the cat, it\nsat",a\n2,"say ""cat""",b\n3,,c\n'


def test_tokens_of_a_column(call: Run, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(TABLE)
    done = call("tokenize", "--text-column", "text", "f.csv")
    assert (done.code, done.lines) == (0, ["the cat , it sat", 'say " cat "', ""]), done.err
    piped = call("tokenize", "--text-column", "2", stdin="a b\tc, d\ne\tf\n")
    assert piped.lines == ["c , d", "f"]
    wrong = call("tokenize", "--text-column", "body", "f.csv")
    assert wrong.code == 65 and "f.csv:1: no column 'body': the columns are id, text, target" in wrong.err
    short = call("tokenize", "--text-column", "2", stdin="a\tb\nc\n")
    assert short.code == 65 and "<stdin>:2: 1 column, expected at least 2" in short.err


def test_vectors_of_a_column(call: Run, tmp_path: Path) -> None:
    model = encoder_bundle(tmp_path / "bert")
    (tmp_path / "f.csv").write_text(TABLE)
    done = call("embed", model, "--to", "jsonl", "--threads", 1, "--text-column", "text", "f.csv")
    assert [json.loads(line)["text"] for line in done.lines] == ["the cat, it sat", 'say "cat"', ""], done.err
    twice = call("embed", model, "--text-column", "text", "--text-column", "id", "f.csv")
    assert twice.code == 2 and "expected one column" in twice.err
    two = ("--text-column", "text", "--text-column", "target")
    cosines = call("embed", model, "--pairs", "--threads", 1, *two, "f.csv")
    assert len(cosines.lines) == 3 and all(-1 <= float(line) <= 1 for line in cosines.lines), cosines.err


def test_pairs_of_columns(call: Run, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(TABLE)
    blocks = list(read_pairs([str(tmp_path / "f.csv")], columns=("text", "target")))
    pairs = [(block.sources, block.targets) for block in blocks]
    assert pairs == [(["the cat, it\nsat"], ["a"]), (['say "cat"', ""], ["b", "c"])]
    assert [block.start for block in blocks] == [2, 4]
    once = call("train-seq2seq", "-t", "words", "-o", "x", "--text-column", "text", "f.csv")
    assert once.code == 2 and "expected it twice" in once.err


def test_columns_that_are_joined(call, tmp_path):
    """`subject,body` is the text of two columns: in training, in prediction, and in commands that read lines."""
    rows = [("hello", "dear friend", "good"), ("sale", "buy now", "bad"), ("", "only body", "good")] * 8
    table = "subject,body,label\n" + "".join(f"{','.join(row)}\n" for row in rows)
    (tmp_path / "mails.csv").write_text(table)
    (tmp_path / "mails.jsonl").write_text(
        "".join(json.dumps(dict(zip(("subject", "body", "label"), row))) + "\n" for row in rows)
    )
    (tmp_path / "texts.tsv").write_text("".join(f"{f'{one} {two}'.strip()}\t{label}\n" for one, two, label in rows))
    how = ("finetune", "--task", "classify", "--scratch", "bag", "--epochs", 20, "--threads", 1, "--seed", 1)
    for name, columns in {"mails.csv": ["subject,body"], "mails.jsonl": ["subject,body"], "texts.tsv": []}.items():
        more = [arg for column in columns for arg in ("--text-column", column)]
        done = call(*how, *more, "-o", f"{name}.model", name)
        assert done.code == 0, done.err
    weights = {
        (tmp_path / f"{n}.model/model.safetensors").read_bytes() for n in ("mails.csv", "mails.jsonl", "texts.tsv")
    }
    assert len(weights) == 1, "the same texts"
    expected = call("predict", "texts.tsv.model", "texts.tsv").out
    (tmp_path / "other.csv").write_text("label,body,subject\n" + "".join(f"{c},{b},{a}\n" for a, b, c in rows))
    for name in ("mails.csv", "mails.jsonl", "other.csv"):
        assert call("predict", "mails.csv.model", name).out == expected, name
    numbered = "".join(line + "\n" for line in table.split("\n")[1:-1])
    (tmp_path / "plain.csv").write_text(numbered)
    assert call("predict", "mails.csv.model", "--text-column", "1,2", "plain.csv").out == expected
    lines = call("tokenize", "--text-column", "subject,body", "mails.csv").lines
    assert lines[:3] == ["hello dear friend", "sale buy now", "only body"]
    done = call("tokenize", "--text-column", "subject,sender", "mails.csv")
    assert done.code == 65 and "no column 'sender'" in done.err
    (tmp_path / "comma.csv").write_text('"a,b",label\nx,good\ny,bad\n')
    assert call("tokenize", "--text-column", "a,b", "comma.csv").lines == ["x", "y"]  # the name of one column
