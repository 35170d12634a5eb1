"""The tokenizers of MarianMT directories: two SentencePiece models with a table of ids.

Such a directory (Marian: Junczys-Dowmunt et al. 2018, arXiv:1804.00344, in the layout of Hugging Face) contains two SentencePiece
models, `source.spm` and `target.spm`, and the id of each piece in `vocab.json`, for both sides unless `target_vocab.json` exists.
Departures from Hugging Face's tokenizer: text does not become a special token, and `>>xx<<` at the beginning of a text is a token
only if the vocabulary contains it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from nlptools.errors import BundleError, display
from nlptools.files import atomic
from nlptools.json_types import Json
from nlptools.text import huggingface, sentencepiece_file
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import write_marker
from nlptools.text.pieces import SentencePiece
from nlptools.text.vocab import Vocab

PAD = "<pad>"
SOURCE, TARGET = "source.spm", "target.spm"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"
_OURS = re.compile(r"<(pad|unused)_\d+>_*")  # names of tokens that must not come from text


class Marian:
    """A SentencePiece model with a table of ids; implements `tokenizer.Tokenizer`.

    Attributes:
        sentencepiece: the model.
        vocab: all tokens, including those that only the model of the other side has.
        settings: the content of tokenizer_config.json, such as the languages.
        table: the id of each piece of the model; None: the model's own ids.
    """

    kind = "marian"

    def __init__(self, sentencepiece: SentencePiece, ids: Mapping[str, int], settings: Mapping[str, Json]) -> None:
        """Args:
            ids: the id of each piece; other pieces are unknown.
            settings: names of special tokens under `unk_token`, `eos_token`, `pad_token`, if they are not the usual ones.

        Raises:
            BundleError: the tokens lack an unknown or a padding token, or the ids are invalid.
        """
        self.sentencepiece, self.settings = sentencepiece, dict(settings)
        self.lowercase = sentencepiece.lowercase
        self.vocab = _vocab(ids, self.settings)
        unk, pad = self.vocab.unk, self.vocab.pad
        if unk is None or pad is None:
            raise BundleError(f"the vocabulary has no {'<unk>' if unk is None else PAD}")
        self._unk, name = unk, self.vocab.token(pad)
        pieces = sentencepiece.vocab
        # a piece named like the padding token is not the padding token: see `tokenizer_pairs.pair`
        table = [ids.get(_renamed(i) if text == name else text, unk) for i, text in enumerate(pieces.tokens)]
        if pieces.ids.get(name) == pad:
            table[pad] = pad
        if pieces.unk is not None:
            table[pieces.unk] = unk
        self.table = None if table == list(range(len(table))) else table
        known, marks = pieces.ids, self.vocab.marks
        rest = {t: i for t, i in ids.items() if t not in known and i not in marks and not _OURS.fullmatch(t)}
        self._tags = {t: i for t, i in rest.items() if t.startswith(">>") and t.endswith("<<")}
        self._rest = {t: i for t, i in rest.items() if t not in self._tags}  # tokens that are not pieces of the model
        self._tags |= {t: table[i] for t, i in known.items() if t.startswith(">>") and t.endswith("<<")}

    def tokens(self, text: str) -> list[str]:
        """The pieces of one line; an unknown piece is the text itself."""
        return self.tokens_lines([text])[0]

    def tokens_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[str]]:
        """The pieces of each of many lines."""
        texts, tags = self._cut(lines)
        rows = self.sentencepiece.tokens_lines(texts, threads)
        for i, tag in tags.items():
            rows[i] = [tag, *rows[i]]
        return rows

    def encode(self, text: str) -> list[int]:
        """The ids of one line, without beginning and end marks."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of each of many lines."""
        texts, tags = self._cut(lines)
        rows = self.sentencepiece.encode_lines(texts, threads)
        unk = self.sentencepiece.vocab.unk
        unknown = [i for i, row in enumerate(rows) if unk in row] if self._rest else []
        if self.table is not None:
            get = self.table.__getitem__
            rows = [list(map(get, row)) for row in rows]
        if unknown:  # a piece that this model does not know may still be in the vocabulary
            pieces = self.sentencepiece.tokens_lines([texts[i] for i in unknown], threads)
            for i, tokens in zip(unknown, pieces, strict=True):
                rows[i] = [self._id(token) for token in tokens]
        for i, tag in tags.items():
            rows[i] = [self._tags[tag], *rows[i]]
        return rows

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens. Raises IndexError for an id out of range."""
        return self.decode_tokens([self.vocab.token(id) for id in ids])

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """The text of pieces, without special tokens."""
        marks, ids = self.vocab.marks, self.vocab.ids
        return self.sentencepiece.decode_tokens([token for token in tokens if ids.get(token) not in marks])

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The span of characters of `text` that each piece covers."""
        [rest], tags = self._cut([text])
        cut = len(text) - len(rest)
        spans = [(a + cut, b + cut) for a, b in self.sentencepiece.offsets(rest)]
        return [(0, cut), *spans] if tags else spans

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """See `tokenizer.Tokenizer`: a directory with this tokenizer on both sides. Its class adds the end of a sentence."""
        return write_directory(directory, self, self)

    def json_obstacle(self) -> str:
        """See `tokenizer.Tokenizer`."""
        return ""

    def _cut(self, lines: Sequence[str]) -> tuple[Sequence[str], dict[int, str]]:
        """The texts without the language tags at their beginning, and the tags by line number."""
        tags: dict[int, str] = {}
        if not self._tags or not any(line.startswith(">>") for line in lines):
            return lines, tags
        texts = list(lines)
        for i, line in enumerate(texts):
            tag = line[: line.find("<<") + 2] if line.startswith(">>") else ""
            if tag in self._tags:
                tags[i], texts[i] = tag, line[len(tag) :]
        return texts, tags

    def _id(self, token: str) -> int:
        id = self.sentencepiece.vocab.ids.get(token)
        if id is None:
            return self._rest.get(token, self._unk)
        return id if self.table is None else self.table[id]


