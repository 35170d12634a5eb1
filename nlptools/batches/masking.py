"""Masking of tokens for a model to predict, drawn anew for each batch and never stored.

Single tokens as in BERT (Devlin et al. 2019, arXiv:1810.04805): of 15 %, 80 % become [MASK], 10 % a random token, and 10 %
stay. Whole words as in its later releases. Spans as in SpanBERT (Joshi et al. 2020, arXiv:1907.10529): runs of
words, lengths geometric with p = 0.2 up to 10, all tokens of a span treated alike.

Departures: random tokens are never special or unused ones; [UNK] can be masked, as in BERT, other special tokens cannot. The
rate is a share of the maskable tokens, without special tokens. A word or span that would exceed the share is
taken with the probability that makes the expected share right. The whole sequence is cut into spans and some of them are
drawn, so that they never overlap; the last one of a sequence is the rest of it.

Every draw is a hash of a salt and a number for the position, so that the same position can get the same draw in any
batch. Shapes: B rows, T positions of a row, M hidden positions, V vocabulary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nlptools.arrays import places_in_rows
from nlptools.errors import BundleError, UsageError
from nlptools.text.huggingface import HuggingFace
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer

UNITS = ("token", "word", "span")
SPAN_STOPS, LONGEST_SPAN = 0.2, 10  # probability that a span ends after a word; most words
_UNUSED = re.compile(r"\[unused\d+\]|<_?unused_?\d+>|<no token \d+>|<\|?reserved_\w*\d+\|?>|madeupword\d+")
_SPACE_MARKS = ("\u2581", "\u0120")  # before the first piece of a word: SentencePiece, byte-level BPE
_NORMAL, _BYTE = 1, 6  # types of SentencePiece


@dataclass(frozen=True)
class Masking:
    """The share of masked positions, their replacements, and the unit of masking.

    Raises:
        UsageError: a share outside its range, or another unit than "token", "word" (whole words), "span".
    """

    rate: float = 0.15  # of the tokens of a sequence; at least one is masked
    mask_share: float = 0.8  # share of the masked positions that become [MASK]
    random_share: float = 0.1  # share that become a random token
    unit: str = "token"

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UsageError(f"mask rate {self.rate} is out of range, expected a number between 0 and 1")
        if self.mask_share < 0 or self.random_share < 0 or self.mask_share + self.random_share > 1:
            raise UsageError("the shares of masks and of random tokens: expected at least 0, and at most 1 together")
        if self.unit not in UNITS:
            raise UsageError(f"mask unit {self.unit!r}, expected one of {', '.join(UNITS)}")


@dataclass(frozen=True)
class MaskingVocabulary:
    """What masking and planning sequences need of a tokenizer's vocabulary."""

    pad: int
    cls: int
    sep: int
    mask: int
    special: np.ndarray  # (V,) bool: never masked
    replacements: np.ndarray  # (R,) int64: the tokens to replace with at random
    begins: np.ndarray  # (V,) bool: begins a word

    def __len__(self) -> int:
        return len(self.special)


def vocabulary(tokenizer: Tokenizer) -> MaskingVocabulary:
    """The `MaskingVocabulary` of the tokenizer of an encoder.

    Raises:
        BundleError: there is no [PAD], [CLS], [SEP] or [MASK], or nothing but special tokens.
    """
    vocab = tokenizer.vocab
    roles = {} if vocab is None else vocab.roles
    missing = ", ".join(f"[{role.upper()}]" for role in ("pad", "cls", "sep", "mask") if role not in roles)
    if vocab is None or missing:
        raise BundleError(
            f"the tokenizer has no {missing}, which the training of an encoder needs",
            hint="build-vocab --kind wordpiece makes one with them",
        )
    special = np.zeros(len(vocab), np.bool_)
    special[sorted(vocab.marks)] = True
    special[_added(tokenizer)] = True
    unused = np.array([_UNUSED.fullmatch(token) is not None for token in vocab.tokens], np.bool_)
    if vocab.unk is not None:
        unused[vocab.unk] = True
        special[vocab.unk] = False
    replacements = np.flatnonzero(~special & ~unused)
    if not len(replacements):
        raise BundleError("the tokenizer has nothing but special tokens")
    return MaskingVocabulary(
        pad=roles["pad"],
        cls=roles["cls"],
        sep=roles["sep"],
        mask=roles["mask"],
        special=special,
        replacements=replacements,
        begins=_begins(vocab.tokens) | special,
    )


def _added(tokenizer: Tokenizer) -> list[int]:
    """Ids that never occur in tokenized text: special tokens besides those with a role."""
    if isinstance(tokenizer, HuggingFace):
        added = tokenizer._tokenizer.get_added_tokens_decoder()
        return [id for id, token in added.items() if token.special]
    if isinstance(tokenizer, SentencePiece):
        return [id for id, kind in enumerate(tokenizer._pieces.types) if kind not in (_NORMAL, _BYTE)]
    return []


def _begins(tokens: list[str]) -> np.ndarray:
    """Which tokens begin a word: by the mark of those that do not (WordPiece), or of those that do, whichever is more
    frequent in the vocabulary; without such marks, every token is a word."""
    inner = np.array([token.startswith("##") and len(token) > 2 for token in tokens], np.bool_)
    spaced = [np.array([token.startswith(mark) for token in tokens], np.bool_) for mark in _SPACE_MARKS]
    most = max(spaced, key=np.count_nonzero)
    if not inner.any() and not most.any():
        return np.ones(len(tokens), np.bool_)
    return ~inner if np.count_nonzero(inner) >= np.count_nonzero(most) else most


