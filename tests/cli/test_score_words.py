"""score --per word, --text-column and --to: columns, units, and what does not go together."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import Run
from tiny_bundles import bytes_bundle

from nlptools.configs.scoring import Score
from nlptools.files.line_records import unescape
from nlptools.inference.score_rows import word_lines
from nlptools.inference.words import WordScore


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of "ab " are equally likely."""
    return bytes_bundle(tmp_path_factory.mktemp("bytes") / "lm", "ab ")


def table(lines: list[str]) -> list[list[str]]:
    return [line.split("\t") for line in lines]


# -- words ------------------------------------------------------------------------------------------------------------


def test_a_row_for_each_word_and_an_empty_line_after_each_line(call: Run, letters: Path) -> None:
    done = call("score", letters, "--per", "word", stdin="a ab\n\n \nbb\\\n")
    assert done.code == 0, done.err
    found = table(done.lines)
    assert [row[0] for row in found] == ["a", "ab", "", "", "", "bb\\\\", ""]
    bits = math.log2(3)
    assert float(found[0][1]) == pytest.approx(2 * bits, abs=1e-3)
    assert float(found[1][1]) == pytest.approx(3 * bits, abs=1e-3)


def test_units_columns_and_no_correction(call: Run, letters: Path) -> None:
    for base, unit in (("2", math.log(2)), ("e", 1.0), ("10", math.log(10))):
        columns = "entropy,tokens,surprisal,rank"
        done = call("score", letters, "--per", "word", "--base", base, "--measures", columns, stdin="a bb\n")
        [first, second, empty] = table(done.lines)
        nats = math.log(3) / unit
        assert first[0] == "a" and [float(x) for x in first[1:]] == pytest.approx([nats, 1, 2 * nats, 1], abs=1e-3)
        assert second[2:] == ["3", f"{3 * nats:.4f}", "1"] and empty == [""]
    plain = table(call("score", letters, "--per", "word", "--no-boundary-correction", stdin="a bb\n").lines)
    assert [float(row[1]) for row in plain[:2]] == pytest.approx([math.log2(3), 3 * math.log2(3)], abs=1e-3)


def test_words_are_those_of_the_text(call: Run, words: Path) -> None:
    text = '"w1, w2"  w3.w4\nzzz\n'
    found = table(call("score", words, "--per", "word", "--measures", "tokens", stdin=text).lines)
    assert [row[0] for row in found] == ['"w1,', 'w2"', "w3.w4", "", "zzz", ""]
    tokens = table(call("score", words, "--per", "token", "--no-eos", stdin=text).lines)
    blocks = "\n".join("\t".join(row) for row in tokens).split("\n\n")
    count = sum(int(row[1]) for row in found[:3])
    assert count == len(blocks[0].split("\n"))


@pytest.mark.parametrize("arch", ["words", "arpa"])
def test_words_of_a_model_of_words_are_its_tokens(call: Run, words: Path, tmp_path: Path, arch: str) -> None:
    if arch == "arpa":
        (tmp_path / "text").write_text("w1 w2 w3\nw2 w1\n" * 3)
        options = ("--arch", "ngram", "-t", "whitespace", "--order", 2, "--smoothing", "witten-bell")
        assert call("train-lm", *options, "--arpa", "lm.arpa", "-o", "lm", "text").code == 0
    model = words if arch == "words" else "lm.arpa"
    found = table(call("score", model, "--per", "word", "--base", "e", stdin="w1 w2\nw2 w4\n").lines)
    tokens = table(call("score", model, "--per", "token", "--no-eos", stdin="w1 w2\nw2 w4\n").lines)
    assert [row[0] for row in found] == ["w1", "w2", "", "w2", "w4", ""]
    for a, b in zip(found, tokens, strict=True):
        assert a == [""] == b or float(a[1]) == pytest.approx(-float(b[1]), abs=1e-3)


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_objects_have_the_numbers_of_the_rows(call: Run, words: Path) -> None:
    text = 'w1 w2, "ü\\"\n\n'
    for per, keys in (
        ("line", ("log_probability", "tokens")),
        ("token", ("token", "log_probability")),
        ("word", ("word", "surprisal", "rank", "entropy", "tokens")),
    ):
        more = ("--measures", ",".join(keys[1:])) if per == "word" else ()
        shown = call("score", words, "--per", per, *more, stdin=text).text
        objects = [
            json.loads(line) for line in call("score", words, "--per", per, *more, "--to", "jsonl", stdin=text).lines
        ]
        assert len(objects) == 2 and all(tuple(each) == keys for each in objects)
        blocks = shown.split("\n")[:-1] if per == "line" else shown.split("\n\n")
        for block, values in zip(blocks, objects, strict=False):
            columns = [values[key] if per != "line" else [values[key]] for key in keys]
            expected = [row.split("\t") for row in block.strip("\n").split("\n") if row]
            assert len(expected) == len(columns[0])
            for row, cells in zip(expected, zip(*columns, strict=True), strict=True):
                for cell, value in zip(row, cells, strict=True):
                    if isinstance(value, str):
                        assert unescape(cell) == value
                    else:
                        assert float(cell) == pytest.approx(value, abs=1e-3)


