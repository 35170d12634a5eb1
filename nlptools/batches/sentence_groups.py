"""The sentences of each training sequence of BERT (Devlin et al. 2019, arXiv:1810.04805).

With a next sentence: consecutive sentences of a document until the target length is reached, cut in two at a random
sentence; the second half is kept, or, half of the time and always when there is only one sentence, it is replaced by
sentences from a random place of another document, and used later. A pair that is too long loses tokens of the
longer side, at either end. Without: as much of one document as fits; the next sequence continues, even within a sentence, so
that nothing is lost or used twice. The target length is the full one, but 1 time in 10 a random one from 2 up.

Departures: the other document is never the same one; a document of more than 1,024 sentences is processed in
stretches of that many, cut anew every epoch, and a sequence does not cross the end of its stretch. In return a whole pool of
documents is planned in a few array operations: one sequence of every stretch at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nlptools.arrays import places_in_rows
from nlptools.corpora.documents import Documents
from nlptools.errors import UsageError

STRETCH = 1024  # sentences
SHORT = 0.1  # share of the sequences with a shorter target


@dataclass(frozen=True)
class Instances:
    """Training sequences: places and lengths in `Documents.ids`, int64 (N,) each."""

    first: np.ndarray  # where the first segment begins
    first_length: np.ndarray
    second: np.ndarray  # where the second one does
    second_length: np.ndarray  # 0: no second segment
    random: np.ndarray  # bool: the second segment does not follow the first

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each, special tokens included: [CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""
        total: np.ndarray = self.first_length + self.second_length + 2 + (self.second_length > 0)
        return total

    def take(self, chosen: np.ndarray | slice) -> Instances:
        """Some of them."""
        return Instances(*(array[chosen] for array in vars(self).values()))


@dataclass(frozen=True)
class Stretches:
    """Runs of sentences inside a document."""

    first: np.ndarray  # (N,) int64: the first sentence
    end: np.ndarray  # (N,) int64: after the last one
    document: np.ndarray  # (N,) int64

    def take(self, chosen: np.ndarray | slice) -> Stretches:
        """Some of them."""
        return Stretches(self.first[chosen], self.end[chosen], self.document[chosen])


def check(documents: Documents, length: int, next_sentence: bool) -> None:
    """Raises UsageError when there can be no sequences of `length` tokens, special tokens included."""
    if next_sentence and len(documents) < 2:
        raise UsageError(
            "next-sentence prediction needs sentences of other documents, and the text is one document",
            hint="put blank lines between documents, or train without it: --objective mlm",
        )
    if length < 8:
        raise UsageError(f"sequences of {length} tokens are too short, expected at least 8")


def pools(documents: Documents, seed: int, epoch: int, pool_tokens: int) -> list[Stretches]:
    """All sentences of the text, as stretches in random order, divided into pools of about `pool_tokens` tokens each."""
    random = np.random.default_rng([seed, epoch, 0])
    starts, ends = documents.documents[:-1], documents.documents[1:]
    before = np.where(ends - starts > STRETCH, random.integers(STRETCH, size=len(starts)), 0)
    counts = -(-(ends - starts + before) // STRETCH)
    document = np.repeat(np.arange(len(starts)), counts)
    number = places_in_rows(counts)
    first = (starts - before)[document] + number * STRETCH
    end = np.minimum(first + STRETCH, ends[document])
    order = random.permutation(len(first))
    stretches = Stretches(np.maximum(first, starts[document]), end, document).take(order)
    reached = np.cumsum(documents.sentences[stretches.end] - documents.sentences[stretches.first])
    many = max(1, round(int(reached[-1]) / pool_tokens))
    bounds = np.searchsorted(reached, int(reached[-1]) * np.arange(many + 1) / many)
    bounds[0], bounds[-1] = 0, len(order)
    return [stretches.take(slice(int(a), int(b))) for a, b in pairwise(bounds) if b > a]


def plan(
    documents: Documents,
    stretches: Stretches,
    length: int,
    *,
    next_sentence: bool,
    random: np.random.Generator,
    short: float = SHORT,
) -> Instances:
    """The sequences of some stretches, of at most `length` tokens, special tokens included."""
    planner = _Planner(documents, length, short, random)
    step = planner.pairs if next_sentence else planner.singles
    # the position of each stretch: a sentence, or, without next sentences, a token
    place, end = (stretches.first, stretches.end)
    if not next_sentence:
        place, end = documents.sentences[place], documents.sentences[end]
    document, parts = stretches.document, list[Instances]()
    while len(place):
        part, place = step(place, end, document)
        parts.append(part)
        going = place < end
        place, end, document = place[going], end[going], document[going]
    return Instances(*(np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in parts))))


@dataclass(frozen=True)
class _Planner:
    """The next sequence of each stretch; see `plan`."""

    documents: Documents
    length: int
    short: float
    random: np.random.Generator

    def targets(self, most: int, size: int) -> np.ndarray:
        """Target lengths."""
        less = self.random.integers(2, most + 1, size)
        return np.where(self.random.random(size) < self.short, less, most)

    def singles(self, place: np.ndarray, end: np.ndarray, document: np.ndarray) -> tuple[Instances, np.ndarray]:
        """The next sequence of each stretch, and the positions after them, in tokens."""
        stop = np.minimum(place + self.targets(self.length - 2, len(place)), end)
        none = np.zeros_like(place)
        return Instances(place, stop - place, none, none, none.astype(np.bool_)), stop

    def pairs(self, place: np.ndarray, end: np.ndarray, document: np.ndarray) -> tuple[Instances, np.ndarray]:
        """The next pair of each stretch, and the positions after them, in sentences; a replaced second half is used later."""
        documents, random, size = self.documents, self.random, len(place)
        offsets = documents.sentences
        target = self.targets(self.length - 3, size)
        stop = np.minimum(_filled(offsets, place, target), end)
        split = place + 1 + (random.random(size) * np.maximum(stop - place - 1, 0)).astype(np.int64)
        strange = (random.random(size) < 0.5) | (stop - place == 1)
        other = random.integers(len(documents) - 1, size=size)
        other += other >= document
        begin, behind = documents.documents[other], documents.documents[other + 1]
        begin = begin + (random.random(size) * (behind - begin)).astype(np.int64)
        left = target - (offsets[split] - offsets[place])
        behind = np.minimum(_filled(offsets, begin, np.maximum(left, 1)), behind)
        second = np.where(strange, begin, split)
        second_end = np.where(strange, behind, stop)
        a, b = offsets[place], offsets[second]
        cut = _truncated(a, offsets[split] - a, b, offsets[second_end] - b, self.length - 3, random)
        return Instances(*cut, strange), np.where(strange, split, stop)


def _filled(offsets: np.ndarray, first: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The sentence after the first `target` tokens from `first` on."""
    sentence: np.ndarray = np.searchsorted(offsets, offsets[first] + target, "left")
    return sentence


def _truncated(
    a: np.ndarray,
    a_length: np.ndarray,
    b: np.ndarray,
    b_length: np.ndarray,
    most: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Both segments with at most `most` tokens together: each excess token is taken from the longer one, the second when
    they are equal, from its front or back at random."""
    over = np.maximum(a_length + b_length - most, 0)
    longer = np.minimum(over, np.abs(a_length - b_length))  # what only the longer one loses
    rest = over - longer
    from_a = np.where(a_length > b_length, longer, 0) + rest // 2
    from_b = np.where(a_length > b_length, 0, longer) + rest - rest // 2
    front_a, front_b = random.binomial(from_a, 0.5), random.binomial(from_b, 0.5)
    return a + front_a, a_length - from_a, b + front_b, b_length - from_b
