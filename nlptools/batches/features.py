"""The examples of a task as rows of tokens, segments and targets in flat arrays, and batches of them.

A row is one sequence, `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, or a GPT's: see `encoder_rows`. An example has one row,
or several that belong together: the endings of a choice, the windows of a long text (`Features.examples`).
Shapes: N rows, B rows of a batch, T length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nlptools.batches.encoder_rows import (
    EncodedTexts,
    EncoderRows,
    EncoderSegment,
    Marks,
    encode_once,
    join,
    packed,
    ranges,
)
from nlptools.batches.source import WHOLE, EpochSource, Share
from nlptools.batches.windows import NO_TARGET
from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.files import json_fields
from nlptools.text.chat_templates import Conversation
from nlptools.text.tokenizer import Tokenizer

WEIGHT = "weight"  # the target with the weight of an example, or a token, in the loss
_POOL = 64  # batches with rows that are sorted together


@dataclass(frozen=True)
class Encoding:
    """How texts become rows of tokens.

    Attributes:
        marks: the special tokens.
        max_length: most tokens of a row, special tokens included.
        types: how many segment types the model has.
        chat: how messages become text, see `conversations`.
    """

    tokenizer: Tokenizer
    marks: Marks
    max_length: int
    types: int = 2
    threads: int = 1
    chat: Conversation | None = None

    def rows(self, texts: Sequence[Sequence[str]]) -> Features:
        """One row for each element, which is one text or two; all have as many.

        Texts that are too long lose tokens at the end, of two texts the longer one first.
        """
        count = len(texts[0]) if texts else 1
        pieces = packed(self.tokenizer.encode_lines([text for example in texts for text in example], self.threads))
        lengths = pieces.lengths.reshape(-1, count)  # (N, 1 or 2)
        kept = shortened(lengths, self.max_length - self.marks.count(count))
        starts = pieces.bounds[:-1].reshape(-1, count)
        types = range(count) if self.types > 1 else (0, 0)
        rows, _ = join(
            self.marks, [EncoderSegment(pieces.ids, starts[:, i], kept[:, i], types[i]) for i in range(count)]
        )
        return Features(rows, cut=int((kept < lengths).any(1).sum()))

    def without_start(self, text: str) -> str:
        """A text by the chat template, without the start token that the template writes: rows have one."""
        start, end, vocab = self.marks.cls, self.marks.pad, self.tokenizer.vocab
        if self.chat is None or start in (None, end) or vocab is None:
            return text
        return text.removeprefix(vocab.token(start))

    def pieces(self, words: Sequence[str]) -> tuple[EncodedTexts, np.ndarray]:
        """The pieces of each different word, and the number of each of the words among them: see `encode_once`."""
        return encode_once(self.tokenizer, [self.marks.before_word + word for word in words], self.threads)

    def tables(self, words: Iterable[str]) -> dict[str, np.ndarray]:
        """The `Features.tables` of rows of these words: none."""
        return {}


@dataclass(frozen=True)
class Features:
    """Rows, one after the other, and their targets.

    Attributes:
        rows: the tokens of all rows and their segments.
        targets: by name: (N,) or (N, K), one number or vector per row; or, for those in `per_token`, (tokens,).
            NO_TARGET where there is none; `weight` is among them, float32.
        per_token: the targets that belong to tokens.
        examples: (E + 1,) int64, the first row of each example, and the end; None: a row is an example.
        cut: number of examples that lost tokens.
        tables: arrays that belong to no row, such as the spelling of the words that `rows` numbers.
        more: the details with which a task turns rows into predictions; not saved.
    """

    rows: EncoderRows
    targets: Mapping[str, np.ndarray] = field(default_factory=dict)
    per_token: tuple[str, ...] = ()
    examples: np.ndarray | None = None
    cut: int = 0
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
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
        rows = self.rows.ids, self.rows.types, self.rows.bounds
        for array in (*rows, *self.targets.values(), *self.tables.values()):
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
        arrays |= {f"table.{name}": array for name, array in self.tables.items()}
        if self.examples is not None:
            arrays["examples"] = self.examples
        with ArrayFiles(path) as files:
            for name, array in arrays.items():
                files.append(name, array)
            files.commit(record)

    @staticmethod
    def open(path: Path) -> Features:
        """The features in files of `save`, memory-mapped. Raises InputError, DataError."""
        record, arrays = open_arrays(path)
        where = str(path)
        widths = json_fields.child(record, "widths", where)
        targets = {name: arrays[f"target.{name}"] for name in json_fields.texts(record, "targets", where)}
        targets |= {name: targets[name].reshape(-1, json_fields.whole(widths, name, where)) for name in widths}
        rows = EncoderRows(arrays["ids"], arrays["types"], arrays["bounds"])
        tables = {name[6:]: array for name, array in arrays.items() if name.startswith("table.")}
        per_token, cut = tuple(json_fields.texts(record, "per_token", where)), json_fields.whole(record, "cut", where)
        return Features(rows, targets, per_token, arrays.get("examples"), cut, tables)


def with_types(rows: EncoderRows, types: int) -> EncoderRows:
    """The rows, with all types 0 if the model has one segment type."""
    return rows if types > 1 else replace(rows, types=np.zeros_like(rows.types))


def shortened(lengths: np.ndarray, most: int) -> np.ndarray:
    """(N, 1 or 2) lengths of texts -> their lengths in rows with room for `most`: the longer one loses first."""
    most = max(0, most)
    if lengths.shape[1] == 1:
        alone: np.ndarray = np.minimum(lengths, most)
        return alone
    first, second = lengths.T
    kept = np.minimum(first, np.maximum(most - second, (most + (first > second)) // 2))
    return np.stack([kept, np.minimum(second, most - kept)], 1)


@dataclass(frozen=True)
class FeatureBatch:
    """Rows, padded on the right.

    Attributes:
        rows: (B,) the numbers of the rows.
        ids, types: (B, T) int64.
        mask: (B, T) bool, True = real.
        targets: in the order of `Features.targets`: (B,), (B, K) or (B, T); (B, T) is NO_TARGET in the padding, weights 0.
        weight: sum of the weights, the divisor of the loss.
    """

    rows: np.ndarray
    ids: np.ndarray
    mask: np.ndarray
    types: np.ndarray
    targets: tuple[np.ndarray, ...]
    weight: float

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arguments of the model: ids, mask and types."""
        return self.ids, self.mask, self.types


