"""Recurrent language models beside PyTorch's layers, their regularization, and directories of older versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run
from head_law import assert_head_agrees
from tiny_bundles import words_bundle
from tiny_models import tiny
from torch import Tensor, nn

from nlptools import bundle
from nlptools.configs import Training
from nlptools.configs.architectures.recurrent import LSTMOptions
from nlptools.configs.lm_presets import PRESETS
from nlptools.errors import BundleError, UsageError
from nlptools.layers.adaptive_softmax import AdaptiveSoftmax
from nlptools.layers.initial import empty_weights
from nlptools.models import registry
from nlptools.training import initial
from nlptools.training.objective import CARRIED
from nlptools.training.objectives import CausalLM

CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
cells = pytest.mark.parametrize("arch", CELLS)
AWD = {"embedding_size": 32, "intermediate_size": 44, "output_bias": True}  # the layout of AWD-LSTM: 44 units, then 32


def ids(rows: int = 3, length: int = 10, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(2, 50, (rows, length)))


def logits(model: Any, x: Tensor) -> Tensor:
    out: Tensor = model.output.logits(model(x)[0])
    return out


@cells
@pytest.mark.parametrize("sizes", [{}, AWD, {"tied": False, "embedding_size": 20, "output_bias": True}])
def test_logits_are_those_of_a_plain_loop_of_pytorch(arch: str, sizes: dict[str, Any]) -> None:
    model = tiny(arch, **sizes)
    config, weights = model.config, model.state_dict()
    fed = [config.embedding_size, *config.layer_sizes]
    x = nn.functional.embedding(ids(), weights["token_embedding.weight"])
    for i in range(2):
        layer = CELLS[arch](fed[i], fed[i + 1], batch_first=True)
        layer.load_state_dict({n.split(".")[2]: w for n, w in weights.items() if n.startswith(f"layers.{i}.")})
        x = layer(x)[0]
    matrix = weights["token_embedding.weight"] if config.tied else weights["output_matrix.weight"]
    expected = x @ matrix.t() + (model.output_bias if config.output_bias else 0)
    with torch.inference_mode():
        assert torch.allclose(logits(model, ids()), expected, atol=1e-4)
    assert config.least_weights() <= sum(p.numel() for p in model.parameters())


@cells
def test_layers_of_other_sizes_carry_their_state(arch: str) -> None:
    model = tiny(arch, **AWD, first_state=True)
    with torch.inference_mode():
        whole, state = logits(model, ids()), model.start(3, 0)
        first, state = model(ids()[:, :4], state)
        second, state = model(ids()[:, 4:], state.select(torch.arange(3)))
        parts = model.output.logits(torch.cat([first, second], 1))
        assert torch.allclose(parts, whole, atol=1e-4)
        assert state.hidden.shape == (2, 3, 44) and not state.hidden[1, :, 32:].any()
        zeros = tiny(arch, **AWD)
        zeros.load_state_dict(model.state_dict(), strict=False)
        assert not torch.allclose(logits(zeros, ids()), whole, atol=1e-3), "the first state matters"


@cells
def test_the_first_state_learns_at_the_start_of_a_stream(arch: str) -> None:
    model = tiny(arch, first_state=True).train()
    objective = CausalLM(model)
    first = objective(ids(), ids(seed=1))
    first["loss"].backward()
    carried = [tensor for name, tensor in first.items() if name.startswith(CARRIED)]
    learned = {"first_hidden", "first_cell"} & dict(model.named_parameters()).keys()
    assert len(learned) == (2 if arch == "lstm" else 1)
    assert all(p.grad is not None and bool(p.grad.any()) for n, p in model.named_parameters() if n in learned)
    model.zero_grad()
    objective(ids(seed=2), ids(seed=3), *carried)["loss"].backward()
    assert all(p.grad is None for n, p in model.named_parameters() if n in learned)


def test_a_directory_of_an_older_version_opens_and_scores_the_same(tmp_path: Path) -> None:
    """Version 0.1 knew tied LSTMs of one size only, and wrote no other field; it computed with `nn.LSTM`."""
    path = words_bundle(tmp_path / "old", "lstm")
    config = json.loads((path / "config.json").read_text())
    older = ("vocab_size", "hidden_size", "num_hidden_layers", "hidden_dropout")
    sizes = {"model_type", "bos_token_id", "eos_token_id", "nlptools", *older}
    kept = {**{key: value for key, value in config.items() if key in sizes}, "architectures": ["LSTM"]}
    (path / "config.json").write_text(json.dumps(kept))
    (path / "manifest.json").unlink()
    model = bundle.load(path).model
    names = ["token_embedding.weight"]
    for i in range(2):
        names += [f"layers.{i}.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    assert list(model.state_dict()) == names
    with torch.inference_mode():
        assert torch.equal(logits(model, ids()), logits(tiny("lstm"), ids()))


def test_layers_of_another_size_than_the_last_are_not_embedded(tmp_path: Path, call: Run) -> None:
    words_bundle(tmp_path / "lm", "lstm", **AWD)
    assert call("embed", "lm", "--to", "tsv", stdin="w1 w2\n").code == 0
    refused = call("embed", "lm", "--to", "tsv", "--layers", "mean:all", stdin="w1 w2\n")
    assert refused.code == 2 and "--layers: one of these has 44 units, the last layer 32" in refused.err


# -- regularization ---------------------------------------------------------------------------------------------------


def test_locked_dropout_drops_the_same_elements_at_all_steps() -> None:
    torch.manual_seed(0)
    model = tiny("lstm", num_hidden_layers=1, locked_dropout=True, hidden_dropout=0.5, input_dropout=0.0).train()
    hidden, _ = model(ids(4, 12))
    dropped = hidden == 0
    assert bool((dropped == dropped[:, :1]).all()) and 0.3 < float(dropped.float().mean()) < 0.7
    assert not bool((dropped == dropped[:1]).all()), "each row has its own"
    free = tiny("lstm", num_hidden_layers=1, hidden_dropout=0.5, input_dropout=0.0).train()(ids(4, 12))[0] == 0
    assert not bool((free == free[:, :1]).all())


def test_word_dropout_drops_all_occurrences_of_a_word() -> None:
    torch.manual_seed(0)
    model = tiny("lstm", word_dropout=0.5).train()
    x = ids(20, 30)
    embedded = model.word_dropout.embed(x, model.token_embedding)
    plain = model.token_embedding(x)
    dropped = (embedded == 0).all(-1)
    assert torch.allclose(embedded[~dropped], 2 * plain[~dropped], rtol=0.05)
    by_word = [set(dropped[x == word].tolist()) for word in range(2, 50)]
    assert all(len(seen) == 1 for seen in by_word if seen) and {True} in by_word and {False} in by_word


@cells
def test_dropped_weights_between_hidden_states_are_the_same_at_all_steps(arch: str) -> None:
    """One layer by hand, with the weights that the same random numbers drop."""
    from nlptools.compute.kernels.dropout import dropout

    model = tiny(arch, num_hidden_layers=1, weight_dropout=0.5).train()
    layer, plain = model.layers[0], CELLS[arch](32, 32, batch_first=True)
    torch.manual_seed(5)
    hidden, _ = model(ids())
    torch.manual_seed(5)
    state = {**layer.state_dict(), "weight_hh_l0": dropout(layer.weight_hh_l0.detach(), 0.5)}
    plain.load_state_dict(state)
    assert bool((state["weight_hh_l0"] == 0).any())
    assert torch.allclose(hidden, plain(model.token_embedding(ids()))[0], atol=1e-5)
    hidden.square().sum().backward()
    weight = layer.weight_hh_l0
    assert weight.grad is not None and not weight.grad[state["weight_hh_l0"] == 0].any()
    with torch.inference_mode():
        assert torch.allclose(model.eval()(ids())[0], tiny(arch, num_hidden_layers=1)(ids())[0], atol=1e-5)


def test_penalties_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    model = tiny(
        "lstm", activation_penalty=2, change_penalty=1.0, hidden_dropout=0.4, input_dropout=0.0, layer_dropout=0.0
    )
    x, targets = ids(), ids(seed=1)
    targets[0, 5:] = -1
    objective = CausalLM(model.train())
    torch.manual_seed(3)
    loss = objective(x, targets)["loss"]
    assert model.penalty is None, "taken"
    torch.manual_seed(3)
    hidden, _ = model(x)
    assert model.penalty is not None
    expected = 2 * hidden.square().mean()
    raw = model.eval()(x)[0]
    expected = expected + (raw[:, 1:] - raw[:, :-1]).square().mean()
    assert torch.allclose(model.penalty, expected)
    plain = model.output.summed_loss(hidden.flatten(0, 1), targets.flatten())
    assert torch.allclose(loss, plain + 25 * expected)
    model.penalty = None
    assert model(x)[0] is not None and model.penalty is None, "not in validation"


# -- configurations ---------------------------------------------------------------------------------------------------


def test_options_become_sizes() -> None:
    options = LSTMOptions(tokenizer="words", layers=3, hidden=1150, embedding=400)
    config = registry.config_class("lstm").from_options(options, 10_000)
    assert config.layer_sizes == [1150, 1150, 400] and config.tied and not config.output_bias
    config = registry.config_class("gru").from_options(replace(options, untied=True), 10_000)
    assert config.layer_sizes == [1150, 1150, 1150] and config.embedding_size == 400
    assert not config.tied and config.output_bias
    config = registry.config_class("rnn").from_options(replace(options, adaptive="100,1000"), 10_000)
    assert config.adaptive_cutoffs == (100, 1000) and not config.tied
    with pytest.raises(UsageError, match="--adaptive 100,1000: the vocabulary has 1000 tokens"):
        registry.config_class("rnn").from_options(replace(options, adaptive="100,1000"), 1000)
    for text in ("", "5,", "5,5", "9,5", "0,5", "x"):
        with pytest.raises(UsageError, match="not ascending numbers of tokens"):
            registry.config_class("rnn").from_options(replace(options, adaptive=text), 1000)


@pytest.mark.parametrize(
    ("preset", "weights"),
    [
        ("zaremba-small", 4.65e6),
        ("zaremba-medium", 19.8e6),
        ("zaremba-large", 66.0e6),
        ("awd-lstm", 24.2e6),
        ("lstm-hour", 6.58e6),
    ],
)
def test_presets_have_the_published_sizes(preset: str, weights: float) -> None:
    values = PRESETS[preset]
    options, run = (
        kind(
            **{name: value for name, value in values.items() if name in kind.__dataclass_fields__ and name != "arch"},
            **required,
        )
        for kind, required in ((LSTMOptions, {"tokenizer": "words"}), (Training, {"output": "", "valid": "valid.txt"}))
    )
    options.check()
    run.check()
    assert values.keys() <= {"arch"} | vars(options).keys() | vars(run).keys()
    config = registry.config_class("lstm").from_options(options, 10_000)
    with empty_weights():
        model = registry.model_class("lstm")(config)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(weights, rel=0.01)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("embedding_size", 16, "tied embeddings of size 16, expected the size of the outputs, 32"),
        ("input_dropout", 1.5, "input_dropout is 1.5, expected a number from 0 to 1"),
        ("layer_dropout", "x", "layer_dropout is 'x'"),
        ("change_penalty", -1, "change_penalty is -1, expected a number from 0 to 1e"),
        ("adaptive_cutoffs", [30, 20], r"adaptive_cutoffs is \[30, 20\], expected ascending"),
        ("adaptive_cutoffs", [50], r"adaptive_cutoffs is \[50\]"),
        ("adaptive_cutoffs", 7, "adaptive_cutoffs is 7"),
        ("adaptive_cutoffs", [7], "tied must be false"),
        ("intermediate_size", -3, "intermediate_size is -3"),
    ],
)
def test_impossible_sizes_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        tiny("lstm", **{field: value})


def test_init_takes_dropouts_and_penalties_from_the_options(tmp_path: Path) -> None:
    path = words_bundle(tmp_path / "lm", "lstm", hidden_dropout=0.5, weight_dropout=0.5, activation_penalty=2.0)
    options = LSTMOptions(tokenizer="words", dropout=0.3, word_dropout=0.1, change_penalty=1.0)
    config = initial.given_config(str(path), "lstm", options)
    assert (config.hidden_dropout, config.word_dropout, config.weight_dropout) == (0.3, 0.1, 0.0)
    assert (config.activation_penalty, config.change_penalty, config.locked_dropout) == (0.0, 1.0, False)
    assert config.input_dropout == config.layer_dropout == 0.3


def test_initial_weights_lie_within_their_range() -> None:
    torch.manual_seed(0)
    for limit, most in ((0.0, 32**-0.5), (0.05, 0.05)):
        model = tiny("lstm", initializer_range=limit)
        model.initialize()
        for name, parameter in model.named_parameters():
            values = parameter if "bias_hh" not in name or limit else torch.cat([parameter[:32], parameter[64:]])
            assert most / 2 < float(values.detach().abs().max()) <= most, name
            if "bias_hh" in name and not limit:
                assert bool((parameter[32:64] == 1).all()), "forget gates are open"


def test_a_model_with_an_adaptive_softmax_is_one_distribution_saved_and_loaded(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"tied": False, "adaptive_cutoffs": (10, 30)}
    model = tiny("gru", **sizes)
    assert isinstance(model.output, AdaptiveSoftmax)
    with torch.inference_mode():
        assert_head_agrees(model.output, model(ids())[0].flatten(0, 1))
    loaded = bundle.load(words_bundle(tmp_path / "lm", "gru", **sizes)).model
    with torch.inference_mode():
        assert torch.equal(logits(loaded, ids()), logits(model, ids()))
