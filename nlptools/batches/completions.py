"""Prompts and their responses as rows of tokens, in which only tokens of responses are targets, and packed batches.

A row is `<start> prompt response <end>`; of a conversation, `<start> text response <end> text response <end> ...`: a response
ends with the end-of-text token, so that a model learns to stop, unless a chat template ends it. Prompts and responses are
tokenized separately, as in generation. Rows that are too long lose tokens at the beginning of the first text, then at the end
of the row.
A batch packs several sequences into each row of tokens (Krell et al. 2021, arXiv:2107.02027). Each attends only to itself, see
`contract.LanguageModel.packed`.
Shapes: N sequences, P tokens of all sequences, R rows of a batch, T length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.batches.encoder_rows import EncoderRows, bounds_of, ranges
from nlptools.batches.features import Features
from nlptools.batches.packing import pack
from nlptools.batches.source import WHOLE, EpochSource, Share
from nlptools.batches.windows import NO_TARGET
from nlptools.text.chat_templates import Conversation
from nlptools.text.text_boundaries import started
from nlptools.text.tokenizer import Tokenizer

NEXT = "next"  # the target of each token: the token after it, or NO_TARGET where that is not part of a response


@dataclass(frozen=True)
class ChatSegment:
    """A text of a sequence.

    Attributes:
        learned: whether it is a response.
        ended: whether the end-of-text token follows the response, unless it ends with this token by itself.
    """

    text: str
    learned: bool
    ended: bool = True


@dataclass(frozen=True)
class CompletionEncoding:
    """How prompts and responses become sequences of at most `max_length` tokens.

    Attributes:
        chat: how messages become text, see `conversations`.
    """

    tokenizer: Tokenizer
    start: int
    end: int
    max_length: int
    threads: int = 1
    chat: Conversation | None = None

    def sequences(self, examples: Sequence[Sequence[ChatSegment]]) -> Features:
        """A row for each example. `Features.cut` counts those that lost tokens."""
        texts = [segment.text for example in examples for segment in example]
        encoded = iter(self.tokenizer.encode_lines(texts, self.threads))
        ids: list[int] = []
        targets: list[int] = []
        lengths, cut = [], 0
        for example in examples:
            tokens, learned, lost = self._sequence([(next(encoded), segment) for segment in example])
            ids += tokens[:-1]
            targets += [token if counts else NO_TARGET for token, counts in zip(tokens[1:], learned[1:])]
            lengths.append(len(tokens) - 1)
            cut += lost
        rows = EncoderRows(
            np.array(ids, np.int32), np.zeros(len(ids), np.uint8), bounds_of(np.array(lengths, np.int64))
        )
        return Features(rows, {NEXT: np.array(targets, np.int32)}, (NEXT,), cut=cut)

    def started(self, ids: list[int]) -> list[int]:
        """The tokens of a text that a sequence begins with, the start token first."""
        return started(ids, self.start, self.end)

    def _sequence(self, segments: Sequence[tuple[list[int], ChatSegment]]) -> tuple[list[int], list[bool], bool]:
        """The tokens of a sequence, which of them are learned, and whether it lost some. The model reads all but the last."""
        opening, rest = ([], segments) if segments[0][1].learned else (segments[0][0], segments[1:])
        tokens = self.started(opening)
        learned, first = [False] * len(tokens), len(tokens) - 1
        for ids, segment in rest:
            if segment.learned and segment.ended and ids[-1:] != [self.end]:
                ids = [*ids, self.end]
            tokens += ids
            learned += [segment.learned] * len(ids)
        excess = len(tokens) - 1 - self.max_length
        if excess <= 0:
            return tokens, learned, False
        left = min(excess, max(0, first - 1))
        keep = slice(1 + left, len(tokens) - (excess - left))
        return [self.start, *tokens[keep]], [False, *learned[keep]], True


@dataclass(frozen=True)
class PackedBatch:
    """Some sequences in rows of several.

    Attributes:
        sequences: (N,) their numbers.
        ids: (R, T) int64.
        targets: (R, T) int64, NO_TARGET where there is none.
        segments: (R, T) int64, the place in `sequences` of the sequence of each token, -1 in padding.
        of_sequences: (N,) the targets of the sequences themselves, by name.
        of_tokens: (R, T) the other targets of tokens, by name, 0 in padding.
    """

    sequences: np.ndarray
    ids: np.ndarray
    targets: np.ndarray
    segments: np.ndarray
    of_sequences: Mapping[str, np.ndarray]
    of_tokens: Mapping[str, np.ndarray]

    @property
    def num_targets(self) -> int:
        """Number of real targets."""
        return int((self.targets != NO_TARGET).sum())


def packed_batch(features: Features, sequences: np.ndarray, counts: bool = True) -> PackedBatch:
    """Sequences of these numbers (N,), none empty, in as few rows as hold them. Without `counts` there are no targets; without
    sequences, the first one takes their place.
    """
    sequences = sequences if len(sequences) else np.zeros(1, np.int64)
    lengths = features.lengths[sequences]
    width = int(lengths.max(initial=1))
    row = pack(lengths, width)
    order = np.argsort(row, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]
    first = np.searchsorted(row[order], row[order])  # in `order`, the first sequence of the row of each
    places = ranges(row[order] * width + before - before[first], lengths[order])
    tokens = ranges(features.rows.bounds[sequences[order]], lengths[order])
    shape = (int(row.max(initial=0)) + 1, width)
    ids, targets, segments = (np.full(shape, fill, np.int64) for fill in (0, NO_TARGET, -1))
    ids.flat[places] = features.rows.ids[tokens]
    if counts:
        targets.flat[places] = features.targets[NEXT][tokens]
    segments.flat[places] = np.repeat(order, lengths[order])
    of_sequences, of_tokens = {}, {}
    for name, array in features.targets.items():
        if name not in features.per_token:
            of_sequences[name] = np.array(array[sequences])
        elif name != NEXT:
            of_tokens[name] = np.zeros(shape, array.dtype)
            of_tokens[name].flat[places] = array[tokens]
    return PackedBatch(sequences, ids, targets, segments, of_sequences, of_tokens)


class PackedBatches(EpochSource[PackedBatch, np.ndarray]):
    """Batches of examples in random order, each exactly once per epoch; all sequences of an example are in one batch."""

    def __init__(self, features: Features, batch_size: int, *, seed: int, share: Share = WHOLE) -> None:
        """`batch_size`: examples of a joint batch."""
        super().__init__(seed, share)
        self.features = features
        self.step = batch_size  # a position is an example
        self.batches_per_epoch = features.num_examples / self.step

    def _length(self) -> int:
        return self.features.num_examples

    def _make_plan(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(self.features.num_examples)

    def _batch(self, plan: np.ndarray, position: int, mine: slice) -> PackedBatch:
        examples = plan[position : position + self.step][mine]
        real = len(examples) > 0  # else one is repeated without targets
        return packed_batch(self.features, self._sequences(examples if real else plan[:1]), real)

    def _sequences(self, examples: np.ndarray) -> np.ndarray:
        starts = self.features.examples
        if starts is None:
            return examples
        return ranges(starts[examples], starts[examples + 1] - starts[examples])


def in_order(features: Features, batch_tokens: int) -> list[np.ndarray]:
    """The numbers of all sequences, in batches of similar length with about `batch_tokens` tokens each."""
    order = np.argsort(-features.lengths, kind="stable")
    which = (np.cumsum(features.lengths[order]) - 1) // max(1, batch_tokens)
    return np.split(order, np.flatnonzero(np.diff(which)) + 1) if len(order) else []
