"""A tokenizer as the metadata of a GGUF file, with which llama.cpp gives the same ids.

llama.cpp has four kinds of vocabularies that are used here: `llama` (merges of SentencePiece, without a normalizer), `t5`
(unigram pieces of SentencePiece, with its normalizer), `gpt2` (byte-level BPE, with one of a few pre-tokenizers) and `bert`
(WordPiece). Tokenizers that they cannot express are refused.
Departures, in llama.cpp: `bert` keeps words of more than 100 characters, and where accents are removed, it removes spacing
vowel signs too and does not take syllables of Hangul apart; `gpt2` and `bert` have the Unicode tables of its version.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from nlptools import messages
from nlptools.files.gguf_file import Value
from nlptools.json_types import Json, JsonObject
from nlptools.text import gguf_pre_tokenizers, sentencepiece_file
from nlptools.text.exported_json import Inexpressible
from nlptools.text.huggingface import HuggingFace
from nlptools.text.pieces import SentencePiece
from nlptools.text.sentencepiece_file import BPE, BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from nlptools.text.token_bytes import byte_of_character
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab

PREFIX = "tokenizer.ggml."
SPACE = "\u2581"  # stands for a space in pieces, and for the beginning of a word in a `bert` vocabulary
ROLE_KEYS = {  # of special tokens; "seperator" is how llama.cpp spells it
    "unk": "unknown_token_id",
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "cls": "cls_token_id",
    "sep": "seperator_token_id",
}
_NORMALIZER = "a normalizer changes its texts (%s), and llama.cpp has none for such vocabularies"
_TRAIN = "; build-vocab --kind unigram and --kind byte-bpe make vocabularies that it reads"
_BYTES = 256
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_SPACES = {  # normalizer and pre-tokenizer of BPE with pieces of bytes: whether a space comes before each text; see `_prefix`
    ("Prepend, Replace", "none"): True,
    ("Replace", "none"): False,
    ("Replace", "Split"): False,  # splits at spaces, and the normalizer leaves none
}


def metadata(tokenizer: Tokenizer, size: int) -> dict[str, Value]:
    """The metadata of a tokenizer in a model with `size` tokens. Raises Inexpressible."""
    vocab = tokenizer.vocab
    assert vocab is not None  # a tokenizer of a model
    if tokenizer.lowercase:
        raise Inexpressible(_NORMALIZER % "it lower-cases them")
    write = _WRITERS.get(tokenizer.kind)
    if write is None:
        raise Inexpressible(f"llama.cpp has no vocabularies of the kind {tokenizer.kind}{_TRAIN}")
    out = write(tokenizer)
    tokens, types = cast("list[str]", out["tokens"]), cast("list[int]", out["token_type"])
    unused = size - len(tokens)  # rows of the embedding without a token
    tokens += [f"[PAD{id}]" for id in range(len(tokens), size)]
    types += [UNUSED] * unused
    if "scores" in out:
        cast("list[float]", out["scores"]).extend([-10000.0] * unused)
    if len(set(tokens)) != len(tokens):
        raise Inexpressible("two of its tokens have one name in llama.cpp")
    roles = {key: id for role, key in ROLE_KEYS.items() if (id := vocab.roles.get(role)) is not None}
    return {PREFIX + key: value for key, value in {**out, **roles}.items()}


def _of_sentencepiece(tokenizer: Tokenizer) -> dict[str, Value]:
    model = cast(SentencePiece, tokenizer).model
    pieces, settings = sentencepiece_file.check(model, "the tokenizer"), sentencepiece_file.settings(model)
    if USER_DEFINED in pieces.types:
        raise Inexpressible("llama.cpp puts a space after user-defined symbols, which its model has")
    if settings.suffix or not settings.escapes:
        raise Inexpressible("its model keeps spaces, or puts them after words")
    if settings.strips and not settings.prefix:
        raise Inexpressible("llama.cpp puts a space before each text of a model that removes repeated spaces")
    out: dict[str, Value] = {
        "model": "llama" if pieces.model == BPE else "t5",
        "pre": "default",
        "tokens": [*pieces.texts],
        "scores": [*pieces.scores],
        "token_type": [*pieces.types],
        "add_space_prefix": settings.prefix,
    }
    if pieces.model == BPE:
        if settings.characters or settings.strips:
            raise Inexpressible(_NORMALIZER % "the normalizer of its SentencePiece model" + _TRAIN)
        if pieces.types.count(BYTE) != _BYTES:
            raise Inexpressible(
                "its model has no pieces of bytes for unknown characters, without which llama.cpp fails"
            )
        return out
    if pieces.model == sentencepiece_file.WORD or BYTE in pieces.types:
        raise Inexpressible("llama.cpp reads no unigram models with pieces of bytes, and none of words")
    out["remove_extra_whitespaces"] = settings.strips
    if settings.characters:
        out["precompiled_charsmap"] = settings.characters
    return out


def _of_json(tokenizer: Tokenizer) -> dict[str, Value]:
    fast = cast(HuggingFace, tokenizer)
    assert fast.vocab is not None
    content: JsonObject = json.loads(fast.source)
    model = cast(JsonObject, content["model"])
    write = _MODELS.get(str(model.get("type")))
    if write is None:
        raise Inexpressible(f"llama.cpp has no vocabularies of the kind {model.get('type')}{_TRAIN}")
    types = [NORMAL] * len(fast.vocab)
    for id, token in enumerate(fast.vocab.tokens):
        if token == f"<no token {id}>":
            types[id] = UNUSED
    for added in cast("list[JsonObject]", content.get("added_tokens") or []):
        special = bool(added.get("special"))
        if not special and any(added.get(key) for key in ("single_word", "lstrip", "rstrip")):
            raise Inexpressible(f"its added token {added.get('content')!r:.40} takes along spaces, or must be a word")
        types[cast(int, added["id"])] = CONTROL if special else USER_DEFINED
    return write(content, model, fast.vocab, types)


def _bpe(content: JsonObject, model: JsonObject, vocab: Vocab, types: list[int]) -> dict[str, Value]:
    return (_merged_pieces if model.get("byte_fallback") else _byte_bpe)(content, model, vocab, types)


def _merged_pieces(content: JsonObject, model: JsonObject, vocab: Vocab, types: list[int]) -> dict[str, Value]:
    """Of a LLaMA or a Gemma: merges of SentencePiece, each pair of tokens that make a token, the best token first."""
    prefix = _prefix(_part(content, "normalizer"), _part(content, "pre_tokenizer"))
    if prefix is None or model.get("ignore_merges"):
        raise Inexpressible("llama.cpp does not treat spaces as it does: it puts one before each text, or before none")
    if prefix and USER_DEFINED in types:
        raise Inexpressible("llama.cpp puts a space after user-defined symbols, which it has")
    for id, token in enumerate(vocab.tokens):
        if types[id] == NORMAL and _BYTE.fullmatch(token):
            types[id] = BYTE
    if types.count(BYTE) != _BYTES:
        raise Inexpressible("it has no pieces of bytes for unknown characters, without which llama.cpp fails")
    ids = cast("dict[str, int]", model["vocab"])
    listed = [
        each.split(" ") if isinstance(each, str) else each for each in cast("list[str | list[str]]", model["merges"])
    ]
    made = ["".join(pair) for pair in listed]
    ranks = {token: rank for rank, token in enumerate(dict.fromkeys(made))}
    pairs = {(token[:cut], token[cut:]) for token in ids for cut in range(1, len(token))}
    changes = sum(a != b for a, b in itertools.pairwise(made)) + bool(made)
    if {(a, b) for a, b in pairs if a in ids and b in ids} != {(a, b) for a, b in listed} or changes != len(ranks):
        raise Inexpressible("its merges are not those of a SentencePiece model, one score for each token")
    if vocab.unk is not None:
        types[vocab.unk] = UNKNOWN
    return {
        "model": "llama",
        "pre": "default",
        "tokens": [*vocab.tokens],
        "scores": [-float(ranks.get(token, len(ranks))) for token in vocab.tokens],
        "token_type": types,
        "add_space_prefix": prefix,
    }


def _prefix(normalizer: JsonObject, pre: JsonObject) -> bool | None:
    """Whether llama.cpp puts a space before each text, as these do; None: they treat spaces in another way."""
    if normalizer:
        replaces = _steps(normalizer)[-1] == {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
        return _SPACES.get((_types(normalizer), _types(pre))) if replaces else None
    if pre.get("type") != "Metaspace" or pre.get("replacement") != SPACE or pre.get("split", True):
        return None
    scheme = pre.get("prepend_scheme", "always")
    if scheme in ("always", "first"):
        messages.warn(
            "llama.cpp puts a space before each text, this tokenizer only before one that does not begin with a space: texts that"
            " do get other tokens there"
        )
    return {"always": True, "first": True, "never": False}.get(str(scheme))


def _byte_bpe(content: JsonObject, model: JsonObject, vocab: Vocab, types: list[int]) -> dict[str, Value]:
    normalizer = _part(content, "normalizer")
    if normalizer.get("type") == "NFC":
        messages.warn("llama.cpp does not compose characters (NFC), as this tokenizer does: decomposed texts differ")
    elif normalizer:
        raise Inexpressible(_NORMALIZER % _types(normalizer) + _TRAIN)
    pre = _part(content, "pre_tokenizer")
    known = gguf_pre_tokenizers.named(pre, whole=bool(model.get("ignore_merges")))
    if known is None:
        raise Inexpressible(f"llama.cpp does not know its pre-tokenizer {gguf_pre_tokenizers.described(pre):.200}")
    if model.get("byte_fallback") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise Inexpressible("its BPE is not byte-level")
    if not byte_of_character().keys() <= vocab.ids.keys():
        raise Inexpressible("its BPE lacks some of the 256 bytes")
    merges = cast("Sequence[str | list[str]]", model["merges"])
    return {
        "model": "gpt2",
        "pre": known.name,
        "tokens": [*vocab.tokens],
        "token_type": types,
        "merges": [each if isinstance(each, str) else " ".join(each) for each in merges],
    }


def _wordpiece(content: JsonObject, model: JsonObject, vocab: Vocab, types: list[int]) -> dict[str, Value]:
    normalizer, pre = _part(content, "normalizer"), _part(content, "pre_tokenizer")
    if (normalizer.get("type"), pre.get("type")) != ("BertNormalizer", "BertPreTokenizer"):
        raise Inexpressible(_NORMALIZER % f"{_types(normalizer)}, {_types(pre)}")
    if not normalizer.get("clean_text") or not normalizer.get("handle_chinese_chars"):
        raise Inexpressible("llama.cpp always removes control characters, and takes Chinese characters apart")
    if model.get("continuing_subword_prefix") != "##":
        raise Inexpressible("its pieces inside words do not begin with ##")
    if vocab.unk is None or None in (vocab.cls, vocab.sep):
        raise Inexpressible("it lacks [UNK], [CLS] or [SEP]")
    lower, strip = bool(normalizer.get("lowercase")), normalizer.get("strip_accents")
    strips = lower if strip is None else bool(strip)
    if strips and any(_differs(letter) for token in vocab.tokens for letter in token):
        messages.warn(
            "llama.cpp removes accents in another way: texts in Korean and in scripts of India get other tokens there"
        )
    pairs = zip(vocab.tokens, types, strict=True)
    return {
        "model": "bert",
        "pre": "default",
        "tokens": [_phantom(token, type) for token, type in pairs],
        "token_type": types,
        "normalizer.lowercase": lower,
        "normalizer.strip_accents": strips,
    }


def _differs(letter: str) -> bool:
    """Whether llama.cpp never makes this letter where it removes accents: parts of syllables of Hangul, spacing vowel signs."""
    return "\u1100" <= letter <= "\u11ff" or unicodedata.category(letter) == "Mc"


def _phantom(token: str, type: int) -> str:
    """A piece as in a `bert` vocabulary: the first of a word begins with `SPACE`, others have no mark."""
    if type in (CONTROL, UNUSED):
        return token
    return token[2:] if token.startswith("##") and len(token) > 2 else SPACE + token


def _unigram(content: JsonObject, model: JsonObject, vocab: Vocab, types: list[int]) -> dict[str, Value]:
    """Of an XLM-RoBERTa: white space separates words, and each word begins with a space."""
    pre = _types(_part(content, "pre_tokenizer"))
    if pre != "WhitespaceSplit, Metaspace" or model.get("byte_fallback"):
        raise Inexpressible(f"llama.cpp has no pre-tokenizer {pre} for unigram models")
    characters = b""
    for step in _steps(_part(content, "normalizer")):
        if step.get("type") == "Precompiled":
            characters = base64.b64decode(str(step["precompiled_charsmap"]))
        elif step != {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}:
            raise Inexpressible(_NORMALIZER % step.get("type"))
    rows = cast("list[tuple[str, float]]", model["vocab"])
    unknown = model.get("unk_id")
    if type(unknown) is not int or any(kind == USER_DEFINED for kind in types):
        raise Inexpressible("it has no unknown piece, or symbols that are never split")
    types[unknown] = UNKNOWN
    scores = [float(score) for _, score in rows] + [0.0] * (len(types) - len(rows))
    return {
        "model": "t5",
        "pre": "default",
        "tokens": [*vocab.tokens],
        "scores": scores,
        "token_type": types,
        "add_space_prefix": True,
        "remove_extra_whitespaces": True,
        **({"precompiled_charsmap": characters} if characters else {}),
    }


def _part(content: Mapping[str, Json], name: str) -> JsonObject:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _steps(part: JsonObject) -> list[JsonObject]:
    """The steps of a normalizer or a pre-tokenizer."""
    listed = part.get("normalizers", part.get("pretokenizers", [part] if part else []))
    return [step for step in listed if isinstance(step, dict)] if isinstance(listed, list) else []


def _types(part: JsonObject) -> str:
    return ", ".join(str(step.get("type")) for step in _steps(part)) or "none"


_WRITERS: Mapping[str, Callable[[Tokenizer], dict[str, Value]]] = {
    SentencePiece.kind: _of_sentencepiece,
    HuggingFace.kind: _of_json,
}
_MODELS: Mapping[str, Callable[[JsonObject, JsonObject, Vocab, list[int]], dict[str, Value]]] = {
    "BPE": _bpe,
    "WordPiece": _wordpiece,
    "Unigram": _unigram,
}
