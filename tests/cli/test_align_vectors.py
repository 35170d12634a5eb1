"""align-vectors: files in, files out, what is told and what is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run

from nlptools.vectors.files.formats import load, save
from nlptools.vectors.table import Vectors
from tests.real_data import published

COUNT = 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """de.txt and en.txt, the second a rotation of the first; d.txt, the dictionary of all words."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((COUNT, 8)).astype(np.float32)
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    save(Vectors([f"de{i}" for i in range(COUNT)], rows), str(tmp_path / "de.txt"))
    save(Vectors([f"en{i}" for i in range(COUNT)], (rows @ turn * 3).astype(np.float32)), str(tmp_path / "en.txt"))
    (tmp_path / "d.txt").write_text("".join(f"de{i} en{i}\n" for i in range(COUNT)))
    return tmp_path


def test_both_languages_in_one_table(call: Run, folder: Path) -> None:
    done = call("align-vectors", "de.txt", "en.txt", "--dictionary", "d.txt", "--both", "de:,en:", "-o", "both")
    assert (done.code, done.out) == (0, b"")
    assert done.err == "dictionary: 120 of 120 pairs in the vocabularies (120 of 120 words)\n"
    found = call("neighbors", "both", "-k", 1, stdin="de:de7\nen:en3\n")
    assert [line.split("\t")[1] for line in found.lines] == ["en:en7", "de:de3"]


@pytest.mark.parametrize("normalize", ["none", "unit", "center"])
def test_the_same_vectors_on_both_sides(call: Run, folder: Path, normalize: str) -> None:
    options = ["--normalize", normalize, "-o", "a.npy", "--target-output", "b.npy"]
    done = call("align-vectors", "de.txt", "en.txt", "-d", "d.txt", *options)
    assert done.code == 0 and "centered" not in done.err
    one, two = load(folder / "a.npy"), load(folder / "b.npy")
    assert one.words[5] == "de5" and two.words[5] == "en5"
    scale = 3 if normalize == "none" else 1
    np.testing.assert_allclose(one.matrix * scale, two.matrix, atol=1e-5)


def test_standard_output_is_word2vec_text(call: Run, folder: Path) -> None:
    done = call("align-vectors", "de.txt", "en.txt", "-d", "d.txt")
    assert done.lines[0] == f"{COUNT} 8" and done.lines[1].startswith("de0 ") and len(done.lines) == COUNT + 1
    assert "compare only with centered vectors of TARGET" in done.err
    piped = call("align-vectors", "-", "en.txt", "-d", "d.txt", "-q", stdin=(folder / "de.txt").read_bytes())
    assert piped.out == done.out and piped.err == ""
    shuffled = "".join(reversed((folder / "d.txt").read_text().splitlines(keepends=True)))
    assert call("align-vectors", "de.txt", "en.txt", "-d", "-", stdin=shuffled).out == done.out


def test_pipes_and_devices(shell: Run, folder: Path) -> None:
    line = "nlptools align-vectors <(cat de.txt) <(cat en.txt) -d <(cat d.txt) --held-out 9 --report - -o /dev/null -q"
    done = shell(line)
    assert done.code == 0 and done.err == "" and len(done.lines) == 6
    for into, code in (("> /dev/full", 74), ("| true", 0), (">&-", 74)):
        done = shell(f"nlptools align-vectors de.txt en.txt -d d.txt -q {into}")
        assert done.code in (code, 141) and "Traceback" not in done.err and done.err.count("\n") <= 1, done


