"""The key/value cache of a Transformer's decoder, which records the hypothesis of each entry.

The hypotheses of an input (of a beam, or several samples) share one set of slots: each step adds one slot for each
hypothesis, and `seen` marks the slots that are its own past. When a beam is reordered only these marks change, what
hypotheses have in common is stored once, and all of them read their keys in one matrix product.
Dimensions: G inputs, W hypotheses of each, R = G * W rows, S slots of an input, T new tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from nlptools.compute.kernels.step_attention import (
    attends_stepwise,
    row_attention,
    scripted_row_attention,
    scripted_step_attention,
    step_attention,
)

SPARSE = 128  # number of slots from which on unused ones are removed when they are most


class KeyValues:
    """Keys and values of one layer, in a buffer that grows by doubling."""

    def __init__(self, capacity: int = 0, dtype: torch.dtype | None = None) -> None:
        self.capacity = capacity
        self.dtype = dtype  # of the buffer; None: the type of the first keys
        self.size = 0
        self.buffer: Tensor | None = None  # (2, G, H, capacity, K): keys, values

    def append(self, key_value: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values (2, G, H, T, K); return all keys and all values, each (G, H, S, K)."""
        T, begin = key_value.shape[3], self.size
        buffer = self.extend(T, key_value)
        buffer.narrow(3, begin, T).copy_(key_value)
        keys, values = buffer.narrow(3, 0, self.size).unbind(0)
        return keys, values

    def extend(self, T: int, like: Tensor) -> Tensor:
        """Add T slots, for keys and values like these (2, G, H, 1, K), which the caller writes; return the buffer."""
        buffer, needed = self.buffer, self.size + T
        if buffer is None or needed > buffer.shape[3]:
            buffer = self._grow(max(needed, self.capacity, 2 * self.size), like)
        self.size = needed
        return buffer

    def steps(self) -> bool:
        """Whether `step` can follow."""
        return self.size > 0 and self.buffer is not None and attends_stepwise(self.buffer)

    def step(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """As `compute.kernels.step_attention`, after others."""
        used = torch.tensor(self.size)
        return step_attention(query, key, value, mask, self.with_slots(query.shape[2]), used)

    def step_rows(self, query: Tensor, key: Tensor, value: Tensor, own: Tensor, window: int) -> Tensor:
        """As `compute.kernels.step_attention.row_attention`, after others."""
        used = torch.tensor(self.size)
        return row_attention(query, key, value, own, window, self.with_slots(query.shape[2]), used)

    def with_slots(self, T: int) -> Tensor:
        """Add T slots after others, which the caller writes; return the buffer."""
        assert self.buffer is not None
        return self.extend(T, self.buffer)

    def forget(self, count: int) -> None:
        """Remove the last `count` slots."""
        self.size -= count

    def select(self, inputs: Tensor) -> KeyValues:
        """A cache for a choice of inputs."""
        return self._with(lambda filled: filled.index_select(1, inputs))

    def gather(self, inputs: Tensor, slots: Tensor, capacity: int | None = None) -> KeyValues:
        """A cache for a choice of inputs, with a choice of slots for each, (inputs, n); `capacity`: None, as before."""
        return self._with(lambda filled: filled.transpose(2, 3)[:, inputs[:, None], slots].transpose(2, 3), capacity)

    @classmethod
    def joined(cls, parts: Sequence[KeyValues], kept: Sequence[int]) -> KeyValues:
        """A cache for the inputs of several, with the last `kept` slots of each after zeros on the left."""
        filled = [part.filled for part in parts]
        room, longest = max(part.capacity - part.size for part in parts), max(kept)
        joined = cls(longest + max(room, 0), parts[0].dtype)
        inputs = sum(each.shape[1] for each in filled)
        new = joined._grow(joined.capacity, filled[0][:, :1].expand(-1, inputs, -1, -1, -1))
        joined.size, begin = longest, 0
        for each, n in zip(filled, kept, strict=True):
            rows = new[:, begin : begin + each.shape[1]]
            rows[:, :, :, : longest - n] = 0
            rows[:, :, :, longest - n : longest] = each[:, :, :, each.shape[3] - n :]
            begin += each.shape[1]
        return joined

    @property
    def filled(self) -> Tensor:
        """Keys and values (2, G, H, S, K) of a cache that has been used."""
        assert self.buffer is not None
        return self.buffer[:, :, :, : self.size]

    def _with(self, choose: Callable[[Tensor], Tensor], capacity: int | None = None) -> KeyValues:
        chosen = KeyValues(self.capacity if capacity is None else capacity, self.dtype)
        if self.buffer is not None:
            if capacity is None:
                chosen.capacity = max(self.capacity, self.buffer.shape[3])
            chosen.append(choose(self.filled))
        return chosen

    def _grow(self, capacity: int, like: Tensor) -> Tensor:
        """A new buffer, with the slots of the old one that are in use."""
        shape = (*like.shape[:3], capacity, like.shape[4])
        old, self.buffer = self.buffer, like.new_empty(shape, dtype=self.dtype or like.dtype)
        if old is not None:
            self.filled.copy_(old[:, :, :, : self.size])
        return self.buffer


class TracedKeyValues(KeyValues):
    """Keys and values of one layer in a step that is traced (`layers.traced_steps`)."""

    def __init__(self, used: Tensor, buffer: Tensor) -> None:
        """`used`: slots of the buffer in use, ()."""
        super().__init__()
        self.used, self.slots = used, buffer

    def append(self, key_value: Tensor) -> tuple[Tensor, Tensor]:
        """Raises RuntimeError: only `step` does the same for every number of slots."""
        raise RuntimeError("attention of another kind cannot be traced")

    def steps(self) -> bool:
        """See `KeyValues`."""
        return True

    def step(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """See `KeyValues`."""
        return scripted_step_attention()(query, key, value, mask, self.slots, self.used)

    def step_rows(self, query: Tensor, key: Tensor, value: Tensor, own: Tensor, window: int) -> Tensor:
        """See `KeyValues`."""
        return scripted_row_attention()(query, key, value, own, window, self.slots, self.used)


class Cache:
    """The past of all hypotheses of all inputs."""

    def __init__(self, layers: Sequence[KeyValues]) -> None:
        self.layers = list(layers)
        self.width = 1  # W
        self.length = 0  # tokens of each hypothesis, padding included
        self.seen: Tensor | None = None  # (G, W, S) True = own past; None: one hypothesis, which owns every slot

    @classmethod
    def of(cls, num_layers: int, capacity: int, dtype: torch.dtype | None = None) -> Cache:
        """An empty cache with room for `capacity` tokens; keys and values are stored in `dtype`, None: as they come."""
        return cls([KeyValues(capacity, dtype) for _ in range(num_layers)])

    @classmethod
    def joined(cls, caches: Sequence[Cache]) -> Cache:
        """The past of the inputs of several caches, of one hypothesis each, aligned on the right."""
        seen = [cache._own() for cache in caches]  # (G, 1, S) each
        kept = [each.shape[2] - int(each.any(0)[0].int().argmax()) for each in seen]
        layers = zip(*(cache.layers for cache in caches), strict=True)
        joined = cls([KeyValues.joined(parts, kept) for parts in layers])
        joined.length = max(cache.length for cache in caches)
        longest = max(kept)
        marks = [pad(each[:, :, each.shape[2] - n :], (longest - n, 0)) for each, n in zip(seen, kept, strict=True)]
        joined.seen = torch.cat(marks)
        return joined

    def extend(self, T: int, real: Tensor | None = None) -> Tensor | None:
        """Make room for T new tokens of each hypothesis.

        Args:
            real: (G, T), False = padding on the left; with the first tokens only.

        Returns:
            The slots, the new ones included, that they attend to: (G or 1, 1, W * T, S), True = attend; None for plain
            causal attention, or attention to all slots.
        """
        past, self.length = self.length, self.length + T
        slots = self.layers[0].size
        if real is not None:
            self.seen = real[:, None]  # (G, 1, T)
            own = torch.eye(T, dtype=torch.bool, device=real.device)
            # a padding slot attends to itself, because a softmax over nothing would be NaN; its output is not used
            return (own.logical_or(_causal(T, real.device) & self.seen))[:, None]
        if self.seen is None:
            if past == 0 or T == 1:
                return None
            device = self.device
            return torch.cat([torch.ones(T, slots, dtype=torch.bool, device=device), _causal(T, device)], 1)[None, None]
        G, W, _ = self.seen.shape
        new = _causal(T, self.seen.device) if W == 1 else torch.eye(W, dtype=torch.bool, device=self.seen.device)
        mask = torch.cat([self.seen.expand(G, len(new), slots), new.expand(G, -1, -1)], 2)
        self.seen = mask[:, -1:] if W == 1 else mask
        return mask[:, None]

    def forget(self, count: int) -> None:
        """Remove the last `count` tokens of each input, which has one hypothesis."""
        assert self.width == 1
        self.length -= count
        self.seen = None if self.seen is None else self.seen[:, :, : self.seen.shape[2] - count]
        for layer in self.layers:
            layer.forget(count)

    def select(self, rows: Tensor, width: int = 1) -> Cache:
        """See `models.contract.State`."""
        inputs, parents = rows[::width] // self.width, rows % self.width
        chosen = Cache(self.layers)
        chosen.width, chosen.length = width, self.length
        if self.seen is not None and width == 1:
            return self._separate(chosen, inputs, parents)
        if self.seen is not None or width > 1:
            seen = self.seen
            if seen is None:
                seen = torch.ones(1, 1, 1, dtype=torch.bool, device=rows.device)
                seen = seen.expand(int(inputs.max()) + 1, 1, self.layers[0].size)
            chosen.seen = seen[inputs[:, None], parents.view(-1, width)]
        if not all_in_order(inputs, 0 if self.layers[0].buffer is None else self.inputs):
            chosen.layers = [layer.select(inputs) for layer in self.layers]
        if width > self.width:
            for layer in chosen.layers:
                layer.capacity *= width
        chosen._compact()
        return chosen

    def _separate(self, chosen: Cache, inputs: Tensor, parents: Tensor) -> Cache:
        """Hypotheses become separate inputs, each with its own slots."""
        assert self.seen is not None
        # as before the hypotheses came, see `select`
        chosen._keep(inputs, self.seen[inputs, parents][:, None], self.layers[0].capacity // self.width)
        if chosen.seen is not None and bool(chosen.seen.all()):
            chosen.seen = None
        return chosen

    def _compact(self) -> None:
        """Remove slots that are no hypothesis's past, when they are most."""
        if self.seen is None or self.seen.shape[2] < SPARSE:
            return
        used = self.seen.any(1)  # (G, S)
        if 2 * int(used.sum(1).max()) < used.shape[1]:
            self._keep(torch.arange(len(used), device=used.device), self.seen)

    def _keep(self, inputs: Tensor, seen: Tensor, capacity: int | None = None) -> None:
        """Keep, for each of `inputs`, the slots that any row of `seen` (inputs, W, S) uses, in order, others before them.

        `capacity`: of the new buffers, at least; None: it stays.
        """
        used = seen.any(1)
        most = int(used.sum(1).max())
        slots = used.to(torch.int8).argsort(dim=1, stable=True)[:, used.shape[1] - most :]  # (inputs, most)
        capacity = None if capacity is None else max(capacity, most)
        self.layers = [layer.gather(inputs, slots, capacity) for layer in self.layers]
        self.seen = seen.gather(2, slots[:, None].expand(-1, seen.shape[1], -1))

    def _own(self) -> Tensor:
        """`seen` where every slot may be each hypothesis's own."""
        if self.seen is not None:
            return self.seen
        return torch.ones(self.inputs, 1, self.layers[0].size, dtype=torch.bool, device=self.device)

    @property
    def inputs(self) -> int:
        """G, of a cache that has been used."""
        return self.layers[0].filled.shape[1]

    @property
    def device(self) -> torch.device:
        """Where a cache is that has been used."""
        return self.layers[0].filled.device


def all_in_order(chosen: Tensor, count: int) -> bool:
    """Whether these indices choose all of `count` inputs in their order."""
    return len(chosen) == count and torch.equal(chosen, torch.arange(count, device=chosen.device))


def _causal(T: int, device: torch.device) -> Tensor:
    """(T, T), True = attend."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril_()
