"""Means of word vectors: the values of a plain loop, whatever lines are around a line; weights computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.configs.embed import Embed, EmbedWords
from nlptools.errors import BundleError, DataError, UsageError
from nlptools.inference.embedding import word_embedder
from nlptools.inference.embedding.word_embedder import SMOOTH, WordEmbedder, count, load
from nlptools.inference.opening import holds_vectors
from nlptools.inference.uses import Embeds
from nlptools.text import tokenizer as tokenizers
from nlptools.vectors.files.formats import save
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors

NAMES = ["the", "cat", "sat", "on", "mat", "Paris", "US", "us"]
ROWS = np.random.default_rng(0).standard_normal((len(NAMES), 5), dtype=np.float32)
LINES = ["the cat sat on the mat", "", "  cat  ", "nothing known", "the zzz cat", "CAT paris PARIS Us"]


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder(Vectors(NAMES, ROWS))


def row(word: str) -> np.ndarray:
    return ROWS[NAMES.index(word)].astype(np.float64)


def test_means_by_hand(embedder: WordEmbedder, capsys: pytest.CaptureFixture[str]) -> None:
    contract: Embeds = embedder
    found = contract.embed(LINES)
    assert found.dtype == np.float32 and found.shape == (6, 5) and contract.dimensions == 5
    expected = [
        (2 * row("the") + row("cat") + row("sat") + row("on") + row("mat")) / 6,
        np.zeros(5),
        row("cat"),
        np.zeros(5),
        (row("the") + row("cat")) / 2,
        (row("cat") + 2 * row("Paris") + row("US")) / 4,  # of "US" and "us", the first in the file
    ]
    assert np.allclose(found, expected, atol=1e-6)
    contract.finish()
    said = capsys.readouterr().err
    assert "3 of 16 words have no vector and were left out" in said
    assert "2 of 6 lines have no known word: their vectors are zeros" in said


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.sampled_from([*NAMES, "x", "y"]), max_size=9).map(" ".join), max_size=12))
def test_a_plain_loop_gives_the_same(lines: list[str]) -> None:
    found = WordEmbedder(Vectors(NAMES, ROWS)).embed(lines)
    for line, vector in zip(lines, found, strict=True):
        known = [row(word) for word in line.split() if word in NAMES]
        assert np.allclose(vector, np.mean(known, axis=0) if known else 0, atol=1e-6)


@pytest.mark.parametrize("weights", ["uniform", "tf-idf", "sif"])
def test_lines_do_not_depend_on_their_neighbors(weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    names = [f"w{i}" for i in range(60)]
    save(Vectors(names, rng.standard_normal((60, 7), dtype=np.float32)), str(tmp_path / "v.txt"))
    lines = [" ".join(rng.choice(names, rng.integers(0, 9))) for _ in range(600)]
    (tmp_path / "text").write_text("\n".join(lines))
    words = EmbedWords(word_weights=weights, counts=None if weights == "uniform" else str(tmp_path / "text"))
    made = load(str(tmp_path / "v.txt"), None, words)
    together = made.embed(lines)
    alone = np.concatenate([made.embed([line], made.prepare([line])) for line in lines])
    assert (together == alone).all()
    monkeypatch.setattr(word_embedder, "CACHED_NUMBERS", 100)  # fewer words at hand than a window has
    small = load(str(tmp_path / "v.txt"), None, words)
    assert (np.concatenate([small.embed(lines[i : i + 50]) for i in range(0, 600, 50)]) == together).all()


def test_weights_of_documents_by_hand(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the cat the\nthe mat\nthe\n")
    made = WordEmbedder(Vectors(NAMES, ROWS))
    made.weigh_by_documents(count(str(tmp_path / "text"), tokenizers.load("whitespace")))
    idf = {"the": math.log(4 / 4) + 1, "cat": math.log(4 / 2) + 1, "sat": math.log(4 / 1) + 1}
    expected = (2 * idf["the"] * row("the") + idf["cat"] * row("cat") + idf["sat"] * row("sat")) / (
        2 * idf["the"] + idf["cat"] + idf["sat"]
    )
    assert np.allclose(made.embed(["the the cat sat unknown"])[0], expected, atol=1e-6)


def test_smooth_weights_are_those_of_the_paper(tmp_path: Path) -> None:
    lines = ["the cat sat", "the mat", "on the mat the cat", "unknown", "cat"]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    save(Vectors(NAMES, ROWS), str(tmp_path / "v.npy"))
    made = load(str(tmp_path / "v.npy"), None, EmbedWords(word_weights="sif", counts=str(tmp_path / "text")))
    words = " ".join(lines).split()
    share = {word: words.count(word) / len(words) for word in [*words, "sat"]}

    def weighted(line: str) -> np.ndarray:
        known = [word for word in line.split() if word in NAMES]
        rows = [SMOOTH / (SMOOTH + share.get(word, 0)) * row(word) for word in known]
        return np.mean(rows, axis=0) if rows else np.zeros(5)

    matrix = np.stack([weighted(line) for line in lines])
    first = np.linalg.svd(matrix)[2][0]
    asked = [*lines, "Paris mat"]
    expected = [weighted(line) - first * (first @ weighted(line)) for line in asked]
    assert np.allclose(made.embed(asked), expected, atol=1e-6)
    assert np.allclose(made.embed(asked) @ first, 0, atol=1e-6)


def test_smooth_weights_without_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    made = WordEmbedder(Vectors(NAMES, ROWS, counts=[50, 20, 10, 10, 5, 3, 1, 1]))
    made.smooth()
    assert capsys.readouterr().err == ""
    shares = np.array([50, 20, 10, 10, 5, 3, 1, 1]) / 100
    weighted = ROWS * (SMOOTH / (SMOOTH + shares))[:, None]
    # what ten words drawn independently give on average, by enumeration of pairs
    moment = sum(
        (p * (q / 10 * 9 + (i == j) / 10)) * np.outer(weighted[i], weighted[j])
        for i, p in enumerate(shares)
        for j, q in enumerate(shares)
    )
    first = np.linalg.eigh(moment)[1][:, -1]
    mean = (weighted[0] + weighted[1]) / 2
    assert np.allclose(made.embed(["the cat"])[0], mean - first * (first @ mean), atol=1e-6)
    zipf = WordEmbedder(Vectors(NAMES, ROWS))
    zipf.smooth()
    assert "Zipf's law" in capsys.readouterr().err
    ranks = WordEmbedder(Vectors(NAMES, ROWS, counts=[840, 420, 280, 210, 168, 140, 120, 105]))
    ranks.smooth()
    assert np.allclose(zipf.embed(LINES), ranks.embed(LINES), atol=1e-6)


def test_words_of_n_grams(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    own, buckets = (rng.standard_normal((n, 5), dtype=np.float32) for n in (8, 100))
    kept = Subwords(3, 6, buckets, own)
    made = WordEmbedder(Vectors(NAMES, kept.vectors(NAMES, range(len(NAMES))), subwords=kept))
    found = made.embed(["caterpillar the", "\u00e9"])
    expected = (kept.compose("caterpillar") + kept.vectors(["the"], [0])[0]) / 2  # type: ignore[operator]
    assert np.allclose(found[0], expected, atol=1e-6)
    made.finish()
    said = capsys.readouterr().err
    assert "2 of 3 words have vectors made of their n-grams" in said and "left out" not in said


def test_units(embedder: WordEmbedder) -> None:
    first, empty, _ = embedder.embed_units(["the zzz cat", "", "on"])
    assert first.names == ["the", "zzz", "cat"] and empty.names == [] and empty.vectors.shape == (0, 5)
    assert np.array_equal(first.vectors, np.stack([ROWS[0], np.zeros(5, np.float32), ROWS[1]]))


def test_shorter_and_of_length_one() -> None:
    made = WordEmbedder(Vectors(NAMES, ROWS), settings=Embed(truncate_dim=3, normalize=True))
    found = made.embed(["the cat", ""])
    expected = (row("the") + row("cat"))[:3]
    assert made.dimensions == 3 and np.allclose(found[0], expected / np.linalg.norm(expected), atol=1e-6)
    assert not found[1].any()


def test_lower_casing_and_other_tokenizers(tmp_path: Path) -> None:
    save(Vectors(NAMES, ROWS), str(tmp_path / "v.txt"))
    made = load(str(tmp_path / "v.txt"), None, EmbedWords(tokenizer="words", lowercase=True))
    assert np.allclose(made.embed(["US,cat!"])[0], (row("us") + row("cat")) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("embed", "words", "said"),
    [
        ({"layers": "mean:all"}, {}, "--layers"),
        ({"pooling": "cls"}, {}, "--pooling cls"),
        ({"prompt": "query: "}, {}, "--prompt"),
        ({}, {"word_weights": "tf-idf"}, "--counts FILE"),
        ({}, {"word_weights": "sif", "counts": "-"}, "read twice"),
        ({}, {"counts": "text"}, "--counts is for"),
        ({"unit": "word"}, {"word_weights": "sif"}, "--unit sentence"),
    ],
)
def test_what_word_vectors_cannot_do(embed: dict, words: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load("nowhere.txt", Embed(**embed), EmbedWords(**words))


def test_bad_input(tmp_path: Path) -> None:
    bad = ROWS.copy()
    bad[3, 2] = np.nan
    made = WordEmbedder(Vectors(NAMES, bad))
    assert made.embed(["the cat"]).any()
    with pytest.raises(BundleError, match="word 4 is not finite"):
        made.embed(["cat on"])
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(DataError, match="no words to count"):
        count(str(tmp_path / "empty"), tokenizers.load("whitespace"))


def test_what_is_a_file_of_vectors(tmp_path: Path) -> None:
    save(Vectors(NAMES, ROWS), str(tmp_path / "v"), "bundle")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    names = ["v", "model", "a.vec", "glove.6B.txt.gz", "a.safetensors", "nowhere"]
    assert [holds_vectors(str(tmp_path / name)) for name in names] == [True, False, True, True, False, False]
    assert load(str(tmp_path / "v")).embed(["the"]).shape == (1, 5)
