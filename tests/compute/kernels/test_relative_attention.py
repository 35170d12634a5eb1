"""Attention by distance: the kernel beside plain operations, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nlptools.compute.kernels import relative_attention as kernel
from nlptools.layers.relative_attention import band


def inputs(T: int, S: int, H: int = 3, B: int = 2, K: int = 4, seed: int = 0) -> list[Tensor]:
    torch.manual_seed(seed)
    shapes = ((H, B, T, K), (H, B, T, K), (H, B, S, K), (H, B, S, K), (H, S, K))
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def plain(query: Tensor, by_distance: Tensor, key: Tensor, value: Tensor, distance: Tensor, mask: Tensor) -> Tensor:
    """Score by score."""
    T, K = query.shape[2:]
    S = key.shape[2]
    rows = []
    for i in range(T):
        at = S - T + i
        vectors = torch.stack([distance[:, S - 1 - abs(at - j)] for j in range(S)], 1)  # (H, S, K)
        scores = (query[:, :, i, None] * key).sum(-1) + (by_distance[:, :, i, None] * vectors[:, None]).sum(-1)
        seen = mask[i] if mask.dim() == 2 else mask[:, i]
        weights = (scores * K**-0.5).masked_fill(~seen, -torch.inf).softmax(-1)
        rows.append((weights[..., None] * value).sum(2))
    return torch.stack(rows, 2)


@pytest.mark.parametrize(
    ("T", "S", "reach"), [(1, 1, None), (1, 4, None), (5, 5, None), (4, 9, None), (4, 9, 5), (3, 5, 0)]
)
@pytest.mark.parametrize("chunk", [1 << 20, 1])
def test_it_is_what_plain_operations_compute(
    T: int, S: int, reach: int | None, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "CHUNK_SCORES", chunk)
    mask = band(T, S, reach, torch.device("cpu"))
    padded = mask.expand(2, T, S).clone()
    padded[1, :, 0] = padded[1, :, 0] & torch.eye(T, S, dtype=torch.bool)[:, 0]
    for seen in (mask, padded):
        ours, theirs = inputs(T, S), inputs(T, S)
        if seen is padded and not bool(seen.any(-1).all()):
            continue
        out, expected = kernel.relative_attention(*ours, seen), plain(*theirs, seen)
        assert torch.allclose(out, expected)
        weight = torch.randn_like(out)
        (out * weight).sum().backward()
        (expected * weight).sum().backward()
        assert all(torch.allclose(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))  # type: ignore[arg-type]
        with torch.no_grad():
            assert torch.allclose(kernel.relative_attention(*ours, seen), expected)


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 5), (4, 4), (3, 7)])
def test_both_ways_of_shifting_agree(T: int, S: int) -> None:
    products = torch.randn(3, 2, T, S)
    view, copy = kernel._by_key(products.view(3, 2 * T, S), (3, 2, T, S)), kernel.shifted(products)
    seen = band(T, S, None, torch.device("cpu"))
    assert torch.equal(view.masked_fill(~seen, 0), copy.masked_fill(~seen, 0))


def test_dropout_leaves_out_weights_and_its_gradient_is_exact() -> None:
    mask = band(3, 5, None, torch.device("cpu"))

    def dropped(*arguments: Any) -> Tensor:
        torch.manual_seed(3)
        return kernel.relative_attention(*arguments, mask, 0.3)

    arguments, directions = inputs(3, 5), [x.detach() for x in inputs(3, 5, seed=1)]
    dropped(*arguments).square().sum().backward()
    slope = sum(float((x.grad * direction).sum()) for x, direction in zip(arguments, directions, strict=True))  # type: ignore[operator]
    with torch.no_grad():
        ends = [
            dropped(*(x + step * direction for x, direction in zip(arguments, directions, strict=True))).square().sum()
            for step in (1e-6, -1e-6)
        ]
    assert slope == pytest.approx(float(ends[0] - ends[1]) / 2e-6, rel=1e-5)
    ones = [x.detach() for x in inputs(2, 4, H=2, B=512)]
    ones[3] = torch.ones_like(ones[3])  # the result is the sum of the weights that are kept
    out = kernel.relative_attention(*ones, band(2, 4, None, torch.device("cpu")), 0.25)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.03) and float(out.std()) > 0.1
