"""score on tables: stimuli word by word, minimal pairs, accuracy by a column, several models side by side."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from tiny_bundles import words_bundle

ROWS = [("1", "a", "w1 w2, w3", 'x\ty "z"'), ("2", "b", "", "c:\\d"), ("3", "b", "w4 unheard-of", "")]
NAMES = ["item", "condition", "sentence", "note"]


@pytest.fixture
def stimuli(tmp_path: Path) -> Path:
    words_bundle(tmp_path / "lm")
    with (tmp_path / "s.csv").open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *ROWS])
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(dict(zip(NAMES, row))) + "\n" for row in ROWS))
    return tmp_path


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


def test_words_of_a_table_are_a_long_table(stimuli: Path, call: Run) -> None:
    done = call("score", "lm", "--per", "word", "--measures", "surprisal,tokens", "--text-column", "sentence", "s.csv")
    assert done.code == 0 and done.lines[0].split("\t") == [
        *("item", "condition", "note", "position", "word", "surprisal", "tokens", "unknown")
    ]
    rows = table(done.text)
    assert [(row["item"], row["condition"], row["position"], row["word"]) for row in rows] == [
        ("1", "a", "1", "w1"),
        ("1", "a", "2", "w2,"),
        ("1", "a", "3", "w3"),
        ("3", "b", "1", "w4"),
        ("3", "b", "2", "unheard-of"),
    ]
    assert [row["unknown"] for row in rows] == ["0", "0", "0", "0", "1"]
    assert rows[0]["note"] == 'x\\ty "z"'
    plain = call("score", "lm", "--per", "word", "--measures", "surprisal,unknown", "--text", "w4 unheard-of").lines
    assert [line.split("\t")[1:] for line in plain[:2]] == [[row["surprisal"], row["unknown"]] for row in rows[3:]]
    assert (
        call("score", "lm", "--per", "word", "--measures", "surprisal,tokens", "--text-column", "3", "s.csv").code == 0
    )
    assert table(
        call("score", "lm", "--per", "word", "--text-column", "sentence", "s.jsonl", "--measures", "tokens").text
    )[4] == {**{k: rows[4][k] for k in ("item", "condition", "note", "position", "word", "tokens", "unknown")}}


def test_lines_of_a_table_keep_their_columns_and_names(stimuli: Path, call: Run) -> None:
    done = call("score", "lm", "--text-column", "Sentence", "s.csv", "s.jsonl")
    assert done.lines[0].split("\t") == [*NAMES, "log_probability", "tokens"] and len(done.lines) == 7
    alone = call("score", "lm", "--text", ROWS[2][2]).lines[0]
    assert done.lines[3] == done.lines[6] == "\t".join([*ROWS[2], alone])
    (stimuli / "other.csv").write_text("id,sentence\n1,w1\n")
    for column, files, said in (
        ("text", ["s.csv"], "no column"),
        ("sentence", ["s.csv", "other.csv"], "other.csv:1: other columns than in s.csv"),
    ):
        wrong = call("score", "lm", "--text-column", column, *files)
        assert wrong.code == 65 and said in wrong.err


PAIRS = [("w1 w2", "w2 w1 w3", "order"), ("w5 w5", "w5 w5", "same"), ("w7", "w8 w9 w9", "order"), ("w3", "w4", "word")]


@pytest.fixture
def pairs(stimuli: Path) -> Path:
    objects = [{"sentence_good": good, "sentence_bad": bad, "UID": kind} for good, bad, kind in PAIRS]
    (stimuli / "blimp.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    (stimuli / "two.tsv").write_text("".join(f"{good}\t{bad}\n" for good, bad, _ in PAIRS))
    (stimuli / "two.csv").write_text("".join(f'"{good}",{bad}\n' for good, bad, _ in PAIRS))
    (stimuli / "named.csv").write_text(
        "Ungrammatical,UID,Grammatical\n" + "".join(f"{bad},{kind},{good}\n" for good, bad, kind in PAIRS)
    )
    return stimuli


def test_minimal_pairs_in_every_layout(pairs: Path, call: Run) -> None:
    scores = [[float(line.split("\t")[0]) for line in call("score", "lm", "--no-eos", "--text", good, "--text", bad).lines]
              for good, bad, _ in PAIRS]  # fmt: skip
    best = [None if a == b else int(b > a) for a, b in scores]
    for name in ("blimp.jsonl", "two.tsv", "two.csv", "named.csv"):
        done = call("score", "lm", "--choices", name)
        items = [json.loads(line) for line in done.lines]
        assert [item["log_probability"] for item in items] == [pytest.approx(pair, abs=1e-3) for pair in scores], name
        assert [item["best"]["sum"] for item in items] == best and best[1] is None
        assert f"accuracy: {best.count(0) / 4:.4f} by sum" in done.err
        assert "4 records with an answer; 1 tie by sum, 1 tie by token" in done.err
    (pairs / "three.tsv").write_text("w1\tw2\nw1\tw2\tw3\n")
    wrong = call("score", "lm", "--choices", "three.tsv")
    assert wrong.code == 65 and "three.tsv:2: expected 2 columns, found 3" in wrong.err


def test_accuracy_by_a_column(pairs: Path, call: Run) -> None:
    best = [json.loads(line)["best"] for line in call("score", "lm", "--choices", "blimp.jsonl").lines]
    total = json.loads(call("score", "lm", "--choices", "--by", "UID", "--per", "total", "blimp.jsonl").text)
    by = total["by"]["UID"]
    assert {kind: each["records"] for kind, each in by.items()} == {"order": 2, "same": 1, "word": 1}
    for way, value in total["accuracy"].items():
        assert value == sum(each[way] == 0 for each in best) / 4
        assert by["order"]["accuracy"][way] == sum(best[i][way] == 0 for i in (0, 2)) / 2
    assert total["ties"]["sum"] == by["same"]["ties"]["sum"] == 1 and by["same"]["accuracy"]["sum"] == 0
    assert "UID same: 0.0000 by sum" in call("score", "lm", "--choices", "--by", "UID", "blimp.jsonl").err
    wrong = call("score", "lm", "--choices", "--by", "uid", "blimp.jsonl")
    assert wrong.code == 65 and "blimp.jsonl:1: no column uid" in wrong.err.replace("'", "")
    assert call("score", "lm", "--by", "UID", "s.csv").code == 2


def test_several_models_give_a_table(pairs: Path, call: Run) -> None:
    words_bundle(pairs / "other", "modern")
    done = call("score", "lm", "other", "--choices", "--by", "UID", "blimp.jsonl")
    rows = table(done.text)
    assert done.lines[0] == "model\tUID\trecords\tanswered\tties\tsum\ttoken\tbyte\tcharacter"
    assert [(row["model"], row["UID"]) for row in rows] == [
        (model, kind) for model in ("lm", "other") for kind in ("(all)", "order", "same", "word")
    ]
    for row in rows[::4]:
        alone = json.loads(call("score", row["model"], "--choices", "--per", "total", "two.tsv").text)
        assert {way: f"{value:.4f}" for way, value in alone["accuracy"].items()}.items() <= row.items()
    text = table(call("score", "other", "lm", "--per", "total", "s.jsonl").text)
    alone = json.loads(call("score", "lm", "--per", "total", "s.jsonl").text)
    assert (text[1]["model"], text[1]["perplexity"]) == ("lm", f"{alone['perplexity']:.4f}")
    for args in (["s.jsonl"], ["--choices"], ["--per", "total", "--with", "lm", "s.jsonl"]):
        wrong: Any = call("score", "lm", "other", *args)
        assert wrong.code == 2 and ("several models" in wrong.err or "a single MODEL" in wrong.err)


def test_lengths_in_bytes_and_in_characters(pairs: Path, call: Run) -> None:
    """Characters as lm-evaluation-harness counts them for acc_norm: those of the choice as it is given."""
    record = {"context": "w1", "choices": [" w2  ", "w3 ñ", "wörter 日本"]}
    [item] = [json.loads(line) for line in call("score", "lm", "--choices", stdin=json.dumps(record) + "\n").lines]
    assert item["characters"] == [5, 4, 9] and item["bytes"] == [2, 5, 14]
    values = [value / length for value, length in zip(item["log_probability"], item["characters"], strict=True)]
    assert item["best"]["character"] == values.index(max(values))
