"""Documents with coreference chains, in the columns of the CoNLL-2012 shared task.

Pradhan et al. 2012 (W12-4501); the chains as the official scorer reads them (Pradhan et al. 2014, P14-2006). A document is
between `#begin document (NAME); part 000` and `#end document`: a word per line, a blank line after each sentence, columns
between spaces or tabs, as many as the line has. The word is the fourth column, the chains of the word are the last one:
    -       none (or _)
    (7      a mention of chain 7 begins at this word
    7)      the mention of chain 7 that began last ends at this word
    (7)     this word is a mention of chain 7
    (7|(2)  several of these; what begins at a word is read before what ends there
Mentions may be nested, also in the same chain, and cross. A span that is in several chains, or in one chain more than once,
counts the first time only, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nlptools import messages
from nlptools.errors import DataError, UsageError, display, shown
from nlptools.formats.examples import Chain, CoreferenceDocument, Span
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines
from nlptools.formats.reading_options import Options
from nlptools.formats.token_lines import Row

WORD_COLUMN = "4"
NO_CHAIN = ("-", "_")
_BEGIN = re.compile(r"#\s*begin document\s+(.*)")
_END = re.compile(r"#\s*end document")
_PART = re.compile(r"(\()?([0-9]{1,18})(\))?")
_CELL_HINT = "expected -, or (7, 7), (7) for chain 7, several between |"
_LAST_FIELD = re.compile(r"[^ \t]+[ \t]*$")


def read_chains(path: str, options: Options, errors: str = "strict") -> Iterator[CoreferenceDocument]:
    """The documents of a file, each as soon as its last line has been read.

    Without `options.labelled`, a document with words in its last column has no chains, and lines after the last document
    become a last example without words.

    Raises:
        DataError: a word outside a document, a document without end, a line without word, a malformed column of chains, a
            mention that does not begin or does not end; with file, line and hint. And the errors of `streams.blocks`.
        UsageError: a layout other than CoNLL-2012's, or a column of words that is not a number.
    """
    layout_of("chains", path, options.layout)
    column = (*options.text_column, WORD_COLUMN)[0]
    if not re.fullmatch("[1-9][0-9]{0,8}", column):
        raise UsageError(f"--text-column {column}: the columns of CoNLL-2012 have no names, expected a number from 1")
    return _documents(InputLines(path, errors), int(column), options.labelled)


def read_key(path: str, errors: str = "strict") -> list[CoreferenceDocument]:
    """The documents of a file with chains in its last column, without the words: `words` are empty strings.

    Raises:
        DataError: as `read_chains`; no documents; two documents of the same name.
    """
    lines = InputLines(path, errors)
    documents: dict[str, CoreferenceDocument] = {}
    for document in _documents(lines, 0, True):
        if document.name in documents:
            first = documents[document.name].place.line
            hint = f"the first one begins at line {first}; remove one of them, or number their parts"
            raise document.place.error(f"a second document {shown(document.name)}", hint)
        documents[document.name] = document
    if not documents:
        raise lines.refuse(0, "no documents", "expected #begin document (NAME); part 000 before the first word")
    return list(documents.values())


@dataclass
class _Reading:
    """A document that has begun."""

    name: str
    line: int
    words: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # the first word of each sentence
    between: bool = True  # sentences
    has_chains: bool = True
    chains: dict[str, list[Span]] = field(default_factory=dict)
    begun: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # (word, line) of the mentions that are open


def _documents(lines: InputLines, word: int, labelled: bool) -> Iterator[CoreferenceDocument]:
    """The documents of a file. `word`: the column of the words from 1, 0 if they are not read."""
    rows: list[Row] = []
    reading: _Reading | None = None
    repeated = 0
    for number, text in lines:
        begin = _BEGIN.match(text)
        if begin or not text.strip(" \t") or _END.match(text):
            rows.append(Row(text))
            if begin and reading is not None:
                raise _endless(lines, reading)
            if begin:
                reading = _Reading(begin[1].strip(), number)
            elif reading is not None and text.strip(" \t"):
                document, twice = _finished(lines, reading, rows, number)
                repeated += twice
                yield document
                rows, reading = [], None
            elif reading is not None:
                reading.between = True
            continue
        if reading is None:
            hint = "each document begins with a line #begin document (NAME); part 000"
            raise lines.refuse(number, "a word outside a document", hint)
        rows.append(Row(text, len(reading.words)))
        _add_word(lines, number, text, reading, word, labelled)
    if reading is not None:
        raise _endless(lines, reading)
    if rows and not labelled:
        yield CoreferenceDocument("", (), (), None, lines.place(0), tuple(rows))
    if repeated:
        what = f"{messages.counted(repeated, 'mention')} repeated in the same or another chain: the first one counts"
        messages.warn(f"{display(lines.path)}: {what}")


def _add_word(lines: InputLines, number: int, text: str, reading: _Reading, word: int, labelled: bool) -> None:
    """Add the word of a line and what its last column says."""
    columns = text.split()
    here = len(reading.words)
    if reading.between:
        reading.starts.append(here)
        reading.between = False
    if not here and not labelled:
        reading.has_chains = len(columns) > 1 and _is_cell(columns[-1])
    if word > len(columns) - reading.has_chains:
        hint = f"the word is column {word}, the chains are the last one; --text-column N: another column of words"
        raise lines.refuse(
            number, f"{messages.counted(len(columns), 'column')}, no column {word} before the chains", hint
        )
    reading.words.append(columns[word - 1] if word else "")
    if reading.has_chains:
        _add_mentions(lines, number, columns[-1], here, reading)


def _is_cell(text: str) -> bool:
    return text in NO_CHAIN or all(_PART.fullmatch(part) and part.strip("0123456789") for part in text.split("|"))


def _add_mentions(lines: InputLines, number: int, cell: str, word: int, reading: _Reading) -> None:
    """Add the mentions that begin or end at a word. Raises DataError."""
    if cell in NO_CHAIN:
        return
    if not _is_cell(cell):
        raise lines.refuse(number, f"the column of chains is {shown(cell)}", _CELL_HINT)
    parts = [part.group(1, 2, 3) for part in map(_PART.fullmatch, cell.split("|")) if part is not None]
    for opens, chain, closes in parts:
        if opens:
            spans = reading.chains.setdefault(chain, [])
            if closes:
                spans.append((word, word))
            else:
                reading.begun.setdefault(chain, []).append((word, number))
    for opens, chain, closes in parts:
        if closes and not opens:
            if not reading.begun.get(chain):
                hint = f"write ({chain} at its first word, or ({chain}) if the mention is this word"
                raise lines.refuse(number, f"a mention of chain {chain} ends that has not begun", hint)
            reading.chains[chain].append((reading.begun[chain].pop()[0], word))


def _finished(lines: InputLines, reading: _Reading, rows: list[Row], number: int) -> tuple[CoreferenceDocument, int]:
    """The document that ends at line `number`, and how many of its mentions are repeated. Raises DataError."""
    for chain, begun in reading.begun.items():
        for _, line in begun[:1]:
            hint = f"write {chain}) at its last word, before #end document in line {number}"
            raise lines.refuse(line, f"a mention of chain {chain} begins that does not end", hint)
    seen: set[Span] = set()
    chains: list[Chain] = []
    for spans in reading.chains.values():
        once = tuple(dict.fromkeys(span for span in spans if span not in seen))
        seen.update(once)
        if once:
            chains.append(once)
    repeated = sum(map(len, reading.chains.values())) - len(seen)
    known = tuple(chains) if reading.has_chains else None
    place = lines.place(reading.line)
    words, starts = tuple(reading.words), tuple(reading.starts)
    return CoreferenceDocument(reading.name, words, starts, known, place, tuple(rows)), repeated


def _endless(lines: InputLines, reading: _Reading) -> DataError:
    hint = "each document ends with a line #end document"
    return lines.refuse(reading.line, f"document {shown(reading.name)} does not end", hint)


# -- back -------------------------------------------------------------------------------------------------------------


def with_chains(document: CoreferenceDocument, chains: Sequence[Chain]) -> list[str]:
    """The lines of a document, with `chains` in the last column: instead of those in the file, if it has any. Chains are
    numbered in the order of their first mentions.
    """
    cells: list[list[tuple[tuple[int, int], str]]] = [[] for _ in document.words]
    ordered = sorted((sorted(chain) for chain in chains if chain), key=lambda chain: chain[0])
    for number, chain in enumerate(ordered):
        for start, end in chain:
            if start == end:
                cells[start].append(((1, 0), f"({number})"))
            else:
                cells[start].append(((0, -end), f"({number}"))  # the longest first
                cells[end].append(((2, -start), f"{number})"))  # the shortest first
    lines = []
    for row in document.rows:
        if row.word is None:
            lines.append(row.text)
            continue
        cell = "|".join(text for _, text in sorted(cells[row.word])) or NO_CHAIN[0]
        stripped = row.text.rstrip(" \t")
        if document.chains is None:
            separator = "\t" if "\t" in stripped else " "
            lines.append(f"{stripped}{separator}{cell}")
        else:
            lines.append(_LAST_FIELD.sub(lambda _, cell=cell: cell, stripped))  # type: ignore[misc]
    return lines
