"""What an encoder sees of the examples of a task, as flat arrays: tokens, segments, targets; and batches of them.

A row is one sequence, `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, or a GPT's: see `encoder_rows`. An example has one row,
or several that belong together: the endings of a choice, the windows of a long text (`Features.examples`).
Shapes: N rows, B rows of a batch, T length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nlptools.batches.encoder_rows import Marks, Rows, Segment, join, packed, ranges
from nlptools.batches.windows import NO_TARGET
from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.text.tokenizer import Tokenizer

WEIGHT = "weight"  # what an example, or a token, counts in the loss
_POOL = 64  # batches whose rows are sorted together


@dataclass(frozen=True)
class Encoding:
    """How texts become rows of tokens.

    Attributes:
        marks: the special tokens.
        max_length: most tokens of a row, marks included.
        types: how many segments the model tells apart.
    """

    tokenizer: Tokenizer
    marks: Marks
    max_length: int
    types: int = 2
    threads: int = 1

    def rows(self, texts: Sequence[Sequence[str]]) -> Features:
        """See `rows_of_texts`."""
        return rows_of_texts(texts, self)


@dataclass(frozen=True)
class Features:
    """Rows, one after the other, and what is to be learnt of them.

    Attributes:
        rows: the tokens of all rows and their segments.
        targets: by name: (N,) or (N, K), one number or vector per row; or, where `per_token` names it, (tokens,).
            NO_TARGET where there is none; `weight` is among them, float32, 0 for what does not count.
        per_token: the targets that belong to tokens.
        examples: (E + 1,) int64, the first row of each example, and the end; None: a row is an example.
        cut: examples whose texts were too long, and lost tokens.
        more: what a task needs to make predictions out of rows; not saved.
    """

    rows: Rows
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    per_token: tuple[str, ...] = ()
    examples: np.ndarray | None = None
    cut: int = 0
    more: Any = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> np.ndarray:
        """(N,) tokens of each row."""
        return self.rows.lengths

    @property
    def num_examples(self) -> int:
        """E."""
        return len(self) if self.examples is None else len(self.examples) - 1

    @property
    def digest(self) -> str:
        """SHA-256 of all arrays."""
        total = hashlib.sha256()
        for array in (self.rows.ids, self.rows.types, self.rows.bounds, *self.targets.values()):
            total.update(np.ascontiguousarray(array).data)
        return total.hexdigest()

    def save(self, path: Path) -> None:
        """Write the arrays to `path`.NAME and a record to `path`.json.

        Raises:
            StreamError: disk full or another write error.
        """
        widths = {name: array.shape[1] for name, array in self.targets.items() if array.ndim == 2}
        record = {"per_token": self.per_token, "widths": widths, "targets": list(self.targets), "cut": self.cut}
        arrays = {"ids": self.rows.ids, "types": self.rows.types, "bounds": self.rows.bounds}
        arrays |= {f"target.{name}": array.reshape(-1) for name, array in self.targets.items()}
        if self.examples is not None:
            arrays["examples"] = self.examples
        with ArrayFiles(path) as files:
            for name, array in arrays.items():
                files.append(name, array)
            files.commit(record)

    @staticmethod
    def open(path: Path) -> Features:
        """What `save` wrote, memory-mapped. Raises InputError, DataError."""
        record, arrays = open_arrays(path)
        targets = {name: arrays[f"target.{name}"] for name in record["targets"]}
        targets |= {name: targets[name].reshape(-1, width) for name, width in record["widths"].items()}
        rows = Rows(arrays["ids"], arrays["types"], arrays["bounds"])
        return Features(rows, targets, tuple(record["per_token"]), arrays.get("examples"), record["cut"])


def with_types(rows: Rows, encoding: Encoding) -> Rows:
    """The rows, with segments that the model can tell apart."""
    return rows if encoding.types > 1 else replace(rows, types=np.zeros_like(rows.types))


def rows_of_texts(texts: Sequence[Sequence[str]], encoding: Encoding) -> Features:
    """One row for each element, which is one text or two; all have as many.

    What is too long loses tokens at the end, of two texts the longer one first.
    """
    count = len(texts[0]) if texts else 1
    ids = encoding.tokenizer.encode_lines([text for example in texts for text in example], encoding.threads)
    pieces = packed(ids)
    lengths = pieces.lengths.reshape(-1, count)  # (N, 1 or 2)
    kept = shortened(lengths, encoding.max_length - encoding.marks.count(count))
    starts = pieces.bounds[:-1].reshape(-1, count)
    segments = [
        Segment(pieces.ids, starts[:, i], kept[:, i], type=i if encoding.types > 1 else 0) for i in range(count)
    ]
    rows, _ = join(encoding.marks, segments)
    return Features(rows, cut=int((kept < lengths).any(1).sum()))


def shortened(lengths: np.ndarray, most: int) -> np.ndarray:
    """(N, 1 or 2) lengths of texts -> what is left of them in rows with room for `most`: the longer one loses first."""
    most = max(0, most)
    if lengths.shape[1] == 1:
        alone: np.ndarray = np.minimum(lengths, most)
        return alone
    shorter = np.minimum(lengths.min(1), most // 2)
    first_is_shorter = lengths[:, 0] <= lengths[:, 1]
    longer = np.minimum(lengths.max(1), most - shorter)
    out: np.ndarray = np.where(
        first_is_shorter[:, None], np.stack([shorter, longer], 1), np.stack([longer, shorter], 1)
    )
    return out


@dataclass(frozen=True)
class FeatureBatch:
    """Rows, padded on the right.

    Attributes:
        rows: (B,) which rows they are.
        ids, types: (B, T) int64.
        mask: (B, T) bool, True = real.
        targets: in the order of `Features.targets`: (B,), (B, K) or (B, T); (B, T) is NO_TARGET in the padding, weights 0.
        weight: sum of the weights: what the loss is divided by.
    """

    rows: np.ndarray
    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray
    targets: tuple[np.ndarray, ...]
    weight: float


def batch(features: Features, rows: np.ndarray, pad: int, counts: bool = True) -> FeatureBatch:
    """Some rows, one below the other. Without `counts` their weights are 0."""
    made = features.rows.batch(rows, pad)
    places = ranges(features.rows.bounds[rows], features.lengths[rows])
    targets, weight = [], 0.0
    for name, array in features.targets.items():
        if name in features.per_token:
            taken = np.full(made.mask.shape, 0 if name == WEIGHT else NO_TARGET, array.dtype)
            taken[made.mask] = array[places]
        else:
            taken = np.array(array[rows])
        if name == WEIGHT:
            taken *= counts
            weight = float(taken.sum(dtype=np.float64))
        targets.append(taken)
    return FeatureBatch(rows, made.ids, made.mask, made.types, tuple(targets), weight)


class FeatureBatches:
    """Batches of like length without end: each example exactly once per epoch; a `nlptools.batches.windows.Source`.

    Examples come in random order; those of some dozens of batches are sorted by length and cut into batches, which then
    come in random order. An epoch is a function of the seed and its number.
    """

    def __init__(
        self, features: Features, batch_size: int, *, seed: int, pad: int, rank: int = 0, world_size: int = 1
    ) -> None:
        """`batch_size`: examples of a batch. Batches go to the ranks in turn; each does the same number of steps."""
        self.features, self.batch_size, self.seed, self.pad = features, batch_size, seed, pad
        self.rank, self.world_size = rank, world_size
        self.batches = -(-features.num_examples // batch_size)
        self.steps = -(-self.batches // world_size)
        self.batches_per_epoch = float(self.steps)
        self._epoch, self._position = 0, 0
        starts = features.examples
        self._lengths = features.lengths if starts is None else np.maximum.reduceat(features.lengths, starts[:-1])

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction."""
        return self._epoch + self._position / self.steps

    def __iter__(self) -> Iterator[FeatureBatch]:
        while True:
            batches = self._plan()
            while self._position < self.steps:
                turn = self._position * self.world_size + self.rank
                self._position += 1
                fits = turn < len(batches)
                yield batch(self.features, self._rows(batches[turn if fits else 0]), self.pad, fits)
            self._epoch, self._position = self._epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """See `Source`."""
        return {"epoch": self._epoch, "position": self._position}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Source`."""
        self._epoch, self._position = int(state["epoch"]), int(state["position"])

    def _rows(self, examples: np.ndarray) -> np.ndarray:
        starts = self.features.examples
        if starts is None:
            return examples
        return np.concatenate([np.arange(starts[i], starts[i + 1]) for i in examples])

    def _plan(self) -> list[np.ndarray]:
        """The examples of each batch of this epoch."""
        random = np.random.default_rng([self.seed, self._epoch])
        order = random.permutation(self.features.num_examples)
        size = self.batch_size * _POOL
        batches = []
        for start in range(0, len(order), size):
            pool = order[start : start + size]
            pool = pool[np.argsort(self._lengths[pool], kind="stable")]
            batches += [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
        return [batches[i] for i in random.permutation(len(batches))]
