"""What a Transformer's decoder remembers: keys and values of its layers, and which of them each hypothesis has said.

The hypotheses of an input (of a beam, or several samples) share one set of slots: each step adds one slot for each
hypothesis, and `seen` tells which of all slots are its own past. When a beam changes its order nothing moves but a few
bits, what the hypotheses have in common is kept once, and all of them look at their keys in one matrix product.
Shapes: G inputs, W hypotheses of each, R = G * W rows, S slots of an input, T new tokens, H heads, K size per head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_SPARSE = 128  # slots from which on it is looked whether most of them are nobody's past any more


class KeyValues:
    """Keys and values of one layer, in buffers that grow by doubling."""

    def __init__(self, capacity: int = 0, dtype: torch.dtype | None = None) -> None:
        self.capacity = capacity
        self.dtype = dtype  # of the buffers; None: that of what comes
        self.size = 0
        self.keys: Tensor | None = None  # (G, H, capacity, K)
        self.values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (G, H, T, K) keys and values; returns all of them, (G, H, S, K)."""
        needed = self.size + keys.shape[2]
        if self.keys is None or self.values is None or needed > self.keys.shape[2]:
            self._grow(max(needed, self.capacity, 2 * self.size), keys)
        assert self.keys is not None and self.values is not None
        self.keys[:, :, self.size : needed] = keys
        self.values[:, :, self.size : needed] = values
        self.size = needed
        return self.keys[:, :, :needed], self.values[:, :, :needed]

    def select(self, inputs: Tensor) -> KeyValues:
        """The same for a choice of inputs."""
        return self._with(lambda filled: filled.index_select(0, inputs))

    def gather(self, inputs: Tensor, slots: Tensor) -> KeyValues:
        """For each of some inputs some of its slots, (inputs, n)."""
        return self._with(lambda filled: filled.transpose(1, 2)[inputs[:, None], slots].transpose(1, 2))

    def _with(self, choose: Callable[[Tensor], Tensor]) -> KeyValues:
        chosen = KeyValues(self.capacity, self.dtype)
        if self.keys is not None and self.values is not None:
            chosen.capacity = max(self.capacity, self.keys.shape[2])
            chosen.append(choose(self.keys[:, :, : self.size]), choose(self.values[:, :, : self.size]))
        return chosen

    def _grow(self, capacity: int, like: Tensor) -> None:
        shape = (like.shape[0], like.shape[1], capacity, like.shape[3])
        old_keys, old_values = self.keys, self.values
        self.keys, self.values = (like.new_empty(shape, dtype=self.dtype or like.dtype) for _ in range(2))
        if old_keys is not None and old_values is not None:
            self.keys[:, :, : self.size] = old_keys[:, :, : self.size]
            self.values[:, :, : self.size] = old_values[:, :, : self.size]


class Cache:
    """The past of all hypotheses of all inputs."""

    def __init__(self, layers: Sequence[KeyValues]) -> None:
        self.layers = list(layers)
        self.width = 1  # W
        self.length = 0  # tokens of each hypothesis, padding included
        self.seen: Tensor | None = None  # (G, W, S) True = own past; None: one hypothesis, and every slot is its own

    @classmethod
    def of(cls, num_layers: int, capacity: int, dtype: torch.dtype | None = None) -> Cache:
        """An empty one with room for `capacity` tokens; keys and values are kept in `dtype`, None: as they come."""
        return cls([KeyValues(capacity, dtype) for _ in range(num_layers)])

    def extend(self, T: int, real: Tensor | None = None) -> Tensor | None:
        """Make room for T new tokens of each hypothesis: which slots, the new ones included, they may look at.

        `real` (G, T), False = padding at the left, comes with the first tokens. Returns (G or 1, 1, W * T, S), True =
        attend, or None where plain causal attention, or attention to all, is right.
        """
        past, self.length = self.length, self.length + T
        slots = self.layers[0].size
        if real is not None:
            self.seen = real[:, None]  # (G, 1, T)
            own = torch.eye(T, dtype=torch.bool, device=real.device)
            # a padding slot attends to itself, since a softmax over nothing would be NaN; nobody reads its output
            return (own.logical_or(_causal(T, real.device) & self.seen))[:, None]
        if self.seen is None:
            if past == 0 or T == 1:
                return None
            device = self._device
            return torch.cat([torch.ones(T, slots, dtype=torch.bool, device=device), _causal(T, device)], 1)[None, None]
        G, W, _ = self.seen.shape
        new = _causal(T, self.seen.device) if W == 1 else torch.eye(W, dtype=torch.bool, device=self.seen.device)
        mask = torch.cat([self.seen.expand(G, len(new), slots), new.expand(G, -1, -1)], 2)
        self.seen = mask[:, -1:] if W == 1 else mask
        return mask[:, None]

    def select(self, rows: Tensor, width: int = 1) -> Cache:
        """See `models.contract.State`."""
        inputs, parents = rows[::width] // self.width, rows % self.width
        chosen = Cache(self.layers)
        chosen.width, chosen.length = width, self.length
        if self.seen is not None and width == 1:
            return self._apart(chosen, inputs, parents)
        if self.seen is not None or width > 1:
            seen = self.seen
            if seen is None:
                seen = torch.ones(1, 1, 1, dtype=torch.bool, device=rows.device)
                seen = seen.expand(int(inputs.max()) + 1, 1, self.layers[0].size)
            chosen.seen = seen[inputs[:, None], parents.view(-1, width)]
        if not self._all_in_order(inputs):
            chosen.layers = [layer.select(inputs) for layer in self.layers]
        if width > self.width:
            for layer in chosen.layers:
                layer.capacity *= width
        chosen._tidy()
        return chosen

    def _apart(self, chosen: Cache, inputs: Tensor, parents: Tensor) -> Cache:
        """Hypotheses that become inputs of their own: each takes its own slots along."""
        assert self.seen is not None
        chosen._keep(inputs, self.seen[inputs, parents][:, None])
        if chosen.seen is not None and bool(chosen.seen.all()):
            chosen.seen = None
        return chosen

    def _tidy(self) -> None:
        """Leave out slots that are nobody's past, when they are most."""
        if self.seen is None or self.seen.shape[2] < _SPARSE:
            return
        alive = self.seen.any(1)  # (G, S)
        if 2 * int(alive.sum(1).max()) < alive.shape[1]:
            self._keep(torch.arange(len(alive), device=alive.device), self.seen)

    def _keep(self, inputs: Tensor, seen: Tensor) -> None:
        """Of each of `inputs` the slots that are in any row of `seen` (inputs, W, S), in order; padded with others."""
        alive = seen.any(1)
        most = int(alive.sum(1).max())
        slots = (~alive).to(torch.int8).argsort(dim=1, stable=True)[:, :most]  # (inputs, most)
        self.layers = [layer.gather(inputs, slots) for layer in self.layers]
        self.seen = seen.gather(2, slots[:, None].expand(-1, seen.shape[1], -1))

    def _all_in_order(self, inputs: Tensor) -> bool:
        keys = self.layers[0].keys
        count = 0 if keys is None else len(keys)
        return len(inputs) == count and torch.equal(inputs, torch.arange(count, device=inputs.device))

    @property
    def _device(self) -> torch.device:
        keys = self.layers[0].keys
        assert keys is not None
        return keys.device


def _causal(T: int, device: torch.device) -> Tensor:
    """(T, T), True = attend."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril_()
