"""The tokenizer in the metadata of a GGUF file, see `gguf_vocabulary`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence

from nlptools.errors import reading
from nlptools.files.gguf_file import GGUFFile
from nlptools.json_types import Json, JsonObject
from nlptools.text import gguf_pre_tokenizers, huggingface
from nlptools.text.gguf_vocabulary import PREFIX, ROLE_KEYS, SPACE
from nlptools.text.huggingface import HuggingFace
from nlptools.text.packages import FastTokenizer, tokenizers_package
from nlptools.text.pieces import SentencePiece
from nlptools.text.sentencepiece_file import BPE, BYTE, CONTROL, NORMAL, UNIGRAM, UNKNOWN, UNUSED, USER_DEFINED
from nlptools.text.tokenizer import Tokenizer

_ROLES = {**ROLE_KEYS, "bos": "bos_token_id", "eos": "eos_token_id"}
_SPECIAL = (CONTROL, USER_DEFINED)
_MOST_TOKENS = 1 << 22


def read(file: GGUFFile) -> Tokenizer:
    """The tokenizer in a GGUF file. Raises BundleError for one that is not supported, or damaged."""
    model = file.text(f"{PREFIX}model")
    build = _KINDS.get(model)
    if build is None:
        raise file.bad(f"a tokenizer {model!r} is not supported, expected {', '.join(_KINDS)}")
    tokens, types = _tokens(file)
    with reading(file.path):
        return build(file, tokens, types)


def _tokens(file: GGUFFile) -> tuple[list[str], list[int]]:
    """The tokens and their types, without the rows of the embedding that have no token."""
    tokens = file.texts(f"{PREFIX}tokens")
    types = [int(value) for value in file.numbers(f"{PREFIX}token_type")] or [NORMAL] * len(tokens)
    if not 0 < len(tokens) <= _MOST_TOKENS or len(types) < len(tokens):
        raise file.bad(f"damaged: {len(tokens):,} tokens, {len(types):,} types of tokens")
    while tokens and types[len(tokens) - 1] == UNUSED and tokens[-1] == f"[PAD{len(tokens) - 1}]":
        tokens.pop()
    if len(set(tokens)) != len(tokens):
        raise file.bad("two tokens have one name")
    return tokens, types[: len(tokens)]


def _roles(file: GGUFFile, tokens: Sequence[str]) -> dict[str, int]:
    """The id of each special token."""
    ids = {role: file.id(PREFIX + key) for role, key in _ROLES.items()}
    return {role: id for role, id in ids.items() if id is not None and id < len(tokens)}


def special_names(file: GGUFFile, tokens: Sequence[str] | None = None) -> dict[str, str]:
    """The names of special tokens, such as bos_token, as in a tokenizer_config.json. `tokens`: None: from the file."""
    names = file.texts(f"{PREFIX}tokens") if tokens is None else tokens
    return {f"{role}_token": names[id] for role, id in _roles(file, names).items()}


# -- SentencePiece -------------------------------------------------------------------------------------------------------


def _merged_pieces(file: GGUFFile, tokens: list[str], types: list[int]) -> SentencePiece:
    prefix = file.flag(f"{PREFIX}add_space_prefix", True)
    return _sentencepiece(
        file, tokens, types, {3: BPE, 35: int(BYTE in types)}, {1: b"identity", 3: int(prefix), 4: 0, 5: 1}
    )


def _unigram_pieces(file: GGUFFile, tokens: list[str], types: list[int]) -> SentencePiece:
    characters = file.metadata.get(f"{PREFIX}precompiled_charsmap", b"")
    settings: dict[int, bytes | int] = {
        1: b"nmt_nfkc" if characters else b"identity",
        2: characters if isinstance(characters, bytes) else b"",
        3: int(file.flag(f"{PREFIX}add_space_prefix", True)),
        4: int(file.flag(f"{PREFIX}remove_extra_whitespaces", False)),
        5: 1,
    }
    return _sentencepiece(file, tokens, types, {3: UNIGRAM}, settings)


def _sentencepiece(
    file: GGUFFile,
    tokens: Sequence[str],
    types: Sequence[int],
    trainer: Mapping[int, int],
    normalizer: Mapping[int, bytes | int],
) -> SentencePiece:
    """The model of SentencePiece with these pieces; sentencepiece_model.proto defines the keys."""
    scores = file.numbers(f"{PREFIX}scores")
    if len(scores) < len(tokens):
        raise file.bad(f"damaged: {len(tokens):,} tokens, {len(scores):,} scores")
    ids = _roles(file, tokens)
    kinds = [UNKNOWN if id == ids.get("unk") else NORMAL if type == UNKNOWN else type for id, type in enumerate(types)]
    places = {"unk": (40, 45), "bos": (41, 46), "eos": (42, 47), "pad": (43, 48)}
    special: dict[int, bytes | int] = {number: -1 for number, _ in places.values()}
    for role, (number, name) in places.items():
        if role in ids:
            special |= {number: ids[role], name: tokens[ids[role]].encode()}
            kinds[ids[role]] = UNKNOWN if role == "unk" else CONTROL
    pieces = zip(tokens, scores, kinds, strict=False)
    parts = [_message(1, {1: text.encode(), 2: score, 3: kind}) for text, score, kind in pieces]
    model = b"".join([*parts, _message(2, {**trainer, **special}), _message(3, normalizer)])
    return SentencePiece(model, str(file.path))


def _message(number: int, values: Mapping[int, bytes | int | float]) -> bytes:
    """A message of a protocol buffer in the field `number`."""
    content = b"".join(_field(key, value) for key, value in sorted(values.items()))
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value % (1 << 64))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# -- the tokenizers package ----------------------------------------------------------------------------------------------


def _byte_bpe(file: GGUFFile, tokens: list[str], types: list[int]) -> HuggingFace:
    name = file.text(f"{PREFIX}pre")
    known = gguf_pre_tokenizers.by_name(name)
    if known is None:
        names = ", ".join(each.name for each in gguf_pre_tokenizers.KNOWN)
        raise file.bad(f"a pre-tokenizer {name!r} is not supported, expected {names}")
    ids = {token: id for id, token in enumerate(tokens)}
    merges = [merge.partition(" ") for merge in file.texts(f"{PREFIX}merges")]
    for left, _, right in merges:  # the package crashes at a merge of unknown pieces
        if not {left, right, left + right} <= ids.keys():
            raise file.bad(f"not a merge of two tokens: {left} {right}")
    content: JsonObject = {
        "version": "1.0",
        "added_tokens": [_added(id, token, types[id]) for id, token in enumerate(tokens) if types[id] in _SPECIAL],
        "pre_tokenizer": known.pre_tokenizer,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {**ids},
            "merges": [[left, right] for left, _, right in merges],
            "ignore_merges": known.whole,
        },
    }
    return _of_json(file, content, tokens)


def _added(id: int, token: str, type: int) -> Json:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": token, **flags, "special": type == CONTROL}


def _of_json(file: GGUFFile, content: JsonObject, tokens: list[str]) -> HuggingFace:
    package = tokenizers_package()
    tokenizer: FastTokenizer = package.Tokenizer.from_str(json.dumps(content))
    return HuggingFace(tokenizer, str(file.path), special_names(file, tokens))


def _wordpiece(file: GGUFFile, tokens: list[str], types: list[int]) -> HuggingFace:
    names = [_piece(token, type) for token, type in zip(tokens, types, strict=True)]
    ids = {name: id for id, name in enumerate(names)}
    if "[UNK]" not in ids or len(ids) != len(names):
        raise file.bad("its WordPiece vocabulary has no [UNK], or one token twice")
    lower = file.flag(f"{PREFIX}normalizer.lowercase", True)
    strips = file.flag(f"{PREFIX}normalizer.strip_accents", lower)
    tokenizer = huggingface.wordpiece(ids, lower, strips)
    more = [name for name, type in zip(names, types, strict=True) if type in _SPECIAL]
    tokenizer.add_special_tokens([name for name in more if name not in huggingface.BERT_SPECIAL])
    return HuggingFace(tokenizer, str(file.path), special_names(file, names))


def _piece(token: str, type: int) -> str:
    """A piece in WordPiece's form: one inside a word begins with ##."""
    if type in (CONTROL, UNKNOWN, UNUSED):
        return token
    return token[1:] if token.startswith(SPACE) else f"##{token}"


_KINDS: Mapping[str, Callable[[GGUFFile, list[str], list[int]], Tokenizer]] = {
    "llama": _merged_pieces,
    "t5": _unigram_pieces,
    "gpt2": _byte_bpe,
    "bert": _wordpiece,
}
