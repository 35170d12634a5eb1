"""cluster and dedupe as commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

from tests.tasks.tiny_tasks import encoder

VECTORS = """11 2
cat 1 0.1
dog 1 0
bird 1 -0.1
pet 0.9 0
animal 1 0.05
car 0 1
bus 0.1 1
train -0.1 1
bike 0 0.9
road 0.05 1
the 0.5 0.5
"""
LINES = ["the cat", "bus and car", "dog", "train on the road", "bird pet", "animal pet cat", "car"]


def test_clusters_of_lines(call: Run, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(VECTORS)
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    done = call("cluster", "-m", "v.txt", "-k", 2, "lines.txt")
    assert done.code == 0, done.err
    assert done.lines == [f"{label}\t{line}" for label, line in zip("0101001", LINES, strict=True)]
    summary = call("cluster", "-m", "v.txt", "-k", 2, "--summary", "--words", 2, "--central", 1, "lines.txt").lines
    rows = [line.split("\t") for line in summary]
    assert [row[:2] for row in rows] == [["0", "4"], ["1", "3"]]
    assert set(rows[0][2].split()) == {"cat", "pet"} and "car" in rows[1][2] and rows[1][3] in LINES
    objects = call("cluster", "-m", "v.txt", "-k", 2, "--summary", "--to", "jsonl", "lines.txt").lines
    assert json.loads(objects[1])["size"] == 3
    found = call("embed", "v.txt", "lines.txt", "-o", "rows.npy")
    assert found.code == 0
    assert call("cluster", "--vectors", "rows.npy", "-k", 2, "lines.txt").lines == done.lines
    np.save(tmp_path / "less.npy", np.ones((2, 2), np.float32))
    refused = call("cluster", "--vectors", "less.npy", "lines.txt")
    assert refused.code == 65 and "2 vectors, but 7 lines" in refused.err
    assert call("cluster", "lines.txt").code == 2
    assert call("cluster", "-m", "v.txt", stdin="").code == 65


def test_dedupe_by_text(call: Run) -> None:
    text = (
        "The cat sat on the mat.\nAnother line\n the cat  sat on the mat.\nThe cat sat on the mat!\n\n\nanother line\n"
    )
    done = call("dedupe", stdin=text)
    assert done.lines == ["The cat sat on the mat.", "Another line", ""] and "7 lines, 4 of them duplicates" in done.err
    labels = call("dedupe", "--labels", "--line-buffered", stdin=text)
    assert [line.split("\t")[0] for line in labels.lines] == ["1", "2", "1", "1", "5", "5", "2"]
    exact = call("dedupe", "--threshold", "1", stdin=text)
    assert len(exact.lines) == 4
    words = call("dedupe", "--ngrams", "words", "-n", 1, "--threshold", 0.5, stdin="a b c\nc b d\nx y\n")
    assert words.lines == ["a b c", "x y"]
    assert call("dedupe", "--ngrams", "words", "-m", "x", stdin=text).code == 2


def test_dedupe_by_vectors(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    lines = ["w1 w2", "w9 bad w4", "w1 w2", "w5", "w9 bad w4"]
    done = call("dedupe", "-m", "encoder", "--threads", 1, "--threshold", 0.9999, "--labels", stdin="\n".join(lines))
    assert [line.split("\t")[0] for line in done.lines] == ["1", "2", "1", "4", "2"], done.err
    assert call("embed", "encoder", "--threads", 1, "-o", "rows.npy", stdin="\n".join(lines)).code == 0
    same = call("dedupe", "--vectors", "rows.npy", "--threshold", 0.9999, "--labels", stdin="\n".join(lines))
    assert same.lines == done.lines


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
def test_neighbors_by_a_graph(call: Run, tmp_path: Path, metric: str) -> None:
    pytest.importorskip("hnswlib")
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "lines.txt").write_text("".join(f"line {i}\n" for i in range(300)))
    queries = "".join(json.dumps({"text": f"q{i}", "embedding": rows[i].tolist()}) + "\n" for i in range(0, 40, 4))
    how = ("neighbors", "rows.npy", "--lines", "lines.txt", "--embedded", "--metric", metric, "-k", 5)
    exact = call(*how, stdin=queries)
    for _ in range(2):  # made, then read
        done = call(*how, "--index", "graph", stdin=queries)
        assert done.code == 0 and "recall of the index 1.0000, of 10 queries" in done.err, done.err
        assert done.lines == exact.lines
    assert "building the index" not in done.err
    np.save(tmp_path / "rows.npy", rows + 1)
    other = call(*how, "--index", "graph", stdin=queries)
    assert other.code == 2 and "an index of other vectors" in other.err
    (tmp_path / "graph" / "graph.bin").write_bytes(b"x")
    damaged = call(*how, "--index", "graph", stdin=queries)
    assert damaged.code == 78 and "damaged" in damaged.err
    assert call("neighbors", "rows.npy", "--lines", "lines.txt", "--index", "graph", stdin="line 1\n").code == 2
