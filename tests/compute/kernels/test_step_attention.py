"""Attention of the new tokens of a step: as attention to all slots of the cache at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nlptools.compute.kernels.attention import attention
from nlptools.compute.kernels.step_attention import (
    attends_stepwise,
    row_attention,
    scripted_row_attention,
    scripted_step_attention,
    step_attention,
)


def masks(B: int, H: int, G: int, T: int, S: int) -> list[Tensor | None]:
    seen = torch.rand(B, 1, T, S) > 0.4
    seen[..., -1] = True
    added = [torch.randn(1, H, T, S)] * (G == H)
    return [*[None] * (T == 1), seen, seen[:1], *added]


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [(1, 1), (4, 4), (6, 2), (4, 1)])
def test_heads_are_those_of_attention_to_all_slots(heads: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    (H, G), K = heads, 8
    for B, T, used, capacity in ((1, 1, 5, 9), (1, 4, 3, 7), (3, 1, 1, 2), (2, 3, 20, 64)):
        query, new = torch.randn(B, H, T, K).to(dtype), torch.randn(2, B, G, T, K).to(dtype)
        buffer = torch.randn(2, B, G, capacity, K)
        for mask in masks(B, H, G, T, used + T):
            slots = torch.cat([buffer[:, :, :, :used], new.float()], 3)
            for step in (step_attention, scripted_step_attention()):
                buffer[:, :, :, used:] = 7.0
                assert attends_stepwise(buffer)
                found = step(query, new[0], new[1], mask, buffer, torch.tensor(used))
                wanted = attention(query, slots[0], slots[1], mask).transpose(1, 2).flatten(2)
                assert torch.equal(buffer[:, :, :, : used + T], slots)
                assert found.shape == (B, T, H * K) and found.dtype == dtype and torch.equal(found, wanted)


@torch.inference_mode()
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("heads", [(1, 1), (4, 4), (6, 2), (4, 1)])
def test_each_row_and_position_is_attended_to_as_if_it_came_alone(heads: tuple[int, int], window: int) -> None:
    torch.manual_seed(1)
    (H, G), K, used = heads, 8, 9
    for own, T in (([10], 1), ([4, 4, 10, 1, 4], 1), ([12], 3), ([12, 8, 8], 3)):
        B = len(own)
        query, new = torch.randn(B, H, T, K), torch.randn(2, B, G, T, K)
        for step in (row_attention, scripted_row_attention()):
            buffer = torch.randn(2, B, G, 15, K)
            found = step(query, new[0], new[1], torch.tensor(own), window, buffer, torch.tensor(used))
            assert found.shape == (B, T, H * K) and torch.equal(buffer[:, :, :, used : used + T], new)
            for row, length in enumerate(own):
                for t in range(T):
                    end = used + t + 1
                    slots = buffer[:, row : row + 1, :, end - (length - T + t + 1) : end]
                    mask = torch.arange(slots.shape[3]) >= slots.shape[3] - (window or end)
                    alone = attention(query[row : row + 1, :, t : t + 1], slots[0], slots[1], mask[None, None, None])
                    assert torch.equal(found[row, t], alone.flatten())


def test_other_keys_and_gradients_are_left_to_attention() -> None:
    assert not attends_stepwise(torch.zeros(2, 1, 1, 1, 8))
    with torch.no_grad():
        assert not attends_stepwise(torch.zeros(2, 1, 1, 1, 8, dtype=torch.bfloat16))