def _vocab(ids: Mapping[str, int], settings: Mapping[str, Json]) -> Vocab:
    """The tokens by id; special tokens by the names in `settings`. Raises BundleError."""
    size = max(ids.values(), default=-1) + 1
    if not ids or min(ids.values()) < 0 or size > 2 * len(ids) + 65536:
        raise BundleError(f"ids up to {size - 1} for {len(ids)} tokens")
    by_id = {id: token for token, id in ids.items()}
    if len(by_id) != len(ids):
        raise BundleError("two tokens have one id")
    tokens = [by_id[id] if id in by_id else _free(_filler(id), ids) for id in range(size)]  # ids need not be contiguous
    return Vocab(tokens, special=huggingface.named_specials(ids, settings, ("pad", "unk", "eos")))


def with_pad(tokens: Sequence[str], place: int) -> list[str]:
    """`tokens` with PAD inserted at `place`, with filler tokens before it if needed; another token named PAD is renamed."""
    taken = set(tokens)
    kept = [_free(_renamed(id), taken) if token == PAD else token for id, token in enumerate(tokens)]
    fillers = [_free(_filler(id), taken) for id in range(len(tokens), place)]
    return [*kept[:place], *fillers, PAD, *kept[place:]]


def _renamed(id: int) -> str:
    return f"<pad_{id}>"


def _filler(id: int) -> str:
    return f"<unused_{id}>"


def _free(name: str, taken: Container[str]) -> str:
    return name if name not in taken else _free(name + "_", taken)


# -- directories ------------------------------------------------------------------------------------------------------


def read_directory(path: Path, lowercase: bool = False) -> tuple[Marian, Marian]:
    """The tokenizers of the source and of the target in the directory `path`; the same object if they are equal.

    Args:
        lowercase: lower-case the text first, even if the directory does not record this setting.

    Raises:
        BundleError: a damaged, unsafe or missing file.
    """
    settings = huggingface.read_config(path)
    lowercase = lowercase or bool(huggingface.read_marker(path).get("lowercase", False))
    separate = settings.get("separate_vocabs", (path / TARGET_VOCAB).is_file())
    models = [_read_model(path / name) for name in (SOURCE, TARGET if (path / TARGET).is_file() else SOURCE)]
    tables = [huggingface.read_ids(path / name) for name in (VOCAB, TARGET_VOCAB)[: 1 + bool(separate)]]
    try:
        source = Marian(SentencePiece(models[0], str(path / SOURCE), lowercase), tables[0], settings)
        if models[0] == models[1] and not separate:
            return source, source
        return source, Marian(SentencePiece(models[1], str(path / TARGET), lowercase), tables[-1], settings)
    except BundleError as error:
        place = "" if str(error).startswith(display(str(path))) else f"{display(str(path / VOCAB))}: "
        raise BundleError(place + str(error), hint=error.hint) from None


def write_directory(path: Path, source: Marian, target: Marian) -> list[str]:
    """Write the tokenizers of both sides into the directory `path`; returns the names of the files.

    Raises:
        StreamError: disk full or another write error.
    """
    separate = source.vocab.tokens != target.vocab.tokens
    names = []
    for side, name in ((source, SOURCE), (target, TARGET)):
        atomic.write_whole(path / name, side.sentencepiece.model)
        names.append(name)
    for side, name in ((source, VOCAB), (target, TARGET_VOCAB))[: 1 + separate]:
        atomic.write_whole(path / name, huggingface.json_bytes(side.vocab.ids))
        names.append(name)
    roles = source.vocab.roles
    settings = {
        "source_lang": None,
        "target_lang": None,
        "model_max_length": 512,
        **source.settings,
        **{f"{role}_token": source.vocab.token(roles[role]) for role in ("unk", "eos", "pad") if role in roles},
        "separate_vocabs": separate,
        "tokenizer_class": "MarianTokenizer",
    }
    atomic.write_whole(path / huggingface.CONFIG, huggingface.json_bytes(settings))
    marker = [write_marker(path, Marian.kind, True)] if source.lowercase else []
    return [*names, huggingface.CONFIG, *marker]


def _read_model(path: Path) -> bytes:
    return huggingface.read_bytes(path, sentencepiece_file.MAX_FILE_BYTES)
