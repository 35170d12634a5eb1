"""Lists of token ids as one flat array with lengths, the form in which corpora store them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from nlptools.arrays import places_in_rows
from nlptools.text.builtin import NamedTokenizer, all_known
from nlptools.text.tokenizer import Tokenizer


def flat_ids(
    rows: Sequence[Sequence[int]], dtype: type[np.int32 | np.int64] = np.int64
) -> tuple[np.ndarray, np.ndarray]:
    """All ids, flat, of type `dtype`, and the length of each row (int64)."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths


def heads(ids: np.ndarray, lengths: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The first ids of each row, flat: `sizes` (N,) of the `lengths` (N,) ids of a row."""
    return ids[places_in_rows(lengths) < np.repeat(sizes, lengths)]


def encode_flat(tokenizer: Tokenizer, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all lines, flat (int64), and the length of each line, see `Tokenizer.encode_lines`.

    Ids of a named tokenizer go into the array directly, without a list for each line.
    """
    vocab = tokenizer.vocab
    if not isinstance(tokenizer, NamedTokenizer) or tokenizer.kind == "bytes" or vocab is None:
        return flat_ids(tokenizer.encode_lines(lines, threads))
    rows = tokenizer.tokens_lines(lines, threads)
    lengths, tokens = np.fromiter(map(len, rows), np.int64, len(rows)), chain.from_iterable(rows)
    with all_known():
        ids = map(vocab.ids.__getitem__, tokens) if vocab.unk is None else map(vocab.ids.get, tokens, repeat(vocab.unk))
        return np.fromiter(ids, np.int64, int(lengths.sum())), lengths


def id_type(size: int) -> np.dtype[np.generic]:
    """The smallest type that ids are stored in: uint16 for a vocabulary of up to 65,536 tokens, else uint32."""
    return np.dtype("uint16" if size <= 1 << 16 else "uint32")
