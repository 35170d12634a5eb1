"""WordPiece of much text: every distinct word is cut once.

What BERT's tokenizer makes of the text between two spaces does not depend on what stands around it: its normalizer goes
character by character, words end at spaces, and pieces stay inside words. So the ids of a text are those of its words one
after another, which are looked up. The ids are those of the tokenizer itself, at several times its speed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from nlptools.text.flat_ids import flat_ids
from nlptools.text.huggingface import HuggingFace
from nlptools.text.tokenizer import Tokenizer

_MOST_CHARACTERS = 1 << 25  # of the words that are kept
_PER_WORD = 50  # what a word costs besides its characters
_TOGETHER = 64  # words in a text
# What is set apart before words are looked up, as the tokenizer does later anyway: far fewer words are different then.
_PUNCTUATION = ",.\"():;'!?-/"


def fits(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer is one that cuts text at every space and looks no further."""
    if not isinstance(tokenizer, HuggingFace) or tokenizer.lowercase:  # str.lower looks at what stands around a sigma
        return False
    said = json.loads(tokenizer._source)
    normalizer, before = said.get("normalizer"), said.get("pre_tokenizer")
    added = said.get("added_tokens") or []
    return bool(
        said["model"].get("type") == "WordPiece"
        and (normalizer is None or normalizer.get("type") == "BertNormalizer")
        and before is not None
        and before.get("type") == "BertPreTokenizer"
        and not any(token["lstrip"] or token["rstrip"] or token["normalized"] for token in added)
        and not any(any(c.isspace() for c in token["content"]) for token in added)
    )


class WordCache:
    """Encodes lines with a tokenizer that `fits`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        assert isinstance(tokenizer, HuggingFace)
        assert fits(tokenizer)
        self._tokenizer = tokenizer
        # a special token, to stand between new words: many are encoded as one text
        self._separator, self._separator_id = "", -1
        vocab = tokenizer.vocab
        if vocab is not None and vocab.sep is not None:
            self._separator, self._separator_id = vocab.token(vocab.sep), vocab.sep
        added = "".join(token["content"] for token in json.loads(tokenizer._source).get("added_tokens") or [])
        self._marks = [mark for mark in _PUNCTUATION if mark not in added]
        self._clear()

    def encode_lines(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all lines, flat (int32), and how many each has (int64)."""
        if not lines:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        if self._characters > _MOST_CHARACTERS:
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
        """Enter what was not known into the table: the ids of word w are `_offsets[w]` to `_offsets[w + 1]`."""
        new = self._numbers.new
        if not new:
            return
        ids, sizes = self._together(new) or flat_ids(self._tokenizer.encode_lines(new), np.int32)
        self._offsets = np.concatenate([self._offsets, self._offsets[-1] + np.cumsum(sizes)])
        self._ids = np.concatenate([self._ids, ids])
        self._characters += sum(map(len, new)) + _PER_WORD * len(new)
        self._numbers.new = []

    def _together(self, words: list[str]) -> tuple[np.ndarray, np.ndarray] | None:
        """The ids of all words and how many each has; None where the separators do not tell them apart."""
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
    """Words by number, in the order in which they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        self.new.append(word)
        number = self[word] = len(self)
        return number
