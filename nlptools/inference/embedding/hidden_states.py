"""The hidden states of encoders and language models, layer by layer, for sequences end to end.

Layer 0 is what the embeddings give; the last one is what the model's heads see, behind the last norm where there is one.
Shapes: N tokens of a batch, D hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.inference.embedding.batching import Batch
from nlptools.layers import packed


def count(model: Any, is_encoder: bool) -> int:
    """How many layers there are, with layer 0."""
    return len(model.blocks if is_encoder else _layers(model)) + 1


def of(model: Any, is_encoder: bool, batch: Batch, layers: range, backend: Backend) -> list[Tensor]:
    """The states (N, D) of each of `layers`, which is not empty."""
    ids = backend.put(batch.ids)
    if is_encoder:
        states: list[Tensor] = model.packed(ids, backend.put(batch.positions), batch.groups, layers)
        return states
    return packed.by_group(lambda rows: _states(model, rows), ids, batch.groups, layers)


def _layers(model: Any) -> Any:
    """The layers of a language model."""
    return model.blocks if hasattr(model, "blocks") else model.layers


def _states(model: Any, ids: Tensor) -> list[Tensor]:
    """The states of all layers of a language model, each (B, T, D)."""
    with _watched(_layers(model)) as states:
        last, _ = model(ids)
    return [*states[:-1], last]


@contextmanager
def _watched(layers: Any) -> Iterator[list[Tensor]]:
    """What comes into the first of `layers`, and out of each."""
    states: list[Tensor] = []
    handles = [layers[0].register_forward_pre_hook(lambda _, args: states.append(args[0]))]
    for layer in layers:  # a recurrent layer gives its state besides
        handles.append(
            layer.register_forward_hook(lambda _, __, out: states.append(out[0] if isinstance(out, tuple) else out))
        )
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()
