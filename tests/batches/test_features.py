"""Rows of examples and their batches, by hand and by law."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.batches import features
from nlptools.batches.encoder_rows import EncoderRows, Marks, marks_of_gpt
from nlptools.batches.features import WEIGHT, Encoding, FeatureBatches, Features
from nlptools.batches.source import Share
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d"]
ENCODING = Encoding(NamedTokenizer("whitespace", Vocab(WORDS)), Marks(cls=2, sep=3, pad=0, unk=1), 8)


def rows(made: Features) -> list[list[int]]:
    bounds = made.rows.bounds
    return [made.rows.ids[a:b].tolist() for a, b in pairwise(bounds)]


def numbered(lengths: list[int]) -> Features:
    """Rows of these lengths, full of their numbers, each with its number as its label."""
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    targets: dict[str, np.ndarray] = {"label": np.arange(len(lengths)), WEIGHT: np.ones(len(lengths), np.float32)}
    return Features(EncoderRows(ids, np.zeros(len(ids), np.uint8), bounds), targets)


def test_rows_by_hand() -> None:
    one = ENCODING.rows([("a b",), ("",), ("a b c d a b c d",)])
    assert rows(one) == [[2, 4, 5, 3], [2, 3], [2, 4, 5, 6, 7, 4, 5, 3]] and one.cut == 1
    assert one.rows.types.max() == 0
    two = ENCODING.rows([("a b", "c"), ("a a a a a", "b"), ("b", "a a a a a"), ("a a a", "b b b"), ("", "")])
    assert rows(two) == [
        [2, 4, 5, 3, 6, 3],
        [2, 4, 4, 4, 4, 3, 5, 3],
        [2, 5, 3, 4, 4, 4, 4, 3],
        [2, 4, 4, 3, 5, 5, 5, 3],
        [2, 3, 3],
    ]
    assert two.cut == 3
    assert two.rows.types[:6].tolist() == [0, 0, 0, 0, 1, 1]
    assert replace(ENCODING, types=1).rows([("a", "b")]).rows.types.max() == 0
    assert len(ENCODING.rows([])) == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1), st.integers(0, 20))
def test_the_longer_text_loses_first(lengths: list[tuple[int, int]], most: int) -> None:
    before = np.array(lengths)
    after = features.shortened(before, most)
    assert (after <= before).all() and (after.sum(1) == np.minimum(before.sum(1), most)).all()
    cut = after < before
    both = cut.all(1)
    assert (np.abs(after[both, 0] - after[both, 1]) <= 1).all()  # where both lose, they end alike
    alone = cut.sum(1) == 1  # where one does, it is still no shorter than the other, but for an odd token
    lost, kept = np.where(cut, after, 0).sum(1)[alone], np.where(cut, 0, after).sum(1)[alone]
    assert (lost >= kept - (most % 2)).all()


def test_a_batch_by_hand() -> None:
    made = replace(
        numbered([2, 3]),
        targets={
            "tag": np.array([5, 6, 7, 8, 9]),
            "vector": np.array([[1.0, 2.0], [3.0, 4.0]]),
            WEIGHT: np.array([0.5, 2.0], np.float32),
        },
        per_token=("tag",),
    )
    batch = features.batch(made, np.array([1, 0]), pad=9)
    assert batch.ids.tolist() == [[1, 1, 1], [0, 0, 9]] and batch.mask.tolist() == [[True] * 3, [True, True, False]]
    tag, vector, weight = batch.targets
    assert tag.tolist() == [[7, 8, 9], [5, 6, -1]] and vector.tolist() == [[3, 4], [1, 2]]
    assert weight.tolist() == [2.0, 0.5] and batch.weight == 2.5
    nothing = features.batch(made, np.array([0]), 9, counts=False)
    assert nothing.weight == 0 and nothing.targets[2].tolist() == [0]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 3), st.integers(0, 5))
def test_each_example_once_per_epoch(lengths: list[int], batch_size: int, world_size: int, seed: int) -> None:
    made = numbered(lengths)
    for _ in range(2):
        seen: list[int] = []
        for rank in range(world_size):
            source = FeatureBatches(made, batch_size, seed=seed, pad=0, share=Share(rank, world_size))
            for batch in islice(iter(source), source.steps):
                if batch.weight:
                    assert len(batch.rows) == batch.weight <= batch_size
                    seen += batch.targets[0].tolist()
            assert source.epoch == 1.0
        assert sorted(seen) == list(range(len(lengths)))


def test_a_source_goes_on_where_it_stood_and_epochs_differ() -> None:
    made = numbered([1 + i % 7 for i in range(50)])
    whole = FeatureBatches(made, 8, seed=3, pad=0)
    batches = [batch.rows.tolist() for batch in islice(iter(whole), 20)]
    assert sorted(map(tuple, batches[:7])) != sorted(map(tuple, batches[7:14]))
    for stop in (0, 5, 7, 12):
        first, second = (FeatureBatches(made, 8, seed=3, pad=0) for _ in range(2))
        head = [batch.rows.tolist() for batch in islice(iter(first), stop)]
        second.restore(first.state())
        assert head + [batch.rows.tolist() for batch in islice(iter(second), 20 - stop)] == batches


def test_batches_are_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, 640).tolist()
    source = FeatureBatches(numbered(lengths), 16, seed=0, pad=0)
    padded = sum(batch.mask.size for batch in islice(iter(source), source.steps))
    assert padded < 1.1 * sum(lengths)


def test_examples_of_several_rows_stay_together() -> None:
    made = replace(numbered([3, 4, 5, 6, 7, 8]), examples=np.array([0, 2, 3, 6]))
    source = FeatureBatches(made, 1, seed=0, pad=0)
    found = sorted(batch.rows.tolist() for batch in islice(iter(source), 3))
    assert found == [[0, 1], [2], [3, 4, 5]] and made.num_examples == 3


def test_saved_features_come_back(tmp_path: Path) -> None:
    made = replace(numbered([2, 3]), per_token=("tag",), examples=np.array([0, 2]), cut=1)
    made = replace(made, targets={**made.targets, "tag": np.arange(5), "set": np.ones((2, 3), np.float32)})
    made.save(tmp_path / "x")
    again = Features.open(tmp_path / "x")
    assert again.digest == made.digest and again.cut == 1 and again.per_token == ("tag",)
    assert list(again.targets) == list(made.targets) and again.targets["set"].shape == (2, 3)
    assert again.examples is not None and again.examples.tolist() == [0, 2]
    assert made.digest != numbered([2, 3]).digest


@pytest.mark.parametrize("count", [1, 2])
def test_padding_and_batches_change_nothing(count: int) -> None:
    made = ENCODING.rows([("a b c"[: 2 * i + 1],) * count for i in range(3)])
    whole = features.batch(made, np.arange(3), 0)
    for i in range(3):
        alone = features.batch(made, np.array([i]), 0)
        assert whole.ids[i][whole.mask[i]].tolist() == alone.ids[0].tolist() == rows(made)[i]
        assert whole.types[i][whole.mask[i]].tolist() == alone.types[0].tolist()


GPT = Marks(cls=3, sep=3, pad=3, unk=3, closes=False, causal=True)
BARE = Marks(cls=None, sep=None, pad=0, unk=1, closes=False)


def test_rows_of_a_gpt_by_hand() -> None:
    ours, theirs = replace(ENCODING, marks=GPT, types=1), replace(ENCODING, marks=BARE, types=1)
    one = [("a b",), ("",), ("a b c d a b c d",)]
    assert rows(ours.rows(one)) == [[3, 4, 5], [3], [3, 4, 5, 6, 7, 4, 5, 6]]
    assert rows(theirs.rows(one)) == [[4, 5], [0], [4, 5, 6, 7, 4, 5, 6, 7]]
    two = [("a b", "c"), ("", ""), ("a a a a a", "b b")]
    assert rows(ours.rows(two)) == [[3, 4, 5, 3, 6], [3, 3], [3, 4, 4, 4, 4, 3, 5, 5]]
    assert rows(theirs.rows(two)) == [[4, 5, 6], [0], [4, 4, 4, 4, 4, 5, 5]]
    assert ours.rows([("a", "b")]).rows.types.max() == 0
    assert [GPT.count(1), GPT.count(2), GPT.with_end.count(2), BARE.count(2), BARE.with_end.count(2)] == [1, 2, 3, 0, 0]


def test_what_a_gpt_makes_rows_with() -> None:
    vocab = Vocab(["<unk>", "</s>", "a"])
    marks = marks_of_gpt(NamedTokenizer("whitespace", vocab), 1, 1)
    assert (marks.cls, marks.sep, marks.pad, marks.unk, marks.causal) == (1, 1, 1, 0, True)
    theirs = marks_of_gpt(NamedTokenizer("whitespace", Vocab(["<|endoftext|>"])), 0, None, ours=False)
    assert (theirs.cls, theirs.sep, theirs.pad, theirs.unk, theirs.causal) == (None, None, 0, 0, False)
