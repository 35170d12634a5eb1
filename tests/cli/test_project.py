"""project: maps by the name of the output, what is told on standard error, and what is refused."""

from __future__ import annotations

import json
import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

WORDS = ["king", "queen", "man", "woman", "new york", "\u05e9\u05dc\u05d5\u05dd", "\u6771\u4eac", "a<b", "$x$"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).standard_normal((len(WORDS), 5)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)]
    (tmp_path / "v.txt").write_text(f"{len(WORDS)} 5\n" + "".join(lines), encoding="utf-8")
    return tmp_path / "v.txt"


def cells(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


def test_a_table_on_standard_output(call: Run, table: Path) -> None:
    done = call("project", table)
    rows = cells(done.text)
    assert done.code == 0 and [row[0] for row in rows] == WORDS and {len(row) for row in rows} == {3}
    assert re.fullmatch(r"PCA, 9 words, \d+\.\d% of the variance\n", done.err)
    spots = np.array([row[1:] for row in rows], float)
    assert np.abs(spots.mean(axis=0)).max() < 1e-5 and (spots[:, 0] ** 2).sum() >= (spots[:, 1] ** 2).sum() > 0
    assert call("project", "-q", "-", stdin=table.read_bytes()).out == done.out
    done = call("project", table, "-o", "/dev/full")
    assert done.code == 74 and done.err.endswith("nlptools project: /dev/full: write failed: no space left on device\n")
    space = call("project", table, "--dims", 3, "-n", 4, "-q")
    assert [len(row) for row in cells(space.text)] == [4] * 4 and space.err == ""
    by_cosine = call("project", table, "--distance", "cosine")
    assert by_cosine.code == 0 and by_cosine.out != done.out


def test_words_of_a_list(call: Run, table: Path) -> None:
    done = call("project", table, "--words", "-", stdin="woman\tpeople\nnowhere\nking\nwoman\na<b\n")
    assert [row[0] for row in cells(done.text)] == ["woman", "king", "a<b"]
    assert "warning: 1 of 4 words have no vector: nowhere" in done.err and "1 repeated words" in done.err
    assert call("project", "-", "--words", "-", stdin="x").code == 2
    done = call("project", table, "--words", "-", stdin="nowhere\nking\n")
    assert done.code == 65 and "a map needs at least two words, found 1" in done.err


def test_own_axes(call: Run, tmp_path: Path) -> None:
    vectors = {"man": [1, 0, 0], "woman": [4, 4, 0], "poor": [0, 0, 1], "rich": [0, 0, 3], "nurse": [5, 5, 2]}
    lines = [f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()]
    (tmp_path / "v.txt").write_text("5 3\n" + "".join(lines))
    options = ("--axes", "man,woman", "--axes", "poor,rich")
    done = call("project", "v.txt", *options)  # along (0.6, 0.8, 0) and (0, 0, 1)
    expected = [["man", 0.6, 0], ["woman", 5.6, 0], ["poor", 0, 1], ["rich", 0, 3], ["nurse", 7, 2]]
    assert done.code == 0 and done.err == "own axes, 5 words\n"
    assert [[row[0], *map(float, row[1:])] for row in cells(done.text)] == expected
    done = call("project", "v.txt", *options, "--distance", "cosine")
    assert done.code == 65 and "an axis have vectors that point the same way" in done.err
    options = ("--axes", "man,woman", "--axes", "man,rich", "--axes", "poor,nurse", "--distance", "cosine")
    done = call("project", "v.txt", *options, "--words", "-", stdin="nurse\nman\n")
    units = {word: np.array(vector) / np.linalg.norm(vector) for word, vector in vectors.items()}
    axes = [units[end] - units[start] for start, end in (("man", "woman"), ("man", "rich"), ("poor", "nurse"))]
    for word, *spots in cells(done.text):
        along = [units[word] @ axis / np.linalg.norm(axis) for axis in axes]
        assert list(map(float, spots)) == pytest.approx(along, abs=1e-5)
    assert call("project", "v.txt", *options[:4], "-o", "m.svg").code == 0
    drawn = (tmp_path / "m.svg").read_text(encoding="utf-8")
    assert "man \u2192 woman" in drawn and "man \u2192 rich" in drawn


def test_spherize(call: Run, table: Path) -> None:
    done = call("project", table, "--spherize", "--axes", "man,woman", "--axes", "king,queen")
    rows = np.array([line.rsplit(" ", 5)[1:] for line in table.read_text(encoding="utf-8").split("\n")[1:-1]], float)
    rows = rows - rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    axes = np.stack([rows[3] - rows[2], rows[1] - rows[0]])
    expected = rows @ (axes / np.linalg.norm(axes, axis=1, keepdims=True)).T
    assert done.err == "own axes, 9 words, spherized\n"
    assert np.array([row[1:] for row in cells(done.text)], float) == pytest.approx(expected, abs=1e-5)
    assert call("project", table, "--spherize").out != call("project", table).out


def test_a_matrix_without_words(call: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.random.default_rng(0).integers(0, 9, (6, 4)))
    assert [row[0] for row in cells(call("project", "m.npy").text)] == list("012345")
    (tmp_path / "names").write_text("a\nb\nc\na\ne\nf\n")
    done = call("project", "m.npy", "--words", "names", "-n", 5)
    assert [row[0] for row in cells(done.text)] == list("abcae")
    (tmp_path / "names").write_text("a\nb\n")
    done = call("project", "m.npy", "--words", "names")
    assert done.code == 65 and "m.npy: 6 rows, 2 words" in done.err
    (tmp_path / "m.vocab.tsv").write_text("a\nb\nc\nd\ne\nf\n")
    done = call("project", "m.npy", "--words", "names")
    assert done.code == 78, "with words beside it, an array of integers is none of vectors"


@pytest.mark.parametrize("method", ["tsne"])
def test_a_seed_gives_the_same_bytes(call: Run, table: Path, method: str) -> None:
    pytest.importorskip("sklearn")
    done = call("project", table, "--method", method, "--seed", 5)
    assert done.code == 0 and "t-SNE: perplexity 2.66667 instead of 30" in done.err
    assert call("project", table, "--method", method, "--seed", 5).out == done.out
    assert call("project", table, "--method", method, "--seed", 6).out != done.out


def test_a_page(call: Run, table: Path, tmp_path: Path) -> None:
    done = call("project", table, "--arrows", "king:queen,man:nobody", "--title", "A & B", "-o", "m.html")
    assert done.code == 0 and done.out == b"" and "1 of 2 arrows" in done.err
    text = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "<title>A &amp; B</title>" in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert data["words"] == ["king", "queen", "man"], "arrows alone show their words"
    assert data["arrows"] == [[0, 1]]
    done = call("project", table, "--arrows", "king:queen", "-n", 0, "-o", "m.html", "--force")
    data = json.loads((tmp_path / "m.html").read_text("utf-8").partition('id="data">')[2].partition("</script>")[0])
    assert done.code == 0 and data["words"] == WORDS


def test_pictures(call: Run, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "groups").write_text("".join(f"{word}\tg{i % 2}\n" for i, word in enumerate(WORDS)), encoding="utf-8")
    options = ("--words", "groups", "--arrows", "king:queen")
    done = call("project", table, *options, "-o", "m.png", "--width", 5, "--height", 4)
    data = (tmp_path / "m.png").read_bytes()
    assert done.code == 0 and struct.unpack(">II", data[16:24]) == (750, 600), "150 dots per inch"
    assert done.err.count("warning") <= 1 and "Glyph" not in done.err and "findfont" not in done.err
    assert call("project", table, *options, "-o", "again.png", "--width", 5, "--height", 4).code == 0
    assert (tmp_path / "again.png").read_bytes() == data
    for dims in (2, 3):
        assert call("project", table, *options, "--dims", dims, "-o", f"m{dims}.svg").code == 0
        tree = ElementTree.parse(tmp_path / f"m{dims}.svg")
        words = {"".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")}
        assert {*WORDS, "v.txt", "g0", "g1"} <= words, "words stay text"
        assert any(word.startswith("PC 1 (") for word in words)


def test_a_crowd_has_fewer_labels(call: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    np.save(tmp_path / "m.npy", np.random.default_rng(0).standard_normal((1500, 6)))
    done = call("project", "m.npy", "-o", "m.svg")
    assert done.code == 0
    assert (found := re.search(r"([\d,]+) of 1,000 words have room for their labels", done.err))
    assert 50 < int(found.group(1)) < 900
    assert "the first 1,000 of 1,500 words; --count 0 shows all" in done.err
    done = call("project", "m.npy", "-n", 0, "-o", "all.html")
    assert done.code == 0 and "PCA, 1,500 words" in done.err and "first" not in done.err


def test_a_directory_for_the_projector(call: Run, table: Path, tmp_path: Path) -> None:
    done = call("project", table, "-o", "out")
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "metadata.tsv",
        "projector_config.pbtxt",
        "tensors.tsv",
    ]
    assert (tmp_path / "out/metadata.tsv").read_text("utf-8") == "".join(f"{word}\n" for word in WORDS)
    tensors = np.loadtxt(tmp_path / "out/tensors.tsv", delimiter="\t", dtype=np.float32)
    lines = table.read_text("utf-8").split("\n")[1:-1]
    assert (tensors == np.array([line.rsplit(" ", 5)[1:] for line in lines], np.float32)).all()
    assert call("project", table, "-o", "out").code == 73
    assert call("project", table, "-n", 2, "-o", "out/", "--force").code == 0
    assert (tmp_path / "out/metadata.tsv").read_text("utf-8") == "king\nqueen\n"
    (tmp_path / "out/mine").write_text("")
    done = call("project", table, "-o", "out", "--force")
    assert done.code == 73 and "something other than" in done.err and (tmp_path / "out/mine").exists()
    for option in (("--method", "tsne"), ("--arrows", "king:queen")):
        assert call("project", table, "-o", "other", *option).code == 2


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["v.txt", "-o", "m.pdf"], 2, "m.pdf: expected a name that ends in"),
        (["v.txt", "--dims", "4"], 2, "between 2 and 3"),
        (["v.txt", "--method", "mds"], 2, "'mds'"),
        (["v.txt", "--arrows", "king:queen"], 2, "--arrows is for"),
        (["v.txt", "--arrows", "king;queen", "-o", "m.html"], 66, "no such file of arrows"),
        (["v.txt", "--words", "nowhere"], 66, "nowhere: no such file"),
        (["v.txt", "--axes", "king,queen"], 2, "--axes: expected two or three"),
        (["v.txt", "--axes", "king,queen", "--axes", "king"], 2, "--axes king: expected two words"),
        (["v.txt", "--axes", "king,queen", "--axes", "man,nowhere"], 65, "nowhere, a word of --axes, has no vector"),
        (["v.txt", "--axes", "king,queen", "--axes", "man,man"], 65, "man,man: both words have the same vector"),
        (["v.txt", "--axes", "king,queen", "--axes", "man,woman", "--dims", "3"], 2, "cannot be combined with --dims"),
        (
            ["v.txt", "--axes", "king,queen", "--axes", "man,woman", "--method", "tsne"],
            2,
            "combined with --method tsne",
        ),
        (["v.txt", "--spherize", "-o", "projector/"], 2, "a directory is for the projector"),
        (["nowhere.txt"], 66, "nowhere.txt: no such file"),
        (["v.txt", "-n", "1"], 65, "at least two words, found 1"),
        (["v.txt", "-o", "there.tsv"], 73, "there.tsv: exists"),
        (["v.txt", "-o", "no/where.html"], 73, "no such file or directory"),
        (["same.txt"], 65, "all 3 vectors are the same"),
        (["ray.txt", "--distance", "cosine"], 65, "point the same way"),
        (["empty.txt"], 78, "empty.txt"),
        (["none.txt"], 65, "found 0"),
        (["nan.txt"], 78, "nan.txt:2: expected a finite number"),
        (["nan.npy"], 78, "word 2 is not finite"),
        (["flat.npy"], 78, "expected a matrix"),
        (["text.npy"], 78, "expected a matrix"),
        (["pickle.npy"], 78, "not a readable array"),
    ],
)
def test_refusals(call: Run, table: Path, tmp_path: Path, args: list[str], code: int, said: str) -> None:
    (tmp_path / "there.tsv").write_text("mine")
    (tmp_path / "same.txt").write_text("3 2\na 1 2\nb 1 2\nc 1 2\n")
    (tmp_path / "ray.txt").write_text("3 2\na 1 2\nb 2 4\nc 3 6\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "none.txt").write_text("0 2\n")
    (tmp_path / "nan.txt").write_text("2 2\na nan 2\nb 1 2\n")
    np.save(tmp_path / "nan.npy", np.array([[1, 2], [np.nan, 1], [2, 3]]))
    np.save(tmp_path / "flat.npy", np.ones(4))
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "pickle.npy", np.array([[{}]]))
    before = sorted(path.name for path in tmp_path.iterdir())
    done = call("project", *args)
    assert (done.code, done.out) == (code, b"") and said in done.err, done.err
    assert done.err.startswith("nlptools project: ") and "Traceback" not in done.err
    assert (tmp_path / "there.tsv").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "nothing is left behind"


