"""Batches of pairs: every pair once per epoch, within the limits, and a source goes on where it stood."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.batches import pairs as pair_batches
from nlptools.batches.pairs import NO_TARGET, PairBatch, PairBatches, cut_batches
from nlptools.batches.source import Share
from nlptools.corpora.parallel import ParallelCorpus, spool
from nlptools.corpora.sentence_pairs import read_parallel
from nlptools.errors import UsageError
from nlptools.text import tokenizer as tokenizers
from nlptools.text.pair_format import PairMarks
from tests.real_data import published

PAD, EOS, START = 0, 1, 2
MARKS = {"pad": PAD, "marks": PairMarks(START, EOS)}


def corpus(lengths: list[tuple[int, int]]) -> ParallelCorpus:
    """Pairs of these lengths; the tokens of a pair tell its number and its side."""
    source = [np.full(s, 10 + 2 * i) for i, (s, _) in enumerate(lengths)]
    target = [np.full(t, 11 + 2 * i) for i, (_, t) in enumerate(lengths)]
    record = {"counts": {"pairs": len(lengths)}, "sha256": "", "sampling": None, "limits": {}}
    arrays = {
        "source.ids": np.concatenate(source).astype("uint32"),
        "target.ids": np.concatenate(target).astype("uint32"),
        "source.lengths": np.array([s for s, _ in lengths], "uint32"),
        "target.lengths": np.array([t for _, t in lengths], "uint32"),
    }
    return ParallelCorpus(Path("pairs"), record, arrays)


def some(pairs: int, seed: int = 0) -> ParallelCorpus:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 12, pairs)
    return corpus([(int(n), int(n + random.integers(3))) for n in lengths])


def epoch_of(source: PairBatches) -> list[PairBatch]:
    """The batches of the epoch in which the source is."""
    begin = source.state()["epoch"]
    out = []
    for batch in source:
        if source.state()["epoch"] != begin:
            break
        out.append(batch)
    source.restore({"epoch": begin + 1, "position": 0})
    return out


def numbers(batch: PairBatch) -> list[int]:
    """Which pairs a batch holds."""
    return [(int(row[0]) - 11) // 2 for row in batch.targets if row[0] >= 11]


def equal(one: PairBatch, other: PairBatch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values()))


def test_a_batch_by_hand() -> None:
    (batch,) = epoch_of(PairBatches(corpus([(2, 3), (1, 1)]), batch_tokens=8, seed=1, **MARKS))
    order = np.argsort([row[0] for row in batch.targets])
    assert batch.source[order].tolist() == [[10, 10, EOS], [12, EOS, PAD]]
    assert batch.source_mask[order].tolist() == [[True, True, True], [True, True, False]]
    assert batch.inputs[order].tolist() == [[START, 11, 11, 11], [START, 13, PAD, PAD]]
    assert batch.targets[order].tolist() == [[11, 11, 11, EOS], [13, EOS, -1, -1]]
    assert batch.num_targets == 6
    assert batch.source.dtype == batch.inputs.dtype == batch.targets.dtype == np.int64
    assert batch.source_mask.dtype == np.bool_


def test_an_input_is_the_target_before_it() -> None:
    for batch in epoch_of(PairBatches(some(50), batch_tokens=60, seed=1, pad=7, marks=PairMarks(7, 1))):
        real = batch.targets != NO_TARGET
        assert (batch.inputs[:, 0] == 7).all()
        assert (batch.inputs[:, 1:][real[:, 1:]] == batch.targets[:, :-1][real[:, 1:]]).all()
        assert (batch.inputs[:, 1:][~real[:, 1:]] == 7).all()
        assert (batch.source[~batch.source_mask] == 7).all() and (batch.source[batch.source_mask] != 7).all()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40),
    st.integers(0, 60),
    st.integers(0, 5),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_each_pair_once_per_epoch_within_the_limits(
    lengths: list[tuple[int, int]], tokens: int, rows: int, world_size: int, seed: int
) -> None:
    if not tokens and not rows:
        rows = 3
    data = corpus(lengths)
    steps = set()
    seen: Counter[int] = Counter()
    for rank in range(world_size):
        source = PairBatches(
            data,
            batch_tokens=tokens,
            batch_size=rows,
            seed=seed,
            share=Share(rank, world_size),
            **MARKS,
        )
        batches = epoch_of(source)
        steps.add(len(batches))
        assert source.batches_per_epoch == len(batches)
        for batch in batches:
            held = numbers(batch)
            seen.update(held)
            widest = max(batch.source.shape[1], batch.targets.shape[1])
            assert not tokens or len(held) <= 1 or len(held) * widest <= tokens
            assert not rows or len(held) <= rows
            for row, number in enumerate(held):
                s, t = lengths[number]
                assert batch.source[row][batch.source_mask[row]].tolist() == [10 + 2 * number] * s + [EOS]
                assert batch.targets[row][batch.targets[row] >= 0].tolist() == [11 + 2 * number] * t + [EOS]
            if not held:  # a rank without pairs
                assert len(batch.targets) == 1 and batch.num_targets == 0 and batch.source_mask.sum() == 1
            else:
                assert batch.num_targets == sum(lengths[number][1] + 1 for number in held)
    assert len(steps) == 1
    assert seen == Counter(range(len(lengths)))


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(0, 40), st.integers(0, 4))
def test_batches_are_as_large_as_they_may_be(widths: list[int], tokens: int, rows: int) -> None:
    def fits(held: list[int]) -> bool:
        return len(held) <= (rows or len(held)) and (not tokens or len(held) * max(held) <= tokens)

    expected, begin = [0], 0
    for i in range(1, len(widths)):
        if not fits(widths[begin : i + 1]):
            expected.append(i)
            begin = i
    expected += [len(widths)] * bool(widths)
    assert cut_batches(np.array(widths, np.int64), tokens, rows).tolist() == expected


def test_batches_hold_pairs_of_like_length() -> None:
    batches = epoch_of(PairBatches(some(3000), batch_tokens=200, seed=1, **MARKS))
    real = sum(int(batch.source_mask.sum()) + batch.num_targets for batch in batches)
    assert real / sum(batch.source.size + batch.targets.size for batch in batches) > 0.95


def test_epochs_differ_in_batches_and_in_their_order() -> None:
    source = PairBatches(some(400), batch_tokens=120, seed=1, **MARKS)
    first, second = ([frozenset(numbers(batch)) for batch in epoch_of(source)] for _ in range(2))
    assert len(set(first) & set(second)) < len(first) / 4
    lengths = [batch.targets.shape[1] for batch in epoch_of(source)]
    steps = np.sign(np.diff(lengths)).tolist()
    assert min(steps.count(1), steps.count(-1)) > len(lengths) / 4  # as often up as down
    again = PairBatches(some(400), batch_tokens=120, seed=1, **MARKS)
    assert [frozenset(numbers(batch)) for batch in epoch_of(again)] == first
    other = PairBatches(some(400), batch_tokens=120, seed=2, **MARKS)
    assert [frozenset(numbers(batch)) for batch in epoch_of(other)] != first


def test_pools_of_a_large_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_batches, "POOL", 150)
    batches = epoch_of(PairBatches(some(1000), batch_tokens=120, seed=1, **MARKS))
    assert Counter(number for batch in batches for number in numbers(batch)) == Counter(range(1000))
    real = sum(int(batch.source_mask.sum()) + batch.num_targets for batch in batches)
    assert real / sum(batch.source.size + batch.targets.size for batch in batches) > 0.85


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_source_goes_on_where_it_stood(world_size: int) -> None:
    def make() -> PairBatches:
        return PairBatches(some(60), batch_tokens=60, seed=4, share=Share(world_size - 1, world_size), **MARKS)

    source = make()
    batches, states, epochs = [], [], []
    for batch in islice(source, 45):
        batches.append(batch)
        states.append(source.state())
        epochs.append(source.epoch)
    steps = int(source.batches_per_epoch)
    assert epochs == sorted(epochs) and epochs[steps - 1] == 1.0 and epochs[-1] > 2
    for i in (0, steps - 2, steps - 1, steps, 2 * steps - 1, 40):
        again = make()
        again.restore(states[i])
        assert again.epoch == epochs[i]
        for expected, found in zip(batches[i + 1 :], again):
            assert equal(expected, found)


def test_source_lengths_go_up_and_down_from_one_target_length_to_the_next() -> None:
    data = corpus([(s, t) for t in (3, 1, 2) for s in (5, 1, 3)])
    (batch,) = epoch_of(PairBatches(data, batch_tokens=0, batch_size=100, seed=1, **MARKS))
    found = [(data.source.lengths[i], data.target.lengths[i]) for i in numbers(batch)]
    begin = found.index((5, 1))  # the first batch begins anywhere
    assert found[begin:] + found[:begin] == [
        *[(5, 1), (3, 1), (1, 1)],
        *[(1, 2), (3, 2), (5, 2)],
        *[(5, 3), (3, 3), (1, 3)],
    ]


def test_a_batch_needs_a_limit() -> None:
    with pytest.raises(UsageError, match="no limit for a batch"):
        PairBatches(some(3), batch_tokens=0, seed=1, **MARKS)


def test_real_pairs_come_out_as_they_went_in(tmp_path: Path) -> None:
    paths = [str(published("multi30k", f"train.{side}")) for side in ("en", "de")]
    characters = tokenizers.load("bytes")
    data = spool(read_parallel(*paths), tmp_path / "pairs", characters, characters, threads=1)
    expected: Counter[tuple[str, str]] = Counter()
    for block in read_parallel(*paths):
        expected.update(zip(block.sources, block.targets))
    eos, pad = 300, 301
    found: Counter[tuple[str, str]] = Counter()
    for batch in epoch_of(PairBatches(data, batch_tokens=20_000, seed=1, pad=pad, marks=PairMarks(pad, eos))):
        for source, target in zip(batch.source, batch.targets):
            found[tuple(characters.decode(row[(row >= 0) & (row < eos)].tolist()) for row in (source, target))] += 1
    assert found == expected
