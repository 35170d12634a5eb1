"""Tokenizers of the tokenizers package: tokenizer.json, WordPiece (vocab.txt), byte-level BPE (vocab.json).

WordPiece: Schuster and Nakajima 2012, as in BERT (Devlin et al. 2019, arXiv:1810.04805); byte-level BPE: GPT-2 (Radford
et al. 2019). Files are untrusted: sizes, numbers and structure are checked before the package reads them.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import BundleError, display, reading, reason
from nlptools.files import atomic, json_text
from nlptools.json_types import Json, JsonObject
from nlptools.text.boundaries import Boundaries, default_config, described
from nlptools.text.builtin import MARKER, original_spans, without_surrogates, write_marker
from nlptools.text.guarded_calls import guarded
from nlptools.text.packages import Encoding, FastTokenizer, tokenizers_package
from nlptools.text.text_growth import check_growth, check_normalized, growth
from nlptools.text.vocab import ROLES, Vocab, usual_specials

MAX_JSON_BYTES = 64 << 20
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
_SPACES = {" ": "\u2581", "\n": "\\n", "\r": "\\r", "\t": "\\t"}  # representation of white space inside a token


class Components(NamedTuple):
    """The parts of a tokenizer of the tokenizers package; "" for a mark that it lacks."""

    model: str
    types: frozenset[str]  # of pre-tokenizers and decoders
    continuation: str  # prefix of pieces inside a word
    suffix: str  # at the end of a word


class HuggingFace:
    """A tokenizer of the tokenizers package, without its padding, truncation and template."""

    kind = "tokenizers"

    def __init__(
        self,
        tokenizer: FastTokenizer,
        path: str,
        config: Mapping[str, Json] | None = None,
        lowercase: bool = False,
        chat_template: bytes | None = None,
    ) -> None:
        """Args:
        tokenizer: a `tokenizers.Tokenizer`.
        path: the file, for messages.
        config: the content of tokenizer_config.json, which names the special tokens.
        chat_template: the content of chat_template.jinja, which is saved again.
        """
        self._chat_template = chat_template
        self._path = path
        self.source = tokenizer.to_str(pretty=True)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        normalizer = tokenizer.normalizer
        self._growth = 1.0 if normalizer is None else growth(json.loads(normalizer.__getstate__()))
        self._config = dict(config or {})
        self.lowercase = lowercase
        self.vocab = _vocab(tokenizer, self._config, path)
        shown = ((self._show(token), token) for token in self.vocab.tokens)
        self._hidden = {name: token for name, token in shown if name != token}

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line; white space inside a token becomes U+2581, backslash n, backslash r or backslash t."""
        return self.tokens_lines([text])[0]

    def tokens_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[str]]:
        """The tokens of each of many lines."""
        rows: list[list[str]] = [encoding.tokens for encoding in self._encode(lines)]
        if not self._hidden:
            return rows
        return [[self._show(token) for token in row] for row in rows]

    def encode(self, text: str) -> list[int]:
        """The ids of one line, without beginning and end marks."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of each of many lines. The package keeps the number of threads of its first use."""
        return [encoding.ids for encoding in self._encode(lines, fast=True)]

    def around(self) -> tuple[list[int], list[int]]:
        """The special tokens that the template in tokenizer.json puts before a text, and after it."""
        row = guarded(1, lambda: self._tokenizer.encode("a", add_special_tokens=True), self._path)
        own = [place for place, text in enumerate(row.sequence_ids) if text == 0] or [0]
        return row.ids[: own[0]], row.ids[own[-1] + 1 :]

    def around_pair(self) -> Boundaries | None:
        """The tokens that the template in tokenizer.json puts around one text and two; None: it has none for them."""
        encoding = guarded(2, lambda: self._tokenizer.encode("a", "a", add_special_tokens=True), self._path)
        ids, places = encoding.ids, encoding.sequence_ids
        if 0 not in places or 1 not in places:
            return None
        second, end = places.index(1), len(places) - places[::-1].index(1)
        first, last = ids[: places.index(0)], ids[end:]
        between = [id for id, at in zip(ids[:second], places, strict=False) if at is None][len(first) :]
        if len(first) != 1 or not between or len(last) != 1:
            return None
        return Boundaries(first[0], tuple(between), last[0], second=encoding.type_ids[second])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens. Raises IndexError for an id out of range."""
        if ids and not 0 <= min(ids) <= max(ids) < len(self.vocab):
            raise IndexError(f"id out of range, expected 0 to {len(self.vocab) - 1}")
        text: str = guarded(len(ids), lambda: self._tokenizer.decode(list(ids), skip_special_tokens=True), self._path)
        return text

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """The text of `tokens`, without special tokens."""
        marks = self.vocab.marks
        kept = [self._hidden.get(token, token) for token in map(without_surrogates, tokens)]
        kept = [token for token in kept if self.vocab.ids.get(token) not in marks]
        decoder = self._tokenizer.decoder
        return " ".join(kept) if decoder is None else guarded(len(kept), lambda: decoder.decode(kept), self._path)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The span of characters of `text` that each token covers."""
        spans: list[tuple[int, int]] = self._encode([text])[0].offsets
        return original_spans(spans, text) if self.lowercase and len(text.lower()) != len(text) else spans

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """See `tokenizer.Tokenizer`: tokenizer.json, the classic vocabulary files and tokenizer_config.json, which
        `transformers.AutoTokenizer.from_pretrained(directory)` reads.
        """
        files, source = _classic_files(self._tokenizer), self.source
        config = self._config or {**default_config(self.vocab), **self._letters()}
        if boundaries is not None:
            source, config = described(self._tokenizer, source, config, self.vocab, boundaries)
        files[CONFIG] = json_bytes(config)
        files["tokenizer.json"] = source.encode()
        if self._chat_template is not None:
            files[TEMPLATE] = self._chat_template
        for name, data in files.items():
            atomic.write_whole(Path(directory) / name, data)
        marker = [write_marker(directory, self.kind, True)] if self.lowercase else []
        return [*files, *marker]

    def json_obstacle(self) -> str:
        """See `tokenizer.Tokenizer`."""
        return ""

    def _letters(self) -> dict[str, bool]:
        """Settings of BERT's normalizer, for programs that read vocab.txt alone; empty for other tokenizers."""
        normalizer = json.loads(self.source).get("normalizer") or {}
        if normalizer.get("type") != "BertNormalizer":
            return {}
        lower, strip = normalizer["lowercase"], normalizer["strip_accents"]
        return {"do_lower_case": lower, "strip_accents": lower if strip is None else strip}

    @property
    def components(self) -> Components:
        """The parts of the tokenizer."""
        model = self._tokenizer.model
        parts = [part for part in (self._tokenizer.pre_tokenizer, self._tokenizer.decoder) if part is not None]
        types = re.findall(r'"type": ?"(\w+)"', " ".join(part.__getstate__().decode() for part in parts))
        marks = (getattr(model, name, None) or "" for name in ("continuing_subword_prefix", "end_of_word_suffix"))
        return Components(type(model).__name__, frozenset(types), *marks)

    def _encode(self, lines: Sequence[str], fast: bool = False) -> list[Encoding]:
        texts = [line.lower() for line in lines] if self.lowercase else list(lines)
        encode_batch = self._tokenizer.encode_batch_fast if fast else self._tokenizer.encode_batch

        def encode() -> list[Encoding]:
            try:
                return encode_batch(texts, add_special_tokens=False)
            except (TypeError, UnicodeEncodeError):
                return encode_batch(list(map(without_surrogates, texts)), add_special_tokens=False)

        check_normalized(self._tokenizer.normalizer, texts, self._growth, self._path)
        return guarded(sum(map(len, texts)), encode, self._path)

    @staticmethod
    def _show(token: str) -> str:
        if token.isprintable() and " " not in token:
            return token
        return "".join(_SPACES.get(c, c) for c in token)


