"""The cache of keys and values against lists of tokens: whatever happens to it, each hypothesis sees its own past alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nlptools.layers import cache as caches
from nlptools.layers.cache import Cache, KeyValues

LAYERS, H, K = 2, 2, 3
FAR = 1_000_000  # keys of one layer from those of the next


class Naive:
    """What each row has said, padding left out: a list of tokens, no two of them alike."""

    def __init__(self, lengths: list[int], capacity: int) -> None:
        self.cache = Cache([KeyValues(capacity, torch.float32) for _ in range(LAYERS)])
        self.width, self.counter, self.T = 1, 0, max(lengths)
        self.rows: list[list[int]] = [[] for _ in lengths]
        real = torch.arange(self.T) >= self.T - torch.tensor(lengths)[:, None]
        self.append(self.T, None if bool(real.all()) else real)

    def append(self, T: int, real: Tensor | None = None) -> None:
        """T new tokens for each row; what each of them may look at is its row's past and itself."""
        new = torch.arange(self.counter, self.counter + len(self.rows) * T).view(len(self.rows), T)
        self.counter += new.numel()
        mask = self.cache.extend(T, real)
        G = len(self.rows) // self.width
        keys = 100 * new.view(G, 1, self.width * T, 1) + 10 * torch.arange(H).view(H, 1, 1) + torch.arange(K)
        for i, layer in enumerate(self.cache.layers):
            held, values = layer.append(torch.stack([keys + i * FAR, -keys]).float())
        found = held.long() - FAR * (LAYERS - 1)
        assert torch.equal(found, -values.long())
        slots = found[:, 0, :, 0] // 100  # (G, S) the token in each slot
        assert torch.equal(
            found - 100 * slots[:, None, :, None], (keys - 100 * (keys // 100))[:1, :, :1].expand_as(found)
        )
        S = slots.shape[1]
        if mask is None:
            assert self.width == 1 and (T == 1 or S == T), "plain attention is right for one token, or with no past"
            mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)[None, None]
        assert mask.shape[1:] == (1, self.width * T, S) and mask.shape[0] in (1, G)
        mask = mask.expand(G, -1, -1, -1)
        for row, said in enumerate(self.rows):
            g, w = divmod(row, self.width)
            for t in range(T):
                if real is not None and not real[row, t]:
                    assert mask[g, 0, t].any(), "a softmax over nothing would be NaN"
                    continue
                said.append(int(new[row, t]))
                assert slots[g, mask[g, 0, w * T + t]].tolist() == sorted(said)

    def select(self, rows: list[int], width: int) -> None:
        self.cache = self.cache.select(torch.tensor(rows), width)
        self.rows, self.width = [list(self.rows[row]) for row in rows], width
        assert self.cache.width == width


@st.composite
def stories(draw: Callable[[Any], Any]) -> tuple[list[int], int, list[Any]]:
    """(lengths of the prompts, capacity, and what happens: new tokens, or a choice of rows and its width)"""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    inputs, width, events = len(lengths), 1, []
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            events.append(draw(st.integers(1, 3)) if width == 1 else 1)
            continue
        new_width = draw(st.sampled_from([1, width, 2, 3]))
        keep = draw(st.booleans())
        chosen = list(range(inputs)) if keep else draw(st.lists(st.integers(0, inputs - 1), min_size=1, max_size=3))
        rows = [i * width + draw(st.integers(0, width - 1)) for i in chosen for _ in range(new_width)]
        events += [(rows, new_width), 1]
        inputs, width = len(chosen), new_width
    return lengths, draw(st.sampled_from([0, 1, 7, 50])), events


@pytest.mark.parametrize("sparse", [1, 6, 128])
@given(story=stories())
@settings(max_examples=examples(150), deadline=None)
def test_each_hypothesis_sees_its_own_past_alone(sparse: int, story: tuple[list[int], int, list[Any]]) -> None:
    lengths, capacity, events = story
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caches, "SPARSE", sparse)
        naive = Naive(lengths, capacity)
        for event in events:
            if isinstance(event, int):
                naive.append(event)
            else:
                naive.select(*event)


