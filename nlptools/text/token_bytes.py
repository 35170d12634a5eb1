"""The bytes that each token adds to a text, for tokenizers that cut text into pieces."""

from __future__ import annotations

import re
from functools import lru_cache

from nlptools.text.builtin import NamedTokenizer
from nlptools.text.huggingface import HuggingFace
from nlptools.text.tokenizer import Tokenizer

_SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def token_bytes(tokenizer: Tokenizer) -> list[bytes] | None:
    """What each token adds to a text, by id; nothing for special tokens. None: it depends on the tokens around it.

    A token that begins with a space adds none at the beginning of a text, unless `keeps_first_space`.
    """
    vocab = tokenizer.vocab
    if vocab is None:
        return None
    if isinstance(tokenizer, NamedTokenizer):
        if tokenizer.kind == "bytes":
            pieces = [bytes([value]) for value in range(len(vocab))]
        elif tokenizer.kind == "char":
            pieces = [tokenizer.decode_tokens([token]).encode("utf-8", "replace") for token in vocab.tokens]
        elif tokenizer.kind == "words":
            return None
        else:
            pieces = [f" {token}".encode("utf-8", "replace") for token in vocab.tokens]
    elif keeps_first_space(tokenizer):
        pieces = [_bytes_of_level(token) for token in vocab.tokens]
    elif not isinstance(tokenizer, HuggingFace) or any(_SPACE in token for token in vocab.tokens):
        pieces = [_bytes_of_piece(token) for token in vocab.tokens]
    else:
        return None  # the decoder of WordPiece cleans up spaces
    special = {*vocab.marks, vocab.unk}
    return [b"" if id in special else piece for id, piece in enumerate(pieces)]


def keeps_first_space(tokenizer: Tokenizer) -> bool:
    """Whether the space that the first token of a text begins with is part of the text."""
    if isinstance(tokenizer, HuggingFace):
        return "ByteLevel" in tokenizer.components.types
    return isinstance(tokenizer, NamedTokenizer) and tokenizer.kind in ("bytes", "char")


def _bytes_of_piece(piece: str) -> bytes:
    """The bytes of a SentencePiece."""
    byte = _BYTE.fullmatch(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode("utf-8", "replace")


def _bytes_of_level(token: str) -> bytes:
    """The bytes of a token of byte-level BPE; the text itself of one that was added to the vocabulary."""
    values = byte_of_character()
    if any(c not in values for c in token):
        return token.encode("utf-8", "replace")
    return bytes([values[c] for c in token])


@lru_cache(maxsize=1)
def byte_of_character() -> dict[str, int]:
    """The byte that each character stands for in byte-level BPE (Radford et al. 2019): printable ones for themselves, the
    others for characters from U+0100 on.
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in shown]
    return {**{chr(value): value for value in shown}, **{chr(0x100 + n): value for n, value in enumerate(hidden)}}
