"""Subword regularization from tables of the alternative segmentations of every distinct word of a text.

Unigram models (Kudo 2018, arXiv:1804.10959): a segmentation x of the n best is drawn with a probability proportional to
P(x) ** alpha. BPE models (Provilkov et al. 2020, arXiv:1910.13267): merges are left out at random.

Departures: there are n best segmentations for each word, not for each sentence; the pieces of the usual models do not cross
word boundaries. BPE draws from 64 fixed draws for each word. In return, a few array operations draw a whole epoch, and the
same seed gives the same segmentations, unlike the sampler of the sentencepiece package.

A word is a part of the text that no piece of any segmentation leaves. It ends between two characters that are not adjacent
in any piece (at spaces, and mostly before punctuation), and around unknown characters, bytes and user-defined symbols,
which have one segmentation. The ids of its best segmentation identify it. In a script without spaces words are long, and
the tables grow with the text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np

from nlptools.errors import UsageError
from nlptools.text import sampling, sentencepiece_file
from nlptools.text.flat_ids import id_type
from nlptools.text.marian import Marian
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer

MOST = 64  # alternatives of a word; also the draws of a BPE model that they come from
_LEAST = 1e-9  # least probability of an alternative; a draw has about as many digits after the number of the word
_SPACE = "\u2581"
WORDS_AT_A_TIME = 1 << 20  # words drawn together, which bounds the memory of a draw


@dataclass(frozen=True)
class Sampling:
    """The random segmentation of each side; None: the best segmentation.

    A number is the exponent alpha of a unigram model (Kudo 2018: 0.1 to 0.5; a large one always gives the best
    segmentation), or the share of merges that a BPE model leaves out (Provilkov et al. 2020: 0.1; 0 gives the best one).
    """

    source: float | None = None
    target: float | None = None
    seed: int = 0  # of the draws in the tables of BPE models


@dataclass(frozen=True)
class Sentences:
    """Token ids of many sentences, one after another."""

    ids: np.ndarray  # flat
    offsets: np.ndarray  # (sentences + 1,) int64: the beginning of each, and the end

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """The beginnings of consecutive items of these lengths, and the end: (items + 1,) int64."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


