"""The scores of additive attention: their gradients against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nlptools.compute.kernels import additive_scores
from nlptools.compute.kernels.additive_scores import AdditiveScores


def tensor(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", [1, 60, 1 << 16])
@pytest.mark.parametrize("width", [1, 3])
def test_scores_have_the_gradients_of_differences(chunk: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive_scores, "CHUNK", chunk)

    def scores(queries: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
        additive = AdditiveScores(keys, energy)
        first = additive(queries)
        return additive(queries * first.sum())

    assert torch.autograd.gradcheck(scores, (tensor(4, width, 5), tensor(4, 2, 5, seed=1), tensor(5, seed=2)))


def test_the_compiler_sees_plain_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        queries, keys, energy = tensor(4, 1, 5), tensor(4, 2, 5, seed=2), tensor(5, seed=3)
        additive = AdditiveScores(keys, energy)
        assert additive.tracked != compiling
        scores = additive(queries)
        results.append([scores, *torch.autograd.grad(scores.square().sum(), (queries, keys, energy))])
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs)