def hide(
    ids: np.ndarray,
    sequence: np.ndarray,
    vocab: MaskingVocabulary,
    masking: Masking,
    *,
    salt: int,
    numbers: np.ndarray | None = None,
    begins: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mask some tokens.

    Args:
        ids: (B*T,) int64.
        sequence: (B*T,) int64, ascending: the sequence of each position, from 0; padding: any number.
        salt: a different salt gives different draws.
        numbers: (B*T,) int64: the number of each position for its draw; None: its index.
        begins: (B*T,) bool: positions where a word begins, whatever the token.

    Returns:
        ids (B*T,) with masks; (M,) ascending indexes of the masked positions; (M,) their original tokens.
    """
    numbers = np.arange(len(ids)) if numbers is None else numbers
    places = np.flatnonzero(~vocab.special[ids])
    owner = sequence[places]
    draw = _Draws(salt, numbers[places])
    count = np.bincount(owner, minlength=int(owner[-1]) + 1 if len(owner) else 0)
    budget = np.minimum(np.maximum(np.rint(masking.rate * count).astype(np.int64), 1), count)
    if masking.unit == "token":
        chosen, treatment = _singles(owner, count, budget, draw), draw.uniform(2)
    else:
        word = vocab.begins[ids[places]]
        if begins is not None:
            word |= begins[places]
        word |= np.diff(places, prepend=-2) != 1  # after a special token
        chosen, treatment = _units(owner, budget, word, draw, masking.unit == "span")
    hidden = places[chosen]
    targets = ids[hidden]
    treatment = treatment[chosen]
    out = ids.copy()
    masked = treatment < masking.mask_share
    out[hidden[masked]] = vocab.mask
    replaced = ~masked & (treatment < masking.mask_share + masking.random_share)
    lots = draw.uniform(3)[chosen][replaced]
    out[hidden[replaced]] = vocab.replacements[(lots * len(vocab.replacements)).astype(np.int64)]
    return out, hidden, targets


def _singles(owner: np.ndarray, count: np.ndarray, budget: np.ndarray, draw: _Draws) -> np.ndarray:
    """Indexes, ascending, of random positions of each sequence, as many as its budget."""
    order = np.argsort(owner + draw.uniform(0))  # by sequence, random within
    rank = places_in_rows(count)
    return np.sort(order[rank < np.repeat(budget, count)])


def _units(
    owner: np.ndarray, budget: np.ndarray, word: np.ndarray, draw: _Draws, spans: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Indexes, ascending, of the positions in the drawn words or spans; and, for all positions, the draw of their
    treatment: one for each span, or each position.

    Args:
        owner, word: the sequence of each position, and whether a word begins there.
        budget: positions to mask in each sequence.
    """
    begins = _spans(owner, word, draw) if spans else word
    heads = np.flatnonzero(begins)
    unit = np.cumsum(begins) - 1  # of each position
    sizes, owners = np.diff(heads, append=len(owner)), owner[heads]
    order = np.argsort(owners + draw.uniform(0)[heads])
    sizes_there, owners_there = sizes[order], owners[order]
    reached = np.cumsum(sizes_there) - sizes_there
    first = np.diff(owners_there, prepend=-1) != 0
    before = reached - np.maximum.accumulate(np.where(first, reached, 0))
    room = budget[owners_there] - before
    taken = draw.uniform(1)[heads][order] * sizes_there < room
    chosen = np.zeros(len(heads), np.bool_)
    chosen[order] = taken
    # at least one word: the first word of the unit drawn first
    least = np.zeros(len(heads), np.bool_)
    least[order[first & ~taken]] = True
    words = np.cumsum(word)
    head_word = least[unit] & (words == words[heads][unit])
    treatment = draw.uniform(2)
    return np.flatnonzero(chosen[unit] | head_word), treatment[heads][unit] if spans else treatment


def _spans(owner: np.ndarray, word: np.ndarray, draw: _Draws) -> np.ndarray:
    """Which words begin a span."""
    heads = np.flatnonzero(word)
    stops = draw.uniform(4)[heads] < SPAN_STOPS
    stops |= np.diff(owner[heads], prepend=-1) != 0
    places = np.arange(len(heads))
    since = places - np.maximum.accumulate(np.where(stops, places, 0))
    stops |= since % LONGEST_SPAN == 0
    begins = np.zeros(len(owner), np.bool_)
    begins[heads[stops]] = True
    return begins


class _Draws:
    """Numbers in [0, 1), a function of a salt, a stream and the number of a position (splitmix64, Steele 2014)."""

    def __init__(self, salt: int, numbers: np.ndarray) -> None:
        self._salt = salt
        self._numbers = numbers.astype(np.uint64) * np.uint64(8)  # room for 8 streams

    def uniform(self, stream: int) -> np.ndarray:
        """(N,) float64."""
        x = self._numbers + np.uint64(stream)
        x *= np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64(self._salt & 0xFFFFFFFFFFFFFFFF)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x ^= x >> np.uint64(shift)
            x *= np.uint64(factor)
        x ^= x >> np.uint64(31)
        uniform: np.ndarray = (x >> np.uint64(11)) * 2.0**-53
        return uniform
