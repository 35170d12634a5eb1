"""Forced decoding of given targets: groups of pairs, scores and alignments, with a model whose attention is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_encoder_decoders import BACKEND, EOS, PAD, next_scores, some_sources, tiny
from torch import Tensor

from nlptools.inference.generation import forced
from nlptools.inference.generation.forced import alignments, pair_scores
from nlptools.text.pair_format import PairMarks

MARKS = PairMarks(PAD, EOS)

PAIRS = [
    (source, target) for source, target in zip(some_sources(4, 0, 6, 1), some_sources(2, 3, 0, 7, seed=1), strict=True)
]


class Reader:
    """Says each token with log-probability -(its number + 1) * its place, and looks where it is told."""

    start_token = PAD
    config = SimpleNamespace(ids_per_position=1)

    def __init__(self, looks: list[int]) -> None:
        self.looks = looks  # the source place that each target place attends to most
        self.shapes: list[tuple[torch.Size, Tensor | None]] = []
        self.output = SimpleNamespace(logits=self.logits)

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> Any:
        assert capacity is None
        self.shapes.append((ids.shape, mask))
        assert all(row[int(real.sum()) - 1] == EOS for row, real in zip(ids, ids != PAD, strict=True))
        return SimpleNamespace(keeps_attention=False, attention=None, length=ids.shape[1])

    def __call__(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        assert (ids[:, 0] == PAD).all()
        weights = torch.rand(*ids.shape, state.length) * 0.1
        weights[..., -1] += 0.2  # the end of the longest, padding of the others
        for t, place in enumerate(self.looks[: ids.shape[1]]):
            weights[:, t, place] += 0.15
        state.attention = weights if state.keeps_attention else None
        return torch.arange(1.0, ids.shape[1] + 1).expand(ids.shape)[..., None], state

    def logits(self, hidden: Tensor) -> Tensor:
        scores = -hidden * torch.arange(1.0, PAD + 1)
        return torch.cat([scores, torch.log1p(-scores.exp().sum(-1, keepdim=True))], -1) + 7.0


def test_scores_by_hand() -> None:
    (found,) = pair_scores(Reader([]), [([5], [2, 1])], BACKEND, marks=MARKS) or []
    assert found == pytest.approx([-3.0, -4.0, -3.0], abs=1e-5)
    assert found.dtype == np.float32


def test_alignments_by_hand() -> None:
    source, target = [7, 8, 9], [3, 4, 5, 6]
    (found,) = alignments(Reader([2, 0, 1, 2, 3]), [(source, target)], BACKEND, marks=MARKS)
    assert found.tolist() == [2, 0, 1, 2], "neither the end of the source nor that of the target has a part"
    mates = [(source, target), ([1] * 9, [2]), ([], [3, 3]), ([4], [])]
    looked = [a.tolist() for a in alignments(Reader([2, 0, 1, 2, 3]), mates, BACKEND, marks=MARKS)]
    assert looked == [[2, 0, 1, 2], [2], [0, 0], []]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20), st.integers(1, 60))
def test_groups_hold_every_pair_once_and_no_more_than_they_may(lengths: list[tuple[int, int]], most: int) -> None:
    pairs = [([1] * source, [1] * target) for source, target in lengths]
    groups = list(forced._groups(pairs, most, 1))
    assert sorted(i for group in groups for i in group) == list(range(len(pairs)))
    longest = [[max(lengths[i]) + 1 for i in group] for group in groups]
    for sizes, following in zip(longest, [*longest, []][1:], strict=True):
        assert len(sizes) == 1 or len(sizes) * max(sizes) <= most
        assert not following or (len(sizes) + 1) * max(sizes) > most, "a group is as large as it may be"
        assert not following or min(sizes) >= max(following)


def test_pairs_of_one_length_have_no_mask() -> None:
    reader = Reader([])
    pair_scores(reader, [([1, 2], [3]), ([4, 5], [6, 7])], BACKEND, marks=MARKS)
    assert reader.shapes == [(torch.Size([2, 3]), None)]


@pytest.mark.parametrize("rows", [1, 5, 512])
def test_logits_a_few_rows_at_a_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forced, "ROWS", rows)
    model = tiny("transformer")
    arrays = [(np.array(source, np.int32), np.array(target, np.int32)) for source, target in PAIRS]
    for pairs in (PAIRS, arrays):
        found = pair_scores(model, pairs, BACKEND, marks=MARKS)  # type: ignore[arg-type]
        assert found is not None
        for (source, target), scores in zip(PAIRS, found, strict=True):
            expected = [float(next_scores(model, source, target[:t])[w]) for t, w in enumerate([*target, EOS])]
            assert np.allclose(scores, expected, atol=1e-4)


def test_no_pairs_and_a_stop_on_the_way() -> None:
    assert pair_scores(Reader([]), [], BACKEND, marks=MARKS) == [] == alignments(Reader([]), [], BACKEND, marks=MARKS)
    answers = iter([False, True])
    reader = Reader([])
    assert pair_scores(reader, PAIRS, BACKEND, marks=MARKS, batch_tokens=1, stop=lambda: next(answers)) is None
    assert len(reader.shapes) == 1
