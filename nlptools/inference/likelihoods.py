"""Likelihoods of continuations given contexts, as lm-evaluation-harness defines them (Gao et al. 2021, zenodo.5371628).

The model reads a context once, whatever the number of its continuations: its state is copied for each of them. Shapes: N
positions, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from nlptools import messages
from nlptools.batches.packing import by_length
from nlptools.compute.backend import Backend
from nlptools.compute.kernels.cross_entropy import log_sum_exp
from nlptools.configs.units import LARGEST
from nlptools.inference.generation.continuation import padded, read
from nlptools.models.contract import LanguageModel

Ids = tuple[int, ...]

_CHUNK = 1 << 22  # logits that are computed at a time


@dataclass(frozen=True)
class Likelihood:
    """The probability of a continuation.

    Attributes:
        log_probability: in nats, summed over its tokens.
        tokens: their number.
        greedy: whether each is the most likely one at its place.
    """

    log_probability: float
    tokens: int
    greedy: bool


def split(context: str, continuation: str) -> tuple[str, str]:
    """Both texts, with white space at the end of the context moved to the continuation, as most tokenizers expect it."""
    kept = context.rstrip()
    return kept, context[len(kept) :] + continuation


def likelihoods(
    model: LanguageModel,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    backend: Backend,
    batch_tokens: int = 4096,
) -> list[Likelihood]:
    """The likelihood of each continuation, given the context before it; neither is empty.

    Contexts that do not fit in the model's context together with their continuation are cut from the left. Equal pairs are
    computed once. In fp32, batches change the values by rounding only; on a CPU, with a Transformer, not even that.

    Args:
        batch_tokens: tokens per batch, with padding, in the copies of the contexts.

    Raises:
        ValueError: a continuation is longer than the model's context.
    """
    kept = [fit(context, continuation, model.max_context) for context, continuation in pairs]
    wanted: dict[Ids, dict[Ids, Likelihood | None]] = {}
    for context, continuation in kept:
        wanted.setdefault(context, {})[continuation] = None
    contexts = list(wanted)
    sizes = [(len(context), max(map(len, wanted[context])), len(wanted[context])) for context in contexts]
    for group in _batches(sizes, batch_tokens, model.max_context):
        rows = [(contexts[i], list(wanted[contexts[i]])) for i in group]
        results = iter(_read_batch(model, rows, backend))
        for context, continuations in rows:
            wanted[context] = {continuation: next(results) for continuation in continuations}
    out = [wanted[context][continuation] for context, continuation in kept]
    return [each for each in out if each is not None]


def fit(context: Sequence[int], continuation: Sequence[int], most: int | None) -> tuple[Ids, Ids]:
    """A context, cut from the left so that it fits with its continuation, and the continuation. Raises ValueError."""
    if most is not None and len(continuation) > most:
        raise ValueError(f"{len(continuation)} tokens, more than the context of the model, {most}")
    left = len(context) if most is None else most + 1 - len(continuation)  # the last token is not read
    return tuple(context[-left:]), tuple(continuation)


def misfit(context: int, continuation: int, most: int | None, strict: bool) -> tuple[int, str | None]:
    """For a pair of these lengths, and the model's context: tokens of the context that have no room, and why the pair cannot be
    scored, if so.
    """
    if not continuation:
        return 0, "no token to score: the tokenizer has none for it after this context"
    if most is not None and continuation > most:
        return 0, f"{continuation} tokens, more than the context of the model, {most}"
    lost = 0 if most is None else max(0, context + continuation - most - 1)
    if lost and strict:
        count = messages.counted(lost, "token")
        return lost, f"{count} too long, with its context, for the context of the model, {most}"
    return lost, None


def _batches(sizes: list[tuple[int, int, int]], batch_tokens: int, most: int | None) -> Iterator[list[int]]:
    """Groups of contexts of similar size, the longest first; the copies of a group have at most `batch_tokens` with padding.

    Args:
        sizes: tokens of each context and of its longest continuation, and the number of its continuations.
        most: the model's context, which holds the longest context of a group and its longest continuation.
    """
    group: list[int] = []
    length = new = copies = 0
    for i in sorted(range(len(sizes)), key=lambda i: -sum(sizes[i][:2])):
        length, new, copies = max(length, sizes[i][0]), max(new, sizes[i][1]), copies + sizes[i][2]
        if group and ((length + new) * copies > batch_tokens or length + new > (most or LARGEST) + 1):
            yield group
            group, (length, new, copies) = [], sizes[i]
        group.append(i)
    if group:
        yield group


def _read_batch(model: LanguageModel, rows: Sequence[tuple[Ids, list[Ids]]], backend: Backend) -> list[Likelihood]:
    """The likelihoods of the continuations of some contexts, one after the other."""
    flat = [continuation for _, continuations in rows for continuation in continuations]
    owner = np.repeat(np.arange(len(rows)), [len(continuations) for _, continuations in rows])
    inputs = [continuation[:-1] for continuation in flat]
    longest = max(map(len, inputs))
    logits, state = read(model, [list(context) for context, _ in rows], longest, backend)
    first = backend.put(np.array([continuation[0] for continuation in flat]))
    scores = _chosen(logits.float(), backend.put(owner), first).double()  # (N, 2)
    longer = [i for i, each in enumerate(inputs) if each]
    groups = list(by_length([len(inputs[i]) for i in longer], LARGEST, backend.exact_rows))
    order = [longer[k] for group in groups for k in group]
    if longest:
        state = state.select(backend.put(owner[order]))
    for begin, end in pairwise(accumulate(map(len, groups), initial=0)):
        members = order[begin:end]
        ids, mask = padded([inputs[i] for i in members], 0)
        targets = np.concatenate([np.array(flat[i][1:], np.int64) for i in members])
        part = state if len(groups) == 1 else state.select(backend.put(np.arange(begin, end)))
        hidden, _ = model(backend.put(ids), part)
        rest = _target_scores(model, hidden[backend.put(mask)], backend.put(targets)).double()
        scores.index_add_(0, backend.put(np.repeat(members, mask.sum(1))), rest)
    values = scores.tolist()
    return [
        Likelihood(value, len(continuation), misses == 0)
        for (value, misses), continuation in zip(values, flat, strict=True)
    ]


def _target_scores(model: LanguageModel, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
    """(N, 2) log-probability of each target, and whether another token is more likely: 1 or 0."""
    size = max(1, _CHUNK // model.output.vocab_size)
    parts = [
        _chosen(model.output.logits(hidden_ND[i : i + size]).float(), None, targets_N[i : i + size])
        for i in range(0, len(hidden_ND), size)
    ]
    return torch.cat(parts)


def _chosen(logits_NV: Tensor, rows: Tensor | None, targets: Tensor) -> Tensor:
    """The columns of `_target_scores` for `targets`, each for a row of the logits: `rows`, None: in order."""
    total, best = log_sum_exp(logits_NV)[:, 0], logits_NV.argmax(-1)
    rows = torch.arange(len(logits_NV), device=logits_NV.device) if rows is None else rows
    return torch.stack([logits_NV[rows, targets] - total[rows], (best[rows] != targets).float()], 1)
