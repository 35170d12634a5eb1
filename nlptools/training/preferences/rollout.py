"""Samples of the model that trains, with what the loss needs of each token.

Shapes: N samples, P tokens of all samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from nlptools.batches.completions import NEXT, PackedBatch
from nlptools.batches.encoder_rows import EncoderRows, bounds_of
from nlptools.batches.features import Features
from nlptools.batches.source import CHECKPOINT
from nlptools.batches.windows import NO_TARGET
from nlptools.compute.backend import Backend
from nlptools.configs.ppo import TrainPPO
from nlptools.files.json_fields import child, number
from nlptools.inference.generation.continuation import Continuation
from nlptools.json_types import JsonObject

# Targets of tokens: the log-probability and the value when they were drawn, the log-probability under the reference
OLD, VALUE, REFERENCE, ADVANTAGE, RETURN = "old", "value", "reference", "advantage", "return"
OF_TOKENS = (NEXT, OLD, VALUE, REFERENCE, ADVANTAGE, RETURN)
_FEWEST_ROWS, _MOST_ROWS, _MOST_TOKENS = 32, 256, 1 << 15  # of samples that are drawn together


@dataclass(frozen=True)
class RolloutBatch:
    """Some samples, and texts that are mixed in.

    Attributes:
        facts: measures of the rollout, for the log.
        weight: the KL coefficient.
    """

    samples: PackedBatch
    mix: PackedBatch | None
    facts: Mapping[str, float]
    weight: float


@dataclass(frozen=True)
class Rollout:
    """Samples with targets for each token, and their measures for the log."""

    features: Features
    facts: dict[str, float]

    def state(self) -> JsonObject:
        """All of it as plain numbers."""
        arrays = {"ids": self.features.rows.ids, "bounds": self.features.rows.bounds, **self.features.targets}
        return {"facts": {**self.facts}, "arrays": {name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def restored(cls, state: JsonObject) -> Rollout:
        """The rollout of a `state()`."""
        lists, facts = child(state, "arrays", CHECKPOINT), child(state, "facts", CHECKPOINT)
        ids, bounds = np.array(lists.pop("ids"), np.int32), np.array(lists.pop("bounds"), np.int64)
        targets = {name: np.array(values, np.int32 if name == NEXT else np.float32) for name, values in lists.items()}
        features = Features(EncoderRows(ids, np.zeros(len(ids), np.uint8), bounds), targets, OF_TOKENS)
        return cls(features, {name: number(facts, name, CHECKPOINT) for name in facts})


class Drawn(NamedTuple):
    """The tokens of a sample, with its end-of-text token, and whether it has one."""

    ids: list[int]
    ended: bool

    @property
    def text(self) -> list[int]:
        """The tokens without the end-of-text token."""
        return self.ids[:-1] if self.ended else self.ids


def drawn(sample: Continuation, eos: int) -> Drawn:
    """The tokens that the model has drawn."""
    if sample.finish == "eos":
        return Drawn([*sample.ids, eos], True)
    return Drawn(sample.ids, sample.finish == "stop")


def from_all(samples: Sequence[Drawn], group: int, backend: Backend) -> list[list[Drawn]]:
    """The samples of all processes, in the order of their ranks, `group` of each prompt."""
    every = _from_all(samples, backend) if backend.world_size > 1 else list(samples)
    return [every[i : i + group] for i in range(0, len(every), group)]


def _from_all(samples: Sequence[Drawn], backend: Backend) -> list[Drawn]:
    ids = np.array([token for sample in samples for token in sample.ids], np.int64)
    own = {"ids": ids, "lengths": np.array([len(sample.ids) for sample in samples], np.int64)}
    own["ended"] = np.array([sample.ended for sample in samples], np.bool_)
    every = backend.gather({name: torch.from_numpy(array) for name, array in own.items()})
    out = []
    for part in every:
        numbers = iter(part["ids"].tolist())
        for length, ended in zip(part["lengths"].tolist(), part["ended"].tolist(), strict=True):
            out.append(Drawn(list(islice(numbers, length)), ended))
    return out


def sequences(pairs: Sequence[tuple[list[int], list[int]]]) -> Features:
    """Prompts and the samples after them; the targets are the sampled tokens."""
    ids: list[int] = []
    targets: list[int] = []
    lengths = []
    for prompt, new in pairs:
        ids += [*prompt, *new[:-1]]
        targets += [*[NO_TARGET] * (len(prompt) - 1), *new]
        lengths.append(len(prompt) + len(new) - 1)
    rows = EncoderRows(np.array(ids, np.int32), np.zeros(len(ids), np.uint8), bounds_of(np.array(lengths, np.int64)))
    return Features(rows, {NEXT: np.array(targets, np.int32)}, (NEXT,))


def together(settings: TrainPPO, longest: int) -> int:
    """How many prompts of up to `longest` tokens are sampled at a time: more are faster, but take more memory."""
    rows = _MOST_TOKENS // (longest + settings.max_new_tokens)
    return max(1, min(_MOST_ROWS, max(_FEWEST_ROWS, rows)) // settings.group)


def chosen_prompts(seed: int, number: int, count: int, total: int) -> list[int]:
    """The `count` prompts, of `total`, of rollout `number`: each epoch has its own random order."""
    size = min(count, total)
    places = range(number * size, (number + 1) * size)
    orders = {epoch: np.random.default_rng([seed, epoch]).permutation(total) for epoch in {p // total for p in places}}
    return [int(orders[place // total][place % total]) for place in places]
