"""Beam search over the language-model contract.

Graves 2012 (arXiv:1211.3711); hypotheses are ranked by log-probability divided by length to the power of the length
penalty. A beam of 1 is greedy search. Shapes: K hypotheses, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nlptools.backend import Backend
from nlptools.configs.lm import Generate
from nlptools.continuation import Continuation, penalize, prefill


@dataclass(frozen=True)
class _Hypothesis:
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str = "length"

    def score(self, penalty: float) -> float:
        return float(sum(self.logprobs) / max(1, len(self.logprobs)) ** penalty)


@torch.inference_mode()
def beam_search(
    model: Any, prompt: list[int], settings: Generate, backend: Backend, *, eos: int, forbidden: Sequence[int] = ()
) -> list[Continuation]:
    """The `settings.num_samples` best continuations of one prompt, best first."""
    K, penalty = settings.beam, settings.length_penalty
    most = model.max_context
    limit = settings.max_new_tokens if most is None else min(settings.max_new_tokens, most - len(prompt) + 1)
    logits, state = prefill(model, [prompt], settings.max_new_tokens, backend)
    live = [_Hypothesis((), ())]
    done: list[_Hypothesis] = []
    for step in range(limit):
        logprobs = torch.log_softmax(logits, -1)
        choice = logprobs
        if settings.repetition_penalty != 1.0:
            seen = [[*prompt, *h.ids] for h in live]
            choice = torch.log_softmax(penalize(logits, seen, settings.repetition_penalty), -1)
        banned = [*forbidden, eos] if step < settings.min_new_tokens else list(forbidden)
        if banned:
            choice = choice.clone()
            choice[:, banned] = -torch.inf
        totals = torch.tensor([[sum(h.logprobs)] for h in live], device=choice.device) + choice
        # 2K candidates: even if K of them end here, K are left to go on
        best, places = totals.reshape(-1).topk(min(2 * K, totals.numel()))
        rows: list[int] = []
        grown: list[_Hypothesis] = []
        for rank, (total, place) in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
            row, token = divmod(place, totals.shape[1])
            if total == -torch.inf or len(grown) == K:
                break
            parent, value = live[row], float(choice[row, token])
            if token == eos:
                if rank < K:  # one that ends must be among the best K, else a greedy path would end too soon
                    done.append(_Hypothesis(parent.ids, (*parent.logprobs, value), "eos"))
                continue
            grown.append(_Hypothesis((*parent.ids, token), (*parent.logprobs, value)))
            rows.append(row)
        live = grown
        if not live or _settled(done, live, K, penalty, limit):
            break
        if step + 1 < limit:
            state = state.select(torch.tensor(rows, device=backend.device))
            tokens = torch.tensor([[h.ids[-1]] for h in live], device=backend.device)
            hidden, state = model(tokens, state)
            logits = model.head(hidden[:, -1]).float()
    ranked = sorted([*done, *live], key=lambda h: -h.score(penalty))
    if len(done) >= settings.num_samples:
        ranked = sorted(done, key=lambda h: -h.score(penalty))
    return [Continuation(list(h.ids), list(h.logprobs), h.finish) for h in ranked[: settings.num_samples]]


def _settled(done: list[_Hypothesis], live: list[_Hypothesis], K: int, penalty: float, limit: int) -> bool:
    """Whether no live hypothesis can still beat the K best that ended."""
    if len(done) < K:
        return False
    worst = sorted((h.score(penalty) for h in done), reverse=True)[K - 1]
    longest = limit if penalty > 0 else len(live[0].ids)
    best_possible = max(sum(h.logprobs) for h in live) / max(1, longest) ** penalty
    return bool(worst >= best_possible)
