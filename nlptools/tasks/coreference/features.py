"""Features of the task `coreference`: texts with a pronoun and two names as rows of tokens.

`[CLS] text [SEP]`, and the token spans of the three mentions. The head compares their vectors (the spans of Lee et al.
2017, D17-1018, on BERT as in Joshi et al. 2019, D19-1588). The mentions have type 1, all other tokens 0. A text that is
too long keeps the tokens with the smallest distance to any mention: one stretch around mentions that are close together,
two or three around others. The mentions themselves are always kept.
Shapes: N texts, R = N rows, B batch; mentions in the order pronoun, A, B.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.batches.encoder_rows import EncoderSegment, bounds_of, encode_once, join
from nlptools.batches.features import Encoding, Features, with_types
from nlptools.batches.piece_offsets import covered, touched
from nlptools.errors import UsageError
from nlptools.formats.examples import Coreference


def coreference_features(examples: Sequence[Coreference], encoding: Encoding) -> Features:
    """A row for each text. The target `spans` (N, 6): first and last token (inclusive) of each mention in its row.

    Raises:
        UsageError: `encoding.max_length` leaves no room for three mentions.
        DataError: the mentions of a text alone are longer than a row, or the tokenizer drops all characters of one;
            with file and line.
    """
    marks, tokenizer = encoding.marks, encoding.tokenizer
    room = encoding.max_length - marks.count(1)
    if room < 3:
        least = 3 + marks.count(1)
        raise UsageError(f"rows of {encoding.max_length} tokens: expected at least {least}, for three mentions")
    pieces, which = encode_once(tokenizer, [example.text for example in examples], encoding.threads)
    texts = list(dict.fromkeys(example.text for example in examples))
    starts, ends = covered(tokenizer, texts, pieces.bounds)
    kept: list[np.ndarray] = []
    spans = np.zeros((len(examples), 3, 2), np.int64)
    cut = 0
    for n, (example, text) in enumerate(zip(examples, which.tolist())):
        here = slice(int(pieces.bounds[text]), int(pieces.bounds[text + 1]))
        mentions = _mentions(example, starts[here], ends[here])
        chosen = _nearest(mentions, here.stop - here.start, room, example)
        cut += len(chosen) < here.stop - here.start
        spans[n] = np.searchsorted(chosen, mentions)
        kept.append(here.start + chosen)
    lengths = np.array([len(chosen) for chosen in kept], np.int64)
    flat = pieces.ids[np.concatenate(kept)] if kept else pieces.ids
    rows, (begin,) = join(marks, [EncoderSegment(flat, bounds_of(lengths)[:-1], lengths)])
    spans += begin[:, None, None]
    for n in range(len(examples)):
        for first, last in spans[n].tolist():
            rows.types[rows.bounds[n] + first : rows.bounds[n] + last + 1] = 1
    return Features(with_types(rows, encoding.types), {"spans": spans.reshape(-1, 6)}, cut=cut)


def _mentions(example: Coreference, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """First and last piece of pronoun, A and B: (3, 2) int64."""
    mentions = (
        (example.pronoun, example.pronoun_offset),
        (example.name_a, example.a_offset),
        (example.name_b, example.b_offset),
    )
    spans = []
    for mention, offset in mentions:
        pieces = touched(starts, ends, offset, offset + len(mention))
        if pieces is None:
            raise example.place.error(f"the tokenizer drops all of {mention!r}")
        spans.append(pieces)
    return np.array(spans, np.int64)


def _nearest(mentions: np.ndarray, pieces: int, room: int, example: Coreference) -> np.ndarray:
    """The pieces of a text that are kept: at most `room`, ascending."""
    places = np.arange(pieces)
    if pieces <= room:
        return places
    distance = np.maximum(mentions[:, :1] - places, places - mentions[:, 1:]).min(axis=0)  # 0 or less in a mention
    needed = int((distance <= 0).sum())
    if needed > room:
        message = f"pronoun and names have {needed} tokens, more than the {room} of a row"
        raise example.place.error(message, "--max-length gives more room")
    chosen: np.ndarray = np.sort(np.argsort(np.maximum(distance, 0), kind="stable")[:room])
    return chosen
