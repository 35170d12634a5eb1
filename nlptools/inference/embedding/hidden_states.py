"""The hidden states of encoders and language models, layer by layer, for sequences end to end.

Layer 0 is the embeddings; the last one is the input of the model's heads, behind the last norm where there is one.
Shapes: N tokens of a batch, D hidden.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.inference.embedding.batching import Batch
from nlptools.layers import packed


def of(model: Any, is_encoder: bool, batch: Batch, layers: range, backend: Backend) -> list[Tensor]:
    """The states (N, D) of each of `layers`, which is not empty. `model`: a `Bert`, or a `contract.LanguageModel`."""
    ids = backend.put(batch.ids)
    if is_encoder:
        states: list[Tensor] = model.packed(ids, backend.put(batch.positions), batch.groups, layers)
        return states
    return packed.by_group(lambda rows: model.states(rows).layers, ids, batch.groups, layers)
