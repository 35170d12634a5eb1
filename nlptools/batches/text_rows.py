"""Texts as input of a text classifier: rows of words without special tokens, or bags of words and n-grams.

Bags as in Joulin et al. 2016, "Bag of tricks for efficient text classification" (arXiv:1607.01759): n-grams of words, and
optionally of characters, are hashed into a number of buckets.
Departures: only buckets of the training texts have a row; other n-grams are ignored instead of adding random vectors;
n-grams of words are hashed from the numbers of the words.
Shapes: N texts, P words of all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nlptools.batches.encoder_rows import EncodedTexts, EncoderRows, bounds_of, packed, ranges
from nlptools.batches.features import Features, shortened
from nlptools.text.tokenizer import Tokenizer
from nlptools.vectors.subwords import ngram_rows

_PRIME = np.uint64(116049371)


@dataclass(frozen=True)
class TextNGrams:
    """The n-grams of a text, and their rows.

    Attributes:
        longest: maximum number of words of an n-gram.
        characters: shortest and longest n-gram of characters, or None.
        buckets: number of buckets.
        first: the row of the first bucket; the rows before are words.
        known: (U,) int64, ascending: the buckets that have a row.
    """

    longest: int
    characters: tuple[int, int] | None
    buckets: int
    first: int
    known: np.ndarray

    def rows(self, buckets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(P,) buckets -> (P,) rows, and whether each bucket has a row."""
        if not len(self.known):
            return np.zeros(len(buckets), np.int64), np.zeros(len(buckets), bool)
        places = np.minimum(np.searchsorted(self.known, buckets), len(self.known) - 1)
        return places + self.first, self.known[places] == buckets


@dataclass(frozen=True)
class Cut:
    """Lines, and the words of each."""

    lines: Sequence[str]
    words: Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextEncoding:
    """How texts become rows.

    Attributes:
        unk: the only token of an empty text.
        max_length: most words of an example; 0: no limit.
        ngrams: of a bag; None: rows are the words in their order.
        cut: texts that are already split into words.
    """

    tokenizer: Tokenizer
    unk: int
    max_length: int = 0
    ngrams: TextNGrams | None = None
    threads: int = 1
    cut: Cut | None = None

    def rows(self, texts: Sequence[Sequence[str]]) -> Features:
        """One row for each element, which is one text or two; all have as many."""
        count = len(texts[0]) if texts else 1
        words, pieces = self._pieces(texts)
        whole = pieces.lengths
        kept = shortened(whole.reshape(-1, count), self.max_length).ravel() if self.max_length else whole
        ids, lengths = pieces.ids[ranges(pieces.bounds[:-1], kept)].astype(np.int64), kept
        if self.ngrams is None:
            empty = np.flatnonzero(lengths == 0)
            ids = np.insert(ids, bounds_of(lengths)[empty], self.unk)
            lengths = np.maximum(lengths, 1)
        else:
            buckets, owners = self._buckets(ids, lengths, words)
            rows, there = self.ngrams.rows(buckets)
            ids, lengths = merged(ids, lengths, rows[there], owners[there])
        types = np.repeat(np.arange(len(lengths)) % count, lengths).astype(np.uint8)
        all_rows = EncoderRows(ids.astype(np.int32), types, bounds_of(lengths)[::count])
        return Features(all_rows, cut=int((kept < whole).reshape(-1, count).any(1).sum()))

    def buckets(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """The buckets of all n-grams of texts, ascending."""
        assert self.ngrams is not None
        words, pieces = self._pieces(texts)
        buckets: np.ndarray = np.unique(self._buckets(pieces.ids.astype(np.int64), pieces.lengths, words)[0])
        return buckets

    def _pieces(self, texts: Sequence[Sequence[str]]) -> tuple[Sequence[Sequence[str]] | None, EncodedTexts]:
        """The words of all texts, if there are n-grams of characters, and the ids."""
        lines = [text for example in texts for text in example]
        characters = self.ngrams is not None and self.ngrams.characters is not None
        if self.cut is not None and self.cut.lines == lines:
            assert self.tokenizer.vocab is not None
            words, ids, unk = self.cut.words, self.tokenizer.vocab.ids, self.unk
            return words if characters else None, packed([[ids.get(word, unk) for word in row] for row in words])
        tokens = self.tokenizer.tokens_lines(lines, self.threads) if characters else None
        return tokens, packed(self.tokenizer.encode_lines(lines, self.threads))

    def _buckets(
        self, ids: np.ndarray, lengths: np.ndarray, words: Sequence[Sequence[str]] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The bucket and the text of each n-gram; the n-grams of a text are sorted by length."""
        assert self.ngrams is not None
        parts = list(word_buckets(ids, lengths, self.ngrams.longest, self.ngrams.buckets))
        if words is not None:
            assert self.ngrams.characters is not None
            kept = [row[:length] for row, length in zip(words, lengths, strict=True)]
            parts.append(character_buckets(kept, *self.ngrams.characters, self.ngrams.buckets))
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def word_buckets(
    ids: np.ndarray, lengths: np.ndarray, longest: int, buckets: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(P,) words of texts end to end -> for each length from 2 on: the bucket and the text of each n-gram."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    mixed = ids.astype(np.uint64)
    buckets_and_texts, state = [], mixed.copy()
    for n in range(2, longest + 1):
        end = max(0, len(ids) - n + 1)
        state = state[:end] * _PRIME + mixed[n - 1 :][:end]  # modulo 2^64
        inside = owners[:end] == owners[n - 1 :][:end]
        buckets_and_texts.append(((state[inside] % np.uint64(buckets)).astype(np.int64), owners[:end][inside]))
    return buckets_and_texts


def character_buckets(
    words: Sequence[Sequence[str]], shortest: int, longest: int, buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """The bucket and the text of each n-gram of the characters of each word."""
    numbers: dict[str, int] = {}
    which = np.fromiter((numbers.setdefault(w, len(numbers)) for w in chain.from_iterable(words)), np.int64)
    owners = np.repeat(np.arange(len(words)), [len(row) for row in words])
    places, rows = ngram_rows(list(numbers), shortest, longest, buckets)
    counts = np.bincount(places, minlength=len(numbers))
    starts = bounds_of(counts)[:-1]
    return rows[ranges(starts[which], counts[which])], np.repeat(owners, counts[which])


def merged(ids: np.ndarray, lengths: np.ndarray, rows: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P,) words of texts, and rows of the texts `owners`, in any order -> the ids of each text, and their number."""
    all_rows = np.concatenate([ids, rows])
    all_owners = np.concatenate([np.repeat(np.arange(len(lengths)), lengths), owners])
    order = np.argsort(all_owners, kind="stable")
    return all_rows[order], lengths + np.bincount(owners, minlength=len(lengths))
