"""N-gram language models with back-off: tables of log10 probabilities, looked up a corpus at a time.

Katz's scheme, as in ARPA files: the probability of a word comes from the longest n-gram in the table that ends with it, times
the back-off weights of the longer contexts. Interpolated models are written in the same form. Nothing here needs PyTorch.

The n-grams of one length are sorted by their words. The place of an n-gram in its table is its index; its key is the index of
its first n - 1 words, times the size of the vocabulary, plus its last word. So one sorted array of integers holds a level of
the tree of n-grams, and the children of a node are neighbors in it.
Shapes: V words of the vocabulary, G n-grams of one length, T tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Array, Floats, Longs
from nlptools.corpora.columns import Column, in_memory
from nlptools.environment import available_threads
from nlptools.errors import BundleError
from nlptools.files.prefetch import mapped
from nlptools.models.language.key_table import KeyTable

UNK, BOS, EOS = 0, 1, 2  # ids in a vocabulary of our own
SPECIAL = ("<unk>", "<s>", "</s>")
LONGEST = 100  # words of an n-gram

# tokens that are looked up at a time: in hash tables, and in sorted tables, which favours many
IN_CACHE, SORTED = 1 << 15, 1 << 19


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one length; the arrays are in memory, or `Column`s in files.

    Attributes:
        keys: (G,) int64, sorted: index of the first n - 1 words times V plus the last word; for n = 1 the words.
        log_probs: (G,) float32, log10.
        backoffs: (G,) float32, log10; 0 where the n-gram begins no longer one. None: the longest n-grams.
        hashed: many look-ups build a hash table in memory; False: never, for arrays in files.
    """

    keys: Any
    log_probs: Any
    backoffs: Any = None
    hashed: bool = True

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def table(self) -> KeyTable:
        """The places of keys, and their `log_probs`."""
        return KeyTable(self.keys, self.log_probs, self.hashed)


@dataclass(frozen=True, eq=False)
class Matches:
    """How a model matches the tokens of a text.

    Attributes:
        log_probs: (T,) float32, log10 of each token, given those before it; 0 for <s>.
        lengths: (T,) int8, words of the longest n-gram that ends with the token.
    """

    log_probs: Floats
    lengths: NDArray[np.int8]


