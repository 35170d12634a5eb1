"""distill-static, and embed and neighbors with its directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run
from safetensors.numpy import load_file, save_file
from tiny_bundles import bytes_bundle, words_bundle

import nlptools
from nlptools.configs.embed import Embed
from nlptools.training.static_vectors import Basis, least_squares
from tests.tasks.tiny_tasks import FP32, WORDS, encoder

HOW = ("--threads", 1, "--precision", "fp32", "--device", "cpu")


def test_vectors_are_those_of_model2vec(call: Run, tmp_path: Path) -> None:
    """Its steps by hand: states of each token between special tokens, their mean, components, weights by rank."""
    encoder(tmp_path / "encoder")
    done = call("distill-static", "encoder", "--dims", 12, *HOW, "-o", "static")
    assert done.code == 0 and "22 token vectors of 12 dimensions" in done.err, done.err
    model = nlptools.load(tmp_path / "encoder", compute=FP32, settings=Embed(pooling="mean"))
    tokens = WORDS[5:]
    rows = model.embed(tokens).astype(np.float64)
    centered = rows - rows.mean(0)
    _, _, components = np.linalg.svd(centered, full_matrices=False)
    inverse = 1 / np.arange(2, len(tokens) + 2)
    weights = 1e-4 / (1e-4 + inverse / inverse.sum())
    expected = centered @ components[:12].T * weights[:, None]
    found = load_file(tmp_path / "static" / "model.safetensors")["embeddings"]
    assert found.shape == (len(WORDS), 12) and found.dtype == np.float16 and not found[:5].any()
    gram = found[5:].astype(np.float64) @ found[5:].astype(np.float64).T  # components have no signs
    np.testing.assert_allclose(gram, expected @ expected.T, rtol=0.02, atol=2e-3 * np.abs(gram).max())
    # the vector of a line is the mean of those of its tokens; unknown words do not count
    lines = ["good bad w0", "w3 strange", "", "strange"]
    vectors = nlptools.load(tmp_path / "static", settings=Embed()).embed(lines)
    mean = found[5:8].astype(np.float32).mean(0)
    np.testing.assert_allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-5)
    row = found[WORDS.index("w3")].astype(np.float32)
    np.testing.assert_allclose(vectors[1], row / np.linalg.norm(row), atol=1e-5)
    assert not vectors[2:].any()


def test_language_models_are_read_as_embed_reads_them(call: Run, tmp_path: Path) -> None:
    bytes_bundle(tmp_path / "lm")
    assert call("distill-static", "lm", "--dims", 0, "--sif", 0, *HOW, "-o", "static").code == 0
    found = load_file(tmp_path / "static" / "model.safetensors")["embeddings"].astype(np.float64)
    rows = nlptools.load(tmp_path / "lm", compute=FP32, settings=Embed()).embed(["a", "b", "z"])
    # components turn and move the vectors, and the mean of states includes that of the start: distances keep their ratios
    between = found[[*b"abz"]]
    expected, distances = (np.linalg.norm(each[:, None] - each, axis=-1) for each in (rows, between))
    np.testing.assert_allclose(distances / distances[0, 1], expected / expected[0, 1], rtol=0.02)
    words_bundle(tmp_path / "words")
    refused = call("distill-static", "words", *HOW, "-o", "no")
    assert refused.code == 78 and "cannot be written as tokenizer.json" in refused.err and "vectors" not in refused.err
    assert not (tmp_path / "no").exists()


def test_commands_take_the_directory(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    assert call("distill-static", "encoder", "--dims", 8, *HOW, "-o", "static").code == 0
    again = call("distill-static", "encoder", "-o", "static")
    assert again.code == 73 and "exists" in again.err
    (tmp_path / "text").write_text("good w1\nbad w2\nw5 w6\n")
    found = call("neighbors", "static", "--corpus", "text", "-k", 1, "--to", "tsv", stdin="w1 good\n")
    assert found.lines == ["1\t1\t1\t1.0000\tgood w1"], found.err
    short = call("embed", "static", "--truncate-dim", 3, "--normalize", "--to", "jsonl", "text")
    assert short.code == 0 and len(json.loads(short.lines[0])["embedding"]) == 3, short.err
    for arguments, message in ((("--unit", "token", "--to", "jsonl"), "--unit token"), (("--layers", "0"), "--layers")):
        refused = call("embed", "static", *arguments, "text")
        assert refused.code == 2 and message in refused.err
    described = call("describe", "static").lines
    assert {"vectors tokens\t27", "vectors dimensions\t8", "distilled dims\t8"} <= set(described), described
    scored = call("score", "static", "text")
    assert scored.code == 2 and "a directory of static vectors, which score cannot take" in scored.err


def test_the_layout_of_sentence_transformers(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    assert call("distill-static", "encoder", "--dims", 8, *HOW, "-o", "static").code == 0
    expected = call("embed", "static", "--to", "jsonl", stdin="good w1\n").lines
    folder = tmp_path / "other" / "0_StaticEmbedding"
    folder.mkdir(parents=True)
    table = load_file(tmp_path / "static" / "model.safetensors")["embeddings"]
    (folder / "tokenizer.json").write_bytes((tmp_path / "static" / "tokenizer.json").read_bytes())
    modules = [
        {"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    (tmp_path / "other" / "modules.json").write_text(json.dumps(modules))
    save_file({"embedding.weight": table}, folder / "model.safetensors")
    assert call("embed", "other", "--to", "jsonl", stdin="good w1\n").lines == expected
    save_file({"embedding.weight": table[:9]}, folder / "model.safetensors")
    refused = call("embed", "other", stdin="good w1\n")
    assert refused.code == 78 and "the tokenizer has 27 tokens, there are 9 vectors" in refused.err


def test_fitting_comes_closer_to_the_model(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    random = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in random.integers(0, 20, random.integers(3, 9))) for _ in range(400)]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    done = call("distill-static", "encoder", "--dims", 16, "--fit", "text", *HOW, "-o", "static")
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "static" / "training.json").read_text())["fitted"]
    assert record["lines"] == 400 and record["cosine"] > record["cosine_before"] + 0.02
    (tmp_path / "short").write_text("good\n" * 3)
    refused = call("distill-static", "encoder", "--fit", "short", *HOW, "-o", "x")
    assert refused.code == 65 and "3 lines with tokens, expected at least 20" in refused.err


def test_least_squares_are_the_solution() -> None:
    torch.manual_seed(0)
    means, target = torch.rand(30, 7), torch.rand(30, 3)
    found = least_squares(means.to_sparse(), target, 0.1)
    expected = torch.linalg.solve(means.T @ means + 0.1 * torch.eye(7), means.T @ target)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert Basis.of(means, 3).apply(means).shape == (30, 3)
    assert Basis.of(means, 0).kept == pytest.approx(1)


def test_means_of_random_lines(call: Run, tmp_path: Path) -> None:
    """Of more lines than are summed together, cut and with unknown words; a line alone has the same bits."""
    encoder(tmp_path / "encoder")
    assert call("distill-static", "encoder", "--dims", 12, *HOW, "-o", "static").code == 0
    table = load_file(tmp_path / "static" / "model.safetensors")["embeddings"].astype(np.float64)
    words, rng = [*WORDS[5:], "strange"], np.random.default_rng(3)
    rows = [rng.integers(len(words), size=size) for size in rng.integers(0, 12, size=1100)]
    lines = [" ".join(words[place] for place in row) for row in rows]
    model = nlptools.load(tmp_path / "static", settings=Embed(max_length=7))
    found = model.embed(lines)
    for row, line, vector in zip(rows, lines, found, strict=True):
        known = [place for place in row[:7] if place < len(words) - 1]
        mean = table[5:][known].mean(0) if known else np.zeros(12)
        np.testing.assert_allclose(vector, mean / max(np.linalg.norm(mean), 1e-9), atol=1e-5, err_msg=line)
    for place in rng.integers(len(lines), size=20):
        np.testing.assert_array_equal(model.embed([lines[place]])[0], found[place])
