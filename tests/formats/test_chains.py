"""CoNLL-2012's columns: nested, crossing and repeated mentions, there and back, bad input."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from nlptools.errors import DataError, UsageError
from nlptools.formats.chains import read_chains, with_chains
from nlptools.formats.examples import CoreferenceDocument
from nlptools.formats.reading_options import Options


def read(path: Path, text: str, **options: Any) -> list[CoreferenceDocument]:
    path.write_text(text, encoding="utf-8")
    return list(read_chains(str(path), Options(**options)))


def document(*cells: str, name: str = "d") -> str:
    """A blank line for an empty cell."""
    rows = (f"{name}   0   {i}   w{i}   X   {cell}" if cell else "" for i, cell in enumerate(cells))
    return "\n".join([f"#begin document ({name}); part 000", *rows, "", "#end document", ""])


def test_mentions(tmp_path: Path) -> None:
    cells = ("(0|(1", "(2)", "1)", "", "(0", "0)|0)", "(3|(3", "3)", "3)|(4", "4)|(5", "5)")
    (found,) = read(tmp_path / "a", document(*cells))
    assert found.name == "(d); part 000" and found.words == tuple(f"w{i}" for i in (0, 1, 2, 4, 5, 6, 7, 8, 9, 10))
    assert found.sentences == (0, 3) and found.texts == ("w0 w1 w2 w4 w5 w6 w7 w8 w9 w10",)
    assert found.chains == (((3, 4), (0, 4)), ((0, 2),), ((1, 1),), ((5, 6), (5, 7)), ((7, 8),), ((8, 9),))
    assert found.place.line == 1 and [row.word for row in found.rows][:3] == [None, 0, 1]


def test_what_begins_is_read_before_what_ends(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "a", document("(0", "0)|(0", "0)"))
    assert found.chains == (((1, 1), (0, 2)),)  # as the official scorer reads it


def test_repeated_mentions_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = read(tmp_path / "a", document("(0)|(1)", "(1)|(1)", "(0)"))
    assert found.chains == (((0, 0), (2, 2)), ((1, 1),))
    assert "2 mentions repeated" in capsys.readouterr().err


def test_there_and_back(tmp_path: Path) -> None:
    rng = random.Random(0)
    for _ in range(40):
        spans = {(a, min(9, a + rng.randrange(3))) for a in range(10) for _ in range(2)}
        rest, chains = sorted(spans, key=lambda _: rng.random()), []
        while rest:  # within a chain, mentions do not cross: the columns cannot tell crossing from nested ones
            chain: list[tuple[int, int]] = []
            for a, b in rest:
                if all(b < c or d < a or ((a, b) != (c, d) and (a - c) * (b - d) <= 0) for c, d in chain):
                    chain.append((a, b))
            chains.append(tuple(chain))
            rest = [span for span in rest if span not in chain]
        (plain,) = read(tmp_path / "a", document(*["-"] * 10))
        lines = with_chains(plain, chains)
        (again,) = read(tmp_path / "b", "\n".join(lines) + "\n")
        assert {frozenset(chain) for chain in again.chains or ()} == {frozenset(chain) for chain in chains}
        assert with_chains(again, again.chains or ()) == lines
    text = document("(7", "", "7)", "(12)", name="x") + document("-")
    files = [with_chains(each, each.chains or ()) for each in read(tmp_path / "c", text)]
    assert "\n".join(line for lines in files for line in lines) + "\n" == text.replace("7", "0").replace("12", "1")


def test_without_chains(tmp_path: Path) -> None:
    text = "\n".join(["#begin document x", "x 0 0 It", "x 0 1 is", "#end document", "", "", ""])
    one, rest = read(tmp_path / "a", text, labelled=False)
    assert one.chains is None and one.words == ("It", "is") and not rest.words and len(rest.rows) == 2
    assert with_chains(one, [((0, 1),)]) == ["#begin document x", "x 0 0 It (0", "x 0 1 is 0)", "#end document"]
    (two,) = read(tmp_path / "a", text.rstrip("\n"), labelled=False, text_column=("2",))
    assert two.words == ("0", "0")
    (three,) = read(tmp_path / "a", document("-", "(0)"), labelled=False)
    assert three.chains == (((1, 1),),)
    assert read(tmp_path / "a", "") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document("(0", "-"), "a:2: a mention of chain 0 begins that does not end"),
        (document("-", "", "4)"), "a:4: a mention of chain 4 ends that has not begun"),
        (document("-", "3|(2)"), "a:3: the column of chains is '3|(2)'"),
        (document("-", "(a)"), "a:3: the column of chains is '(a)'"),
        (document("-").replace("#end document", ""), "a:1: document '(d); part 000' does not end"),
        (document("-").replace("#end document\n", "") * 2, "a:1: document '(d); part 000' does not end"),
        ("It (0)\n", "a:1: a word outside a document"),
        ("#begin document x\nx 0 (0)\n#end document\n", "a:2: 3 columns, no column 4 before the chains"),
    ],
)
def test_bad_input(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        read(tmp_path / "a", text)
    assert message in str(raised.value) and raised.value.hint


def test_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a number from 1"):
        read(tmp_path / "a", document("-"), text_column=("word",))
