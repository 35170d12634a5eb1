"""Words of sentences as input of a tagger: the number and the spelling of each different word, and rows of their places.

The rows of `Features` number the different words of the examples; its tables hold, for each of them, its number in the
vocabulary and its characters. A batch has the words that occur in it once, so that what the model computes for a word alone
is computed once.
Shapes: W words, F different words of all examples, U different words of a batch, L longest of them in characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np

from nlptools import messages
from nlptools.batches.encoder_rows import EncodedTexts, Marks, bounds_of, padded
from nlptools.batches.features import FeatureBatch, FeatureBatches, Features
from nlptools.text.spelling import MOST_LETTERS, PAD, numbered, spelled
from nlptools.text.tokenizer import Tokenizer

MAX_LENGTH = 512  # words of a row, unless a limit is given


@dataclass(frozen=True)
class WordEncoding:
    """How sentences of words become rows; takes the place of an `Encoding`.

    Attributes:
        tokenizer: has the vocabulary, with an unknown word, and whether words are lower-cased before they are looked up.
        alphabet: the known characters; None: words are not spelled.
        max_length: most words of a row.
    """

    tokenizer: Tokenizer
    alphabet: str | None
    max_length: int = MAX_LENGTH
    threads: int = 1

    marks: ClassVar[Marks] = Marks(None, None, pad=0, unk=0)
    types: ClassVar[int] = 1

    def pieces(self, words: Sequence[str]) -> tuple[EncodedTexts, np.ndarray]:
        """Each different word as one piece, its number among them; and the number of each of the words: (W,)."""
        numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
        which = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
        return EncodedTexts(np.arange(len(numbers), dtype=np.int32), np.arange(len(numbers) + 1)), which

    def tables(self, words: Iterable[str]) -> dict[str, np.ndarray]:
        """Of each different word, in the order of `pieces`: its number in the vocabulary, `words` (F,), and its characters,
        `letters` from `bounds[f]` to `bounds[f + 1]`. Warns of words that are longer than `MOST_LETTERS`.
        """
        different = list(dict.fromkeys(words))
        spells = self.alphabet is not None
        letters_of = numbered(self.alphabet or "")
        spellings = [spelled(word, letters_of) if spells else [] for word in different]
        bounds = bounds_of(np.fromiter(map(len, spellings), np.int64, len(spellings)))
        letters = np.fromiter(chain.from_iterable(spellings), np.int32, int(bounds[-1]))
        long = sum(len(word) > MOST_LETTERS for word in different) if spells else 0
        if long:
            what = f"longer than {MOST_LETTERS} characters, the model does not see those in the middle"
            messages.warn(f"{messages.counted(long, 'word is', 'words are')} {what}", kind="long words")
        return {"words": self.numbers(different), "letters": letters, "bounds": bounds}

    def numbers(self, words: Sequence[str]) -> np.ndarray:
        """The number of each word in the vocabulary (W,), or of the unknown word. In a vocabulary with capitals, a word that is
        missing has the number of the lower-case word.
        """
        vocab = self.tokenizer.vocab
        assert vocab is not None and vocab.unk is not None
        ids, unk, lowered = vocab.ids, vocab.unk, [word.lower() for word in words]
        found = [ids.get(word, unk) for word in lowered]
        if not self.tokenizer.lowercase:
            found = [ids.get(word, number) for word, number in zip(words, found, strict=True)]
        return np.array([unk if number == vocab.pad else number for number in found], np.int32)


class SpelledWords(NamedTuple):
    """The arguments of `models.tasks.word_tagger.WordTagger`."""

    words: np.ndarray  # (U,) int64
    letters: np.ndarray  # (U, L) int64
    places: np.ndarray  # (B, T) int64
    mask: np.ndarray  # (B, T) bool


def word_input(features: Features, rows: np.ndarray) -> SpelledWords:
    """Some rows of features with `WordEncoding.tables`."""
    batch = features.rows.batch(rows, 0)
    different, which = np.unique(batch.ids[batch.mask], return_inverse=True)
    places = np.zeros_like(batch.ids)
    places[batch.mask] = which.reshape(-1)
    tables = features.tables
    letters = padded(tables["letters"], tables["bounds"], different, PAD)
    return SpelledWords(tables["words"][different].astype(np.int64), letters, places, batch.mask)


@dataclass(frozen=True)
class WordBatch(FeatureBatch):
    """A batch in which `ids` are places among its different words.

    Attributes:
        words: (U,) the number of each in the vocabulary.
        letters: (U, L) the ids of the characters of each.
    """

    words: np.ndarray
    letters: np.ndarray

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arguments of a tagger, see `WordInput`."""
        return self.words, self.letters, self.ids, self.mask


class WordBatches(FeatureBatches):
    """See `FeatureBatches`; the batches are `WordBatch`es."""

    def _batch(self, plan: list[np.ndarray], position: int, mine: slice) -> WordBatch:
        batch = super()._batch(plan, position, mine)
        words, letters, places, mask = word_input(self.features, batch.rows)
        return WordBatch(batch.rows, places, mask, batch.types, batch.targets, batch.weight, words, letters)
