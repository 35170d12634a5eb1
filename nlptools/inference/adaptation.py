"""Language models that adapt to the text they score: a cache of hidden states, and training on the text.

Both see the text as one stream, see `scoring.CarriedScores`. Neither changes the model that they are given.
Shapes: N positions, D hidden, M remembered positions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score, cache_settings
from nlptools.errors import Diverged
from nlptools.inference.scoring import CarriedScores, Stop, log_probabilities
from nlptools.json_types import JsonObject
from nlptools.layers.output import Measure, OutputHead
from nlptools.models.contract import CarriedState, LanguageModel

DEFAULT_CACHE = ".1,.3"
_ROWS = 256  # positions that are compared with the cache at a time


class NeuralCache:
    """A `output.Measure` of a stream: the model's probabilities, interpolated with a cache.

    Grave et al. 2017, "Improving neural language models with a continuous cache" (arXiv:1612.04426). The cache holds the last
    `size` hidden states h_i, each with the token x_i that followed. Its probability of a token w at a position with the
    hidden state h is the share of the exp(theta h h_i) with x_i = w in their sum. The result is 1 - weight times the
    probability of the model plus weight times the probability of the cache; at the first position, where the cache is empty,
    it is the probability of the model.
    """

    def __init__(self, size: int, weight: float, theta: float) -> None:
        self.weight, self._memory = weight, Memory(size, [theta])

    @classmethod
    def of(cls, settings: Score) -> NeuralCache:
        """The cache that options ask for."""
        return cls(settings.cache, *cache_settings(settings.cache_settings or DEFAULT_CACHE))

    def __call__(self, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `output.Measure`: log-probabilities (N,), float32, in nats."""
        base = head.log_probabilities(hidden_ND, targets_N)
        return _mixed(base, self._memory(hidden_ND, targets_N)[:, 0], self.weight)


