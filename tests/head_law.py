"""The law that every output head obeys: its four methods describe one distribution."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.layers.output import OutputHead


@torch.no_grad()
def assert_head_agrees(head: OutputHead, hidden: Tensor, atol: float = 1e-4) -> None:
    """(N, D) hidden states: logits, log-probabilities and losses agree, and probabilities sum to 1."""
    N, V = len(hidden), head.vocab_size
    targets = torch.randint(0, V, (N,), generator=torch.Generator().manual_seed(0))
    logits = head.logits(hidden)
    assert logits.shape == (N, V) and logits.dtype == hidden.dtype
    logs = logits.float().log_softmax(1)
    assert torch.allclose(logs.exp().sum(1), torch.ones(N), atol=1e-5)
    found = head.log_probabilities(hidden, targets)
    assert found.shape == (N,) and found.dtype == torch.float32
    assert torch.allclose(found, logs[range(N), targets], atol=atol)
    kept = targets.masked_fill(torch.arange(N) % 3 == 1, -1)  # these do not count
    for smoothing in (0.0, 0.1):
        loss = head.summed_loss(hidden, kept, smoothing=smoothing)
        expected = F.cross_entropy(logits.float(), kept, ignore_index=-1, reduction="sum", label_smoothing=smoothing)
        assert loss.dtype == torch.float32
        assert float(loss) == pytest.approx(float(expected), abs=atol * N)
    for forbidden in (None, targets[:1]):
        allowed = logs if forbidden is None else logs.index_fill(1, forbidden, -torch.inf).log_softmax(1)
        chosen, entropies = head.chosen_log_probabilities(hidden, targets, forbidden)
        assert chosen.dtype == entropies.dtype == torch.float32
        assert torch.allclose(chosen, allowed[range(N), targets], atol=atol)
        assert torch.allclose(entropies, -(allowed.exp() * allowed.clamp(min=-1e4)).sum(1), atol=10 * atol)
