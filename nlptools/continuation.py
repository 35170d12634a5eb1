"""What sampling and beam search share: the continuation in the making, and how a prompt gets into the model.

Shapes: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlptools.backend import Backend


@dataclass
class Continuation:
    """New tokens after a prompt. The end-of-text token is not among them, but its log-probability counts."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # natural logs, under the model before any filter
    finish: str = "length"  # why it ended: length (--max-new-tokens), eos, stop (a stop text), context


Watch = Callable[[int, Continuation], bool]  # (row, what it has so far) -> whether to end the row


def cut(prompt: Sequence[int], context: int, new: int) -> list[int]:
    """The last tokens of a prompt: what leaves room for `new` more, but never less than half the context."""
    return list(prompt)[-max(context - new, context // 2, 1) :]


def prefill(model: Any, prompts: list[list[int]], room: int, backend: Backend) -> tuple[Tensor, Any]:
    """(float32 logits (B, V) after each prompt, the state with room for `room` more tokens)."""
    longest = max(len(p) for p in prompts)
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros(ids.shape, np.bool_)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = True
    padded = not mask.all()
    state = model.start(len(prompts), longest + room)
    hidden, state = model(backend.put(ids), state, backend.put(mask) if padded else None)
    return model.head(hidden[:, -1]).float(), state


def penalize(logits: Tensor, seen: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Logits of tokens already seen divided by `penalty` when positive, multiplied when negative (Keskar et al. 2019)."""
    logits = logits.clone()
    for row, ids in enumerate(seen):
        index = torch.tensor(sorted(set(ids)), device=logits.device)
        values = logits[row, index]
        logits[row, index] = torch.where(values > 0, values / penalty, values * penalty)
    return logits
