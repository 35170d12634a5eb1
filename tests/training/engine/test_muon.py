"""Muon beside PyTorch's, and what it updates."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny
from torch import nn

from nlptools.models import registry
from nlptools.training.engine.muon import Muon, hidden_matrices, orthogonal
from nlptools.training.engine.optimizers import AdamW
from nlptools.training.objectives import CausalLM


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shapes = ((8, 24), (24, 8), (8, 24), (16, 16))
        self.layers = nn.ModuleList(nn.Linear(columns, rows) for rows, columns in shapes)


def test_steps_of_matrices_are_those_of_torch() -> None:
    """PyTorch's class has the same scale under the name match_rms_adamw; both compute in bf16 here."""
    torch.manual_seed(0)
    ours, theirs = Layers(), Layers()
    theirs.load_state_dict(ours.state_dict())
    mine = Muon(dict(ours.named_parameters()), hidden_matrices(ours), weight_decay=0.1, dtype=torch.bfloat16)
    assert mine.means.keys() == {f"layers.{i}.weight" for i in range(4)}
    reference = torch.optim.Muon(
        [p for p in theirs.parameters() if p.dim() == 2], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    for seed in range(4):
        torch.manual_seed(seed)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            b.grad = torch.randn_like(b)
            a.grad = 4 * b.grad  # and scaled back, as clipping does
        before = [p.detach().clone() for p in ours.parameters()]
        mine.step(0.02, 0.25)
        reference.step()
        for a, b, old in zip(ours.parameters(), theirs.parameters(), before, strict=True):
            if a.dim() == 2:
                mine_moved, moved = a.detach() - old, b.detach() - old
                assert torch.allclose(mine_moved, moved, atol=1e-3 * float(moved.abs().max())), a.shape


def test_the_rest_is_updated_by_adamw() -> None:
    torch.manual_seed(0)
    ours, theirs = Layers(), Layers()
    theirs.load_state_dict(ours.state_dict())
    mine = Muon(dict(ours.named_parameters()), hidden_matrices(ours), beta2=0.9)
    adamw = AdamW(dict(theirs.named_parameters()), beta2=0.9)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        a.grad = torch.randn_like(a)
        b.grad = a.grad.clone()
    mine.step(0.1, factors={"layers.0.weight": 0.0, "layers.0.bias": 0.0})
    kept = theirs.layers[0].weight.detach().clone()
    adamw.step(0.1, factors={"layers.0.bias": 0.0})
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b) == name.endswith("bias"), name
    assert torch.equal(ours.layers[0].weight, kept), "a rate of 0 keeps a matrix"


@pytest.mark.parametrize("shape", [(3, 10, 40), (2, 40, 10), (1, 16, 16)])
def test_singular_values_of_orthogonal_steps_are_near_one(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonal(x))
    assert float(values.min()) > 0.6 and float(values.max()) < 1.3
    # the same directions: what is left of the product with the exact factor is symmetric and positive
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    assert torch.allclose(
        orthogonal(x), u @ torch.diag_embed((u.mT @ orthogonal(x) @ v.mT).diagonal(0, 1, 2)) @ v, atol=1e-4
    )
    assert torch.equal(orthogonal(torch.zeros(1, 3, 4)), torch.zeros(1, 3, 4))


@pytest.mark.parametrize("shape", [(2, 20, 160), (3, 64, 128), (1, 130, 40)])
def test_orthogonal_steps_are_exact_in_float32(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    rank = min(shape[1:])
    basis, _ = torch.linalg.qr(torch.randn(shape[0], shape[1], rank, generator=generator))
    # singular values from 1 to 1e-4: small ones are what the iteration on Gram matrices could lose
    x = basis * torch.logspace(0, -4, rank) @ torch.randn(shape[0], rank, shape[2], generator=generator)
    exact = orthogonal(x.double())
    assert float((orthogonal(x) - exact).norm() / exact.norm()) < 1e-3


@pytest.mark.parametrize("arch", registry.names(registry.LANGUAGE))
def test_embeddings_and_heads_are_no_hidden_matrices(arch: str) -> None:
    objective = CausalLM(tiny(arch, vocab_size=130))  # up to 192 rows in memory
    names = hidden_matrices(objective)
    shapes = {name: p.shape for name, p in objective.named_parameters() if name in names}
    assert not any(130 in shape or 192 in shape for shape in shapes.values())
    assert names and not any("embedding" in name or "norm" in name or "bias" in name for name in names)
    if arch == "transformer":
        assert len(names) == 8, "query-key-value, output, up and down in each of two layers"
