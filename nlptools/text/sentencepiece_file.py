"""A check of SentencePiece model files before the C++ loader reads them.

The file is a protocol buffer (sentencepiece_model.proto). Field 1 holds the pieces (1 text, 2 score, 3 type), field 2 the
trainer settings (3 type of model), fields 3 and 5 the normalizers. Field 2 of a normalizer is a compiled character map: the
size of a double-array trie, the trie, and the replacement texts. Long pieces, pieces with a NUL and tries with transitions out
of bounds crash the loader, and Python cannot catch such a crash.
The package's sentencepiece_model_pb2 also reads these fields, but needs the protobuf package; its import takes longer (0.11 s)
than reading a model here (0.05 s for 2,000 pieces, mostly the trie).
"""

from __future__ import annotations

import array
import math
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from nlptools.errors import BundleError, display

MAX_FILE_BYTES = 64 << 20
MAX_PIECES = 1_000_000
MAX_PIECE_BYTES = 1024

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = _TYPES = range(1, 7)  # types of pieces
UNIGRAM, BPE, WORD = 1, 2, 3  # types of models


class SentencePieceVocabulary(NamedTuple):
    """The vocabulary in a model file, in the order of the ids."""

    texts: list[str]
    scores: list[float]
    types: list[int]
    model: int  # UNIGRAM, BPE, ...


class TextNormalization(NamedTuple):
    """The changes to a text before its segmentation."""

    characters: bytes = b""  # a compiled map
    prefix: bool = True  # a space is put before a text
    strips: bool = True  # spaces at both ends, and all but one between words, are left out
    escapes: bool = True  # spaces become U+2581
    suffix: bool = False  # words end with their space, instead of beginning with it


class _Bad(Exception):
    """The file is invalid; the message says why."""


def check(model: bytes, path: str) -> SentencePieceVocabulary:
    """Check that a model is safe to load, and return its pieces.

    Raises:
        BundleError: not a SentencePiece model, or one that exceeds the limits above.
    """
    try:
        if len(model) > MAX_FILE_BYTES:
            raise _Bad(f"larger than {MAX_FILE_BYTES >> 20} MiB")
        return _check(model)
    except (_Bad, struct.error, IndexError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, _Bad) else "damaged"
        raise BundleError(f"{display(path)}: not a valid SentencePiece model: {reason}") from None


def settings(model: bytes) -> TextNormalization:
    """The settings in a model that `check` has found safe."""
    found = {}
    names = {(3, 2): "characters", (3, 3): "prefix", (3, 4): "strips", (3, 5): "escapes", (2, 24): "suffix"}
    for part, wire, start, end in _fields(model, 0, len(model)):
        for field, form, a, b in _fields(model, start, end) if part in (2, 3) and wire == 2 else ():
            if name := names.get((part, field)):
                found[name] = model[a:b] if form == 2 else bool(_varint(model, a, b)[0])
    return TextNormalization(**found)  # type: ignore[arg-type]


def _check(model: bytes) -> SentencePieceVocabulary:
    texts: list[bytes] = []
    scores: list[float] = []
    types: list[int] = []
    kind = UNIGRAM
    for field, wire, start, end in _fields(model, 0, len(model)):
        if field == 1:
            if wire != 2:
                raise _Bad("a piece of the wrong wire type")
            text, score, type = _piece(model, start, end)
            texts.append(text)
            scores.append(score)
            types.append(type)
            if len(texts) > MAX_PIECES:
                raise _Bad(f"more than {MAX_PIECES} pieces")
        elif field == 2 and wire == 2:
            kinds = [
                _varint(model, a, b)[0] for number, form, a, b in _fields(model, start, end) if (number, form) == (3, 0)
            ]
            kind = kinds[-1] if kinds else kind
        elif field in (3, 5):
            if wire != 2:
                raise _Bad("a normalizer of the wrong wire type")
            _normalizer(model, start, end)
    if not texts:
        raise _Bad("no pieces")
    if len(set(texts)) != len(texts):
        raise _Bad("a piece occurs twice")
    if types.count(UNKNOWN) != 1:
        raise _Bad(f"{types.count(UNKNOWN)} unknown-word pieces, expected one")
    return SentencePieceVocabulary([text.decode("utf-8") for text in texts], scores, types, kind)