@pytest.mark.parametrize(
    ("args", "missing", "package"),
    [
        (["--method", "tsne"], "sklearn.manifold", "scikit-learn"),
        (["--method", "umap", "-o", "m.html"], "umap", "umap-learn"),
        (["-o", "m.png"], "matplotlib.figure", "matplotlib"),
    ],
)
def test_missing_packages(
    call: Run, table: Path, args: list[str], missing: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, missing, None)
    done = call("project", "nowhere.txt", *args)
    assert done.code == 69 and package in done.err and "in the checkout of nlptools: pip install '.[viz]'" in done.err


@pytest.mark.sampled(law="an output that fails ends the command")
def test_a_closed_pipe_is_no_error(shell: Run, table: Path) -> None:
    done = shell("nlptools project v.txt | head -1; echo ${PIPESTATUS[0]}")
    assert done.lines[0].startswith("king\t") and done.lines[1] in ("0", "141") and "Traceback" not in done.err


def test_lines_with_vectors(call: Run, tmp_path: Path) -> None:
    from nlptools.vectors.files.array_writer import ArrayWriter

    rows = np.random.default_rng(0).standard_normal((5, 4), dtype=np.float32)
    texts = ["a line", "another\tone", "", "a line", "x" * 300]
    for form in ("npy", "jsonl"):
        with ArrayWriter(str(tmp_path / f"t.{form}"), form, 4) as writer:
            writer.write(rows, texts)
    (tmp_path / "texts").write_text("\n".join(texts) + "\n")
    expected = call("project", "t.npy").out
    assert [row[0] for row in cells(expected.decode())] == ["a line", "another\\tone", "", "a line", "x" * 300]
    array, records = (tmp_path / "t.npy").read_bytes(), (tmp_path / "t.jsonl").read_bytes()
    assert call("project", "-", stdin=records).out == expected
    assert call("project", "-", "--lines", "texts", stdin=array).out == expected
    assert call("project", "t.npy", "--lines", "texts").out == expected
    assert [row[0] for row in cells(call("project", "-", stdin=array + array).text)] == [str(i) for i in range(10)]
    done = call("project", "-", "-o", "map.html", stdin=records)
    assert done.code == 0 and (tmp_path / "map.html").stat().st_size > 1000
