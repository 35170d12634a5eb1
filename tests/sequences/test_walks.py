"""Graphs from edge lists, and walks whose steps have the probabilities that node2vec defines."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.files.streams import LineBlock
from nlptools.sequences import walks as module
from nlptools.sequences.graph import build, read
from nlptools.sequences.walks import Walker, walks


def graph_of(*rows, **settings):
    return read([LineBlock("edges", 1, list(rows))], **settings)


def edges(graph):
    weights = np.ones(len(graph.targets)) if graph.weights is None else graph.weights
    sources = np.repeat(np.arange(len(graph)), graph.degrees)
    return {
        (graph.names[s], graph.names[t]): w for s, t, w in zip(sources, graph.targets, weights.tolist(), strict=True)
    }


def test_edges_of_an_undirected_graph():
    graph = graph_of("# a comment", "b a", "", "  a\t c ", "c c", "a b", "\t#x y z w v")
    assert list(graph.names) == ["b", "a", "c"]
    assert edges(graph) == {("b", "a"): 1, ("a", "b"): 1, ("a", "c"): 1, ("c", "a"): 1, ("c", "c"): 1}


def test_weights_of_an_edge_add_up():
    rows = ("a b 1.5", "b a 2", "a b", "c c 2", "c c 1", "d a 0")
    graph = graph_of(*rows, weighted=True)
    assert edges(graph) == {("a", "b"): 4.5, ("b", "a"): 4.5, ("c", "c"): 3}
    assert list(graph.names) == ["a", "b", "c", "d"]
    assert edges(graph_of(*rows, weighted=True, directed=True)) == {("a", "b"): 2.5, ("b", "a"): 2, ("c", "c"): 3}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a", "expected two nodes"),
        ("a b 1 2", "expected two nodes"),
        *((f"a b {weight}", f"not a weight: '{weight}'") for weight in ("x", "-1", "nan", "inf", "1_0", "1e999")),
    ],
)
def test_bad_lines(row, said):
    with pytest.raises(DataError) as caught:
        graph_of("# c", "a b 1", row, weighted=True)
    assert str(caught.value).startswith("edges:3: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("weights", [("", ""), (" 2", " 0.5"), ("\t2", " 0.5")])
def test_regular_lines_are_read_as_all_others(weights):
    rows = [f"b a{weights[0]}", f"c\tb{weights[1]}", f"a a{weights[0]}"]
    fast, slow = graph_of(*rows, weighted=True), graph_of(*rows, "", weighted=True)
    assert list(fast.names) == list(slow.names) == ["b", "a", "c"]
    assert edges(fast) == edges(slow)
    assert edges(fast)["c", "b"] == float(weights[1] or 1)


def test_no_edges():
    with pytest.raises(DataError, match="no edges"):
        graph_of("# nothing")


def test_weights_too_large_to_add():
    with pytest.raises(DataError, match="'a'"):
        graph_of("a b 1e308", "a c 1e308", weighted=True)


def test_weights_that_are_not_asked_for(capsys):
    assert graph_of("a b 5", "b c").weights is None
    assert "the weights of 1 line are not used" in capsys.readouterr().err


def exact(graph, p, q, before, here):
    """The definition: where a walk that came from `before` to `here` goes, with which probability."""
    weight = edges(graph)
    found = {}
    for (source, target), w in weight.items():
        if source == here:
            factor = 1 / p if target == before else 1 if (before, target) in weight else 1 / q
            found[target] = factor * w
    return {target: value / sum(found.values()) for target, value in found.items()}


def chi_square(observed, expected):
    """The chi-square statistic and its degrees of freedom, rare outcomes taken together."""
    total = sum(observed.values())
    rare = [t for t in expected if expected[t] * total < 5]
    cells = [(observed[t], expected[t] * total) for t in expected if t not in rare]
    if rare and (mass := sum(expected[t] for t in rare) * total) >= 1:
        cells.append((sum(observed[t] for t in rare), mass))
    scale = sum(o for o, _ in cells) / sum(e for _, e in cells) if cells else 1
    return sum((o - e * scale) ** 2 / (e * scale) for o, e in cells), max(len(cells) - 1, 0)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("exact_from", [0, 1 << 40])
@pytest.mark.parametrize(("weighted", "directed"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.01, 1), (4, 0.25), (0.25, 4), (30, 30), (0.5, 0.02), (0.001, 50)])
def test_steps_have_the_probabilities_of_the_definition(weighted, directed, p, q, exact_from, monkeypatch):
    monkeypatch.setattr(module, "EDGES_PER_TRY", exact_from)
    monkeypatch.setattr(module, "EDGES_PER_ROUND", 10)
    monkeypatch.setattr(module, "EXACT_EDGES", 500)
    rng = np.random.default_rng([11, weighted, directed])
    first, second = rng.integers(0, 6, (2, 13))
    weights = rng.random(13) * rng.choice([0.05, 1, 10], 13) if weighted else None
    graph = build([f"n{i}" for i in range(6)], first, second, weights, directed)
    nodes, lengths = Walker(graph, p, q).walk(np.repeat(np.arange(6), 700), 9, np.random.default_rng(3))
    seen = defaultdict(Counter)
    for row, length in zip(nodes.tolist(), lengths.tolist()):
        names = [graph.names[node] for node in row[:length]]
        for before, here, after in zip(names, names[1:], names[2:]):
            seen[before, here][after] += 1
    statistic = freedom = 0.0
    for (before, here), counts in seen.items():
        expected = exact(graph, p, q, before, here)
        assert counts.keys() <= expected.keys()
        value, cells = chi_square(counts, expected)
        statistic, freedom = statistic + value, freedom + cells
    assert freedom > 3
    # the normal approximation: five standard deviations above what is expected
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)


def test_first_steps_follow_the_weights():
    graph = graph_of("a b 1", "a c 3", "a d 1e-300", "e f 7", weighted=True)
    nodes, _ = Walker(graph).walk(np.zeros(20_000, np.int64), 2, np.random.default_rng(1))
    seen = Counter(graph.names[node] for node in nodes[:, 1].tolist())
    assert set(seen) == {"b", "c"}
    assert abs(seen["c"] - 15_000) < 5 * math.sqrt(20_000 * 0.75 * 0.25)


def test_dead_ends_end_walks():
    graph = graph_of("a b", "b c", "d d", "e a 0", directed=True, weighted=True)
    rows = [" ".join(row) for chunk in module.names(graph, walks(graph, 2, 0.5, length=4, rounds=2)) for row in chunk]
    expected = {"a b c", "b c", "c", "d d d d", "e"}
    assert set(rows[:5]) == set(rows[5:]) == expected


def test_rounds_begin_once_in_every_node_and_follow_edges():
    rng = np.random.default_rng(2)
    graph = build([str(i) for i in range(50)], *rng.integers(0, 50, (2, 150)))
    there = edges(graph)
    chunks = [row for chunk in module.names(graph, walks(graph, 0.5, 2, length=7, rounds=3)) for row in chunk]
    assert len(chunks) == 150
    starts = [row[0] for row in chunks]
    for turn in range(3):
        assert sorted(starts[50 * turn : 50 * turn + 50]) == sorted(graph.names)
    assert starts[:50] != starts[50:100]
    for row in chunks:
        assert all(step in there for step in itertools.pairwise(row))
        assert len(row) == 7 or not any(source == row[-1] for source, _ in there)


def test_threads_change_nothing_and_seeds_do(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 8)
    graph = build([str(i) for i in range(30)], *np.random.default_rng(2).integers(0, 30, (2, 90)))

    def all_of(seed, threads):
        return [c[0].tolist() for c in walks(graph, 0.5, 2, length=9, rounds=2, seed=seed, threads=threads)]

    assert all_of(1, 1) == all_of(1, 4)
    assert all_of(1, 1) != all_of(2, 1)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_senseless_parameters(value):
    graph = graph_of("a b")
    for p, q in ((value, 1), (1, value)):
        with pytest.raises(UsageError):
            Walker(graph, p, q)
