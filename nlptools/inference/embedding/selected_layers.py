"""The layers that `embed --layers` selects, and their combination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from nlptools.configs.layers import Layers, layers, read_mix
from nlptools.errors import UsageError
from nlptools.layers import pooling


@dataclass(frozen=True)
class SelectedLayers:
    """Layers of a model.

    Attributes:
        numbers: of the layers, in order.
        kind: how they are combined, see `configs.layers.Layers`.
        weights: of a mix, one for each of `numbers`.
    """

    numbers: range
    kind: str
    weights: list[float] | None = None

    @classmethod
    def of(cls, text: str, count: int) -> SelectedLayers:
        """The layers that the value of --layers means, of a model with `count`. Raises UsageError, InputError, DataError."""
        which, everything = layers(text), range(count)
        if which.kind != "mix":
            chosen = everything[which.begin : which.end]
            if not chosen:
                raise UsageError(f"--layers: no such layers: the model has {count}, numbered 0 to {count - 1}")
            return cls(chosen, which.kind)
        if which.file is None:
            raise UsageError("--layers mix: expected mix:FILE, with a weight for each layer")
        return cls(everything, "mix", read_mix(which.file, count).weights)

    def width(self, hidden_size: int) -> int:
        """The dimensions of the result."""
        return hidden_size * (len(self.numbers) if self.kind == "concat" else 1)

    def combine(self, states: Sequence[Tensor]) -> Tensor:
        """The states (..., D) of the layers `numbers` -> (..., D'), or for all (..., layers, D)."""
        if len(states) == 1 and self.weights is None and self.kind != "all":
            return states[0]
        return pooling.choose([state.float() for state in states], Layers(self.kind), self.weights)