def storages(cache: Cache) -> list[int]:
    return [layer.buffer.data_ptr() for layer in cache.layers if layer.buffer is not None]


def test_nothing_moves_when_a_beam_changes_its_order() -> None:
    naive = Naive([2, 3], 20)
    naive.select([0, 0, 0, 1, 1, 1], 3)
    before = storages(naive.cache)
    naive.append(1)
    for rows in ([2, 1, 0, 3, 3, 5], [0, 0, 0, 4, 5, 3], [1, 2, 0, 4, 4, 4]):
        held = storages(naive.cache)
        naive.select(rows, 3)
        assert storages(naive.cache) == held
        naive.append(1)
    assert len(before) == LAYERS
    held = storages(naive.cache)
    naive.select([3, 4, 5, 0, 1, 2], 3)
    assert set(storages(naive.cache)).isdisjoint(held), "the inputs change places, and their slots with them"
    naive.append(1)


def test_memory_grows_by_doubling_and_never_before_it_has_to() -> None:
    naive = Naive([4, 4], 12)
    held = storages(naive.cache)
    for _ in range(8):
        naive.append(1)
        assert storages(naive.cache) == held
    naive.append(1)
    assert set(storages(naive.cache)).isdisjoint(held)
    buffer = naive.cache.layers[0].buffer
    assert buffer is not None and buffer.shape == (2, 2, H, 24, K) and naive.cache.layers[0].size == 13


def test_hypotheses_that_become_inputs_leave_the_room_of_the_others() -> None:
    naive = Naive([3, 2], 10)
    for _ in range(6):  # as contrastive search, each time that other rows join
        naive.select([0, 0, 0, 0, 1, 1, 1, 1], 4)
        naive.append(1)
        naive.select([2, 5], 1)
        buffer = naive.cache.layers[0].buffer
        assert buffer is not None and buffer.shape[3] <= 10
    naive.append(1)


def test_slots_that_nobody_needs_are_left_out_when_they_are_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "SPARSE", 16)
    naive = Naive([2], 4)
    naive.select([0, 0, 0, 0], 4)
    sizes = []
    for _ in range(60):  # the first hypothesis wins every time: one slot in four is needed
        naive.append(1)
        naive.select([0, 0, 0, 0], 4)
        sizes.append(naive.cache.layers[0].size)
        assert sizes[-1] < max(16, 2 * len(naive.rows[0])) + 4
    assert sizes != sorted(sizes)
    monkeypatch.setattr(caches, "SPARSE", 10_000)
    naive.select([1, 2, 3, 0], 4)
    naive.append(1)


def test_one_hypothesis_with_no_padding_needs_no_mask() -> None:
    naive = Naive([3, 3], 4)
    assert naive.cache.seen is None and naive.cache.extend(1) is None
    naive = Naive([3, 3], 4)
    naive.select([0, 0, 1, 1], 2)
    naive.append(1)
    naive.select([1, 2], 1)
    assert naive.cache.seen is None, "apart again, each has its own slots and no others"
    naive.append(2)


@pytest.mark.parametrize(("asked", "kept"), [(torch.float32, torch.float32), (None, torch.bfloat16)])
def test_keys_are_kept_in_the_type_that_is_asked_for(asked: torch.dtype | None, kept: torch.dtype) -> None:
    cache = Cache.of(1, 3, asked)
    held, _ = cache.layers[0].append(torch.randn(2, 1, H, 2, K).bfloat16())
    assert held.dtype == kept and cache.select(torch.tensor([0, 0])).layers[0].filled.dtype == kept


def test_keys_and_values_grow_beyond_their_capacity() -> None:
    torch.manual_seed(7)
    cache, chunks = KeyValues(2), [torch.randn(2, 3, n, 4) for n in (1, 1, 3, 9)]
    for i, chunk in enumerate(chunks):
        keys, values = cache.append(torch.stack([chunk, -chunk]))
        assert torch.equal(keys, torch.cat(chunks[: i + 1], 2))
        assert torch.equal(values, -keys)
    chosen = cache.select(torch.tensor([1, 1])).append(torch.stack([chunks[0]] * 2))
    assert torch.equal(chosen[0][0, :, :14], keys[1])
