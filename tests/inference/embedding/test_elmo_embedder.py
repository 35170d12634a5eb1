"""Vectors of words from an ELMo: those of its layers, whatever is read with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.errors import UsageError
from nlptools.text.byte_spelling import spell

LINES = ["the cat sat", "", "  Übung: the\tmat ", "x" * 60 + " cat", "the cat sat", "a b c d e f g h"]
FP32 = Compute(device="cpu", precision="fp32", threads=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return words_bundle(tmp_path_factory.mktemp("elmo") / "lm", "elmo")


def units(path: Path, lines: list[str] = LINES, **settings: Any) -> list[np.ndarray]:
    embedder = nlptools.load(path, compute=FP32, settings=Embed(unit="word", **settings))
    return [unit.vectors for unit in embedder.embed_units(lines)]


@torch.inference_mode()
def layers_of(path: Path, line: str) -> np.ndarray:
    """(L + 1, n, 2 P)."""
    model: Any = bundle.load(path).model
    words = line.split()
    states = model.layers(torch.from_numpy(spell(words)), torch.arange(len(words))[None], torch.tensor([len(words)]))
    return np.asarray(states[:, 0])


@pytest.mark.parametrize("batch", [1, 5, 4096])
def test_vectors_are_those_of_the_layers_in_any_batch(path: Path, tmp_path: Path, batch: int) -> None:
    (tmp_path / "mix.json").write_text('{"s": [0, 1, 2], "gamma": 3}')
    weights = 3 * np.exp([0.0, 1, 2]) / np.exp([0.0, 1, 2]).sum()
    expected = {
        "0": lambda states: states[0],
        "1": lambda states: states[1],
        "last": lambda states: states[2],
        "mean:all": lambda states: states.mean(0),
        "concat:all": lambda states: np.concatenate(states, -1),
        f"mix:{tmp_path / 'mix.json'}": lambda states: np.tensordot(weights, states, 1),
        "all": lambda states: states.swapaxes(0, 1),
    }
    for layers, of in expected.items():
        rows = units(path, layers=layers, batch_tokens=batch)
        for row, line in zip(rows, LINES, strict=True):
            if line:
                assert np.allclose(row, of(layers_of(path, line)), atol=1e-5), (layers, line)
        assert len(rows[1]) == 0 and rows[1].shape[1:] == rows[0].shape[1:]


def test_with_stateful_a_line_depends_on_those_before_it(path: Path) -> None:
    new, carried = units(path), units(path, stateful=True)
    assert np.allclose(new[0], carried[0], atol=1e-5), "the first line is as without"
    assert np.array_equal(new[0], new[4]) and not np.allclose(carried[0], carried[4], atol=1e-3)
    embedder: Any = nlptools.load(path, compute=FP32, settings=Embed(unit="word", stateful=True))
    parts = [vectors for line in LINES for vectors in embedder.embed_units([line])]
    assert all(np.allclose(a.vectors, b, atol=1e-5) for a, b in zip(parts, carried, strict=True)), "in any portions"


def test_a_line_is_the_mean_of_its_words(path: Path) -> None:
    rows = nlptools.load(path, compute=FP32, settings=Embed()).embed(LINES)
    for row, words in zip(rows, units(path), strict=True):
        assert np.allclose(row, words.mean(0) if len(words) else 0, atol=1e-5)


def test_vectors_are_cut_and_scaled(path: Path) -> None:
    rows = units(path, truncate_dim=10, normalize=True)
    cut = units(path)[0][:, :10]
    assert np.allclose(rows[0], cut / np.linalg.norm(cut, axis=1, keepdims=True), atol=1e-5)


def test_long_words_are_cut_with_a_count(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embedder: Any = nlptools.load(path, compute=FP32, settings=Embed(unit="word"))
    (one,), (other,) = (embedder.embed_units(["x" * 48 + end]) for end in ("", "yz"))
    assert np.array_equal(one.vectors, other.vectors) and other.names == ["x" * 48 + "yz"]
    embedder.finish()
    assert "cut 1 different word of more than 48 bytes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "token"}, "an ELMo reads words"),
        ({"unit": "word", "layers": "3"}, "no such layers"),
        ({"unit": "word", "layers": "mix"}, "expected mix:FILE"),
        ({"unit": "word", "subword": "first"}, "--subword cannot be combined with an ELMo"),
        ({"truncate_dim": 65}, "the vectors have 64 dimensions"),
        ({"pooling": "cls"}, "--pooling cls cannot be combined with an ELMo"),
    ],
)
def test_settings_of_other_models_are_refused(path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nlptools.load(path, compute=FP32, settings=Embed(**settings))


def test_hdf5_has_a_dataset_for_each_line(path: Path, tmp_path: Path, call: Any) -> None:
    h5py = pytest.importorskip("h5py")
    text, options = "\n".join(LINES) + "\n", ("embed", path, "--unit", "word", "--to", "hdf5", "--threads", 1)
    done = call(*options, "--layers", "all", "-o", tmp_path / "all.hdf5", stdin=text)
    assert done.code == 0, done.err
    assert call(*options, "-o", tmp_path / "last.hdf5", stdin=text).code == 0
    with h5py.File(tmp_path / "all.hdf5") as every, h5py.File(tmp_path / "last.hdf5") as last:
        assert set(every) == {*map(str, range(len(LINES))), "sentence_to_index"}
        index = json.loads(every["sentence_to_index"][0])
        assert index == {line: str(number) for number, line in enumerate(LINES)}
        for number, line in enumerate(LINES):
            assert every[str(number)].shape == (3, len(line.split()), 64) and every[str(number)].dtype == np.float32
            assert np.allclose(every[str(number)][2], last[str(number)][()], atol=1e-6)
        assert np.allclose(every["0"][()], layers_of(path, LINES[0]), atol=1e-5)
    assert call(*options, "-o", tmp_path / "all.hdf5", stdin=text).code == 73
    bert = encoder_bundle(tmp_path / "bert")
    for layers, shape in (("all", (3, 3, 8)), ("last", (3, 8))):
        out = tmp_path / f"bert-{layers}.hdf5"
        done = call("embed", bert, *options[2:], "--layers", layers, "-o", out, stdin="the cat sat\n\n")
        assert done.code == 0, done.err
        with h5py.File(out) as file:
            assert file["0"].shape == shape and 0 in file["1"].shape
    assert call(*options, stdin=text).code == 2
    assert call("embed", path, "--to", "hdf5", "-o", tmp_path / "b.hdf5", stdin=text).code == 2
    assert call("embed", path, "--unit", "word", "--to", "jsonl", "--layers", "all", stdin=text).code == 2