def test_infinite_numbers_are_null() -> None:
    scores = [WordScore(["a", "b"], [math.inf, 1.0], [1, 0], [3, None], [])]
    columns = ("surprisal", "rank")
    [text] = word_lines(scores, Score(per="word", measures=columns, base="e", to="jsonl"))
    assert json.loads(text) == {"word": ["a", "b"], "surprisal": [None, 1.0], "rank": [3, None]}
    shown = list(word_lines(scores, Score(per="word", measures=columns, base="e")))
    assert shown == ["a\tinf\t3", "b\t1.0000\t", ""]


# -- columns of a table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [2, -2])
def test_a_column_is_scored_and_the_rest_stays(call: Run, words: Path, field: int) -> None:
    lines = ["1\tw1 w2\t x\\t", "\t\t", "2\tw\\n3 \\\\\tü"]
    done = call("score", words, "--text-column", field, stdin="\n".join(lines) + "\n")
    assert done.code == 0, done.err
    alone = call("score", words, "--text", "w1 w2", "--text", "", "--text", "w 3 \\").lines
    found = [line.rsplit("\t", 2) for line in done.lines]
    assert [row[0] for row in found] == lines
    assert [row[2] for row in found][:2] == [line.split("\t")[1] for line in alone][:2] == ["3", "1"]
    scores = [float(line.split("\t")[0]) for line in alone]
    assert [float(row[1]) for row in found][:2] == pytest.approx(scores[:2], abs=1e-3)


def test_a_column_that_is_missing(call: Run, words: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("1\tw1\n" * 1500 + "2 w2\n")
    for field in (2, -2):
        done = call("score", words, "--text-column", field, "in.tsv")
        assert (done.code, done.err) == (65, f"nlptools score: in.tsv:1501: no column {field}: the line has 1\n")


def test_an_empty_line_has_one_empty_column(call: Run, words: Path) -> None:
    empty = call("score", words, stdin="\n").text
    assert call("score", words, "--text-column", 1, stdin="\n").text == "\t" + empty
    assert call("score", words, "--text-column", 1, "--no-eos", stdin="\n").text == "\t0.0000\t0\n"


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--text-column", "0"), "--text-column: columns count from 1"),
        (("--text-column", "1", "--to", "jsonl"), "--text-column applies to --"),
        (("--text-column", "1", "--per", "token"), "--text-column applies to --"),
        (("--base", "10"), "--base applies to --per word only"),
        (("--per", "word", "--base", "3"), "--base"),
        (("--measures", "rank"), "--measures applies to --per word only"),
        (("--per", "word", "--measures", "rank,rank"), "--measures: expected different ones"),
        (("--per", "word", "--measures", "size"), "'size' is not one of"),
        (("--per", "token", "--no-boundary-correction"), "--no-boundary-correction applies to --per word only"),
        (("--per", "word", "--no-eos"), "--no-eos cannot be combined with --per word"),
        (("--per", "word", "--document", "line"), "--document applies to --per total only"),
    ],
)
def test_options_that_do_not_go_together(call: Run, words: Path, args: tuple[str, ...], said: str) -> None:
    done = call("score", words, *args, stdin="w1\n")
    assert done.code == 2 and said in done.err and done.out == b""
