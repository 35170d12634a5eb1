"""Vocabularies: tokens with ids, counts and special tokens; files of `token TAB count`.

The id of a token is its line number, counted from 0. Backslash, tab and line ends inside a token are escaped as in TSV.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nlptools.errors import BundleError, DataError, display
from nlptools.files import atomic, line_records, streams

ROLES = ("pad", "unk", "bos", "eos", "cls", "sep", "mask")

# Usual names of special tokens, by role.
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "bos": ("<s>", "<bos>", "[BOS]", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "[EOS]", "<|endoftext|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


class Vocab:
    """Tokens in the order of their ids, and the special tokens.

    Attributes:
        tokens: the tokens by id.
        ids: the id of each token.
        counts: occurrences of each token in the training text, by id; zeros if not known.
        pad, unk, bos, eos, cls, sep, mask: ids of special tokens, or None.
    """

    pad: int | None
    unk: int | None
    bos: int | None
    eos: int | None
    cls: int | None
    sep: int | None
    mask: int | None

    def __init__(
        self,
        tokens: Iterable[str],
        counts: Sequence[int] | None = None,
        special: Mapping[str, int | None] | None = None,
    ) -> None:
        """Args:
            special: the id of each role (`unk`, `bos`, ...); default: the tokens with the usual names.

        Raises:
            ValueError: a token occurs twice.
        """
        self.tokens = list(tokens)
        self.ids = {token: id for id, token in enumerate(self.tokens)}
        if len(self.ids) != len(self.tokens):
            repeated = next(token for id, token in enumerate(self.tokens) if self.ids[token] != id)
            raise ValueError(f"token {repeated!r} occurs twice")
        self.counts = list(counts) if counts is not None else [0] * len(self.tokens)
        special_ids = usual_specials(self.ids) if special is None else special
        for role in ROLES:
            setattr(self, role, special_ids.get(role))

    def __len__(self) -> int:
        """Number of ids, which start at 0."""
        return len(self.tokens)

    def never_generated(self, eos: int, size: int) -> list[int]:
        """Ids that a model with `size` ids must not generate: special tokens except `eos`, and ids beyond the vocabulary."""
        special = {self.unk, self.pad, self.bos, self.cls, self.sep, self.mask}
        unknown = range(len(self), size)
        return sorted(id for id in {*special, *unknown} - {eos} if id is not None and id < size)

    def token(self, id: int) -> str:
        """The token of an id. Raises IndexError for an id out of range."""
        if id < 0:
            raise IndexError(f"id {id} is negative")
        return self.tokens[id]

    def id(self, token: str) -> int:
        """The id of a token, or `unk` for an unknown one. Raises KeyError if there is no `unk`."""
        id = self.ids.get(token, self.unk)
        if id is None:
            raise KeyError(token)
        return id

    @property
    def marks(self) -> frozenset[int]:
        """Ids of the special tokens except `unk`; they represent no text."""
        return frozenset(id for role, id in self.roles.items() if role != "unk")

    @property
    def roles(self) -> dict[str, int]:
        """The id of each special token, by role."""
        ids = (self.pad, self.unk, self.bos, self.eos, self.cls, self.sep, self.mask)
        return {role: id for role, id in zip(ROLES, ids, strict=True) if id is not None}

    @classmethod
    def load(cls, path: str | Path) -> Vocab:
        """Read a file of `token` or `token TAB count` lines.

        Raises:
            InputError: no such file, a directory, unreadable.
            BundleError: invalid UTF-8, a count that is not a whole number, an empty or a repeated token, an empty file.
        """
        tokens: list[str] = []
        counts: list[int] = []
        first: dict[str, int] = {}
        try:
            for block in streams.blocks(path):
                for number, line in enumerate(block.lines, block.start):
                    token, count = _row(line, block.path, number)
                    if token in first:
                        raise DataError(f"token {token!r} is also on line {first[token]}", path=block.path, line=number)
                    first[token] = number
                    tokens.append(token)
                    counts.append(count)
        except DataError as error:
            raise BundleError(str(error)) from None
        if not tokens:
            raise BundleError(f"{display(str(path))}: an empty vocabulary")
        return cls(tokens, counts)

    def save(self, path: str | Path) -> None:
        """Write `token TAB count` lines. Raises StreamError when the disk is full."""
        atomic.write_whole(path, "".join(line + "\n" for line in self.lines()))

    def lines(self) -> Iterable[str]:
        """The lines of the file that `save` writes, without their ends."""
        return (f"{line_records.escape(token)}\t{count}" for token, count in zip(self.tokens, self.counts, strict=True))


def usual_specials(ids: Mapping[str, int]) -> dict[str, int | None]:
    """The id of each role, by the usual names; `<|endoftext|>` is both `bos` and `eos` (GPT-2)."""
    return {role: next((ids[name] for name in names if name in ids), None) for role, names in USUAL_NAMES.items()}


def _row(line: str, path: str, number: int) -> tuple[str, int]:
    """Token and count of a line. Raises DataError."""
    parts = line.split("\t")
    token = line_records.unescape(parts[0])
    if not token:
        raise DataError("an empty token, expected token TAB count", path=path, line=number)
    if len(parts) == 1:
        return token, 0
    if len(parts) > 2 or not (parts[1].isascii() and parts[1].isdigit()) or len(parts[1]) > 18:
        raise DataError(f"expected token TAB count, found {line[:80]!r}", path=path, line=number)
    return token, int(parts[1])
