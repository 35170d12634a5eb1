"""Means of rows of a table, and the gradients that wait for an optimizer."""

from __future__ import annotations

import torch

from nlptools.compute.kernels.embedding_bag import PendingGradients, bag_means


def test_means_and_their_gradients_are_those_of_autograd() -> None:
    table = torch.randn(6, 3)
    rows, lengths = torch.tensor([0, 2, 2, 5, 1]), torch.tensor([3, 0, 2])
    pending = PendingGradients()
    found = bag_means(table, rows, lengths, pending)
    assert torch.allclose(found[0], table[[0, 2, 2]].mean(0)) and not found[1].any()
    assert torch.allclose(found[2], table[[5, 1]].mean(0))
    wanted = torch.randn(3, 3)
    (found * wanted).sum().backward()
    (gradient,) = pending.take()
    assert torch.equal(gradient.means, wanted) and torch.equal(gradient.rows, rows) and not pending.gradients
    with torch.no_grad():
        assert torch.equal(bag_means(table, rows, lengths, pending), found.detach()) and not pending.gradients
