"""nlptools walks."""

from __future__ import annotations

import itertools

import pytest

from tests.real_data import published

EDGES = "# a square and a tail\na b\nb c\nc\td 2\nd a\n\nd e\n"


def test_walks(run, tmp_path):
    done = run("walks", "--length", "5", "--walks", "3", "--p", "0.5", "--q", "2", stdin=EDGES)
    assert done.code == 0
    assert done.err == "nlptools walks: warning: the weights of 1 line are not used (--weighted does)\n"
    rows = [line.split(" ") for line in done.lines]
    assert [len(row) for row in rows] == [5] * 15
    assert sorted(row[0] for row in rows[:5]) == list("abcde")
    there = {frozenset(pair) for pair in ("ab", "bc", "cd", "da", "de")}
    assert all(frozenset(step) in there for row in rows for step in itertools.pairwise(row))


def test_the_seed_decides(call, tmp_path):
    (tmp_path / "edges").write_text(EDGES)
    first = call("walks", "--weighted", "edges")
    assert (first.code, first.err) == (0, "")
    assert call("walks", "--weighted", "--seed", "1", "--threads", "1", "--line-buffered", "edges").out == first.out
    assert call("walks", "--weighted", "--seed", "2", "edges").out != first.out
    assert call("walks", "--weighted", "edges", "-o", "out").out == b""
    assert (tmp_path / "out").read_bytes() == first.out


def test_dead_ends(call):
    done = call("walks", "--directed", "--length", "9", "--walks", "1", stdin="x y\ny z\n")
    assert sorted(done.lines) == ["x y z", "y z", "z"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b\nc\n", "<stdin>:2: expected two nodes and optionally a weight, found 'c'"),
        ("a b 1 2\n", "<stdin>:1: expected two nodes"),
        ("a b -1\n", "<stdin>:1: not a weight: '-1'"),
        ("a b\n\nb c nan\n", "<stdin>:3: not a weight: 'nan'"),
        ("# only this\n", "no edges"),
        ("", "no edges"),
    ],
)
def test_bad_input(call, text, said):
    done = call("walks", "--weighted", stdin=text)
    assert (done.code, done.out, done.err.count("\n")) == (65, b"", 1)
    assert said in done.err


@pytest.mark.parametrize("args", [["--p", "0"], ["--q", "-1"], ["--p", "nan"], ["--length", "0"], ["--walks", "0"]])
def test_wrong_usage(call, args):
    assert call("walks", *args, stdin=EDGES).code == 2


def test_the_karate_club(call):
    path = published("karate", "karate.edgelist")
    there = {frozenset(line.split()) for line in path.read_text().split("\n") if line}
    done = call("walks", "--p", "0.25", "--q", "4", path)
    rows = [line.split(" ") for line in done.lines]
    assert {len(row) for row in rows} == {80}
    assert len(rows) == 340
    assert all(frozenset(step) in there for row in rows for step in itertools.pairwise(row))


def test_edges_between_commas(call, tmp_path):
    options = ("--walks", "2", "--weighted")
    expected = call("walks", *options, stdin="a b 1\nb c,d 2.5\n").out
    (tmp_path / "e.csv").write_text('Source,Target,Weight\na, b,1\nb,"c,d",2.5\n')
    done = call("walks", *options, "e.csv")
    assert (done.code, done.out) == (0, expected) and done.err == "e.csv: the first line names the columns\n"
    assert call("walks", *options, stdin="from\tto\na b 1\nb c,d 2.5\n").out == expected
    (tmp_path / "n.csv").write_text("a,b\nnew york,b\n")
    done = call("walks", "n.csv")
    assert done.code == 65 and "n.csv:2: a node with a space" in done.err
    done = call("walks", stdin="a,b\n")
    assert done.code == 65 and "a name" not in done.err and "ends with .csv" in done.err
