"""ARPA files: n-gram tables as text.

    \\data\\
    ngram 1=3
    ngram 2=1

    \\1-grams:
    -0.4771213<TAB><unk><TAB>0
    ...
    \\end\\

A line holds the log10 probability, the words with spaces between them, and the log10 back-off weight, which the longest
n-grams do not have and others may leave out. Files of KenLM, SRILM and IRSTLM are read, with any number of spaces, tabs and
blank lines. Files are written as KenLM writes them, sorted by words. Words end at white space of ASCII alone: a no-break space
or an ideographic one belongs to its word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nlptools import messages
from nlptools.arrays import Floats, Longs
from nlptools.errors import DataError, shown
from nlptools.files import streams
from nlptools.files.input_parts import BOM
from nlptools.files.prefetch import mapped
from nlptools.files.streams import LineWriter
from nlptools.models.language.arpa_lines import NEVER, ArpaLines
from nlptools.models.language.ngram import SPECIAL, Level, NGramConfig, NGrams
from nlptools.text.vocab import Vocab

ROWS = 1 << 15  # n-grams written at a time: their bytes fit in a cache
_BLOCK = 1 << 22  # bytes read at a time
_BLANKS = b" \t\r"
_COUNT = re.compile(rb"ngram[ \t]+(\d{1,3})[ \t]*=[ \t]*(\d{1,18})")
_SPACE = re.compile(rb"[\t-\r ]")  # no word of a text has it

_RESERVED = frozenset((*SPECIAL, *(name.upper() for name in SPECIAL)))  # some tools write capitals


def names(vocab: Vocab, config: NGramConfig, eos: int) -> list[str]:
    """The words of a model for a file, all different: the special ones under the names that ARPA files expect.

    White space of ASCII in others becomes `<0x20>` and the like. A name that is another word's gets angle brackets around it.
    """
    special = {i: name for name, i in zip(SPECIAL, (vocab.unk, config.bos, eos), strict=True) if i is not None}
    tokens = [*vocab.tokens, *(f"<{i}>" for i in range(len(vocab), config.vocab_size))]
    escaped = [re.sub(r"[\t-\r \0]", lambda match: f"<0x{ord(match[0]):02X}>", token) for token in tokens]
    free = [i not in special and name == token for i, (name, token) in enumerate(zip(escaped, tokens, strict=True))]
    taken = {name for name, is_free in zip(escaped, free, strict=True) if is_free} | _RESERVED
    for i, name in enumerate(escaped):
        if i in special:
            escaped[i] = special[i]
        elif not free[i] or name in _RESERVED or not name:
            while name in taken or not name:
                name = f"<{name}>"
            taken.add(name)
            escaped[i] = name
    return escaped


# -- writing ------------------------------------------------------------------------------------------------------------


def write(model: NGrams, words: Sequence[str], out: LineWriter, threads: int = 1) -> None:
    """Write a model with this vocabulary (see `names`), with this many threads. Raises StreamError."""
    head = "".join(f"ngram {n}={len(level)}\n" for n, level in enumerate(model.levels, 1))
    out.write(f"\\data\\\n{head}")
    lines = ArpaLines(model, [word.encode("utf-8", "surrogatepass") for word in words])
    for n, level in enumerate(model.levels, 1):
        out.write(f"\n\\{n}-grams:")
        starts = range(0, len(level), ROWS)
        spans = [(n, start, min(start + ROWS, len(level))) for start in starts]
        for rows in mapped(lambda span: lines.rows(*span), spans, threads):
            out.write(rows.data)
        out.write("\n")
    out.write("\n\\end\\\n")


# -- reading ------------------------------------------------------------------------------------------------------------


def read(path: str, errors: str = "strict") -> tuple[NGrams, list[str]]:
    """The model and the vocabulary of an ARPA file, compressed or not, or of standard input (`-`).

    Numbers of n-grams that the head does not announce, missing sections, positive log probabilities and the like are
    refused. Contexts that a pruned file lacks are added, with their backed-off probabilities and a warning.

    Args:
        errors: with "strict", a word that is not UTF-8 is refused; else it has a name such as `caf\\xe9`, and there is a warning.

    Raises:
        InputError: no such file.
        DataError: with the line.
    """
    return _Reader(path, errors).model()


class _Section(NamedTuple):
    """The n-grams of one length, in the order of the file."""

    words: Longs  # (G, n)
    log_probs: Floats  # (G,); NaN for n-grams that the file lacks
    backoffs: Floats  # (G,)


class _Reader:
    """The sections of one file, in turn."""

    def __init__(self, path: str, errors: str) -> None:
        self._path, self._errors = path, errors
        self._lines = self._numbered()
        self._number = 0
        self._held: bytes | None = None  # the line after a section, to be read again
        self._words: dict[bytes, int] = {}
        self._damaged = self._separated = 0  # words that no text has

    def model(self) -> tuple[NGrams, list[str]]:
        counts = self._head()
        sections = [self._unigrams(counts[0])]
        sections += [self._section(n, count) for n, count in enumerate(counts[1:], 2)]
        self._end()
        names = self._names(len(sections[0].words))
        added = 0
        while (model := _tree(sections)) is None:
            added += _add_contexts(sections)
        for n, level in enumerate(model.levels, 1):
            if (np.diff(level.keys) == 0).any():
                raise DataError(f"a {n}-gram occurs twice", path=self._path)
        if added:
            messages.warn(
                f"{self._path}: {added:,} n-grams that begin longer ones are missing; their probabilities follow"
            )
        return model, names

    def _numbered(self) -> Iterator[bytes]:
        for chunk in streams.line_chunks(self._path, _BLOCK):
            if not self._number:
                chunk = chunk.removeprefix(BOM)
            for line in chunk.removesuffix(b"\n").split(b"\n"):
                self._number += 1
                yield line.strip(_BLANKS)

    def _refuse(self, what: str, hint: str | None = None) -> DataError:
        return DataError(what, path=self._path, line=self._number, hint=hint)

    def _filled(self, expected: str) -> bytes:
        """The next line that is not blank."""
        if self._held is not None:
            line, self._held = self._held, None
            return line
        for line in self._lines:
            if line:
                return line
        raise self._refuse(f"the file ends, expected {expected}")

    def _head(self) -> list[int]:
        line = self._filled("\\data\\")
        while line.startswith(b"#"):
            line = self._filled("\\data\\")
        if line != b"\\data\\":
            raise self._refuse(f"{shown(line.decode(errors='replace'))}, expected \\data\\", "is this an ARPA file?")
        counts: list[int] = []
        for line in self._lines:
            if not line:
                continue
            if counts and line.startswith(b"\\"):
                self._held = line
                break
            match = _COUNT.fullmatch(line)
            if match is None or int(match[1]) != len(counts) + 1:
                raise self._refuse(f"expected `ngram {len(counts) + 1}=` and a number")
            counts.append(int(match[2]))
        if not counts:
            raise self._refuse("the file ends, expected the numbers of n-grams")
        return counts

    def _title(self, n: int) -> None:
        title = b"\\%d-grams:" % n
        if self._filled(title.decode()) != title:
            raise self._refuse(f"expected {title.decode()}")

    def _rows(self, n: int, count: int) -> Iterator[tuple[float, list[bytes], float]]:
        """(log10 probability, words, log10 back-off weight) of each line of a section."""
        self._title(n)
        rows = 0
        for line in self._lines:
            if not line:
                continue
            row = None if line.startswith(b"\\") else _row(line, n)
            if row is None and (line.startswith(b"\\") or rows == count):
                self._held = line
                break
            if row is None:
                raise self._refuse(f"expected a number, {n} words and at most one more number")
            if row[0] > 0:
                raise self._refuse(f"the log10 probability is {row[0]:g}, expected at most 0")
            rows += 1
            yield row
        if rows != count:
            raise self._refuse(f"{rows:,} {n}-grams, the head announces {count:,}")

    def _unigrams(self, count: int) -> _Section:
        """The single words. The special ones come first, whether the file has them or not."""
        rows: dict[bytes, tuple[float, float]] = {}
        for log_prob, (word,), backoff in self._rows(1, count):
            if word in rows:
                raise self._refuse("a word occurs twice")
            rows[word] = log_prob, backoff
            self._check(word)
        special = [word.encode() for word in SPECIAL]
        capitals = {word.upper(): word for word in special}  # as some tools write them
        for theirs, word in capitals.items():
            rows.setdefault(word, rows.pop(theirs, (NEVER, 0.0)))
        self._words = {word: i for i, word in enumerate(dict.fromkeys([*special, *rows]))}
        values = np.array([rows[word] for word in self._words], np.float32)
        self._words |= {theirs: self._words[word] for theirs, word in capitals.items() if theirs not in rows}
        return _Section(np.arange(len(values))[:, None], values[:, 0], values[:, 1])

    def _check(self, word: bytes) -> None:
        """Count words that no text has. Raises DataError for one that is not UTF-8, if `errors` is strict."""
        self._separated += bool(_SPACE.search(word))
        try:
            word.decode()
        except UnicodeDecodeError:
            self._damaged += 1
            if self._errors == "strict":
                hint = "convert with iconv, or choose --encoding-errors replace or ignore"
                raise self._refuse(f"the word {shown(_name(word))} is invalid UTF-8", hint) from None

    def _names(self, count: int) -> list[str]:
        """The first words as text, all different. Warns of those that no text has."""
        words = list(self._words)[:count]
        names = [_name(word) for word in words]
        if self._damaged:
            taken = {name for name, word in zip(names, words, strict=True) if name.encode() == word}
            for i, word in enumerate(words):
                if names[i].encode() != word:
                    while names[i] in taken:
                        names[i] = f"<{names[i]}>"
                    taken.add(names[i])
        for number, what in ((self._damaged, "invalid UTF-8"), (self._separated, "white space")):
            if number:
                counted = messages.counted(number, "word")
                messages.warn(f"{self._path}: {counted} with {what}, which no text has: unknown in any text")
        return names

    def _section(self, n: int, count: int) -> _Section:
        ids: list[int] = []
        numbers: list[float] = []
        for log_prob, words, backoff in self._rows(n, count):
            try:
                ids += [self._words[word] for word in words]
            except KeyError as error:
                word = error.args[0].decode(errors="replace")
                raise self._refuse(f"{shown(word)} is not among the single words") from None
            numbers += (log_prob, backoff)
        values = np.array(numbers, np.float32).reshape(-1, 2)
        return _Section(np.array(ids, np.int64).reshape(-1, n), values[:, 0], values[:, 1])

    def _end(self) -> None:
        if self._filled("\\end\\") != b"\\end\\":
            raise self._refuse("expected \\end\\")
        for line in self._lines:
            if line:
                raise self._refuse("text after \\end\\")


def _row(line: bytes, n: int) -> tuple[float, list[bytes], float] | None:
    """(log10 probability, words, log10 back-off weight) of a line of n words; None for another kind of line."""
    fields = line.split(b"\t")
    words = fields[1].split(b" ") if len(fields) in (2, 3) else []
    if len(words) != n:  # some tools write spaces only, or tabs
        fields = [field for field in line.replace(b"\t", b" ").split(b" ") if field]
        words, fields = fields[1 : n + 1], [fields[0], b"", *fields[n + 1 :]]
    try:
        log_prob = float(fields[0])
        backoff = float(fields[2]) if len(fields) == 3 else 0.0
    except ValueError:
        return None
    if len(words) != n or len(fields) > 3 or math.isnan(log_prob) or not abs(backoff) < 1000:
        return None
    return max(log_prob, NEVER), words, backoff


def _name(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")


def _tree(sections: Sequence[_Section]) -> NGrams | None:
    """The model of all sections; None if the first words of an n-gram are not in the section before."""
    config = NGramConfig(len(sections[0].words), len(sections))
    model = NGrams(config, [Level(sections[0].words[:, 0], *sections[0][1:])])
    for section in sections[1:]:
        contexts = _places(model, section.words[:, :-1])
        if (contexts < 0).any():
            return None
        keys = contexts * model.vocab_size + section.words[:, -1]
        ranks = np.argsort(keys)
        level = Level(keys[ranks], section.log_probs[ranks], section.backoffs[ranks])
        missing = np.flatnonzero(np.isnan(level.log_probs))
        for place, row in zip(missing, section.words[ranks[missing]], strict=True):
            below = model.levels[-1].backoffs
            assert below is not None
            level.log_probs[place] = below[level.keys[place] // model.vocab_size] + model.score(row).log_probs[-1]
        model.levels.append(level)
    model.levels[-1] = replace(model.levels[-1], backoffs=None)
    return model


def _places(model: NGrams, words: Longs) -> Longs:
    """The index of each n-gram (G, n) in its level; -1 for those that the model does not have."""
    index = words[:, 0]
    for level, column in zip(model.levels[1:], words.T[1:], strict=False):
        index = np.where(index < 0, -1, level.table.find(index * model.vocab_size + column)[0])
    return index


def _add_contexts(sections: list[_Section]) -> int:
    """Add the missing first words of the longest n-grams to the section before; returns how many there are."""
    for n in range(len(sections), 2, -1):
        have = set(map(tuple, sections[n - 2].words.tolist()))
        missing = sorted(set(map(tuple, sections[n - 1].words[:, :-1].tolist())) - have)
        if missing:
            words, log_probs, backoffs = sections[n - 2]
            sections[n - 2] = _Section(
                np.concatenate([words, np.array(missing, np.int64)]),
                np.append(log_probs, np.full(len(missing), np.nan, np.float32)),
                np.append(backoffs, np.zeros(len(missing), np.float32)),
            )
            return len(missing)
    return 0
