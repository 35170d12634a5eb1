"""Rows of tokens for an encoder, `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, one after another in flat arrays.

For a GPT-1 they are `start a extract` or `start a delimiter b extract` (Radford et al. 2018, "Improving language understanding by
generative pre-training"), with special tokens. For a GPT-2 they are `<eos> a` or `<eos> a <eos> b`, for a LLaMA `<s> a` or
`<s> a </s> b`. Departure: these have no mark at the end, so that transformers, which takes the last token that is not padding,
finds the same one.

Rows are joined from segments, each a slice of some flat array of pieces, for all rows at once; padding is added per batch.
Thus 100,000 rows of any lengths take five bytes per token.
Shapes: R rows, B rows of a batch, T longest of them, P tokens of all rows, N texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from nlptools.errors import BundleError
from nlptools.text.more_tokens import row_tokens
from nlptools.text.text_boundaries import is_open_at_start, of_encoder
from nlptools.text.tokenizer import Tokenizer

UNLIMITED = 1 << 30  # most tokens of a row where the model has no limit


@dataclass(frozen=True)
class Marks:
    """The special tokens of rows, and their places.

    Attributes:
        cls: the first token of a row; None: no token.
        sep: the token between segments; None: no token.
        pad: the token for padding, and the only one of a row that would be empty.
        unk: the token for a word without pieces.
        between: the number of `sep` between two segments.
        closes: whether `sep`, or `end`, also follows the last segment.
        end: the token at the end of a row; None: `sep`.
        causal: whether tokens see only those before them, so that the last one represents its row, the last piece its word,
            and the context of a text has to come before it.
        before_word: the text that is tokenized with a word of a sentence, before it.
    """

    cls: int | None
    sep: int | None
    pad: int
    unk: int
    between: int = 1
    closes: bool = True
    causal: bool = False
    before_word: str = ""
    end: int | None = None

    def count(self, segments: int) -> int:
        """The number of special tokens in a row with this number of segments."""
        return (self.cls is not None) + ((segments - 1) * self.between + self.closes) * (self.sep is not None)

    @property
    def with_end(self) -> Marks:
        """The same with a token at the end if `causal`: only that token sees the whole row."""
        return replace(self, closes=True) if self.causal else self


@dataclass(frozen=True)
class EncodedTexts:
    """N texts as pieces; text n is `ids[bounds[n]:bounds[n + 1]]`."""

    ids: np.ndarray  # (P,) int32
    bounds: np.ndarray  # (N + 1,) int64

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each text: (N,)."""
        return np.diff(self.bounds)


class InputBatch(NamedTuple):
    """The input of an encoder: rows padded on the right."""

    ids: np.ndarray  # (B, T) int64
    mask: np.ndarray  # (B, T) bool, True = real
    types: np.ndarray  # (B, T) int64, the number of the segment


@dataclass(frozen=True)
class EncoderRows:
    """R rows; row r is `ids[bounds[r]:bounds[r + 1]]`, and `types` has the segment of each token."""

    ids: np.ndarray  # (P,) int32
    types: np.ndarray  # (P,) uint8
    bounds: np.ndarray  # (R + 1,) int64

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row: (R,)."""
        return np.diff(self.bounds)

    def batch(self, rows: np.ndarray, pad: int) -> InputBatch:
        """The rows of these numbers (B,), padded with `pad` to their longest."""
        ids = padded(self.ids, self.bounds, rows, pad)
        types = padded(self.types, self.bounds, rows, 0)
        mask = np.arange(ids.shape[1]) < self.lengths[rows][:, None]
        return InputBatch(ids, mask, types)


@dataclass(frozen=True)
class EncoderSegment:
    """A segment of R rows: `ids[starts[r] : starts[r] + lengths[r]]` in row r."""

    ids: np.ndarray  # any flat array of pieces
    starts: np.ndarray  # (R,) int64
    lengths: np.ndarray  # (R,) int64
    type: int = 0


def marks_of(tokenizer: Tokenizer) -> Marks:
    """The special tokens of a tokenizer; if it has no [CLS] and [SEP], its begin and end tokens. A T5 has no begin token.

    Raises:
        BundleError: it lacks one of them.
    """
    vocab = tokenizer.vocab
    ids: dict[str, int | None] = dict.fromkeys(("cls", "sep", "pad", "unk"))
    between = 1
    if vocab is not None:
        ends = of_encoder(tokenizer)
        ids = {role: vocab.roles.get(role) for role in ids} | {"cls": ends.first, "sep": ends.last}
        between = len(ends.between)
    known = {role: id for role, id in ids.items() if id is not None}
    optional = {"cls"} if is_open_at_start(tokenizer) else set[str]()
    missing = [f"[{role.upper()}]" for role in ids if role not in {*known, *optional}]
    if missing:
        raise BundleError(
            f"the tokenizer has no {', '.join(missing)}",
            hint="the tokenizer of an encoder has [CLS], [SEP], [PAD] and [UNK]",
        )
    return Marks(known.get("cls"), known["sep"], pad=known["pad"], unk=known["unk"], between=between)


def marks_of_gpt(tokenizer: Tokenizer, eos: int, start: int | None, ours: bool = True) -> Marks:
    """The special tokens of rows for a GPT.

    A GPT-1 tokenizer has special tokens for rows, which are used. Otherwise a row begins with `start`, and the end-of-text
    token takes all other places.

    Args:
        start: the token before a text; None: there is none. In models of ours, the end-of-text token.
        ours: rows as described in the module. Otherwise rows as in transformers, which adds no other special tokens and
            represents a word by its first piece, as for an encoder.
    """
    unk = tokenizer.vocab.unk if tokenizer.vocab is not None else None
    unk = eos if unk is None else unk
    if not ours:
        return Marks(start, None, pad=eos, unk=unk, closes=False, before_word=" ")
    if (special := row_tokens(tokenizer.vocab)) is not None:
        first, between = special.start, special.delimiter
        return Marks(first, between, pad=eos, unk=unk, before_word=" ", causal=True, closes=True, end=special.extract)
    return Marks(start, eos, pad=eos, unk=unk, closes=False, before_word=" ", causal=True)


def encode_once(tokenizer: Tokenizer, texts: Sequence[str], threads: int = 1) -> tuple[EncodedTexts, np.ndarray]:
    """Each different text as pieces, in the order of appearance, and the number of each of the N texts among them."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    lists = tokenizer.encode_lines(list(numbers), threads)
    which = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
    return packed(lists), which


