"""Tokens that a continuation may not contain: plain functions on the scores of the next token, for sampling and beam search.

Shapes: N rows (samples, or hypotheses of all inputs), V vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nlptools.configs.generation import Generate


@dataclass(frozen=True)
class DecodingState:
    """The state of the rows when their next token is chosen."""

    step: int  # tokens so far
    inputs: Sequence[int]  # (N,) the input that each row belongs to
    ids: np.ndarray  # (N, step) the tokens of each so far


Ban = Callable[[Tensor, DecodingState], None]  # sets the scores (N, V) of forbidden tokens to -inf, in place


def bans(
    settings: Generate,
    eos: int,
    forbidden: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
    ends: Sequence[int] = (),
    constraint: Ban | None = None,
) -> list[Ban]:
    """The constraints of `settings`.

    Args:
        forbidden: tokens that are never chosen: unknown, padding, ...
        prefixes: the tokens that the output of each input has to begin with.
        ends: further end tokens.
        constraint: on the whole text, see `matching`.
    """
    out: list[Ban] = []
    if ends:
        out.append(_one_end(eos, ends, settings.temperature == 0 and not settings.beam))
    if forbidden:
        out.append(_never(forbidden))
    if settings.no_repeat_ngram:
        out.append(_no_repeat(settings.no_repeat_ngram))
    if constraint is not None:
        out.append(constraint)
    if settings.min_new_tokens:
        out.append(_not_before(settings.min_new_tokens, eos))  # last, because it depends on what the others forbid
    if prefixes is not None and any(prefixes):
        return [_begin_with(prefixes, out)]
    return out


def _never(tokens: Sequence[int]) -> Ban:
    listed = torch.tensor(list(tokens))

    def ban(scores: Tensor, rows: DecodingState) -> None:
        scores.index_fill_(1, listed.to(scores.device), -torch.inf)

    return ban


def _one_end(eos: int, ends: Sequence[int], greedy: bool) -> Ban:
    """All end tokens as one: with the score of the best of them (greedy), or the probability of all together."""
    together = torch.tensor([eos, *ends])

    def ban(scores: Tensor, rows: DecodingState) -> None:
        index = together.to(scores.device)
        of_ends = scores[:, index]
        scores.index_fill_(1, index[1:], -torch.inf)
        scores[:, eos] = of_ends.amax(1) if greedy else of_ends.logsumexp(1)

    return ban


def _not_before(least: int, eos: int) -> Ban:
    """No end token before `least` tokens, unless all other tokens are forbidden."""

    def ban(scores: Tensor, rows: DecodingState) -> None:
        if rows.step < least:
            end = scores[:, eos].clone()
            scores[:, eos] = -torch.inf
            scores[:, eos] = torch.where(scores.amax(1) == -torch.inf, end, -torch.inf)

    return ban


def _no_repeat(n: int) -> Ban:
    """No repeated n-gram (Paulus et al. 2018, arXiv:1705.04304)."""

    def ban(scores: Tensor, rows: DecodingState) -> None:
        if rows.step < n:
            return
        windows = np.lib.stride_tricks.sliding_window_view(rows.ids, n, axis=1)  # (N, step - n + 1, n)
        last = rows.ids[:, rows.step - n + 1 :]  # (N, n - 1)
        again = (windows[..., :-1] == last[:, None]).all(-1)
        row, place = np.nonzero(again)
        if len(row):
            scores[torch.from_numpy(row), torch.from_numpy(windows[row, place, -1])] = -torch.inf

    return ban


def _begin_with(prefixes: Sequence[Sequence[int]], others: Sequence[Ban]) -> Ban:
    """The tokens of a prefix come whatever the other bans forbid; after it only those bans count."""

    def ban(scores: Tensor, rows: DecodingState) -> None:
        due = [(row, prefixes[n][rows.step]) for row, n in enumerate(rows.inputs) if rows.step < len(prefixes[n])]
        row, token = torch.tensor(due, dtype=torch.int64, device=scores.device).view(-1, 2).unbind(1)
        kept = scores[row, token]
        for other in others:
            other(scores, rows)
        scores[row] = -torch.inf
        scores[row, token] = kept

    return ban


def penalized(
    logits: Tensor, settings: Generate, prompts: Sequence[Sequence[int]], new: Sequence[Sequence[int]]
) -> Tensor:
    """The logits (N, V) after the penalties of `settings`; a copy in float32 if there are any.

    Args:
        prompts: the tokens before the new ones, of each row; they count for the repetition penalty only.
        new: the new tokens of each row.
    """
    if settings.repetition_penalty != 1.0:
        seen = [[*before, *after] for before, after in zip(prompts, new, strict=True)]
        logits = penalize(logits.float(), seen, settings.repetition_penalty)
    if settings.presence_penalty or settings.frequency_penalty:
        logits = penalize_counts(logits.float(), new, settings.presence_penalty, settings.frequency_penalty)
    return logits


def penalize(logits: Tensor, seen: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """A copy of `logits` that divides positive logits of seen tokens by `penalty`, and multiplies negative ones.

    Keskar et al. 2019 (arXiv:1909.05858).
    """
    logits = logits.clone()
    for row, ids in enumerate(seen):
        index = torch.tensor(sorted(set(ids)), dtype=torch.int64, device=logits.device)
        values = logits[row, index]
        logits[row, index] = torch.where(values > 0, values / penalty, values * penalty)
    return logits


def penalize_counts(logits: Tensor, new: Sequence[Sequence[int]], presence: float, frequency: float) -> Tensor:
    """A copy of `logits` that subtracts `presence + c * frequency` from each token that occurs c > 0 times in `new`.

    The penalties of OpenAI's API.
    """
    logits = logits.clone()
    for row, ids in enumerate(new):
        counts = Counter(ids)
        times = torch.tensor(list(counts.values()), dtype=torch.float32, device=logits.device)
        logits[row, list(counts)] -= presence + frequency * times
    return logits
