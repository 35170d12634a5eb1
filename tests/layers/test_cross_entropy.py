"""Log-probabilities of targets; the losses are tested with their kernel, `tests/compute/kernels/test_cross_entropy.py`."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import cross_entropy
from nlptools.layers.cross_entropy import log_probabilities


@pytest.mark.parametrize("with_bias", [False, True])
def test_log_probabilities_in_chunks_are_those_of_pytorch(with_bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 1)  # chunks of 64 rows
    torch.manual_seed(1)
    hidden, weight, targets = torch.randn(300, 8), torch.randn(43, 8), torch.randint(0, 40, (300,))
    bias = torch.randn(40) if with_bias else None
    logits = hidden @ weight[:40].t() + (0 if bias is None else bias)
    scores = log_probabilities(hidden, weight, targets, 40, bias)
    assert torch.allclose(scores, F.log_softmax(logits, 1)[range(300), targets], atol=1e-5)
