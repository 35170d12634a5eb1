"""The layout of a file of words to tag: columns, or sentences, one per line.

The first block of two or more lines decides; a blank line ends a block, and comments (`# ...`) do not count:
    conllu  ten columns between tabs, the first a number
    conll   a tab; `-DOCSTART-` or `-X-` at the start; an option that only columns have (--text-column, --comments); tags in
            the last column of at least half of the lines; one word in each line; or a regular block with one column less
            than the training files of the model, which lacks the tags
    lines   all other files
A block is regular if its lines have the same number of fields between spaces, and it ends at a blank line or has five lines
or more. A regular block with another number of fields is refused: it may be either.
Two lines of different lengths are enough to recognize sentences; the reader waits for no more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from nlptools import messages
from nlptools.errors import display
from nlptools.formats.lines import InputLines
from nlptools.formats.reading_options import Options, TagColumns, at_spaces
from nlptools.formats.tag_schemes import is_span_tag
from nlptools.formats.token_lines import BOUNDARY, DOCSTART

_MOST = 1000  # lines that are looked at
_REGULAR = 5
_UNIVERSAL = 9  # tabs of a line of CoNLL-U
_PLACEHOLDERS = ("_", "-")  # in the column of the tags, if they are unknown
_CURE = "--layout lines: a sentence per line; --layout conll: a word per line, in any columns"


def recognized(lines: InputLines, options: Options, learned: TagColumns) -> str:
    """The layout of a file to predict: conll, conllu or lines.

    Raises:
        DataError: the file may be columns or sentences.
    """
    explicit = options.text_column or options.label_column or options.comments
    layout = "conll" if explicit else _of_first_block(lines, learned)
    messages.detail(f"{display(lines.path)}: read with --layout {layout}")
    return layout


def _of_first_block(lines: InputLines, learned: TagColumns) -> str:
    """The layout by the first block of two or more lines. Raises DataError."""
    rows: list[list[str]] = []
    block, start, ended = (
        0,
        1,
        False,
    )  # lines of the block so far, number of its first line, whether a blank line follows
    for number, text in islice(lines.ahead(), _MOST):
        if text.startswith(("# ", "#\t")):
            continue
        fields = at_spaces(text)
        if "\t" in text.strip():
            return "conllu" if text.count("\t") >= _UNIVERSAL and text.split("\t")[0].isdecimal() else "conll"
        if not rows and fields[:1] in ([BOUNDARY], [DOCSTART]):
            return "conll"
        if fields:
            rows.append(fields)
            start, block = (start, block + 1) if block else (number, 1)
        elif block > 1:
            ended = True
            break
        else:
            block = 0
        if fields and len(fields) != len(rows[0]):
            break
    tagged = sum(_has_tag(fields, learned.tags) for fields in rows)
    if rows and 2 * tagged >= len(rows):
        return "conll"
    width = len(rows[0]) if rows else 0
    if block < 2 or any(len(fields) != width for fields in rows):
        return "lines"
    if width > 1 and not ended and block < _REGULAR:
        return "lines"
    if width not in (1, learned.count - 1):
        raise lines.refuse(start, f"{width} fields in each line: columns or sentences?", _CURE)
    return "conll"


def _has_tag(fields: Sequence[str], tags: Collection[str]) -> bool:
    """Whether the last field of a line is a tag."""
    last = fields[-1]
    return len(fields) > 1 and (last in tags or last in _PLACEHOLDERS or is_span_tag(last))
