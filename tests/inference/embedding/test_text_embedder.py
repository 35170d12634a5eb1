"""Lines to vectors by encoders and language models: no line depends on its company or on how it was read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_bundles import words_bundle
from tiny_encoders import WORDS, encoder_bundle

import nlptools
from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.errors import BundleError, DataError, InputError, UsageError
from nlptools.inference.embedding import text_embedder
from nlptools.inference.embedding.line_readers import DecoderReader, EncoderReader
from nlptools.inference.embedding.sentence_steps import Dense, SentenceSteps
from nlptools.layers import pooling
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

LINES = ["the cat sat", "", "a cat", "on the mat and the cat ate it up", "it", "mat sat up", "the", "a a a a a a a a"]
CPU = Backend.detect(Compute(device="cpu", precision="fp32"))
LANGUAGE_MODELS = ("transformer", "lstm")
Load = Callable[..., text_embedder.TextEmbedder]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    found = {family: encoder_bundle(root / family, family) for family in ("bert", "electra")}
    return {**found, **{arch: words_bundle(root / arch, arch) for arch in LANGUAGE_MODELS}}


@pytest.fixture
def load(directories: dict[str, Path]) -> Load:
    def load(kind: str = "bert", steps: SentenceSteps | None = None, **settings: Any) -> text_embedder.TextEmbedder:
        loaded = bundle.load(directories[kind])
        reader = DecoderReader(loaded, loaded.model) if kind in LANGUAGE_MODELS else EncoderReader(loaded)
        return text_embedder.TextEmbedder(loaded, reader, steps, CPU, Embed(**settings))

    return load


def steps_with(**changes: Any) -> SentenceSteps:
    return replace(SentenceSteps(Path(), ("mean",), True, (), False, None, False, {}, None), **changes)


def hidden(found: text_embedder.TextEmbedder, ids: list[int]) -> tuple[torch.Tensor, ...]:
    """The states (T, D) of all layers, by the model as it is trained."""
    with torch.inference_mode():
        return tuple(layer[0] for layer in found.model(torch.tensor([ids])).layers)


def ids_of(line: str) -> list[int]:
    return [2, *(WORDS.index(word) for word in line.split()), 3]


# -- against the model -------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("pooled", ["mean", "cls", "max", "last", "mean-sqrt", "weighted-mean"])
def test_pooled_states_are_those_of_the_model(load: Load, family: str, pooled: str) -> None:
    found = load(family, pooling=pooled)
    expected = [pooling.pool(hidden(found, ids_of(line))[-1][None], None, [pooled])[0] for line in LINES]
    np.testing.assert_allclose(found.embed(LINES), torch.stack(expected).numpy(), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("said", "combine"),
    [
        ("0", lambda s: s[0]),
        ("-2", lambda s: s[1]),
        ("sum:-2:", lambda s: s[1] + s[2]),
        ("mean:all", lambda s: (s[0] + s[1] + s[2]) / 3),
        ("concat::2", lambda s: torch.cat([s[0], s[1]], -1)),
    ],
)
def test_layers(load: Load, said: str, combine: Callable[[tuple[torch.Tensor, ...]], torch.Tensor]) -> None:
    found = load(layers=said)
    expected = torch.stack([combine(hidden(found, ids_of(line))).mean(0) for line in LINES])
    np.testing.assert_allclose(found.embed(LINES), expected.numpy(), rtol=1e-5, atol=2e-6)
    assert found.dimensions == expected.shape[1]


def test_a_mix_of_layers(load: Load, tmp_path: Path) -> None:
    (tmp_path / "mix.json").write_text("[0.5, 0, 2]")
    found = load(layers=f"mix:{tmp_path / 'mix.json'}")
    states = hidden(found, ids_of("the cat"))
    np.testing.assert_allclose(
        found.embed(["the cat"])[0], (0.5 * states[0] + 2 * states[2]).mean(0).numpy(), rtol=1e-5, atol=2e-6
    )


# -- laws --------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["bert", "electra", "transformer", "lstm"])
@pytest.mark.parametrize("batch_tokens", [1, 16, 4096])
def test_a_line_does_not_depend_on_its_company(load: Load, kind: str, batch_tokens: int) -> None:
    found = load(kind, batch_tokens=batch_tokens)
    together = found.embed(LINES)
    assert together.dtype == np.float32 and together.shape == (len(LINES), found.dimensions)
    alone = np.concatenate([found.embed([line]) for line in LINES])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.embed(LINES[::-1])[::-1], together, rtol=0, atol=1e-6)
    assert found.embed([]).shape == (0, found.dimensions)


def test_scores_too_large_for_plain_exponents(load: Load) -> None:
    found = load()
    for block in found.model.blocks:
        block.attention.query_key_value.weight.mul_(40)
    expected = torch.stack([hidden(found, ids_of(line))[-1].mean(0) for line in LINES])
    got = found.embed(LINES)
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, expected.numpy(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_a_language_model_pools_what_it_has_read_of_the_line(load: Load, kind: str) -> None:
    found = load(kind)
    tokenizer, eos = found.bundle.tokenizer, found.bundle.eos
    line = "a b"
    with torch.inference_mode():
        states = found.model(torch.tensor([[eos, *tokenizer.encode(line)]]))[0][0]
        of_nothing = found.model(torch.tensor([[eos]]))[0][0, 0]
    vectors = found.embed([line, ""])
    np.testing.assert_allclose(vectors[0], states[1:].mean(0).numpy(), atol=2e-6)
    np.testing.assert_allclose(vectors[1], of_nothing.numpy(), atol=2e-6)
    np.testing.assert_allclose(load(kind, layers="-1").embed([line])[0], vectors[0], atol=1e-6)
    first = load(kind, layers="0", unit="token").embed_units([line])[0].vectors
    assert first.shape == (2, found.dimensions) and not np.allclose(first.mean(0), vectors[0])


# -- what happens after pooling ----------------------------------------------------------------------------------------


def test_truncated_then_normalized(load: Load) -> None:
    plain, short = load().embed(LINES), load(truncate_dim=3, normalize=True)
    np.testing.assert_allclose(
        short.embed(LINES), plain[:, :3] / np.linalg.norm(plain[:, :3], axis=1, keepdims=True), rtol=1e-5
    )
    assert short.dimensions == 3


def test_the_steps_of_a_sentence_transformers_directory(load: Load) -> None:
    dense = Dense(torch.randn(3, 16), torch.randn(3), "tanh")
    found = load("bert", steps_with(pooling=("cls", "mean"), dense=(dense,), normalize=True))
    both = np.concatenate([load(pooling="cls").embed(LINES), load().embed(LINES)], 1)
    expected = np.tanh(both @ dense.weight.numpy().T + dense.bias.numpy())  # type: ignore[union-attr]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found.embed(LINES), expected, rtol=1e-4, atol=1e-6)
    # with a pooling that was asked for, its own steps are left out
    np.testing.assert_allclose(
        load("bert", steps_with(normalize=True), pooling="max").embed(LINES), load(pooling="max").embed(LINES)
    )


def test_prompts_and_lower_case(load: Load) -> None:
    steps = steps_with(prompts={"query": "a mat "}, default_prompt="query", lowercase=True)
    plain = load()
    np.testing.assert_allclose(load("bert", steps).embed(["The CAT"]), plain.embed(["a mat the cat"]), atol=1e-6)
    np.testing.assert_allclose(load("bert", steps, prompt="").embed(["the cat"]), plain.embed(["the cat"]), atol=1e-6)
    np.testing.assert_allclose(load(prompt="on it ").embed(["up"]), plain.embed(["on it up"]), atol=1e-6)
    found = load("bert", replace(steps, include_prompt=False)).embed(["the cat"])[0]
    states = hidden(plain, ids_of("a mat the cat"))[-1]
    np.testing.assert_allclose(found, states[3:].mean(0).numpy(), atol=2e-6)


# -- long lines --------------------------------------------------------------------------------------------------------


def test_long_lines_are_cut_and_counted(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    found = load(max_length=5)
    np.testing.assert_allclose(
        found.embed(["the cat sat on a mat", "the cat sat"])[0], load().embed(["the cat sat"])[0], atol=1e-6
    )
    found.finish()
    assert "cut 1 line longer than 5 tokens;" in capsys.readouterr().err


def test_windows_of_long_lines_weigh_what_they_hold(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    found = load(max_length=5, long="window")
    parts = load().embed(["the cat sat", "on"])
    vectors = found.embed(["up", "the cat sat on"])
    np.testing.assert_allclose(vectors[1], (3 * parts[0] + parts[1]) / 4, atol=1e-6)
    np.testing.assert_allclose(vectors[0], load().embed(["up"])[0], atol=1e-6)
    found.finish()
    assert not capsys.readouterr().err


# -- tokens and words --------------------------------------------------------------------------------------------------


def test_tokens(load: Load) -> None:
    units = load(unit="token").embed_units(["the cat", "", "sat zzz"])
    assert [unit.names for unit in units] == [["the", "cat"], [], ["sat", "[UNK]"]]
    expected = hidden(load(), ids_of("the cat"))[-1][1:-1].numpy()
    np.testing.assert_allclose(units[0].vectors, expected, atol=2e-6)
    assert units[1].vectors.shape == (0, 8)
    windowed = load(unit="token", max_length=4, long="window").embed_units(["the cat sat"])[0]
    assert windowed.names == ["the", "cat", "sat"] and windowed.vectors.shape == (3, 8)
    cut = load(unit="token", max_length=4).embed_units(["the cat sat"])[0]
    assert cut.names == ["the", "cat"]
    np.testing.assert_allclose(windowed.vectors[:2], cut.vectors, atol=1e-6)


def test_a_prompt_has_no_units(load: Load) -> None:
    units = load(unit="token", prompt="a mat ").embed_units(["the cat"])[0]
    expected = hidden(load(), ids_of("a mat the cat"))[-1][3:-1].numpy()
    assert units.names == ["the", "cat"]
    np.testing.assert_allclose(units.vectors, expected, atol=2e-6)


@pytest.mark.parametrize(("how", "rows"), [("first", [0]), ("mean", [0, 1, 2]), ("last", [2])])
def test_words_of_several_tokens(tmp_path: Path, how: str, rows: list[int]) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"cats "]
    path = encoder_bundle(tmp_path / "m", words=words)
    loaded = replace(bundle.load(path), tokenizer=NamedTokenizer("char", Vocab(words)))
    settings = {"max_length": 12}
    made = partial(text_embedder.TextEmbedder, loaded, EncoderReader(loaded), None, CPU)
    tokens = made(Embed(unit="token", **settings)).embed_units(["cat  sat"])[0]
    found = made(Embed(unit="word", subword=how, **settings))
    units = found.embed_units(["cat  sat", "  "])
    assert units[0].names == ["cat", "sat"] and units[1].names == []
    place = [len(tokens.names) - 3 + row for row in rows]
    np.testing.assert_allclose(
        units[0].vectors, [tokens.vectors[rows].mean(0), tokens.vectors[place].mean(0)], atol=2e-6
    )


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "7"}, "no such layers: the model has 3, numbered 0 to 2"),
        ({"max_length": 99}, "--max-length 99 is more than the model's maximum of 12 tokens"),
        ({"truncate_dim": 9}, "the vectors have 8 dimensions"),
        ({"pooling": "model"}, "no sentence-transformers directory"),
        ({"prompt": "a " * 10}, "no room for a line"),
        ({"layers": "mix"}, "expected mix:FILE"),
    ],
)
def test_settings_that_the_model_cannot_follow(load: Load, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load(**settings)


@pytest.mark.parametrize(
    ("content", "error"),
    [("[1, 2", DataError), ('{"a": 1}', DataError), ("[1, NaN, 1]", DataError), ("[1]", UsageError)],
)
def test_weights_of_layers_that_are_no_good(load: Load, tmp_path: Path, content: str, error: type[Exception]) -> None:
    (tmp_path / "mix.json").write_text(content)
    with pytest.raises(error):
        load(layers=f"mix:{tmp_path / 'mix.json'}")
    with pytest.raises(InputError):
        load(layers="mix:nothing.json")


def test_a_dense_layer_that_does_not_fit(load: Load) -> None:
    with pytest.raises(UsageError, match="takes 5 dimensions, --layers selects 8"):
        load("bert", steps_with(dense=(Dense(torch.ones(2, 5), None, "none"),)))


def test_an_encoder_without_special_tokens(tmp_path: Path) -> None:
    path = encoder_bundle(tmp_path / "m", words=["the", "cat"])
    with pytest.raises(BundleError, match=r"no \[CLS\] and \[SEP\]"):
        nlptools.load(path, settings=Embed())


def test_a_sentence_transformers_directory_is_opened(tmp_path: Path) -> None:
    path = encoder_bundle(tmp_path / "m")
    (path / "modules.json").write_text(
        json.dumps([{"path": "", "type": "x.Transformer"}, {"path": "1", "type": "x.Pooling"}])
    )
    (path / "1").mkdir()
    (path / "1" / "config.json").write_text('{"pooling_mode": "max"}')
    cpu = Compute(device="cpu", precision="fp32")
    found, plain = (nlptools.load(path, compute=cpu, settings=settings) for settings in (None, Embed(pooling="max")))
    np.testing.assert_array_equal(found.embed(LINES), plain.embed(LINES))
