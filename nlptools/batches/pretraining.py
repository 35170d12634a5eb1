"""Batches for the pretraining of encoders: masked tokens, several sequences packed in each row.

An epoch is all documents in random order, one pool of them at a time: sequences are planned (`sentence_groups`), packed
into rows, and the rows shuffled. A plan has only places in the text; a batch looks up the tokens and draws the masks.
Everything is a function of the seed, the epoch and the step, so that continuing after a stop takes as long as
planning one pool. Shapes: B rows, T positions of a row, M positions to be predicted, N sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from nlptools.batches import sentence_groups as instances
from nlptools.batches.encoder_rows import ranges
from nlptools.batches.masking import Masking, MaskingVocabulary, hide
from nlptools.batches.packing import pack
from nlptools.batches.sentence_groups import Instances
from nlptools.batches.source import CHECKPOINT, WHOLE, BatchSource, Share
from nlptools.corpora.documents import Documents
from nlptools.errors import UsageError
from nlptools.files.json_fields import whole
from nlptools.json_types import JsonObject

POOL_TOKENS = 1 << 24  # of text planned together: a second or two of work, some megabytes
_TRAINING, _VALIDATION = 0, 1  # streams of masks


@dataclass(frozen=True)
class PretrainingBatch:
    """Rows of packed sequences, padded on the right. A position attends to the positions with the same number in `sequences`."""

    ids: np.ndarray  # (B, T) int64, with masks and random tokens
    types: np.ndarray  # (B, T) int64, 0: [CLS] and the first segment with its [SEP]; 1: the second segment
    positions: np.ndarray  # (B, T) int64, from 0 in each sequence
    sequences: np.ndarray  # (B, T) int64, number of the sequence within its row, from 1; 0: padding
    masked: np.ndarray  # (M,) int64, flat indexes into B*T of the masked positions, ascending
    targets: np.ndarray  # (M,) int64, their original tokens
    firsts: np.ndarray  # (N,) int64, flat indexes of the [CLS] of each sequence, ascending
    next_sentence: np.ndarray  # (N,) int64, 0: the second segment continues the first, 1: it is a random one; or (0,)


@dataclass(frozen=True)
class Phase:
    """Consecutive batches of one shape."""

    length: int  # T
    batch_size: int  # B
    batches: int = 0  # how many; 0: without end, in the last phase


def phases(shares: Sequence[tuple[int, float]], batches: int, batch_tokens: int) -> tuple[Phase, ...]:
    """Phases of `batch_tokens` positions per batch, for a run of `batches` batches.

    Args:
        shares: (length, share of the batches) of each, such as ((128, 0.9), (512, 0.1)).

    Raises:
        UsageError: shares that are not above 0, or do not add up to 1, or a batch smaller than one row.
    """
    if any(share <= 0 for _, share in shares) or abs(sum(share for _, share in shares) - 1) > 1e-6:
        raise UsageError("expected shares of the lengths above 0 that add up to 1, as in 128:0.9,512:0.1")
    if any(length > batch_tokens for length, _ in shares):
        raise UsageError(f"a batch of {batch_tokens} tokens is too small for a row of {max(n for n, _ in shares)}")
    out, done, reached = list[Phase](), 0, 0.0
    for i, (length, share) in enumerate(shares):
        reached += share
        end = round(batches * reached)
        out.append(Phase(length, batch_tokens // length, 0 if i == len(shares) - 1 else max(1, end - done)))
        done = end
    return tuple(out)


@dataclass(frozen=True)
class Layout:
    """How text becomes sequences and rows."""

    vocab: MaskingVocabulary
    masking: Masking = field(default_factory=Masking)
    next_sentence: bool = True
    pack: bool = True  # several sequences per row; else one
    short: float = instances.SHORT  # share of the sequences with a random shorter length
    pool_tokens: int = POOL_TOKENS


class PretrainingBatches(BatchSource):
    """Batches without end. All batches of a phase have the same shape.

    A phase begins with a new epoch. `Phase.batch_size` is the size of joint batches. At the end of a pool the last rows may be
    all padding, and a batch may have no targets.
    """

    def __init__(
        self,
        documents: Documents,
        layout: Layout,
        phases: Sequence[Phase],
        *,
        seed: int,
        share: Share = WHOLE,
    ) -> None:
        """Raises:
        UsageError: a single document with `layout.next_sentence`, or a length that is too short.
        """
        for phase in phases:
            instances.check(documents, phase.length, layout.next_sentence)
        self.documents, self.layout, self.phases = documents, layout, tuple(phases)
        self.seed, self.share = seed, share
        self._step, self._phase = 0, 0
        self._epoch, self._pool, self._position = 0, 0, 0
        self._dealt: tuple[int, list[instances.Stretches]] | None = None
        self._planned: tuple[tuple[int, int, int], _Plan] | None = None
        self.batches_per_epoch = float(self._batches() * len(self._pools()))  # exact if there is one pool

    @property
    def epoch(self) -> float:
        """Epochs done, with their fraction. The first epoch of a phase counts as a whole one, however short."""
        return self._epoch + (self._pool + self._position / self._batches()) / len(self._pools())

    def __iter__(self) -> Iterator[PretrainingBatch]:
        while True:
            self._begin_phase()
            batches = self._batches()
            parts = self._parts() if self._position < batches else []
            if parts:
                self._step, self._position = self._step + 1, self._position + 1
            if self._position >= batches:
                self._pool, self._position = self._pool + 1, 0
                if self._pool == len(self._pools()):
                    self._epoch, self._pool = self._epoch + 1, 0
            yield from parts

    def state(self) -> JsonObject:
        """See `BatchSource`."""
        names = ("step", "phase", "epoch", "pool", "position")
        return {name: vars(self)[f"_{name}"] for name in names}

    def restore(self, state: JsonObject) -> None:
        """See `BatchSource`."""
        for name in self.state():
            setattr(self, f"_{name}", whole(state, name, CHECKPOINT))

    def _begin_phase(self) -> None:
        end = 0
        for number, phase in enumerate(self.phases):
            end += phase.batches
            if self._step < end or number == len(self.phases) - 1:
                break
        if number != self._phase:
            begun = self._pool or self._position
            self._phase, self._epoch, self._pool, self._position = number, self._epoch + bool(begun), 0, 0

    def _parts(self) -> list[PretrainingBatch]:
        """The parts of this process of the next joint batch."""
        phase, plan = self.phases[self._phase], self._plan()
        size, salt = phase.batch_size, _salt(self.seed, _TRAINING, self._step, 0)
        joint = np.arange(self._position * size, min((self._position + 1) * size, plan.num_rows))
        shape = -(-size // self.share.all_parts), phase.length
        out = []
        for part in range(self.share.parts):
            mine = self.share.rows(part)
            numbers = np.arange(size)[mine, None] * phase.length + np.arange(phase.length)  # in the joint batch
            out.append(_make(plan, joint[mine], shape, salt, numbers=np.resize(numbers, shape).ravel()))
        return out

    def _batches(self) -> int:
        """Joint batches of this pool."""
        return -(-self._plan().num_rows // self.phases[self._phase].batch_size)

    def _pools(self) -> list[instances.Stretches]:
        if self._dealt is None or self._dealt[0] != self._epoch:
            dealt = instances.pools(self.documents, self.seed, self._epoch, self.layout.pool_tokens)
            self._dealt = self._epoch, dealt
        return self._dealt[1]

    def _plan(self) -> _Plan:
        place = (self._phase, self._epoch, self._pool)
        if self._planned is None or self._planned[0] != place:
            self._planned = None  # frees the last plan
            random = np.random.default_rng([self.seed, self._epoch, 1, self._pool])
            length = self.phases[self._phase].length
            stretches = self._pools()[self._pool]
            self._planned = place, _make_plan(self.documents, self.layout, stretches, length, random, shuffled=True)
        return self._planned[1]


def in_order_batches(
    documents: Documents,
    layout: Layout,
    phase: Phase,
    *,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
) -> Iterator[PretrainingBatch]:
    """All sequences of one epoch, each once, with the same masks for any batch size and number of ranks.

    Batches go to the ranks in turn; one rank may get one more than another. The last batch may have fewer rows.

    Raises:
        UsageError: as `PretrainingBatches`.
    """
    instances.check(documents, phase.length, layout.next_sentence)
    salt, done, turn = _salt(seed, _VALIDATION), 0, 0
    for number, stretches in enumerate(instances.pools(documents, seed, 0, layout.pool_tokens)):
        random = np.random.default_rng([seed, 0, 1, number])
        plan = _make_plan(documents, layout, stretches, phase.length, random, shuffled=False)
        for start in range(0, plan.num_rows, phase.batch_size):
            rows = np.arange(start, min(start + phase.batch_size, plan.num_rows))
            if turn % world_size == rank:
                yield _make(plan, rows, (len(rows), phase.length), salt, done)
            turn += 1
        done += len(plan.instances)


@dataclass(frozen=True)
class _Plan:
    """The sequences of a pool, in the order of their rows."""

    documents: Documents
    layout: Layout
    instances: Instances
    bounds: np.ndarray  # (rows + 1,): the first sequence of each row, and the end
    numbers: np.ndarray  # (sequences,): their numbers before packing

    @property
    def num_rows(self) -> int:
        return len(self.bounds) - 1


def _make_plan(
    documents: Documents,
    layout: Layout,
    stretches: instances.Stretches,
    length: int,
    random: np.random.Generator,
    shuffled: bool,
) -> _Plan:
    planned = instances.plan(
        documents, stretches, length, next_sentence=layout.next_sentence, random=random, short=layout.short
    )
    row = pack(planned.lengths, length) if layout.pack else np.arange(len(planned))
    num_rows = int(row.max()) + 1
    if shuffled:
        row = random.permutation(num_rows)[row]
    order = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[order], np.arange(num_rows + 1))
    return _Plan(documents, layout, planned.take(order), bounds, order)


def _salt(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _make(
    plan: _Plan,
    rows: np.ndarray,
    shape: tuple[int, int],
    salt: int,
    done: int = 0,
    numbers: np.ndarray | None = None,
) -> PretrainingBatch:
    """The batch of these rows of a plan.

    Args:
        shape: B, at least the number of rows, and T.
        done: number of sequences before this plan.
        numbers: (B*T,) int64: of each position, which masks depend on; None: masks depend on the number of the sequence.
    """
    layout, (B, T) = plan.layout, shape
    counts = plan.bounds[rows + 1] - plan.bounds[rows]
    chosen = ranges(plan.bounds[rows], counts)
    part = plan.instances.take(chosen)
    lengths = part.lengths
    in_row = ranges(np.zeros_like(counts), counts)  # number of each sequence within its row, from 0
    reached = np.cumsum(lengths) - lengths
    row_start = reached[np.arange(len(lengths)) - in_row]  # the total length before its row
    firsts = np.repeat(np.arange(len(rows)), counts) * T + reached - row_start

    types, positions, sequences, owner = (np.zeros(B * T, np.int64) for _ in range(4))
    everywhere = ranges(firsts, lengths)
    positions[everywhere] = everywhere - np.repeat(firsts, lengths)
    sequences[everywhere] = np.repeat(in_row + 1, lengths)
    owner[everywhere] = np.repeat(np.arange(len(lengths)), lengths)
    types[ranges(firsts + 2 + part.first_length, lengths - 2 - part.first_length)] = 1
    ids, begins = _tokens(plan, part, firsts, B * T)
    if numbers is None:
        numbers = positions.copy()
        numbers[everywhere] += np.repeat((plan.numbers[chosen] + done) * T, lengths)
    hidden = hide(ids, owner, layout.vocab, layout.masking, salt=salt, numbers=numbers, begins=begins)
    labels = part.random.astype(np.int64) if layout.next_sentence else np.empty(0, np.int64)
    flat = [array.reshape(B, T) for array in (hidden[0], types, positions, sequences)]
    return PretrainingBatch(flat[0], flat[1], flat[2], flat[3], hidden[1], hidden[2], firsts, labels)


def _tokens(plan: _Plan, part: Instances, firsts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of sequences that begin at `firsts`, and the positions where a sentence begins with an inner piece of a word."""
    documents, vocab = plan.documents, plan.layout.vocab
    ids, begins = np.full(size, vocab.pad, np.int64), np.zeros(size, np.bool_)
    second = part.second_length > 0
    ids[firsts] = vocab.cls
    ids[firsts + 1 + part.first_length] = vocab.sep
    ids[(firsts + part.lengths - 1)[second]] = vocab.sep
    for to, start, lengths in (
        (firsts + 1, part.first, part.first_length),
        (firsts + 2 + part.first_length, part.second, part.second_length),
    ):
        places, sources = ranges(to, lengths), ranges(start, lengths)
        ids[places] = documents.ids[sources]
        if plan.layout.masking.unit != "token":
            inner = np.flatnonzero(~vocab.begins[ids[places]])
            tokens = sources[inner]
            first = documents.sentences[np.searchsorted(documents.sentences, tokens)]
            begins[places[inner]] = first == tokens
    return ids, begins
