"""Windows over time, and their gradient."""

from __future__ import annotations

import pytest
import torch

from nlptools.layers.convolution import windows


def test_windows_by_hand() -> None:
    x = torch.tensor([[[1, 2], [3, 4], [5, 6], [7, 8]]])
    assert windows(x, 3).tolist() == [[[1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8]]]
    assert windows(x, 1) is x


@pytest.mark.parametrize(("kernel_size", "length"), [(1, 4), (2, 5), (3, 3), (5, 9)])
def test_the_gradient_of_windows(kernel_size: int, length: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, length, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: windows(x, kernel_size), x)
