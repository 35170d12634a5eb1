"""Sources that go through epochs: each position once, ranks in turn, and a state that continues exactly."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from nlptools.batches.source import WHOLE, EpochSource, Share


class Shuffled(EpochSource[list[int], np.ndarray]):
    """Numbers in random order, some at a time."""

    def __init__(self, count: int, step: int, share: Share = WHOLE) -> None:
        super().__init__(seed=1, share=share)
        self.count, self.step, self.plans = count, step, 0

    def _length(self) -> int:
        return self.count

    def _make_plan(self, epoch: int) -> np.ndarray:
        self.plans += 1
        return np.random.default_rng([self.seed, epoch]).permutation(self.count)

    def _batch(self, plan: np.ndarray, position: int, mine: slice) -> list[int]:
        return plan[position : position + self.step][mine].tolist()


@pytest.mark.parametrize("step", [1, 3, 20])
def test_each_position_once_per_epoch(step: int) -> None:
    source = Shuffled(10, step)
    batches = -(-10 // step)
    epochs = [sorted(n for batch in islice(iter(source), batches) for n in batch) for _ in range(3)]
    assert epochs == [list(range(10))] * 3
    assert source.plans == 3 and source.epoch == 3.0


def test_a_restored_source_continues_exactly() -> None:
    whole = list(islice(iter(Shuffled(10, 3)), 12))
    assert whole[:4] != whole[4:8]  # another order in each epoch
    for done in range(12):
        source = Shuffled(10, 3)
        assert list(islice(iter(source), done)) == whole[:done]
        again = Shuffled(10, 3)
        again.restore(source.state())
        assert again.epoch == source.epoch
        assert list(islice(iter(again), 12 - done)) == whole[done:]


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_rows_of_a_batch_do_not_depend_on_processes_and_parts(world_size: int, size: int) -> None:
    whole = [set(batch) for batch in islice(iter(Shuffled(20, 7)), 8)]
    shares = [Share.of(size, 7, rank, world_size) for rank in range(world_size)]
    assert {joint for joint, _ in shares} == {7}
    parts = shares[0][1].parts
    found = [set[int]() for _ in whole]
    for _, share in shares:
        for number, batch in enumerate(islice(iter(Shuffled(20, 7, share)), 8 * parts)):
            assert len(batch) <= size and not found[number // parts] & set(batch)
            found[number // parts] |= set(batch)
    assert found == whole
    assert Share.of(size, 0, 0, world_size) == (size * world_size, Share(0, world_size))


def test_a_source_without_batches_cannot_be_made() -> None:
    class Nothing(EpochSource[int, None]):
        def _length(self) -> int:
            return 1

        def _make_plan(self, epoch: int) -> None: ...

    with pytest.raises(TypeError, match="_batch"):
        Nothing()  # type: ignore[abstract]