def from_json(path: Path, lowercase: bool = False, threads: int = 0) -> HuggingFace:
    """The tokenizer in a tokenizer.json. Raises BundleError."""
    text = _read(path)
    check_growth(_parse(text, path), str(path))
    package = tokenizers_package(threads)
    tokenizer = guarded(len(text), lambda: package.Tokenizer.from_str(text), str(path))
    template = path.parent / TEMPLATE
    kept = read_bytes(template, MAX_JSON_BYTES) if template.is_file() else None
    return HuggingFace(tokenizer, str(path), read_config(path.parent), lowercase, kept)


Completed = Callable[[FastTokenizer, Path], FastTokenizer]  # a tokenizer, and its directory -> with special tokens


def from_vocab_txt(path: Path, lowercase: bool = False, completed: Completed | None = None) -> HuggingFace:
    """WordPiece with the vocabulary of a BERT-style vocab.txt: one token per line.

    `do_lower_case` and `strip_accents` in tokenizer_config.json determine whether text is lower-cased and its marks are removed.
    By default, text is lower-cased if no token has an upper-case letter, and marks are removed if text is lower-cased.
    Raises BundleError.
    """
    tokens = _read(path).removeprefix("\ufeff").removesuffix("\n").split("\n")
    tokens = [token.removesuffix("\r") for token in tokens]
    ids = {token: id for id, token in enumerate(tokens)}
    if "[UNK]" not in ids or len(ids) != len(tokens):
        reason = "no [UNK]" if "[UNK]" not in ids else "a token occurs twice"
        raise BundleError(f"{display(str(path))}: not a WordPiece vocabulary: {reason}")
    config = read_config(path.parent)
    cased = any(token != token.lower() for token in tokens if token not in BERT_SPECIAL)
    lower = bool(config.get("do_lower_case", not cased))
    strip = config.get("strip_accents")
    tokenizer = wordpiece(ids, lower, lower if strip is None else bool(strip))
    tokenizer = tokenizer if completed is None else completed(tokenizer, path.parent)
    return HuggingFace(tokenizer, str(path), config, lowercase)


