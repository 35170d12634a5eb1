"""Sentences in CoNLL-U: what is read, what is refused, and that all else comes back unchanged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nlptools.errors import DataError, UsageError
from nlptools.formats.reading_options import Options, TagColumns
from nlptools.formats.universal import annotated, column_of, label_columns, read_universal
from tests.tasks import tiny_trees

TREES = Options(trees=True)
PREDICTED = Options(labelled=False, tagged=TagColumns(10))


def word(number: object, head: object, *more: str) -> str:
    return "\t".join([str(number), "w", "_", "X", "_", "_", str(head), "dep", "_", "_", *more]) + "\n"


def test_reads_words_columns_and_heads(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("# c\n1-2\twx\t" + "\t".join("_" * 8) + "\n" + word(1, 2) + word(2, 0) + "\n\n# last\n")
    (sentence,) = read_universal(str(path), TREES)
    assert sentence.words == ("w", "w") and sentence.heads == (2, 0) and sentence.texts == ("w w",)
    assert sentence.column(3) == ("X", "X") and sentence.place.line == 1
    *_, last = read_universal(str(path), PREDICTED)
    assert not last.words and [row.text for row in last.rows] == ["", "# last"]


def test_all_but_the_columns_comes_back(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tiny_trees.file(tmp_path / "a.conllu", 60, extras=True)
    path.write_text(path.read_text() + "\n# after\n\n")
    text = path.read_text()
    sentences = list(read_universal(str(path), PREDICTED))
    same, other = [], []
    for e in sentences:
        same += annotated(e, {"upos": e.column(3), "head": e.column(6)})
        other += annotated(e, {"feats": [rng.choice("ab") for _ in e.words]})
    assert "".join(f"{line}\n" for line in same) == text
    assert len(other) == len(same) and other != same
    for before, after in zip(same, other, strict=True):
        fields = before.split("\t"), after.split("\t")
        if before.split("\t")[0].isdecimal():
            fields[0][5] = fields[1][5]
        assert fields[0] == fields[1]


def test_lines_and_words_become_conllu(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one two\n\nthree four five\n")
    sentences = list(read_universal(str(path), PREDICTED))
    assert [e.words for e in sentences] == [("one", "two"), (), ("three", "four", "five")]
    lines = [line for e in sentences for line in annotated(e, {"upos": ["N"] * len(e.words)})]
    assert lines[1] == "2\ttwo\t_\tN\t_\t_\t_\t_\t_\t_" and lines.count("") == 3
    path = tmp_path / "a.words"
    path.write_text("one\ntwo\n\nthree\n")
    assert [e.words for e in read_universal(str(path), PREDICTED)] == [("one", "two"), ("three",)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (word(1, 0) + word(2, 3), 2, "head '3', expected the number of a word"),
        (word(1, 0) + word(2, -1), 2, "head '-1', expected the number of a word"),
        (word(1, "_"), 1, "head '_', expected the number of a word"),
        ("# c\n" + word(1, 2) + word(2, 1) + word(3, 0), 2, "heads of word 1 lead back"),
        (word(1, 0) + word(2, 2), 2, "heads of word 2 lead back"),
        (word(1, 2) + word(2, 3) + word(3, 1), 1, "0 words have the head 0"),
        (word(1, 0) + word(2, 1) + word(3, 0), 3, "2 words have the head 0"),
        (word(1, 0) + "2\tw\t_\n", 2, "3 columns, expected 10"),
        (word(1, 0) + word(2, 1, "x"), 2, "11 tab-separated columns, expected 10"),
        (word(1, 0) + word("b", 1), 2, "expected the number of a word, got 'b'"),
        (word(1, 0) + word(3, 1), 2, "id '3', expected 2"),
        ("# c\n" + word("1-x", 0) + word(1, 0), 2, "expected the number of a word, got '1-x'"),
        (word("1-", 0) + word(1, 0), 1, "id '1-', expected a number, a range"),
    ],
)
def test_refuses(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(word(1, 0) + "\n" + text + "\n")
    with pytest.raises(DataError) as caught:
        list(read_universal(str(path), TREES))
    assert message in str(caught.value) and f"{path}:{line + 2}" in str(caught.value) and caught.value.hint


def test_heads_do_not_matter_where_they_are_not_learned(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(word(1, "_") + word(2, 7))
    assert [e.heads for e in read_universal(str(path), Options())] == [None]


def test_columns_by_name_or_number() -> None:
    assert label_columns("upos, FEATS") == label_columns("4,6") == ("upos", "feats")
    for text, message in (("upos,upos", "is named twice"), ("upos,head", "head has no labels"), ("id", "id has no")):
        with pytest.raises(UsageError, match=message):
            label_columns(text)
    with pytest.raises(DataError, match="no column 'pos'"):
        label_columns("upos,pos")
    assert [column_of(text) for text in ("UPOS", "6", "11", "-1", "")] == ["upos", "feats", "", "", ""]
