"""nlptools plot: the vectors of positions of a model, and the weights of layers."""

from __future__ import annotations

import json
import math
import shlex

import numpy as np
import pytest
import torch
from tiny_bundles import words_bundle
from tiny_encoder_decoders import tiny as tiny_translator
from tiny_encoders import encoder_bundle

from nlptools import bundle
from nlptools.cli.manual.command_pages import command_page
from nlptools.inference import uses
from nlptools.inference.loading import load
from nlptools.plots import layer_picture
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab


def translator(path, form):
    tokenizer = NamedTokenizer("words", Vocab(["<unk>", "</s>", *(f"w{i}" for i in range(27)), "<pad>"]))
    model = tiny_translator(form, eos=1)
    path.mkdir()
    arch = f"seq2seq-{form}"
    bundle.save_pair(path, arch, model, model.state_dict(), tokenizer, training={})
    return path


def vectors(path, length=5):
    return load(path, use=uses.POSITIONS)(length)


def test_vectors_of_positions(tmp_path):
    bert = bundle.load(encoder_bundle(tmp_path / "bert", "roberta")).model.encoder
    begin = bert.config.first_position
    assert begin > 0
    found = vectors(tmp_path / "bert")
    assert np.array_equal(found, bert.position_embedding.weight[begin : begin + 5].detach())
    assert len(vectors(tmp_path / "bert", 1000)) == bert.max_context
    gpt = bundle.load(words_bundle(tmp_path / "gpt", "transformer")).model
    assert np.array_equal(vectors(tmp_path / "gpt"), gpt.position_embedding.weight[:5].detach())
    convolution = bundle.load(translator(tmp_path / "convolution", "convolution")).model
    assert np.array_equal(vectors(tmp_path / "convolution"), convolution.source_positions.weight[:5].detach())
    D = bundle.load(translator(tmp_path / "transformer", "transformer")).model.config.hidden_size
    angles = [[p / 10000 ** (2 * i / D) for i in range(D // 2)] for p in range(5)]
    expected = [[*map(math.sin, row), *map(math.cos, row)] for row in angles]
    assert np.allclose(vectors(tmp_path / "transformer"), expected, atol=1e-6)


def test_what_a_model_adds_to_its_embeddings(tmp_path):
    """An encoder whose token and segment embeddings are zero passes the vectors on to its norm."""
    encoder = bundle.load(encoder_bundle(tmp_path / "bert")).model.encoder.eval()
    with torch.no_grad():
        encoder.token_embedding.weight.zero_()
        encoder.type_embedding.weight.zero_()
        first = encoder(torch.zeros(1, 5, dtype=torch.int64)).layers[0][0]
        assert torch.allclose(first, encoder.embedding_norm(torch.from_numpy(vectors(tmp_path / "bert"))), atol=1e-6)


@pytest.mark.sampled(law="pictures are drawn")
def test_pictures_of_positions(call, tmp_path):
    pytest.importorskip("matplotlib")
    encoder_bundle(tmp_path / "bert")
    for name, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        done = call("plot", "--positions", "bert", "-o", name)
        assert (done.code, done.out, done.err) == (0, b"", "")
        assert (tmp_path / name).read_bytes().startswith(magic)
    drawn = (tmp_path / "a.svg").read_text()
    assert "vectors of 12 positions" in drawn and "dot products" in drawn
    assert call("plot", "--positions", "bert", "-o", "b.svg", "--length", "3").code == 0
    assert "vectors of 3 positions" in (tmp_path / "b.svg").read_text()


def test_pictures_of_layers(call, tmp_path):
    pytest.importorskip("matplotlib")
    for name, content in (("ner", {"s": [0.5, 0.1, -0.6], "gamma": 1.25}), ("pos", [0.2, 0.3, 0.5])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "layer_mix.json").write_text(json.dumps(content))
    (tmp_path / "ner" / "output_mix.json").write_text('{"s": [0, 0, 0], "gamma": 2}')
    paths = [str(tmp_path / name) for name in ("ner", "pos", "pos/layer_mix.json")]
    mixes = layer_picture.read(paths)
    assert [*mixes] == ["ner, layer_mix", "ner, output_mix", "pos", "layer_mix"]
    assert mixes["ner, output_mix"].weights == pytest.approx([2 / 3] * 3)
    done = call("plot", "--layers", *paths, "-o", "a.svg")
    assert (done.code, done.out, done.err) == (0, b"", "")
    drawn = (tmp_path / "a.svg").read_text()
    for text in ("ner, layer_mix (gamma 1.25)", "ner, output_mix (gamma 2)", ">pos<", ">embeddings<", ">2<"):
        assert text in drawn
    assert call("plot", "--layers", "ner", "-o", "a.png").code == 0


@pytest.mark.sampled(law="examples run")
def test_examples_of_the_manual_page(call, tmp_path):
    pytest.importorskip("matplotlib")
    encoder_bundle(tmp_path / "bert")
    for name in ("ner", "pos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "layer_mix.json").write_text("[0.5, 0.5]")
    lines = [line for _, line in command_page("plot").examples if "--layers" in line or "--positions" in line]
    assert len(lines) == 2
    for line in lines:
        assert call(*shlex.split(line)[1:]).code == 0


def test_refusals(call, tmp_path):
    pytest.importorskip("matplotlib")
    words_bundle(tmp_path / "lstm", "lstm")
    (tmp_path / "two.json").write_text("[0.5, 0.5]")
    (tmp_path / "three.json").write_text("[0.5, 0.25, 0.25]")
    (tmp_path / "none.json").write_text("[]")
    (tmp_path / "bad.json").write_text('{"s": [1, "a"], "gamma": 1}')
    (tmp_path / "empty").mkdir()
    for arguments, code, message in (
        (("--positions", "lstm"), 2, "lstm adds no vectors of positions to its embeddings"),
        (("--positions", "lstm", "lstm"), 2, "--positions draws one model, and 2 are given"),
        (("--positions", "nowhere/at/all"), 66, "nowhere/at/all"),
        (("--positions", "lstm", "--x", "time"), 2, "--positions cannot be combined with --x"),
        (("--positions", "--layers", "lstm"), 2, "--positions cannot be combined with --layers"),
        (("--length", "4", "lstm"), 2, "--length requires --positions"),
        (("--layers", "two.json", "three.json"), 65, "different numbers of layers: two 2, three 3"),
        (("--layers", "none.json"), 65, "none.json: expected a list of numbers, one for each layer"),
        (("--layers", "bad.json"), 65, "bad.json: expected a list of numbers, one for each layer"),
        (("--layers", "empty"), 66, "empty: no layer_mix.json or output_mix.json in this directory"),
        (("--layers", "missing.json"), 66, "missing.json: no such file"),
    ):
        done = call("plot", *arguments, "-o", "a.png")
        assert (done.code, message in done.err) == (code, True), (arguments, done.err)
        assert not (tmp_path / "a.png").exists()
    assert "--layers requires --output" in call("plot", "--layers", "two.json").err
