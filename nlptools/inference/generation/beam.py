"""Beam search over the language-model contract, for batches of prompts or sources.

Graves 2012 (arXiv:1211.3711). Hypotheses are ranked by log-probability divided by length (end token included) to the power
of the length penalty, plus the coverage penalty of Wu et al. 2016 (GNMT, arXiv:1609.08144, section 7). The search of an
input ends when K hypotheses (the beam width) have ended and no live hypothesis scores better at its present length than
the worst of them, as in `transformers`. With `early_stopping` it ends as soon as K hypotheses have ended. If the limit of
new tokens ends the search, live hypotheses are ranked with those that have ended. A beam of 1 is greedy search.
Shapes: n inputs still searched, K hypotheses of each, V vocabulary, S source positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.compute.kernels.cross_entropy import log_sum_exp
from nlptools.configs.generation import Generate
from nlptools.inference.generation.constraints import Ban, DecodingState, penalized
from nlptools.inference.generation.continuation import Continuation, Opening, next_logits
from nlptools.models.contract import Decoder, SourceState

_COMPACT = 8  # finished inputs leave the batch when they are at least 1/8 of it


@dataclass
class _Candidates:
    """The best next tokens of the hypotheses of each input, best first: (n, C) arrays."""

    totals: np.ndarray  # log-probability of the whole hypothesis
    logprobs: np.ndarray  # of the new token
    tokens: np.ndarray
    parents: np.ndarray  # index of the hypothesis that it continues

    def take(self, order: np.ndarray) -> _Candidates:
        """The candidates at the indices `order` (n, K) of each input."""
        arrays = (self.totals, self.logprobs, self.tokens, self.parents)
        return _Candidates(*(np.take_along_axis(a, order, 1) for a in arrays))


class BeamSearch:
    """The live hypotheses, and the finished ones."""

    def __init__(
        self,
        model: Decoder,
        opening: Opening,
        settings: Generate,
        backend: Backend,
        eos: int,
        bans: list[Ban],
        coverage_penalty: float,
    ) -> None:
        self.model, self.settings, self.backend, self.eos, self.bans = model, settings, backend, eos, bans
        self.opening, self.coverage_penalty = opening, coverage_penalty
        self.K = settings.beam or 1
        self.shares = True  # whether the hypotheses of an input share one state; else each has its own
        self.logits, self.state = opening.logits, opening.state
        n = len(opening.limits)
        self.inputs = np.arange(n)
        self.limits = np.array(opening.limits)
        # each input starts with one hypothesis; the first token makes K of it
        self.width = 1
        self.totals = np.zeros((n, 1), np.float32)
        self.ids = np.zeros((n, 1, 0), np.int64)
        self.logprobs = np.zeros((n, 1, 0), np.float32)
        self.coverage: Tensor | None = None  # (n * K, S) total attention to each source position
        self.over = np.zeros(n, np.bool_)  # inputs that are finished but still in the batch
        self.done: list[list[Continuation]] = [[] for _ in range(n)]
        self.results: dict[int, list[Continuation]] = {}

    def run(self) -> list[list[Continuation]]:
        """The `settings.count` best continuations of each input, best first."""
        while self.step():
            pass
        return [self.results[i] for i in range(len(self.results))]

    def step(self) -> bool:
        """Extend every hypothesis by one token; returns False when all inputs are finished."""
        length = self.ids.shape[2] + 1
        if self.coverage_penalty:
            self._cover()
        candidates = self._candidates()
        is_eos = candidates.tokens == self.eos
        self._end(candidates, is_eos, length)
        # 2K candidates: even if K of them end here, K are left to go on
        order = np.argsort(is_eos, axis=1, kind="stable")[:, : self.K]
        alive = candidates.take(order)
        rows = np.arange(len(self.inputs))[:, None]
        self.ids = np.concatenate([self.ids[rows, alive.parents], alive.tokens[:, :, None]], 2)
        self.logprobs = np.concatenate([self.logprobs[rows, alive.parents], alive.logprobs[:, :, None]], 2)
        self.totals = alive.totals
        for i in np.flatnonzero(~self.over).tolist():
            settled, at_limit = self._is_settled(i, length), length >= self.limits[i]
            if settled or at_limit:
                # at a limit without a token after it, what ends now does not keep live ones from being ranked
                drops = settled and (self.opening.last or not at_limit)
                self._finish(i, length, () if drops else alive.parents[i])
        if self.over.all():
            return False
        self._advance(alive)
        return True

    def _candidates(self) -> _Candidates:
        """The 2K best continuations of the hypotheses of each input."""
        n, width, V = len(self.inputs), self.width, self.logits.shape[1]
        prompts = [self.opening.prompts[i] for i in np.repeat(self.inputs, width)]
        logits, ids = self.logits, self.ids.reshape(n * width, -1).tolist()
        if self.settings.repetition_penalty == 1.0:
            logits = penalized(logits, self.settings, prompts, ids)
            normalizer = log_sum_exp(logits)
        else:  # of log-probabilities, whose sum is no longer 1, as in `transformers`
            logits = penalized(logits.float().log_softmax(-1), self.settings, prompts, ids)
            normalizer = torch.zeros_like(logits[:, :1])
        if self.bans:
            rows = DecodingState(
                self.ids.shape[2], np.repeat(self.inputs, width).tolist(), self.ids.reshape(n * width, -1)
            )
            for ban in self.bans:
                ban(logits, rows)
        # the best 2K of an input are among the best 2K of each of its hypotheses
        count = min(2 * self.K, V)
        best, tokens = logits.topk(count, dim=1)
        logprobs = best.float() - normalizer  # (n * width, count)
        totals = torch.from_numpy(self.totals).to(logits.device).reshape(-1, 1) + logprobs
        few = min(2 * self.K, width * count)
        top, places = totals.view(n, -1).topk(few, dim=1)
        chosen = _Candidates(
            top.cpu().numpy(),
            logprobs.view(n, -1).gather(1, places).cpu().numpy(),
            tokens.view(n, -1).gather(1, places).cpu().numpy(),
            (places // count).cpu().numpy(),
        )
        return chosen if few >= 2 * self.K else _filled(chosen, 2 * self.K, self.eos)

    def _end(self, candidates: _Candidates, is_eos: np.ndarray, length: int) -> None:
        """Keep the hypotheses that end here. Only the best K may, or a greedy path would end too soon."""
        ending = is_eos[:, : self.K] & np.isfinite(candidates.totals[:, : self.K]) & ~self.over[:, None]
        for i, rank in np.argwhere(ending):
            parent = candidates.parents[i, rank]
            score = self._score(float(candidates.totals[i, rank]), length, i, parent)
            logprobs = [*self.logprobs[i, parent].tolist(), float(candidates.logprobs[i, rank])]
            self.done[i].append(Continuation(self.ids[i, parent].tolist(), logprobs, "eos", score))

    def _score(self, total: float, length: int, i: int, parent: int) -> float:
        """The ranking score of a hypothesis of `length` tokens, including the end token."""
        score = total / self._norm(length)
        if self.coverage is not None:
            covered = self.coverage[i * self.width + parent].clamp(max=1.0)
            if self.opening.sources is not None:
                covered = covered[self.opening.sources[self.inputs[i]]]
            score += self.coverage_penalty * float(covered.clamp_(min=1e-10).log().sum())
        return score

    def _norm(self, length: int) -> float:
        return float((length + self.opening.given) ** self.settings.length_penalty)

    def _is_settled(self, i: int, length: int) -> bool:
        """Whether an input needs no further token, whatever its limit."""
        if not np.isfinite(self.totals[i, 0]):
            return True
        if len(self.done[i]) < self.K:
            return False
        if self.settings.early_stopping:
            return True
        worst = sorted(map(_score, self.done[i]), reverse=True)[self.K - 1]
        return worst >= float(self.totals[i, 0]) / self._norm(length)

    def _finish(self, i: int, length: int, parents: Sequence[int]) -> None:
        """The result of an input: the hypotheses that ended, and at its limit the live ones, each with its parent."""
        ranked = list(self.done[i])
        for k, parent in enumerate(parents):
            if np.isfinite(self.totals[i, k]):
                score = self._score(float(self.totals[i, k]), length + self.opening.last, i, parent)
                ids, logprobs = self.ids[i, k].tolist(), self.logprobs[i, k].tolist()
                ranked.append(Continuation(ids, logprobs, "length", score))
        self.over[i] = True
        self.results[int(self.inputs[i])] = sorted(ranked, key=_score, reverse=True)[: self.settings.count]

    def _advance(self, alive: _Candidates) -> None:
        """Feed the new tokens. Finished inputs leave the batch when there are enough of them."""
        stay = ~self.over
        if len(stay) > _COMPACT * int(self.over.sum()):
            stay[:] = True
        rows = (np.flatnonzero(stay)[:, None] * self.width + alive.parents[stay]).reshape(-1)
        tokens = alive.tokens[stay].reshape(-1, 1)
        if not stay.all():
            self.inputs, self.limits, self.over = self.inputs[stay], self.limits[stay], self.over[stay]
            self.ids, self.logprobs, self.totals = self.ids[stay], self.logprobs[stay], self.totals[stay]
            self.done = [done for done, stays in zip(self.done, stay, strict=True) if stays]
        chosen = self.backend.put(rows)
        if self.coverage is not None:
            self.coverage = self.coverage[chosen]
        self.width = self.K
        ids = self.ids.reshape(len(rows), -1)
        window = self.opening.window
        prompts = [self.opening.prompts[i] for i in np.repeat(self.inputs, self.K)]
        again = window.read_again(prompts, ids) if window else None
        if again is not None:
            (self.logits, self.state), self.shares = again, False
        else:
            state = self.state.select(chosen, self.K if self.shares else 1)
            hidden, self.state = self.model(self.backend.put(tokens), state)
            self.logits = next_logits(self.model, hidden)

    def _cover(self) -> None:
        """Add the attention of the last position to the coverage."""
        attention_BTS = cast(SourceState, self.state).attention
        assert attention_BTS is not None
        attention = attention_BTS[:, -1]
        self.coverage = attention if self.coverage is None else self.coverage + attention


def _score(continuation: Continuation) -> float:
    return -np.inf if continuation.score is None else continuation.score


def _filled(candidates: _Candidates, count: int, eos: int) -> _Candidates:
    """`count` candidates where the vocabulary is too small to have as many: the additional ones are impossible."""
    missing = ((0, 0), (0, count - candidates.totals.shape[1]))
    return _Candidates(
        np.pad(candidates.totals, missing, constant_values=-np.inf),
        np.pad(candidates.logprobs, missing, constant_values=-np.inf),
        np.pad(candidates.tokens, missing, constant_values=int(eos == 0)),
        np.pad(candidates.parents, missing),
    )