def batch(features: Features, rows: np.ndarray, pad: int, counts: bool = True) -> FeatureBatch:
    """Some rows, one below the other. Without `counts` their weights are 0."""
    padded = features.rows.batch(rows, pad)
    places = ranges(features.rows.bounds[rows], features.lengths[rows])
    targets, weight = [], 0.0
    for name, array in features.targets.items():
        if name in features.per_token:
            taken = np.full(padded.mask.shape, 0 if name == WEIGHT else NO_TARGET, array.dtype)
            taken[padded.mask] = array[places]
        else:
            taken = np.array(array[rows])
        if name == WEIGHT:
            taken *= counts
            weight = float(taken.sum(dtype=np.float64))
        targets.append(taken)
    return FeatureBatch(rows, padded.ids, padded.mask, padded.types, tuple(targets), weight)


class FeatureBatches(EpochSource[FeatureBatch, "list[np.ndarray]"]):
    """Batches of similar length: each example exactly once per epoch.

    Examples are shuffled; the examples of some dozens of batches are sorted by length and cut into batches, which are shuffled
    again.
    """

    def __init__(self, features: Features, batch_size: int, *, seed: int, pad: int, share: Share = WHOLE) -> None:
        """`batch_size`: examples of a joint batch."""
        super().__init__(seed, share)
        self.features, self.batch_size, self.pad = features, batch_size, pad
        self.steps = -(-features.num_examples // batch_size)
        self.batches_per_epoch = float(self.steps)
        starts = features.examples
        self._lengths = features.lengths if starts is None else np.maximum.reduceat(features.lengths, starts[:-1])

    def _length(self) -> int:
        return self.steps

    def _batch(self, plan: list[np.ndarray], position: int, mine: slice) -> FeatureBatch:
        examples = plan[position][mine]
        real = len(examples) > 0  # else one is repeated with weight 0
        return batch(self.features, self._rows(examples if real else plan[position][:1]), self.pad, real)

    def _rows(self, examples: np.ndarray) -> np.ndarray:
        starts = self.features.examples
        if starts is None:
            return examples
        return np.concatenate([np.arange(starts[i], starts[i + 1]) for i in examples])

    def _make_plan(self, epoch: int) -> list[np.ndarray]:
        """The examples of each batch of an epoch."""
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(self.features.num_examples)
        size = self.batch_size * _POOL
        batches = []
        for start in range(0, len(order), size):
            pool = order[start : start + size]
            pool = pool[np.argsort(self._lengths[pool], kind="stable")]
            batches += [pool[i : i + self.batch_size] for i in range(0, len(pool), self.batch_size)]
        return [batches[i] for i in random.permutation(len(batches))]
