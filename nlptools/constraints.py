"""What a continuation may not say: plain functions on the scores of the next token, for sampling and beam search alike.

Shapes: N rows (samples, or hypotheses of all inputs), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nlptools.configs.lm import Generate


@dataclass(frozen=True)
class Rows:
    """What is known of the rows when their next token is chosen."""

    step: int  # tokens said so far
    inputs: Sequence[int]  # (N,) the input that each row belongs to
    ids: np.ndarray  # (N, step) what each has said


Ban = Callable[[Tensor, Rows], None]  # sets the scores (N, V) of what may not come to -inf, in place


def bans(
    settings: Generate, eos: int, forbidden: Sequence[int], prefixes: Sequence[Sequence[int]] | None = None
) -> list[Ban]:
    """The functions that `settings` ask for.

    Args:
        forbidden: tokens that are never chosen: unknown, padding, ...
        prefixes: what each input has to begin with.
    """
    out: list[Ban] = []
    if forbidden:
        out.append(_never(forbidden))
    if settings.min_new_tokens:
        out.append(_not_before(settings.min_new_tokens, eos))
    if settings.no_repeat_ngram:
        out.append(_no_repeat(settings.no_repeat_ngram))
    if prefixes is not None and any(prefixes):
        out.append(_begin_with(prefixes))  # last: what is asked for comes, whatever else was said
    return out


def _never(tokens: Sequence[int]) -> Ban:
    listed = torch.tensor(list(tokens))

    def ban(scores: Tensor, rows: Rows) -> None:
        scores.index_fill_(1, listed.to(scores.device), -torch.inf)

    return ban


def _not_before(least: int, eos: int) -> Ban:
    def ban(scores: Tensor, rows: Rows) -> None:
        if rows.step < least:
            scores[:, eos] = -torch.inf

    return ban


def _no_repeat(n: int) -> Ban:
    """No n tokens in a row twice (Paulus et al. 2018, arXiv:1705.04304)."""

    def ban(scores: Tensor, rows: Rows) -> None:
        if rows.step < n:
            return
        windows = np.lib.stride_tricks.sliding_window_view(rows.ids, n, axis=1)  # (N, step - n + 1, n)
        last = rows.ids[:, rows.step - n + 1 :]  # (N, n - 1)
        again = (windows[..., :-1] == last[:, None]).all(-1)
        row, place = np.nonzero(again)
        if len(row):
            scores[torch.from_numpy(row), torch.from_numpy(windows[row, place, -1])] = -torch.inf

    return ban


def _begin_with(prefixes: Sequence[Sequence[int]]) -> Ban:
    def ban(scores: Tensor, rows: Rows) -> None:
        for row, number in enumerate(rows.inputs):
            if rows.step < len(prefixes[number]):
                token = prefixes[number][rows.step]
                scores[row, :token] = -torch.inf
                scores[row, token + 1 :] = -torch.inf

    return ban


def penalize(logits: Tensor, seen: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Logits of tokens already seen divided by `penalty` when positive, multiplied when negative (Keskar et al. 2019)."""
    logits = logits.clone()
    for row, ids in enumerate(seen):
        index = torch.tensor(sorted(set(ids)), device=logits.device)
        values = logits[row, index]
        logits[row, index] = torch.where(values > 0, values / penalty, values * penalty)
    return logits