def test_precision(call: Run, folder: Path) -> None:
    (folder / "test.txt").write_text("de1 en1\nde1\ten2\nde3 en4\nde5 other\nzz en1\n")
    (folder / "few.txt").write_text("".join(f"de{i} en{i}\n" for i in range(20, COUNT)))
    options = ["-d", "few.txt", "--test", "test.txt", "-o", "a.npy", "--confidence", "100"]
    done = call("align-vectors", "de.txt", "en.txt", *options, "--report", "-")
    assert done.code == 0, done.err
    rows = [line.split("\t") for line in done.lines]
    assert [row[0] for row in rows] == [f"precision@{k}:{way}" for way in ("csls", "cosine") for k in (1, 5, 10)]
    assert rows[0][1:4] == ["0.5000", "2", "words"] and len(rows[0]) == 7
    assert rows[0][4].startswith("csls:10|normalize:center|refine:0|pairs:100|candidates:120|coverage:2/4|held-out:no|")
    assert "test: 3 of 5 pairs in the vocabularies (2 of 4 words)" in done.err
    assert "precision@1:csls  0.5000 ± 0." in done.err and rows[0][4] in done.err
    call("align-vectors", "de.txt", "en.txt", *options, "--report", "r.jsonl", "--force")
    record = json.loads((folder / "r.jsonl").read_text().split("\n")[0])
    assert record["name"] == "precision@1:csls" and record["value"] == 0.5 and record["interval"]["resamples"] == 100


def test_words_held_out(call: Run, folder: Path) -> None:
    done = call("align-vectors", "de.txt", "en.txt", "-d", "d.txt", "--held-out", "0.25", "-o", "a", "--report", "-")
    assert [line.split("\t")[1:3] for line in done.lines] == [["1.0000", "30"]] * 6
    assert "|pairs:90|" in done.err and "|held-out:0.25,seed=12345|" in done.err
    done = call("align-vectors", "de.txt", "en.txt", "-d", "d.txt", "--test", "d.txt", "-o", "b")
    assert "warning: 120 of 120 test words are in the dictionary" in done.err


def test_refinement(call: Run, folder: Path) -> None:
    (folder / "few.txt").write_text("".join(f"de{i} en{i}\n" for i in range(12)))
    done = call("align-vectors", "de.txt", "en.txt", "-d", "few.txt", "--refine", 2, "-v", "-o", "a", "--restrict", 100)
    assert done.code == 0 and "refinement 1: 100 pairs of words that are each other's nearest" in done.err
    assert len(load(folder / "a")) == COUNT, "all words are rotated, whichever were candidates"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["-d", "missing"], 66, "missing: no such file"),
        (["-d", "bad.txt"], 65, "bad.txt:2: expected a word and its translation"),
        (["-d", "other.txt"], 65, "none of the 1 pairs"),
        (["-d", "latin.txt"], 65, "latin.txt:1: invalid UTF-8"),
        (["-d", "d.txt", "--test", "other.txt"], 65, "no pair to test on"),
        (["-d", "d.txt", "--test", "d.txt", "--held-out", "5"], 2, "--test cannot be combined with --held-out"),
        (["-d", "d.txt", "--held-out", "120"], 2, "cannot be held out"),
        (["-d", "d.txt", "--report", "r"], 2, "--report requires --test or --held-out"),
        (["-d", "d.txt", "--held-out", "5", "--report", "-"], 2, "--report must differ"),
        (["-d", "d.txt", "--both", "de:"], 2, "two prefixes"),
        (["-d", "d.txt", "-o", "d.txt"], 73, "d.txt: exists"),
        (["-d", "d.txt", "-o", "nowhere/a.txt"], 73, "no directory nowhere"),
        (["-d", "d.txt", "-o", "a.what"], 2, "--to"),
        (["-d", "d.txt", "--to", "npy"], 2, "standard output"),
        (["-d", "-", "--test", "-"], 2, "only once"),
        ([], 2, "--dictionary"),
    ],
)
def test_refusals(call: Run, folder: Path, options: list[str], code: int, said: str) -> None:
    (folder / "bad.txt").write_text("a b\na b c\n")
    (folder / "other.txt").write_text("Hund dog\n")
    (folder / "latin.txt").write_bytes(b"\xe4 b\n")
    done = call("align-vectors", "de.txt", "en.txt", *options)
    assert (done.code, done.out) == (code, b"") and said in done.err, done.err
    assert "Traceback" not in done.err