# -- drawing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segmentations:
    """The alternative segmentations of all words. Those of word w are `first[w]` to `first[w + 1]`, the best one first."""

    first: np.ndarray  # (words + 1,) int64
    cumulative: np.ndarray  # (alternatives,) float64: w + the cumulative probability among the alternatives of w
    offsets: np.ndarray  # (alternatives + 1,) int64: the beginning of the ids of each, and the end
    ids: np.ndarray  # flat

    def draw(self, words: np.ndarray, offsets: np.ndarray, random: np.random.Generator, longest: int = 0) -> Sentences:
        """Sentences with a random segmentation of each word.

        Args:
            words: the numbers of the words, flat.
            offsets: the beginning of the words of each sentence, and the end.
            longest: a sentence with more tokens than this gets its best segmentation; 0: no limit.
        """
        ids, lengths = [], []
        for a, b in _runs(offsets, WORDS_AT_A_TIME):
            chosen = words[offsets[a] : offsets[b]].astype(np.int64)
            points = chosen + random.random(len(chosen))
            # the sum may round up to the next word
            drawn = np.minimum(np.searchsorted(self.cumulative, points, "right"), self.first[chosen + 1] - 1)
            bounds = offsets[a : b + 1] - offsets[a]
            total = self._lengths(drawn, bounds)
            if longest and (total > longest).any():
                best = np.repeat(total > longest, np.diff(bounds))
                drawn[best] = self.first[chosen[best]]
                total = self._lengths(drawn, bounds)
            ids.append(self._gather(drawn))
            lengths.append(total)
        empty = [np.empty(0, self.ids.dtype)]
        return Sentences(np.concatenate(ids or empty), offsets_of(np.concatenate(lengths or empty)))

    def _lengths(self, drawn: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Tokens of each sentence."""
        return np.diff(offsets_of(self.offsets[drawn + 1] - self.offsets[drawn])[bounds])

    def _gather(self, drawn: np.ndarray) -> np.ndarray:
        """The ids of alternatives, one after another."""
        starts = self.offsets[drawn]
        lengths = self.offsets[drawn + 1] - starts
        places = np.repeat(starts - offsets_of(lengths)[:-1], lengths)
        places += np.arange(len(places))
        taken: np.ndarray = self.ids[places]
        return taken


def _runs(offsets: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Ranges (first, end) of consecutive sentences of at most `size` words, or of one longer sentence."""
    start, sentences = 0, len(offsets) - 1
    while start < sentences:
        end = int(np.searchsorted(offsets, offsets[start] + size, "right")) - 1
        end = min(max(end, start + 1), sentences)
        yield start, end
        start = end


# -- making the tables -----------------------------------------------------------------------------------------------


class DistinctWords:
    """The distinct words of a text, numbered in the order of their first occurrence."""

    def __init__(self, tokenizer: Tokenizer, alpha: float, option: str = "sampling") -> None:
        """Args:
            alpha: see `Sampling`.
            option: the name of the option in messages.

        Raises:
            UsageError: not a SentencePiece model of type unigram or BPE, or its pieces may cross word boundaries, or
                `alpha` is out of range.
        """
        if isinstance(tokenizer, Marian) and tokenizer.table is None:
            tokenizer = tokenizer.sentencepiece
        if not isinstance(tokenizer, SentencePiece):
            raise UsageError(f"{option} needs a SentencePiece model, found a tokenizer of kind {tokenizer.kind!r}")
        texts, scores, types, model = tokenizer._pieces
        if model not in (sentencepiece_file.UNIGRAM, sentencepiece_file.BPE):
            raise UsageError(f"{option} needs a unigram or BPE model")
        self._bpe = model == sentencepiece_file.BPE
        if not (0 <= alpha <= 1 if self._bpe else 0 <= alpha < math.inf):
            bounds = "from 0 to 1 (the share of BPE merges left out)" if self._bpe else "of at least 0"
            raise UsageError(f"{option}: {alpha} is out of range, expected a number {bounds}")
        self._alpha, self._option = alpha, option
        self._texts = texts
        self._normal = {
            text: (score, id)
            for id, (text, score, kind) in enumerate(zip(texts, scores, types))
            if kind == sentencepiece_file.NORMAL
        }
        self._scores = {text: score for text, (score, _) in self._normal.items()}
        self._longest = max(map(len, self._normal), default=1)
        self._dtype = id_type(len(texts))
        self._atomic = np.array(types) != sentencepiece_file.NORMAL
        self._check_boundaries()
        # each character has a number, and so has each pair of adjacent characters inside a piece
        characters = {c: i for i, c in enumerate(sorted({c for text in texts for c in text}))}
        self._num_characters = len(characters)
        self._begins = np.array([characters[text[0]] for text in texts])
        self._ends = np.array([characters[text[-1]] for text in texts])
        neighbours = {characters[a] * len(characters) + characters[b] for t in self._normal for a, b in pairwise(t)}
        self._neighbours = np.array(sorted(neighbours | {-1}), np.int64)  # never empty
        self._numbers: dict[bytes, int] = {}

    def _check_boundaries(self) -> None:
        """Raise UsageError if a piece has a space inside, or if pieces have spaces at both ends."""
        before = after = False
        for text in self._normal:
            word = text.strip(_SPACE)
            before |= bool(word) and text.startswith(_SPACE)
            after |= bool(word) and text.endswith(_SPACE)  # treat_whitespace_as_suffix
            if _SPACE in word or (before and after):
                raise UsageError(
                    f"{self._option}: the pieces of this model may cross word boundaries ({text!r})",
                    hint="train the model with pieces that stay inside words (split_by_whitespace, the default)",
                )

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, sentences: Sentences) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the words of `sentences` (uint32, flat), and the number of words of each sentence (uint32).

        New words get new numbers. No sentence may be empty.
        """
        flat = sentences.ids.astype(np.int64)
        atomic = self._atomic[flat]
        pairs = self._ends[flat[:-1]] * self._num_characters + self._begins[flat[1:]]
        places = np.searchsorted(self._neighbours, pairs).clip(max=len(self._neighbours) - 1)
        cut = np.ones(len(flat) + 1, np.bool_)  # whether a word begins here
        cut[1:-1] = (self._neighbours[places] != pairs) | atomic[1:] | atomic[:-1]
        cut[sentences.offsets] = True
        counts = np.add.reduceat(cut[:-1], sentences.offsets[:-1], dtype=np.uint32)
        data, width = flat.astype(self._dtype).tobytes(), self._dtype.itemsize
        bounds = (np.flatnonzero(cut) * width).tolist()
        known = self._numbers
        numbers = [known.setdefault(data[a:b], len(known)) for a, b in pairwise(bounds)]
        return np.array(numbers, np.uint32), counts

    def tables(self, seed: int = 0, words_at_a_time: int = 4096) -> Iterator[dict[str, np.ndarray]]:
        """The arrays of `Segmentations`, in consecutive parts."""
        first, end = np.zeros(1, np.int64), np.zeros(1, np.int64)
        yield {"first": first, "offsets": end, "cumulative": np.empty(0), "ids": np.empty(0, self._dtype)}
        keys = list(self._numbers)
        for start in range(0, len(keys), words_at_a_time):
            sizes, cumulative, lengths, ids = [], list[float](), list[int](), list[int]()
            for word, key in enumerate(keys[start : start + words_at_a_time], start):
                weights = self._alternatives(np.frombuffer(key, self._dtype).tolist(), seed)
                sizes.append(len(weights))
                total, probability = math.fsum(weights.values()), 0.0
                for alternative, weight in weights.items():
                    probability += weight / total
                    cumulative.append(word + probability)
                    lengths.append(len(alternative))
                    ids += alternative
                cumulative[-1] = word + 1.0
            first, end = first[-1] + np.cumsum(sizes), end[-1] + np.cumsum(lengths)
            yield {
                "first": first,
                "offsets": end,
                "cumulative": np.array(cumulative),
                "ids": np.array(ids, self._dtype),
            }

    def _alternatives(self, best: list[int], seed: int) -> Mapping[tuple[int, ...], float]:
        """The segmentations of a word with their weights; `best`, its best one, is the first."""
        text = "".join([self._texts[id] for id in best])
        if len(text) == 1 or self._atomic[best[0]]:
            return {tuple(best): 1.0}
        if self._bpe:
            weights = self._draws(text, seed)
        else:
            weights = self._best(text)
        first = weights.pop(tuple(best), 0.0)
        if not first and not (self._bpe and weights):  # the rounding of scores can rank another segmentation first
            first = max(weights.values(), default=1.0)
        least = _LEAST * math.fsum([first, *weights.values()])
        return {tuple(best): first, **{ids: weight for ids, weight in weights.items() if weight > least}}

    def _best(self, text: str) -> dict[tuple[int, ...], float]:
        """The n best segmentations of a unigram model with their probabilities to the power of alpha; the best has 1."""
        best = n_best(text, self._normal, self._longest, MOST)
        top = best[0][0] if best else 0.0
        return {ids: math.exp(self._alpha * (score - top)) for score, ids in best}

    def _draws(self, text: str, seed: int) -> dict[tuple[int, ...], float]:
        """Segmentations drawn from a BPE model, and their counts."""
        random = Random(f"{seed} {text}")
        counts: Counter[tuple[int, ...]] = Counter()
        for _ in range(MOST):
            pieces = sampling.draw_bpe(list(text), self._scores, self._alpha, random)
            if all(piece in self._normal for piece in pieces):
                counts[tuple([self._normal[piece][1] for piece in pieces])] += 1
        return dict(counts)


def n_best(
    text: str, pieces: Mapping[str, tuple[float, int]], longest: int, size: int
) -> list[tuple[float, tuple[int, ...]]]:
    """The `size` best segmentations of `text`, best first, each with its score, the sum of the scores of its pieces.

    The result is exact (dynamic programming over the beginning of the last piece).

    Args:
        pieces: score and id of each.
        longest: characters of the longest piece.
    """
    # the best segmentations up to each place: cost, beginning of the last piece, rank among those up to that place
    ways: list[list[tuple[float, int, int]]] = [[(0.0, 0, 0)]]
    for end in range(1, len(text) + 1):
        found: list[tuple[float, int, int]] = []
        for start in range(max(0, end - longest), end):
            if (piece := pieces.get(text[start:end])) is not None:
                score = piece[0]
                found += [(way[0] - score, start, rank) for rank, way in enumerate(ways[start])]
        found.sort()
        ways.append(found[:size])
    out = []
    for way in ways[-1]:
        (cost, start, rank), end = way, len(text)
        ids = []
        while end:
            ids.append(pieces[text[start:end]][1])
            end = start
            _, start, rank = ways[end][rank]
        out.append((-cost, tuple(ids[::-1])))
    return out
