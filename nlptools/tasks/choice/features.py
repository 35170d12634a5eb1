"""Features of the task `choice`: a context with each of its possible endings as rows of tokens.

`[CLS] context [SEP] ending [SEP]`, one row per ending, the rows of an example one after another; a head gives every
row a score, and the scores of an example are compared (Devlin et al. 2019, arXiv:1810.04805, section 4.4, for SWAG,
Zellers et al. 2018, D18-1009). Rows that are too long lose tokens of the longer side first: the context at its beginning,
because the ending continues its end, and the ending at its end.
Shapes: N examples, R rows of all endings, B examples of a batch, K endings of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.batches.encoder_rows import EncoderSegment, bounds_of, encode_once, join
from nlptools.batches.features import Encoding, Features, with_types
from nlptools.errors import UsageError
from nlptools.formats.examples import Choice


def choice_features(examples: Sequence[Choice], encoding: Encoding) -> Features:
    """Rows of contexts and endings. Raises UsageError if `encoding.max_length` leaves no room for them."""
    marks, tokenizer = encoding.marks, encoding.tokenizer
    room = encoding.max_length - marks.count(2)
    if room < 2:
        least = 2 + marks.count(2)
        raise UsageError(
            f"rows of {encoding.max_length} tokens: expected at least {least}, for a context and an ending"
        )
    counts = np.array([len(example.endings) for example in examples], np.int64)
    contexts, context = encode_once(tokenizer, [example.context for example in examples], encoding.threads)
    texts = [text for example in examples for text in example.endings]
    endings, ending = encode_once(tokenizer, texts, encoding.threads)
    context = np.repeat(context, counts)
    before, after = contexts.lengths[context], endings.lengths[ending]
    first, second = cut_pair(before, after, room)
    rows, _ = join(
        marks,
        [
            EncoderSegment(contexts.ids, contexts.bounds[context] + before - first, first),
            EncoderSegment(endings.ids, endings.bounds[ending], second, 1),
        ],
    )
    cut_rows = int((first + second < before + after).sum())
    return Features(with_types(rows, encoding.types), examples=bounds_of(counts), cut=cut_rows)


def cut_pair(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """The lengths of two sides, together at most `room`, after dropping tokens of the longer side until they fit.

    Of equally long sides the second loses first.
    """
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)
