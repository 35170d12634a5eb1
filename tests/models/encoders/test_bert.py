"""The ways through one encoder agree: padded, packed, for export; all positions, some of them, the first alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from nlptools.layers.packed import EqualLengths
from nlptools.layers.query_positions import QueryPositions, position_arrays
from nlptools.models.encoders.bert import Bert, EncoderConfig


@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_padded_packed_and_exported_are_one_model(family: str, dtype: torch.dtype) -> None:
    sizes = EncoderConfig(50, 32, 3, 4, 48, family, 16 if family == "electra" else 0, 24, initializer_range=0.3)
    torch.manual_seed(0)
    model = Bert(sizes)
    model.initialize()
    model = model.to(dtype).eval().requires_grad_(False)
    lengths = [11, 7, 7, 3, 1]
    ids, types = torch.randint(0, 50, (5, 11)), torch.randint(0, 2, (5, 11))
    mask = torch.arange(11) < torch.tensor(lengths)[:, None]
    groups = [EqualLengths(0, 1, 11), EqualLengths(11, 2, 7), EqualLengths(25, 1, 3), EqualLengths(28, 1, 1)]
    positions = torch.cat([torch.arange(length) for length in lengths])
    padded = model(ids, mask, types).layers
    packed = model.packed(ids[mask], positions, groups, range(4), types[mask])
    first = model.packed_first(ids[mask], positions, groups, types[mask])
    exported = model.requires_grad_(True).exported(ids, mask, types)
    tolerance = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.1, "rtol": 0.1}
    assert len(padded) == len(packed) == len(exported) == 4
    for a, b, c in zip(padded, packed, exported, strict=True):
        assert torch.allclose(b, a[mask], **tolerance)
        assert torch.allclose(c[mask], a[mask], **tolerance)
    assert torch.allclose(first, padded[-1][:, 0], **tolerance)
    model.requires_grad_(False)
    (last,) = model.packed(ids[mask], positions, groups, range(3, 4), types[mask])
    assert torch.equal(last, packed[-1])
    without = model.packed(ids[mask], positions, groups, range(1))
    assert torch.equal(
        without[0], model.packed(ids[mask], positions, groups, range(1), torch.zeros_like(types[mask]))[0]
    )


def test_packed_rows_of_frozen_layers_have_dropout_in_training() -> None:
    sizes = EncoderConfig(50, 32, 1, 4, 48, initializer_range=0.3, hidden_dropout=0.0, attention_dropout=0.5)
    model = Bert(sizes)
    model.initialize()
    model.requires_grad_(False)
    ids, positions, groups = torch.arange(12), torch.arange(6).repeat(2), [EqualLengths(0, 2, 6)]
    one, other = (model.train().packed(ids, positions, groups, range(1, 2))[0] for _ in range(2))
    assert not torch.equal(one, other)
    one, other = (model.eval().packed(ids, positions, groups, range(1, 2))[0] for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_first_token_alone(family: str, padded: bool, dtype: torch.dtype) -> None:
    sizes = EncoderConfig(50, 32, 3, 4, 48, family, 16 if family == "electra" else 0, 24, initializer_range=0.3)
    torch.manual_seed(0)
    model = Bert(sizes)
    model.initialize()
    model = model.to(dtype).eval()
    ids, types = torch.randint(0, 50, (5, 11)), torch.randint(0, 2, (5, 11))
    mask = torch.arange(11) < torch.tensor([[11], [3], [7], [1], [11]]) if padded else None
    tolerance = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.1, "rtol": 0.1}
    results = []
    for alone in (False, True):
        model.zero_grad()
        out = model.first(ids, mask, types) if alone else model(ids, mask, types).last[:, :1]
        out.float().square().sum().backward()
        results.append(
            (out.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
        )
    (whole, gradients), (first, others) = results
    assert first.shape == (5, 1, 32) and torch.allclose(first, whole, **tolerance)
    assert gradients.keys() == others.keys() and len(gradients) > 30
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        close = 1e-4 if dtype == torch.float32 else 0.1
        assert float((gradient - others[name]).abs().max()) <= close * max(scale, 1.0), name
    with torch.inference_mode():
        assert torch.allclose(model.first(ids, mask, types), whole, **tolerance)


WANTED = [10, 0, 11, 14, 14, 39, 33]  # in any order, one of them twice; none in the third of five rows of 11


@pytest.mark.parametrize("dropout", [0.0, 1e-9])  # with dropout attention has a way of its own, here too
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_some_places_alone(dropout: float, packed: bool, dtype: torch.dtype) -> None:
    sizes = EncoderConfig(50, 32, 2, 4, 48, "bert", 0, 24, initializer_range=0.3)
    torch.manual_seed(0)
    model = Bert(dataclasses.replace(sizes, hidden_dropout=dropout, attention_dropout=dropout))
    model.initialize()
    model = model.to(dtype).train()
    ids, types = torch.randint(0, 50, (5, 11)), torch.randint(0, 2, (5, 11))
    sequences = (torch.arange(11) > torch.tensor([[4], [10], [0], [7], [3]])).long()
    attend = sequences[:, None, :, None] == sequences[:, None, None] if packed else None
    positions, wanted = position_arrays(np.array(WANTED), 5, 11)
    assert positions.shape == (5, 3) and not positions[2].any()
    places = QueryPositions(torch.from_numpy(positions), torch.from_numpy(wanted))
    upstream = torch.randn(len(WANTED), 32, dtype=dtype)
    outs, gradients = [], []
    for alone in (False, True):
        model.zero_grad()
        whole = None if alone else model(ids, None, types, None, attend).last.reshape(-1, 32)
        out = model.at(ids, places, None, types, None, attend) if whole is None else whole[WANTED]
        out.backward(upstream)
        outs.append(out.detach())
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 25
    close = 1e-9 if dtype == torch.float64 else 0.1
    for theirs, ours in zip([outs[0], *gradients[0]], [outs[1], *gradients[1]], strict=True):
        assert float((theirs - ours).abs().max()) <= close * max(1.0, float(theirs.abs().max()))


def test_no_place_at_all() -> None:
    positions, wanted = position_arrays(np.zeros(0, np.int64), 3, 7)
    assert positions.shape == (3, 1) and wanted.shape == (0,)
    model = Bert(EncoderConfig(50, 32, 2, 4, 48, "bert", 0, 24))
    out = model.at(
        torch.zeros(3, 7, dtype=torch.int64), QueryPositions(torch.from_numpy(positions), torch.from_numpy(wanted))
    )
    assert out.shape == (0, 32)
    out.sum().backward()