def test_tables_that_do_not_fit(call: Run, folder: Path) -> None:
    (folder / "e.txt").write_text("1 2\nen1 1 2\n")
    done = call("align-vectors", "de.txt", "e.txt", "-d", "d.txt")
    assert done.code == 65 and "de.txt has 8 dimensions, e.txt has 2" in done.err
    (folder / "e.txt").write_text("1 2\nen1 1 nan\n")
    assert call("align-vectors", "de.txt", "e.txt", "-d", "d.txt").code == 78


def test_real_words(call: Run, tmp_path: Path) -> None:
    """Vectors of German and English words, from counts of their neighbours, find translations that were held out."""
    sides = []
    for side in ("de", "en"):
        text = published("multi30k", f"train.{side}").read_text(encoding="utf-8").lower()
        words, inside, near = _counts(text.split("\n")[:-1])
        save(Vectors(words, _vectors(near)), str(tmp_path / f"{side}.txt"))
        sides.append((words, inside))
    (de, one), (en, two) = sides
    dice = 2 * (one.T @ two) / (one.sum(0)[:, None] + two.sum(0))
    best = [(i, int(row.argmax())) for i, row in enumerate(dice) if row.max() > 0.5]
    (tmp_path / "d").write_text("".join(f"{de[i]} {en[j]}\n" for i, j in best if dice[:, j].argmax() == i))
    options = ["-d", "d", "--held-out", 0.3, "-o", "o", "--report", "-"]
    done = call("align-vectors", "de.txt", "en.txt", *options)
    assert done.code == 0, done.err
    values = {line.split("\t")[0]: float(line.split("\t")[1]) for line in done.lines}
    assert values["precision@10:csls"] > 0.4 > 20 * 10 / len(en)
    assert values["precision@1:csls"] > values["precision@1:cosine"]


def _counts(lines: list[str], most: int = 1000) -> tuple[list[str], Any, Any]:
    """The most frequent words (V); which line holds which (L, V); how often one stands within 3 words of another (V, V)."""
    sentences = [re.findall(r"\w+", line) for line in lines]
    words = [word for word, _ in Counter(word for sentence in sentences for word in sentence).most_common(most)]
    number = {word: i for i, word in enumerate(words)}
    inside = np.zeros((len(lines), len(words)), np.float32)
    near = np.zeros((len(words), len(words)))
    for row, sentence in zip(inside, sentences, strict=True):
        ids = np.array([number.get(word, -1) for word in sentence], np.int64)
        row[ids[ids >= 0]] = 1
        for distance in (1, 2, 3):
            one, two = ids[:-distance], ids[distance:]
            both = (one >= 0) & (two >= 0)
            np.add.at(near, (one[both], two[both]), 1)
    return words, inside, near + near.T


def _vectors(near: Any, dimensions: int = 100) -> Any:
    """Positive pointwise mutual information, its first singular directions."""
    with np.errstate(divide="ignore"):
        information = np.log(near * near.sum() / near.sum(0) / near.sum(1)[:, None])
    left, values, _ = np.linalg.svd(np.maximum(information, 0))
    return (left[:, :dimensions] * np.sqrt(values[:dimensions])).astype(np.float32)


def test_a_dictionary_between_commas(call: Run, folder: Path) -> None:
    pairs = (folder / "d.txt").read_text().split("\n")[:-1]
    (folder / "d.csv").write_text("".join(",".join(pair.split()) + "\n" for pair in pairs))
    for name in ("d.txt", "d.csv"):
        assert call("align-vectors", "de.txt", "en.txt", "-d", name, "-o", f"{name}.vec").code == 0
    assert (folder / "d.txt.vec").read_bytes() == (folder / "d.csv.vec").read_bytes()
