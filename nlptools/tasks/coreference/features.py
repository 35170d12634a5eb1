"""Texts with a pronoun and two names as rows for an encoder: `coreference`.

`[CLS] text [SEP]`, and the tokens of the three mentions, from whose vectors a head judges (the spans of Lee et al. 2017,
D17-1018, on BERT as in Joshi et al. 2019, D19-1588). The mentions have type 1, all other tokens 0. Of a text that is
too long, the tokens nearest to a mention are kept, counting to the nearest one: around mentions that stand close
together that is one stretch, around others two or three, and each mention is always there.
Shapes: N texts, R = N rows, B batch; mentions in the order pronoun, A, B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.batches.encoder_rows import Marks, Rows, Segment, bounds_of, encode_once, join, marks_of
from nlptools.batches.piece_offsets import covered, touched
from nlptools.errors import DataError, UsageError
from nlptools.formats.examples import Coreference
from nlptools.text.tokenizer import Tokenizer

LABELS = ("A", "B", "neither")  # classes in their order
IGNORED = -1


@dataclass(frozen=True)
class CoreferenceFeatures:
    """One row for each text."""

    rows: Rows
    spans: np.ndarray  # (N, 3, 2) int64, first and last token, included, of each mention in its row
    labels: np.ndarray  # (N,) int64, place in LABELS; IGNORED where none is given
    cut_texts: int  # texts of which tokens were left out


def coreference_features(
    examples: Sequence[Coreference],
    tokenizer: Tokenizer,
    *,
    max_length: int,
    marks: Marks | None = None,
    threads: int = 1,
) -> CoreferenceFeatures:
    """Rows for texts.

    Args:
        max_length: most tokens of a row, marks included.
        marks: None: those that the tokenizer of an encoder has.

    Raises:
        UsageError: `max_length` leaves no room.
        DataError: the mentions of a text alone are longer than a row, or one is of characters that the tokenizer
            leaves out; with file and line.
        BundleError: the tokenizer lacks a special token.
    """
    marks = marks or marks_of(tokenizer)
    room = max_length - marks.count(1)
    if room < 3:
        raise UsageError(f"rows of {max_length} tokens: expected at least {3 + marks.count(1)}, for three mentions")
    found, which = encode_once(tokenizer, [example.text for example in examples], threads)
    texts = list(dict.fromkeys(example.text for example in examples))
    starts, ends, _ = covered(tokenizer, texts, found.bounds)
    kept: list[np.ndarray] = []
    spans = np.zeros((len(examples), 3, 2), np.int64)
    cut = 0
    for n, (example, text) in enumerate(zip(examples, which.tolist())):
        here = slice(int(found.bounds[text]), int(found.bounds[text + 1]))
        pieces = _mentions(example, starts[here], ends[here])
        chosen = _nearest(pieces, here.stop - here.start, room, example)
        cut += len(chosen) < here.stop - here.start
        spans[n] = np.searchsorted(chosen, pieces)
        kept.append(here.start + chosen)
    lengths = np.array([len(chosen) for chosen in kept], np.int64)
    flat = found.ids[np.concatenate(kept)] if kept else found.ids
    rows, (begin,) = join(marks, [Segment(flat, bounds_of(lengths)[:-1], lengths)])
    spans += begin[:, None, None]
    for n in range(len(examples)):
        for first, last in spans[n].tolist():
            rows.types[rows.bounds[n] + first : rows.bounds[n] + last + 1] = 1
    labels = [IGNORED if example.label is None else LABELS.index(example.label) for example in examples]
    return CoreferenceFeatures(rows, spans, np.array(labels, np.int64), cut)


def _mentions(example: Coreference, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """First and last piece of pronoun, A and B: (3, 2) int64."""
    mentions = (
        (example.pronoun, example.pronoun_offset),
        (example.name_a, example.a_offset),
        (example.name_b, example.b_offset),
    )
    found = []
    for mention, offset in mentions:
        pieces = touched(starts, ends, offset, offset + len(mention))
        if pieces is None:
            raise DataError(
                f"nothing is left of {mention!r} when the text is tokenized",
                path=example.place.path,
                line=example.place.line,
            )
        found.append(pieces)
    return np.array(found, np.int64)


def _nearest(mentions: np.ndarray, pieces: int, room: int, example: Coreference) -> np.ndarray:
    """The pieces of a text that are kept: at most `room`, rising."""
    places = np.arange(pieces)
    if pieces <= room:
        return places
    away = np.maximum(mentions[:, :1] - places, places - mentions[:, 1:]).min(axis=0)  # below 1 inside of a mention
    if (away <= 0).sum() > room:
        raise DataError(
            f"pronoun and names have {int((away <= 0).sum())} tokens, more than the {room} of a row",
            path=example.place.path,
            line=example.place.line,
            hint="--max-length gives more room",
        )
    chosen: np.ndarray = np.sort(np.argsort(np.maximum(away, 0), kind="stable")[:room])
    return chosen