def _piece(model: bytes, start: int, end: int) -> tuple[bytes, float, int]:
    text, score, kind = b"", 0.0, NORMAL
    for field, wire, a, b in _fields(model, start, end):
        if field == 1 and wire == 2:
            text = model[a:b]
        elif field == 2 and wire == 5:
            (score,) = struct.unpack_from("<f", model, a)
        elif field == 3 and wire == 0:
            kind, _ = _varint(model, a, b)
        elif field in (1, 2, 3):
            raise _Bad("a piece of the wrong wire type")
    if not text or len(text) > MAX_PIECE_BYTES:
        raise _Bad(f"a piece of {len(text)} bytes, expected 1 to {MAX_PIECE_BYTES}")
    if b"\0" in text:
        raise _Bad("a piece with a NUL")
    if not math.isfinite(score):
        raise _Bad(f"a score of {score}")
    if kind not in _TYPES:
        raise _Bad(f"a piece of type {kind}")
    return text, score, kind


def _normalizer(model: bytes, start: int, end: int) -> None:
    for field, wire, a, b in _fields(model, start, end):
        if field == 2:
            if wire != 2:
                raise _Bad("a character map of the wrong wire type")
            if b > a:
                _character_map(model[a:b])


def _character_map(blob: bytes) -> None:
    """Reject a double-array trie (darts-clone) in which a transition could leave the array.

    The transition from unit i leads to (i ^ offset) ^ byte; the value of a leaf is a position in the replacement texts.
    Offsets address blocks of 256 units, so that a block inside the array is safe for any byte. All units are checked,
    whether reachable or not.
    """
    (size,) = struct.unpack_from("<I", blob)
    texts = blob[4 + size :]
    if size % 1024 or not size or 4 + size > len(blob):
        raise _Bad("a character map of the wrong size")
    if not texts or texts[-1]:
        raise _Bad("a character map with unterminated texts")
    longest = max(map(len, texts.split(b"\0")))
    if longest > MAX_PIECE_BYTES:  # each character could become as long
        raise _Bad(f"a character map with a text of {longest} bytes, expected at most {MAX_PIECE_BYTES}")
    units = array.array("I", blob[4 : 4 + size])
    if sys.byteorder == "big":
        units.byteswap()
    for i, unit in enumerate(units):
        if unit >> 31:
            if unit & 0x7FFFFFFF >= len(texts):
                raise _Bad("a character map that points outside its texts")
        elif (i ^ ((unit >> 10) << ((unit & 0x200) >> 6))) | 0xFF >= len(units):
            raise _Bad("a character map with a transition out of bounds")


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, start and end of the content of each field between `start` and `end`."""
    while start < end:
        key, start = _varint(data, start, end)
        field, wire = key >> 3, key & 7
        if wire == 0:
            _, stop = _varint(data, start, end)
        elif wire == 1:
            stop = start + 8
        elif wire == 2:
            length, start = _varint(data, start, end)
            stop = start + length
        elif wire == 5:
            stop = start + 4
        else:
            raise _Bad("not a protocol buffer")
        if stop > end or not field:
            raise _Bad("truncated or not a protocol buffer")
        yield field, wire, start, stop
        start = stop


def _varint(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The number at `start` and the position after it."""
    byte = data[start]
    if byte < 0x80 and start < end:
        return byte, start + 1
    value = shift = 0
    for i in range(start, min(start + 10, end)):
        value |= (data[i] & 0x7F) << shift
        if data[i] < 0x80:
            return value, i + 1
        shift += 7
    raise _Bad("truncated or not a protocol buffer")