def from_merges(vocab: Path, merges: Path, lowercase: bool = False, completed: Completed | None = None) -> HuggingFace:
    """Byte-level BPE from vocab.json and merges.txt, as for GPT-2 and RoBERTa. Raises BundleError."""
    ids = read_ids(vocab)
    if not ids:
        raise BundleError(f"{display(str(vocab))}: an empty vocabulary")
    if any(token.endswith("</w>") for token in ids):
        raise BundleError(f"{display(str(vocab))}: word-level BPE with </w>, expected byte-level BPE")
    lines = [line for line in _read(merges).split("\n") if line and not line.startswith("#version")]
    pairs = [tuple(line.removesuffix("\r").split(" ")) for line in lines]
    for pair in pairs:  # the package crashes at a merge of unknown pieces
        if len(pair) != 2 or not {*pair, "".join(pair)} <= ids.keys():
            raise BundleError(
                f"{display(str(merges))}: not a merge of two pieces of vocab.json: {' '.join(pair)[:80]!r}"
            )
    with reading(merges):
        tokenizer = byte_level_bpe(ids, pairs)
        tokenizer = tokenizer if completed is None else completed(tokenizer, vocab.parent)
    return HuggingFace(tokenizer, str(vocab), read_config(vocab.parent), lowercase)


def wordpiece(ids: Mapping[str, int], lowercase: bool, strip_accents: bool) -> FastTokenizer:
    """A `tokenizers.Tokenizer` equivalent to BERT's, with the template [CLS] a [SEP] b [SEP].

    `strip_accents`: combining marks are removed, as published uncased models do: accents, and vowel signs of Indic scripts.
    """
    package = tokenizers_package()
    tokenizer: FastTokenizer = package.Tokenizer(
        package.models.WordPiece(dict(ids), unk_token="[UNK]", max_input_chars_per_word=100)
    )
    tokenizer.normalizer = package.normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    tokenizer.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = package.decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([token for token in BERT_SPECIAL if token in ids])
    if "[CLS]" in ids and "[SEP]" in ids:
        tokenizer.post_processor = package.processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return tokenizer


def byte_level_bpe(ids: Mapping[str, int], merges: Sequence[tuple[str, ...]], lowercase: bool = False) -> FastTokenizer:
    """A `tokenizers.Tokenizer` equivalent to GPT-2's."""
    package = tokenizers_package()
    tokenizer: FastTokenizer = package.Tokenizer(package.models.BPE(dict(ids), list(merges)))
    tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = package.decoders.ByteLevel()
    if lowercase:
        tokenizer.normalizer = package.normalizers.Lowercase()
    usual = usual_specials(ids)
    tokenizer.add_special_tokens(
        sorted({token for token, id in ids.items() if id in usual.values()}, key=ids.__getitem__)
    )
    return tokenizer


