"""Features of the tasks `tag` and `roles`: sentences of words as rows of tokens, and predictions per token back to words.

Each word is tokenized by itself, so that the words of the file are kept; its first piece represents it (Devlin
et al. 2019, arXiv:1810.04805, section 5.3). A sentence that is longer than a row becomes several overlapping rows that
never cut a word, and the prediction for a word comes from the row in which it has most context, so no word is ever lost. A
word without pieces (a lone control character) becomes the unknown token; a word of more pieces than fit in a row is cut.

Semantic roles: `[CLS] sentence [SEP] predicate [SEP]` (Shi & Lin 2019, arXiv:1904.05255). Every row of a long sentence has
the predicate as its second segment; type 1 instead of 0 marks the pieces of the predicate in the sentence, which tells
several equal words apart, where Shi & Lin add an embedding. So the encoder needs no further weights, and transformers gives
the same logits for the same ids and types.
In a causal model (GPT), the last piece represents its word and the predicate comes first: `<eos> predicate <eos> sentence`.
It has no types, so that several equal words cannot be told apart.
Shapes: N sentences, W words of all sentences, R rows, P tokens of all rows, B batch, T length, C labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nlptools.batches import strided_windows
from nlptools.batches.encoder_rows import EncoderRows, EncoderSegment, bounds_of, join, ranges
from nlptools.batches.features import Encoding, with_types
from nlptools.batches.spelled_words import WordEncoding
from nlptools.batches.strided_windows import StridedWindows
from nlptools.batches.windows import NO_TARGET
from nlptools.errors import UsageError


@dataclass(frozen=True)
class WordFeatures:
    """The rows of N sentences. Words are numbered through all sentences, W in all."""

    rows: EncoderRows
    sentences: np.ndarray  # (N + 1,) int64, the first word of each sentence, and the end
    words: np.ndarray  # (R + 1,) int64, row r predicts the words from words[r] to words[r + 1]
    speaker: (
        np.ndarray
    )  # (W,) int64, the place in its row of the piece that represents the word: its first, or its last
    cut_words: int  # words that were cut, being longer than a row

    @property
    def tokens(self) -> np.ndarray:
        """The pieces that represent the words, as places among the P tokens of all rows: (W,) int64."""
        places: np.ndarray = np.repeat(self.rows.bounds[:-1], np.diff(self.words)) + self.speaker
        return places

    def edges(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether the words of the rows (B,) begin, and whether they end, their sentence: (B,) bool each."""
        starts, stops = self.words[rows], self.words[np.asarray(rows) + 1]
        return np.isin(starts, self.sentences), np.isin(stops, self.sentences)

    def piece_labels(self, labels: np.ndarray) -> np.ndarray:
        """`labels` (W,) at the pieces of all rows, NO_TARGET elsewhere: (P,) int64.

        A word has its label in one row, the one that predicts it, on the piece that represents it.
        `padded` with `rows.bounds` makes batches.
        """
        out = np.full(len(self.rows.ids), NO_TARGET, np.int64)
        out[self.tokens] = labels
        return out


def word_features(
    sentences: Sequence[Sequence[str]], encoding: Encoding | WordEncoding, *, predicates: Sequence[int] | None = None
) -> WordFeatures:
    """Rows of sentences of words; from one row of a long sentence to the next, half of what fits.

    Args:
        sentences: N sequences of words; an empty one has no row.
        predicates: for each sentence, the number of the word that is its predicate: see the module.

    Raises:
        UsageError: `encoding.max_length` leaves no room for a word.
    """
    marks, max_length = encoding.marks, encoding.max_length
    num_marks = marks.count(1 if predicates is None else 2)
    least = num_marks + (1 if predicates is None else 2)
    if max_length < least:
        raise UsageError(f"rows of {max_length} tokens: expected at least {least}")
    counts = np.fromiter(map(len, sentences), np.int64, len(sentences))
    bounds = bounds_of(counts)
    ids, starts, sizes = _pieces(list(chain.from_iterable(sentences)), encoding)

    room = np.full(len(counts), max_length - num_marks)
    predicate = None
    if predicates is not None:
        predicate = bounds[:-1] + np.asarray(predicates, np.int64)  # numbered through all sentences
        predicate_sizes = np.minimum(sizes[predicate], (max_length - num_marks) // 2)
        room = room - predicate_sizes
    whole = sizes
    sizes = np.minimum(sizes, np.repeat(room, counts))
    windows = strided_windows.cut(sizes, bounds, room, (room + 1) // 2)

    flat = ids[ranges(starts, sizes)]  # the pieces of all words, one after another
    offsets = bounds_of(sizes)
    first, end = (bounds[windows.text] + place for place in (windows.first, windows.end))
    segments = [EncoderSegment(flat, offsets[first], offsets[end] - offsets[first])]
    if predicate is not None:
        of_row = predicate[windows.text]
        segments.append(EncoderSegment(ids, starts[of_row], predicate_sizes[windows.text], 1))
    order = -1 if marks.causal else 1
    rows, begins = join(marks, segments[::order])
    begin = begins[::order][0]  # where the sentence begins
    owned = bounds_of(windows.owned_end - windows.owned_first)
    of_word = np.repeat(first, np.diff(owned))  # the first word of the row that predicts it
    if predicate is not None:
        _mark_predicates(rows, windows, of_row, first, offsets, begin)
    place = np.repeat(begin, np.diff(owned)) + offsets[:-1] - offsets[of_word]
    speaker = place + sizes - 1 if marks.causal else place
    rows = with_types(rows, encoding.types)
    return WordFeatures(rows, bounds, owned, speaker, int((sizes < whole).sum()))


def _pieces(words: Sequence[str], encoding: Encoding | WordEncoding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pieces of W words: (P,) ids, (W,) the first piece and (W,) the number of pieces of each word. Words without
    pieces get the unknown token.
    """
    marks = encoding.marks
    pieces, which = encoding.pieces(words)
    ids = np.append(pieces.ids, np.int32(marks.unk))
    starts, sizes = pieces.bounds[which], pieces.lengths[which]
    nothing = sizes == 0
    starts[nothing], sizes[nothing] = len(ids) - 1, 1
    return ids, starts, sizes


def number_labels(tags: Iterable[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """The index in `names` of the tag of each word: (W,) int64; NO_TARGET for a tag that is not there."""
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers.get(tag, NO_TARGET) for sentence in tags for tag in sentence], np.int64)


def _mark_predicates(
    rows: EncoderRows,
    windows: StridedWindows,
    predicate: np.ndarray,
    first: np.ndarray,
    offsets: np.ndarray,
    begin: np.ndarray,
) -> None:
    """Set the type of the predicate's pieces to 1 in the rows (R,) that contain it. `first`: the first word of each row;
    `begin`: the place of its first piece.
    """
    there = (predicate >= first) & (predicate < first + windows.end - windows.first)
    words = predicate[there]
    places = (rows.bounds[:-1] + begin)[there] + offsets[words] - offsets[first[there]]
    rows.types[ranges(places, offsets[words + 1] - offsets[words])] = 1
