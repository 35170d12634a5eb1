"""WordPiece for long texts, with a cache: each distinct word is tokenized once.

In BERT's tokenizer, the tokens between two spaces do not depend on their context: the normalizer works character by
character, words end at spaces, and pieces stay inside words. The ids of a text are therefore the concatenated ids of its
words, which a table holds. The result is the same as with the tokenizer, several times as fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from nlptools.text.flat_ids import encode_flat, flat_ids
from nlptools.text.huggingface import HuggingFace
from nlptools.text.tokenizer import Tokenizer

MOST_CHARACTERS = 1 << 25  # of all cached words
_PER_WORD = 50  # memory of a word besides its characters, in characters
_TOGETHER = 64  # new words that are encoded as one text
# Split off before the lookup, as the tokenizer does later: this leaves far fewer distinct words.
_PUNCTUATION = ",.\"():;'!?-/"
_FEW_THREADS = 3  # up to this many tokenizer threads are slower than one thread with a cache


def encoder(tokenizer: Tokenizer, threads: int = 1) -> Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]:
    """A function from lines to all their ids, flat, and the length of each line; with a cache if that is faster."""
    if threads <= _FEW_THREADS and fits(tokenizer):
        return WordCache(tokenizer).encode_lines
    return lambda lines: encode_flat(tokenizer, lines, threads)


def fits(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer splits text at every space, and tokenizes words independently of their context."""
    if not isinstance(tokenizer, HuggingFace) or tokenizer.lowercase:  # str.lower of a sigma depends on its context
        return False
    if tokenizer.components.model != "WordPiece":  # before the JSON, which may have megabytes
        return False
    source = json.loads(tokenizer.source)
    normalizer, pre_tokenizer = source.get("normalizer"), source.get("pre_tokenizer")
    added = source.get("added_tokens") or []
    return bool(
        (normalizer is None or normalizer.get("type") == "BertNormalizer")
        and pre_tokenizer is not None
        and pre_tokenizer.get("type") == "BertPreTokenizer"
        and not any(token["lstrip"] or token["rstrip"] or token["normalized"] for token in added)
        and not any(any(c.isspace() for c in token["content"]) for token in added)
    )


class WordCache:
    """Encodes lines with a tokenizer that `fits`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert isinstance(tokenizer, HuggingFace)
        self._tokenizer = tokenizer
        # a special token that separates new words, which are encoded as one text
        self._separator, self._separator_id = "", -1
        vocab = tokenizer.vocab
        if vocab is not None and vocab.sep is not None:
            self._separator, self._separator_id = vocab.token(vocab.sep), vocab.sep
        added = "".join(token["content"] for token in json.loads(tokenizer.source).get("added_tokens") or [])
        self._marks = [mark for mark in _PUNCTUATION if mark not in added]
        self._clear()

    def encode_lines(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all lines, flat (int32), and the number of ids of each line (int64)."""
        if not lines:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        if self._characters > MOST_CHARACTERS:
            self._clear()
        text = " \n ".join(lines)
        if text.count("\n") >= len(lines):
            text = " \n ".join([line.replace("\n", " ") for line in lines])
        for mark in self._marks:
            if mark in text:
                text = text.replace(mark, f" {mark} ")
        words = text.split(" ")
        numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))
        self._encode_new()
        sizes = self._offsets[numbers + 1] - self._offsets[numbers]
        ends = np.cumsum(sizes)
        places = np.repeat(self._offsets[numbers] - ends + sizes, sizes)
        places += np.arange(len(places))
        breaks = np.flatnonzero(numbers == self._numbers["\n"])  # which has no ids
        return self._ids[places], np.diff(ends[breaks], prepend=0, append=ends[-1])

    def _clear(self) -> None:
        self._numbers = _Numbers()
        self._numbers["\n"]  # enters it
        self._offsets, self._ids = np.zeros(1, np.int64), np.empty(0, np.int32)
        self._characters = 0

    def _encode_new(self) -> None:
        """Add new words to the table: the ids of word w are `_ids[_offsets[w] : _offsets[w + 1]]`."""
        new = self._numbers.new
        if not new:
            return
        ids, sizes = self._together(new) or flat_ids(self._tokenizer.encode_lines(new), np.int32)
        self._offsets = np.concatenate([self._offsets, self._offsets[-1] + np.cumsum(sizes)])
        self._ids = np.concatenate([self._ids, ids])
        self._characters += sum(map(len, new)) + _PER_WORD * len(new)
        self._numbers.new = []

    def _together(self, words: list[str]) -> tuple[np.ndarray, np.ndarray] | None:
        """The ids of all words and the number of ids of each; None if the separators are ambiguous."""
        mark = self._separator
        if not mark or any(mark in word for word in words):
            return None
        mark = f" {mark} "
        texts = [mark.join(words[i : i + _TOGETHER]) + mark for i in range(0, len(words), _TOGETHER)]
        ids, _ = flat_ids(self._tokenizer.encode_lines(texts), np.int32)
        ends = np.flatnonzero(ids == self._separator_id)
        if len(ends) != len(words):
            return None
        return ids[ids != self._separator_id], np.diff(ends, prepend=-1) - 1


class _Numbers(dict[str, int]):
    """Numbers of words, assigned at the first lookup."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        self.new.append(word)
        number = self[word] = len(self)
        return number