# -- reading untrusted files -------------------------------------------------------------------------------------------


def _vocab(tokenizer: FastTokenizer, config: Mapping[str, Json], path: str) -> Vocab:
    """The tokens by id; special tokens by the names in the configuration, else by their usual names."""
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    if not ids:
        raise BundleError(f"{display(path)}: an empty vocabulary")
    size = max(ids.values()) + 1
    if size > 2 * len(ids) + 65536:
        raise BundleError(f"{display(path)}: ids up to {size - 1} for {len(ids)} tokens")
    tokens = [f"<no token {id}>" for id in range(size)]  # ids need not be contiguous
    for token, id in ids.items():
        tokens[id] = token
    if len(set(tokens)) != size:
        raise BundleError(f"{display(path)}: two tokens have one id")
    special = named_specials(ids, config, ROLES)
    unk = getattr(tokenizer.model, "unk_token", None)
    if special["unk"] is None and unk in ids:
        special["unk"] = ids[unk]
    return Vocab(tokens, special=special)


def named_specials(ids: Mapping[str, int], config: Mapping[str, Json], roles: Sequence[str]) -> dict[str, int | None]:
    """The id of each role of `ROLES`: for `roles` by the names in tokenizer_config.json, else by the usual names."""
    special = usual_specials(ids)
    for role in roles:
        named = config.get(f"{role}_token")
        named = named.get("content") if isinstance(named, dict) else named
        if isinstance(named, str) and named in ids:
            special[role] = ids[named]
    return special


def _classic_files(tokenizer: FastTokenizer) -> dict[str, bytes]:
    """vocab.txt, or vocab.json and merges.txt, as written by the package; empty for models without such files."""
    if type(tokenizer.model).__name__ not in ("WordPiece", "BPE"):
        return {}
    with tempfile.TemporaryDirectory() as directory:
        names = [os.path.basename(str(name)) for name in tokenizer.model.save(directory)]
        return {name: Path(directory, name).read_bytes() for name in sorted(names)}


def read_config(directory: Path) -> JsonObject:
    """tokenizer_config.json in `directory`, without code; empty if there is none. Raises BundleError."""
    path = directory / CONFIG
    if not path.is_file():
        return {}
    return {key: value for key, value in read_object(path).items() if key != "auto_map"}


def read_marker(directory: Path) -> JsonObject:
    """The content of `nlptools_tokenizer.json` in `directory`; empty if there is none. Raises BundleError."""
    path = directory / MARKER
    if not path.is_file():
        return {}
    marker = read_object(path)
    if not isinstance(marker.get("kind"), str) or not isinstance(marker.get("lowercase", False), bool):
        raise BundleError(f"{display(str(path))}: expected a kind and lowercase")
    return marker


def read_ids(path: Path) -> dict[str, int]:
    """The JSON object of token: id in a file. Raises BundleError."""
    ids: dict[str, int] = {}
    for token, id in read_object(path).items():
        if not isinstance(id, int) or isinstance(id, bool):
            raise BundleError(f"{display(str(path))}: expected an object of token: id")
        ids[token] = id
    return ids


def read_object(path: Path) -> JsonObject:
    """The JSON object in a file, with finite numbers only. Raises BundleError."""
    return _parse(_read(path), path)


def _read(path: Path) -> str:
    """The text of a file of at most MAX_JSON_BYTES. Raises BundleError."""
    return read_bytes(path, MAX_JSON_BYTES).decode("utf-8", "replace")


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises BundleError."""
    try:
        if not path.is_file():
            raise BundleError(f"{display(str(path))}: no such file, or not a regular one")
        if path.stat().st_size > limit:
            raise BundleError(f"{display(str(path))}: larger than {limit >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{display(str(path))}: {reason(error)}") from None


def _parse(text: str, path: Path) -> JsonObject:
    """A JSON object, see `json_text`. Raises BundleError."""
    try:
        value = json_text.parsed(text)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{display(str(path))}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{display(str(path))}: expected a JSON object, found {type(value).__name__}")
    return value


def json_bytes(value: Mapping[str, Json]) -> bytes:
    """A JSON file, indented; lone surrogates are escaped."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
