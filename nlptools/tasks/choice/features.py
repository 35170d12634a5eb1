"""A context with each of its possible endings as rows for an encoder: `choice`.

`[CLS] context [SEP] ending [SEP]`, one row for each ending, those of an example one after another; a head gives every
row a score, and the scores of an example are compared (Devlin et al. 2019, arXiv:1810.04805, section 4.4, for SWAG,
Zellers et al. 2018, D18-1009). What is too long loses the longer side's surplus first: the context its beginning, for
its end is what the ending goes on with, the ending its end.
Shapes: N examples, R rows of all endings, B examples of a batch, K endings of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.batches.encoder_rows import Marks, Rows, Segment, bounds_of, encode_once, join, marks_of
from nlptools.errors import UsageError
from nlptools.formats.examples import Choice
from nlptools.text.tokenizer import Tokenizer

IGNORED = -1


@dataclass(frozen=True)
class ChoiceFeatures:
    """The rows of N examples: those of example n are `examples[n]` to `examples[n + 1]` - 1."""

    rows: Rows
    examples: np.ndarray  # (N + 1,) int64
    labels: np.ndarray  # (N,) int64, number of the right ending; IGNORED where none is given
    cut_rows: int  # rows in which the context or the ending was cut


def choice_features(
    examples: Sequence[Choice],
    tokenizer: Tokenizer,
    *,
    max_length: int,
    marks: Marks | None = None,
    threads: int = 1,
) -> ChoiceFeatures:
    """Rows for contexts and endings.

    Args:
        max_length: most tokens of a row, marks included.
        marks: None: those that the tokenizer of an encoder has.

    Raises:
        UsageError: `max_length` leaves no room.
        BundleError: the tokenizer lacks a special token.
    """
    marks = marks or marks_of(tokenizer)
    room = max_length - marks.count(2)
    if room < 2:
        least = 2 + marks.count(2)
        raise UsageError(f"rows of {max_length} tokens: expected at least {least}, for a context and an ending")
    counts = np.array([len(example.endings) for example in examples], np.int64)
    contexts, context = encode_once(tokenizer, [example.context for example in examples], threads)
    endings, ending = encode_once(tokenizer, [text for example in examples for text in example.endings], threads)
    context = np.repeat(context, counts)
    before, after = contexts.lengths[context], endings.lengths[ending]
    first, second = cut_pair(before, after, room)
    rows, _ = join(
        marks,
        [
            Segment(contexts.ids, contexts.bounds[context] + before - first, first),
            Segment(endings.ids, endings.bounds[ending], second, 1),
        ],
    )
    labels = np.array([IGNORED if example.label is None else example.label for example in examples], np.int64)
    return ChoiceFeatures(rows, bounds_of(counts), labels, int((first + second < before + after).sum()))


def choice_probabilities(scores: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """The share of each ending among those of its example: (R,) scores -> (R,) float64.

    Args:
        examples: (N + 1,) where the rows of each example begin, and the end; none is without rows.
    """
    if not len(scores):
        return np.zeros(0)
    starts, counts = examples[:-1], np.diff(examples)
    wide = scores.astype(np.float64)
    shares = np.exp(wide - np.repeat(np.maximum.reduceat(wide, starts), counts))
    probabilities: np.ndarray = shares / np.repeat(np.add.reduceat(shares, starts), counts)
    return probabilities


def cut_pair(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of two sides, together at most `room`, when tokens are taken from the longer one until they fit.

    Of equally long ones the second loses first.
    """
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)