def packed(lists: Sequence[Sequence[int]]) -> EncodedTexts:
    """Lists of ids in one array."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    bounds = bounds_of(lengths)
    return EncodedTexts(np.fromiter(chain.from_iterable(lists), np.int32, int(bounds[-1])), bounds)


def join(marks: Marks, segments: Sequence[EncoderSegment]) -> tuple[EncoderRows, list[np.ndarray]]:
    """Rows `[CLS] segment [SEP] segment [SEP] ...`, and the place in its row where each segment begins: (R,) each.

    [CLS] has the type of the first segment, a [SEP] the type of the segment before it. No row is empty: see `Marks.pad`.
    """
    lengths: np.ndarray = np.add.reduce([segment.lengths for segment in segments]) + marks.count(len(segments))
    empty = np.flatnonzero(lengths == 0)
    lengths[empty] = 1
    bounds = bounds_of(lengths)
    ids = np.empty(bounds[-1], np.int32)
    types = np.empty(bounds[-1], np.uint8)
    if marks.cls is not None:
        ids[bounds[:-1]] = marks.cls
        types[bounds[:-1]] = segments[0].type
    begin = np.full(len(lengths), int(marks.cls is not None), np.int64)
    begins = []
    for number, segment in enumerate(segments, 1):
        begins.append(begin)
        places = bounds[:-1] + begin
        ids[ranges(places, segment.lengths)] = segment.ids[ranges(segment.starts, segment.lengths)]
        marked = (marks.between if number < len(segments) else int(marks.closes)) * int(marks.sep is not None)
        mark = marks.end if number == len(segments) and marks.end is not None else marks.sep
        for place in range(marked):
            ids[places + segment.lengths + place] = mark
        types[ranges(places, segment.lengths + marked)] = segment.type
        begin = begin + segment.lengths + marked
    ids[bounds[empty]], types[bounds[empty]] = marks.pad, segments[0].type
    return EncoderRows(ids, types, bounds), begins


def padded(values: np.ndarray, bounds: np.ndarray, rows: np.ndarray, fill: int) -> np.ndarray:
    """`values[bounds[r]:bounds[r + 1]]` of the given rows, padded on the right: (B, T) int64."""
    rows = np.asarray(rows, np.int64)
    lengths = bounds[rows + 1] - bounds[rows]
    out = np.full((len(rows), int(lengths.max(initial=1))), fill, np.int64)
    out[np.arange(out.shape[1]) < lengths[:, None]] = values[ranges(bounds[rows], lengths)]
    return out


def bounds_of(lengths: np.ndarray) -> np.ndarray:
    """The starts of N consecutive slices of these lengths, and the end of the last: (N + 1,) int64."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`starts[0], starts[0] + 1, ...` (`lengths[0]` of them), then those from `starts[1]`, and so on."""
    before = np.cumsum(lengths) - lengths
    places: np.ndarray = np.repeat(starts - before, lengths) + np.arange(int(np.sum(lengths)))
    return places