@dataclass(frozen=True)
class NGramConfig:
    """Sizes of an n-gram model.

    Attributes:
        vocab_size: V, <s> included.
        order: words of the longest n-grams.
        bos: the id of <s>, which begins each sentence and is never predicted.
    """

    vocab_size: int
    order: int
    bos: int = BOS

    def __post_init__(self) -> None:
        """Raise BundleError for sizes that no model has."""
        sizes = (self.vocab_size, self.order, self.bos)
        whole = all(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
        if not (whole and 1 <= self.order <= LONGEST and 0 <= self.bos < self.vocab_size <= 1 << 31):
            raise BundleError(
                f"config.json: no n-gram model has order {self.order!r:.20}, {self.vocab_size!r:.20} words"
            )

    def least_weights(self) -> int:
        """A lower bound on the number of values in the tables."""
        return 2 * self.vocab_size


class NGrams:
    """An n-gram model.

    Args:
        config: its sizes.
        levels: tables of the n-grams of 1, 2, ... words; the first holds all words.
    """

    def __init__(self, config: NGramConfig, levels: Sequence[Level]) -> None:
        self.config = config
        self.levels = list(levels)

    @classmethod
    def from_arrays(cls, config: NGramConfig, arrays: Mapping[str, Array]) -> NGrams:
        """The model in the arrays that `arrays` has written. Raises BundleError if they are not such arrays."""
        levels: list[Level] = []
        for n in range(1, config.order + 1):
            keys, log_probs, backoffs = (arrays.get(f"{name}.{n}") for name in ("keys", "log_probs", "backoffs"))
            numbers = [log_probs] if n == config.order else [log_probs, backoffs]
            if keys is None or not _fits(keys, numbers, n, config.vocab_size, len(levels[-1]) if levels else 1):
                raise BundleError(f"model.safetensors: the table of {n}-grams does not fit the configuration")
            levels.append(Level(keys, cast(Floats, log_probs), backoffs))
        if len(arrays) != 3 * config.order - 1:
            raise BundleError("model.safetensors holds more than an n-gram model of this order")
        return cls(config, levels)

    def arrays(self) -> dict[str, Array]:
        """All tables, by name, for a file."""
        out: dict[str, Array] = {}
        for n, level in enumerate(self.levels, 1):
            out |= {f"keys.{n}": level.keys, f"log_probs.{n}": level.log_probs}
            if level.backoffs is not None:
                out[f"backoffs.{n}"] = level.backoffs
        return out

    def mapped(self) -> NGrams:
        """The model for look-ups: tables in files are mapped into memory, others stay."""
        if not any(isinstance(level.keys, Column) for level in self.levels):
            return self
        arrays = ((level.keys, level.log_probs, level.backoffs) for level in self.levels)
        levels = [Level(in_memory(a), in_memory(b), None if c is None else in_memory(c), False) for a, b, c in arrays]
        return NGrams(self.config, levels)

    @property
    def order(self) -> int:
        """Words of the longest n-grams."""
        return len(self.levels)

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.config.vocab_size

    def score(self, ids: Longs) -> Matches:
        """Look up a text.

        A long text is looked up in parts, by several threads.

        Args:
            ids: (T,) word ids; <s> begins a sentence, and nothing before it counts.
        """
        size = IN_CACHE if all(level.table.is_hashed for level in self.levels[1:]) else SORTED
        log_probs, lengths = np.empty(len(ids), np.float32), np.empty(len(ids), np.int8)

        def fill(start: int) -> None:
            lead = min(start, self.order - 1)  # words before the part, as contexts
            part = self._score(ids[start - lead : start + size])
            log_probs[start : start + size], lengths[start : start + size] = part.log_probs[lead:], part.lengths[lead:]

        starts = range(0, len(ids), size)
        deque(mapped(fill, starts, min(len(starts), available_threads())), maxlen=0)
        return Matches(log_probs, lengths)

    def _score(self, ids: Longs) -> Matches:
        log_probs = self.levels[0].log_probs.take(ids)
        lengths = np.ones(len(ids), np.int8)
        for n, (known, contexts, places, longer) in enumerate(self.walk(ids), 2):
            backoffs = self.levels[n - 2].backoffs
            assert backoffs is not None
            is_hit = places >= 0
            misses = np.flatnonzero(~is_hit)
            longer[misses] = log_probs.take(known.take(misses)) + backoffs.take(contexts.take(misses))
            log_probs[known] = longer
            lengths[known[is_hit]] = n
        log_probs[ids == self.config.bos] = 0
        return Matches(log_probs, lengths)

    def walk(self, ids: Longs) -> Iterator[tuple[Longs, Longs, Longs, Floats]]:
        """Look up the n-grams of 2, 3, ... words that end at the tokens of a text (T,), see `score`.

        Yields:
            the places of the tokens with a context in the table, the indices of the contexts, the indices of the n-grams, and
            their log10 probabilities; -1 and 0 for an n-gram that is not in the table.
        """
        known, index = (
            np.arange(len(ids)),
            ids.astype(np.int64),
        )  # the n-grams in the table: their last tokens, their indices
        for level in self.levels[1:]:
            longer = np.flatnonzero((known + 1 < len(ids)) & (ids.take(known + 1, mode="clip") != self.config.bos))
            known, contexts = known.take(longer) + 1, index.take(longer)
            places, log_probs = level.table.find(contexts * self.vocab_size + ids.take(known))
            yield known, contexts, places, log_probs
            is_hit = np.flatnonzero(places >= 0)
            known, index = known.take(is_hit), places.take(is_hit)

    def context(self, ids: Sequence[int]) -> list[int]:
        """The indices of the contexts that the table has among the last words of `ids`: of 1 word, of 2, ... `order` - 1."""
        contexts: list[int] = []
        for length in range(1, min(self.order - 1, len(ids)) + 1):
            index = ids[-length]
            for level, word in zip(self.levels[1:], ids[len(ids) - length + 1 :], strict=False):
                index = int(level.table.find(np.array([index * self.vocab_size + word]))[0][0])
                if index < 0:
                    return contexts
            contexts.append(index)
        return contexts

    def next_words(self, ids: Sequence[int]) -> Floats:
        """The distribution of the word after `ids`: (V,) log10 probabilities; -inf for <s>."""
        out: Floats = self.levels[0].log_probs.copy()
        V = self.vocab_size
        for level, below, index in zip(self.levels[1:], self.levels, self.context(ids), strict=False):
            assert below.backoffs is not None
            out += below.backoffs[index]
            start, end = np.searchsorted(level.keys, [index * V, (index + 1) * V])
            out[level.keys[start:end] - index * V] = level.log_probs[start:end]
        out[self.config.bos] = -np.inf
        return out


def _fits(keys: Array, numbers: Sequence[Array | None], n: int, V: int, contexts: int) -> bool:
    """Whether arrays are the table of n-grams above one of `contexts` shorter ones."""
    return (
        keys.dtype == np.int64
        and keys.ndim == 1
        and bool((np.diff(keys) > 0).all())
        and (len(keys) == 0 or (int(keys[0]) >= 0 and int(keys[-1]) < contexts * V))
        and (n > 1 or len(keys) == V)
        and all(a is not None and a.dtype == np.float32 and a.shape == keys.shape for a in numbers)
        and not any(bool(np.isnan(a).any() or (a == np.inf).any()) for a in numbers if a is not None)
    )
