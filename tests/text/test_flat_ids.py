"""Lists of ids as a flat array with lengths, and the type that ids are stored in."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.errors import DataError
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.flat_ids import encode_flat, flat_ids, id_type
from nlptools.text.vocab import Vocab


@pytest.mark.parametrize("rows", [[], [[]], [[3, 1], [], [2]]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_come_back_from_ids_and_lengths(rows: list[list[int]], dtype: type) -> None:
    ids, lengths = flat_ids(rows, dtype)
    assert ids.dtype == dtype and lengths.dtype == np.int64
    ends = lengths.cumsum()
    assert [ids[end - length : end].tolist() for end, length in zip(ends, lengths)] == rows


@pytest.mark.parametrize("kind", ["whitespace", "char", "bytes"])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("lines", [[], [""], ["a B b", "", " c\u3000a\x85x ", "\u039f\u03a3"]])
def test_ids_of_lines_are_those_of_each_line(kind: str, lowercase: bool, lines: list[str]) -> None:
    tokenizer = NamedTokenizer(kind, Vocab(["<unk>", "a", "b", "B", "\u2581", "\u03bf\u03c2"]), lowercase)
    ids, lengths = encode_flat(tokenizer, lines)
    rows = tokenizer.encode_lines(lines)
    assert ids.tolist() == [i for row in rows for i in row]
    assert lengths.tolist() == [len(row) for row in rows]


def test_a_token_that_a_vocabulary_without_unk_lacks_is_named() -> None:
    with pytest.raises(DataError, match="token 'c' is not in the vocabulary"):
        encode_flat(NamedTokenizer("whitespace", Vocab(["a", "b"])), ["a", "b c"])


@pytest.mark.parametrize(("size", "name"), [(1, "uint16"), (1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_the_largest_id_fits(size: int, name: str) -> None:
    assert id_type(size) == name
    assert np.array([size - 1], id_type(size))[0] == size - 1
