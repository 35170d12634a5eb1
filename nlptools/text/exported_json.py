"""A tokenizer of ours as a tokenizer.json, for programs that read nothing else.

The ids of a text are the same, with two exceptions: in transformers, the names of special tokens in a text become these tokens;
and lower-casing differs for letters that are newer than Python's Unicode tables.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Protocol

from nlptools.files import atomic
from nlptools.text.boundaries import Boundaries, default_config, described
from nlptools.text.packages import FastTokenizer, Normalizer, TokenModel, tokenizers_package
from nlptools.text.vocab import Vocab

_ASCII_SPACE = r"\t-\r "
_SPACE = _ASCII_SPACE + r"\x{1c}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_CASED = r"[\p{Cased}&&[^\p{Case_Ignorable}]]"
_FINAL_SIGMA = rf"{_CASED}\p{{Case_Ignorable}}*\KΣ(?!\p{{Case_Ignorable}}*{_CASED})"
_END = "<|endoftext|>"  # the name of the id after the last byte, which ends a text


class Inexpressible(Exception):
    """No tokenizer.json gives the same ids; the message says why."""


class Convertible(Protocol):
    """A tokenizer that may have a tokenizer.json."""

    def as_json(self) -> tuple[FastTokenizer, Vocab]:
        """A `tokenizers.Tokenizer` with the same ids, and its tokens. Raises Inexpressible."""


def obstacle(tokenizer: Convertible) -> str:
    """Why a tokenizer has no tokenizer.json; "" if it has one."""
    try:
        tokenizer.as_json()
    except Inexpressible as error:
        return str(error)
    return ""


def write(tokenizer: Convertible, directory: Path, boundaries: Boundaries | None) -> list[str]:
    """Write tokenizer.json and tokenizer_config.json, where the tokenizer can be written so; returns the names of the files.

    `boundaries`: the tokens around the texts of the model; None: write nothing.
    """
    if boundaries is None:
        return []
    try:
        same, vocab = tokenizer.as_json()
    except Inexpressible:
        return []
    source, config = described(same, same.to_str(pretty=True), default_config(vocab), vocab, boundaries)
    files = {"tokenizer.json": source, "tokenizer_config.json": json.dumps(config, indent=2) + "\n"}
    for name, text in files.items():
        atomic.write_whole(directory / name, text)
    return list(files)


def lower_case(package: ModuleType) -> list[Normalizer]:
    """Normalizers equivalent to Python's `lower`; the package's `Lowercase` alone misses the sigma at the end of words."""
    sigma = package.normalizers.Replace(package.Regex(_FINAL_SIGMA), "ς")
    return [sigma, package.normalizers.Lowercase()]


def of_words(vocab: Vocab, *, ascii_only: bool, lowercase: bool) -> FastTokenizer:
    """A `tokenizers.Tokenizer` of the words between white space, of ASCII or any. Raises Inexpressible."""
    package = tokenizers_package()
    out: FastTokenizer = package.Tokenizer(_whole_words(package, vocab))
    out.normalizer = package.normalizers.Sequence(lower_case(package) if lowercase else [])
    space = package.Regex(f"[{_ASCII_SPACE if ascii_only else _SPACE}]+")
    out.pre_tokenizer = package.pre_tokenizers.Split(space, "removed")
    return out


def of_characters(vocab: Vocab, space: str, *, lowercase: bool) -> FastTokenizer:
    """A `tokenizers.Tokenizer` of characters. `space` represents a space; in a text, it becomes a backslash and itself.
    Raises Inexpressible.
    """
    package = tokenizers_package()
    out: FastTokenizer = package.Tokenizer(_whole_words(package, vocab))
    escaped = "\\" + space
    steps = [*(lower_case(package) if lowercase else []), package.normalizers.Replace(space, escaped)]
    out.normalizer = package.normalizers.Sequence(steps)
    each = package.pre_tokenizers.Split(package.Regex(rf"\\{space}|[\s\S]"), "isolated")
    named = package.pre_tokenizers.Metaspace(replacement=space, prepend_scheme="never", split=False)
    out.pre_tokenizer = package.pre_tokenizers.Sequence([each, named])
    parts = package.decoders
    shown = [parts.Replace(package.Regex(rf"\A{space}\z"), " "), parts.Replace(escaped, space), parts.Fuse()]
    out.decoder = parts.Sequence(shown)
    return out


def of_bytes(vocab: Vocab, *, lowercase: bool) -> tuple[FastTokenizer, Vocab]:
    """A `tokenizers.Tokenizer` of bytes and a token that ends texts, and their vocabulary."""
    package = tokenizers_package()
    out: FastTokenizer = package.Tokenizer(package.models.BPE(dict(vocab.ids), [], byte_fallback=True))
    out.normalizer = package.normalizers.Sequence(lower_case(package) if lowercase else [])
    out.decoder = package.decoders.Sequence([package.decoders.ByteFallback(), package.decoders.Fuse()])
    out.add_special_tokens([_END])
    return out, Vocab([*vocab.tokens, _END])


def _whole_words(package: ModuleType, vocab: Vocab) -> TokenModel:
    if vocab.unk is None:
        raise Inexpressible("its vocabulary has no <unk>")
    model: TokenModel = package.models.WordLevel(dict(vocab.ids), unk_token=vocab.token(vocab.unk))
    return model