class Memory:
    """The last hidden states of a stream and the tokens that followed.

    Args:
        size: most positions to remember.
        thetas: factors of the products of hidden states.
    """

    def __init__(self, size: int, thetas: Sequence[float]) -> None:
        self.size, self.thetas = size, list(thetas)
        self.hidden: Tensor | None = None  # (M, D) float32
        self.tokens: Tensor | None = None  # (M,)

    def __call__(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """(N, number of thetas): the cache's log-probabilities of the next tokens of the stream, which it then remembers;
        NaN where it is empty.
        """
        parts = [
            self._next(hidden_ND[i : i + _ROWS].detach().float(), targets_N[i : i + _ROWS])
            for i in range(0, len(hidden_ND), _ROWS)
        ]
        return torch.cat(parts) if parts else hidden_ND.new_zeros(0, len(self.thetas))

    def _next(self, hidden: Tensor, targets: Tensor) -> Tensor:
        if self.hidden is None or self.tokens is None:
            self.hidden, self.tokens = hidden[:0], targets[:0]
        held, N = len(self.hidden), len(hidden)
        keys, tokens = torch.cat([self.hidden, hidden]), torch.cat([self.tokens, targets])
        row, key = torch.arange(N, device=keys.device)[:, None], torch.arange(held + N, device=keys.device)
        seen = (key < held + row) & (key >= held + row - self.size)
        products = (hidden @ keys.t()).masked_fill(~seen, -torch.inf)
        same = products.masked_fill(tokens != targets[:, None], -torch.inf)
        out = []
        for theta in self.thetas:  # 0 times -infinity is NaN
            every, alike = ((theta * x).masked_fill(x == -torch.inf, -torch.inf) for x in (products, same))
            out.append(alike.logsumexp(1) - every.logsumexp(1))
        self.hidden, self.tokens = keys[-self.size :], tokens[-self.size :]
        return torch.stack(out, 1)


def _mixed(base: Tensor, cached: Tensor, weight: float) -> Tensor:
    """The logarithm of the weighted mean of two probabilities; `base` where the second is NaN."""
    if weight == 0:
        return base
    mixed = torch.logaddexp(base + math.log1p(-weight), cached + math.log(weight))
    return torch.where(cached.isnan(), base, mixed)


class CacheGrid:
    """A `output.Measure` (N, 1 + number of thetas): the log-probabilities of the model, and of caches with these thetas. Where
    a cache is empty, its column holds the log-probabilities of the model.
    """

    def __init__(self, size: int, thetas: Sequence[float]) -> None:
        self._memory = Memory(size, thetas)

    def __call__(self, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `output.Measure`."""
        base = head.log_probabilities(hidden_ND, targets_N)[:, None]
        cached = self._memory(hidden_ND, targets_N)
        return torch.cat([base, torch.where(cached.isnan(), base, cached)], 1)


class DynamicScores:
    """Scores a stream as `scoring.CarriedScores`, and takes a step of gradient descent after each `segment` tokens.

    Krause et al. 2018, "Dynamic evaluation of neural sequence models" (arXiv:1709.07432), with plain gradient descent: after
    a segment with the mean loss L, the weights w become w - rate dL/dw + decay (w0 - w), where w0 are the weights of the given
    model. The gradient goes back to the beginning of the segment, the state before it stays as it was computed. A model with
    a longest context sees a full one up to the end of the segment, which is no longer than that. Each token is scored before
    any step that it has an influence on. Dropout is off.

    Args:
        start, measure: see `scoring.CarriedScores`.
        rate, decay, segment: see above.
    """

    def __init__(
        self,
        model: LanguageModel,
        backend: Backend,
        *,
        start: int,
        rate: float,
        decay: float = 0.0,
        segment: int = 20,
        measure: Measure = log_probabilities,
    ) -> None:
        self.rate, self.decay, self.backend = rate, decay, backend
        with torch.inference_mode(False):
            self.model = copy.deepcopy(model)
            module = cast(nn.Module, self.model).requires_grad_(True)
            self._weights: list[Tensor] = list(module.parameters())
            self._first = [weight.detach().clone() for weight in self._weights] if decay else []
            self._state = cast(CarriedState, self.model.start(1, 0)) if self.model.max_context is None else None
        self.measure, self.context = measure, self.model.max_context
        self.segment = segment if self.context is None else min(segment, self.context)
        self._before = np.array([start], np.int64)  # tokens before the segment, at most a context
        self._now = np.zeros(0, np.int64)  # the tokens of the segment so far

    def __call__(
        self, documents: Sequence[Sequence[int] | np.ndarray], stop: Stop | None = None
    ) -> list[np.ndarray] | None:
        """What `measure` returns for each token of each document."""
        ids = np.concatenate([np.zeros(0, np.int64), *(np.asarray(each, np.int64) for each in documents)])
        parts: list[np.ndarray] = [np.zeros(0, np.float32)]
        with torch.inference_mode(False), torch.enable_grad():
            while len(ids):
                if stop is not None and stop():
                    return None
                new = ids[: self.segment - len(self._now)]
                ids = ids[len(new) :]
                parts.append(self._scored(new))
        joined = np.concatenate(parts[1:] or parts)
        return np.split(joined, np.cumsum([len(each) for each in documents])[:-1]) if documents else []

    def _scored(self, new: np.ndarray) -> np.ndarray:
        """The scores of the next tokens, which may complete a segment; then the step."""
        self._now = np.concatenate([self._now, new])
        full = len(self._now) == self.segment
        tokens = np.concatenate([self._before, self._now])
        if self.context is not None:  # a full context up to the end of the segment
            tokens = tokens[max(0, len(self._before) + self.segment - 1 - self.context) :]
        inputs = self.backend.put(tokens[None, -len(self._now) - 1 if self.context is None else 0 : -1].copy())
        with torch.set_grad_enabled(full):
            hidden, state = self.model(inputs, self._state)
        hidden, targets = hidden[0, -len(self._now) :], self.backend.put(self._now)
        with torch.no_grad():
            scores = self.measure(self.model.output, hidden[-len(new) :].detach(), targets[-len(new) :])
        if not bool(torch.isfinite(hidden).all()) or bool(scores.isnan().any()):
            raise Diverged(
                f"--dynamic {self.rate:g}: the weights are no longer finite", hint="a smaller rate changes them less"
            )
        if full:
            self._state = state if state is None else state.detach()
            self._step(self.model.output.summed_loss(hidden, targets) / self.segment)
            self._before, self._now = tokens[-(self.context or 1) :], self._now[:0]
        return scores.cpu().numpy()

    def _step(self, loss: Tensor) -> None:
        torch.autograd.backward(loss)
        with torch.no_grad():
            for i, weight in enumerate(self._weights):
                back = self._first[i] - weight if self.decay else None
                if weight.grad is not None:
                    weight.sub_(weight.grad, alpha=self.rate)
                    weight.grad = None
                if back is not None:
                    weight.add_(back, alpha=self.decay)


def describe(settings: Score) -> JsonObject:
    """The adaptation to the text, for the protocol."""
    out: JsonObject = {}
    if settings.cache:
        weight, theta = cache_settings(settings.cache_settings or DEFAULT_CACHE)
        out["cache"] = {"tokens": settings.cache, "weight": weight, "factor": theta}
    if settings.dynamic:
        decay, segment = settings.dynamic_decay, settings.dynamic_segment
        out["dynamic"] = {"rate": settings.dynamic, "decay": decay, "segment": segment}
    return out


def stream(
    model: LanguageModel, backend: Backend, settings: Score, start: int, measure: Measure
) -> CarriedScores | DynamicScores:
    """The scorer of a text as one stream that options ask for."""
    if settings.dynamic:
        return DynamicScores(
            model,
            backend,
            start=start,
            rate=settings.dynamic,
            decay=settings.dynamic_decay,
            segment=settings.dynamic_segment,
            measure=measure,
        )
    return CarriedScores(
        model, backend, start=start, stride=settings.stride, batch_tokens=settings.batch_tokens, measure=measure
    )
