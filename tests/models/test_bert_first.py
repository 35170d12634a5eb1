"""The first token alone is what it is among all: values and gradients, in both families, with and without padding."""

from __future__ import annotations

import pytest
import torch

from nlptools.configs.encoders import EncoderConfig
from nlptools.models.bert import Bert


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
