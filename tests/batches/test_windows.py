"""Streams of text whose batches vary in length."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlptools.batches.source import Share
from nlptools.batches.windows import NO_TARGET, ContiguousStreams, TextBatch
from nlptools.corpora.token_file import Corpus, TextCounts


def streams(tokens: int = 4001, length: int = 20, batch_size: int = 3, **more: Any) -> ContiguousStreams:
    ids = (np.arange(tokens) % 60_000).astype("uint16")
    data = Corpus(Path("ids"), ids, TextCounts(tokens=tokens - 1), "")
    return ContiguousStreams(data, length, batch_size, **{"seed": 1, "varied": True, **more})


def epoch(source: ContiguousStreams) -> list[TextBatch]:
    batches, it = [], iter(source)
    while not batches or source.epoch % 1:
        batches.append(next(it))
    return batches


def test_each_token_is_a_target_once_per_epoch_and_streams_continue() -> None:
    source = streams()
    batches = epoch(source)
    targets = np.concatenate([b.targets[b.targets != NO_TARGET] for b in batches])
    assert sorted(targets.tolist()) == list(range(1, 4001))
    assert not batches[0].continues
    for before, after in pairwise(batches):
        assert (after.ids[0] == before.targets[0, -1] + np.arange(after.ids.shape[1])).all()
    assert len(batches) == source.batches_per_epoch


def test_lengths_are_those_of_the_paper_and_the_rate_goes_with_them() -> None:
    source = streams(60_000, length=70, batch_size=1)
    lengths = []
    for batch in source:
        lengths.append(batch.ids.shape[1])
        assert source.rate == pytest.approx(lengths[-1] / 70)
        if len(lengths) == 800:
            break
    long = [n for n in lengths if n > 52]
    assert 0.9 < len(long) / len(lengths) < 0.98 and abs(np.mean(long) - 69.5) < 1 and 4 < np.std(long) < 6
    assert abs(np.mean([n for n in lengths if 10 < n <= 52]) - 34.5) < 4 and min(lengths) >= 5


def test_epochs_differ_and_ranks_have_the_same_lengths() -> None:
    source = streams()
    first, second = ([b.ids.shape[1] for b in epoch(source)] for _ in range(2))
    assert first != second
    sides = [epoch(streams(share=Share(rank, 2))) for rank in (0, 1)]
    assert [b.ids.shape[1] for b in sides[0]] == [b.ids.shape[1] for b in sides[1]]
    assert [b.continues for b in sides[0]] == [b.continues for b in sides[1]]


def test_one_batch_in_fifty_begins_anew() -> None:
    source = streams(60_000, length=10, batch_size=1, varied=False)
    first, second = ([b.continues for b in epoch(source)] for _ in range(2))
    assert 0.97 < np.mean([*first, *second]) < 0.99 and first != second


def test_a_restored_source_goes_on_with_the_next_batch() -> None:
    source = streams()
    it = iter(source)
    for _ in range(9):
        next(it)
    other = streams()
    other.restore(source.state())
    for expected, found in zip((next(it) for _ in range(300)), iter(other), strict=False):
        assert np.array_equal(expected.ids, found.ids) and np.array_equal(expected.targets, found.targets)
        assert expected.continues == found.continues


def test_without_variation_all_batches_are_of_the_length_asked_for() -> None:
    source = streams(varied=False)
    batches = epoch(source)
    assert {b.ids.shape for b in batches} == {(3, 20)} and source.rate == 1.0
    assert sum(b.num_targets for b in batches) == 4000 and len(batches) == -(-1334 // 20)


def test_the_learning_rate_of_a_step_goes_with_the_length() -> None:
    import torch
    from tiny_models import tiny

    from nlptools.compute.backend import Backend
    from nlptools.configs import Training
    from nlptools.training.engine.steps import Fit
    from nlptools.training.objectives import CausalLM

    ids = np.random.default_rng(0).integers(2, 50, 900).astype("uint16")
    data = Corpus(Path("ids"), ids, TextCounts(tokens=899), "")
    source = ContiguousStreams(data, 20, 3, seed=1, varied=True)
    run = Training(output="", lr=0.01, warmup=0, schedule="constant", steps=9)
    state = Fit(CausalLM(tiny("gru")), source, Backend(torch.device("cpu")), run, None)
    for _ in range(9):
        row = state.step()
        assert row["lr"] == pytest.approx(0.01 * row["targets"] / 60)
