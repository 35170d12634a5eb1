"""Sentences in lines of columns, as in all files of the CoNLL shared tasks.

A token per line, a blank line after each sentence. A line with `-X-` in the first column also ends a sentence, as in
conlleval. `conll` describes the layouts; evaluation (`metrics.tags`) reads its columns with `sentences` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

BOUNDARY = "-X-"
DOCSTART = "-DOCSTART-"


class Row(NamedTuple):
    """One line of a file of columns.

    Attributes:
        text: the unchanged line, without its end.
        word: number of the word that it describes, from 0; None for blank lines, comments, `-DOCSTART-`, and the
            multiword and empty nodes of CoNLL-U.
    """

    text: str
    word: int | None = None


class Sentence(NamedTuple):
    """The tokens of a sentence.

    Attributes:
        line: number of the line of the first token; without tokens, of the first row.
        tokens: the columns of each token.
        rows: all unchanged lines since the previous sentence, if they are kept.
    """

    line: int
    tokens: list[list[str]]
    rows: list[Row]


def sentences(
    blocks: Iterable[tuple[int, Iterable[str]]],
    check: Callable[[int, list[str], int], None],
    *,
    split: Callable[[str], list[str]] | None = None,
    boundaries: Collection[str] = (BOUNDARY,),
    skip: Callable[[int, str], bool] | None = None,
    keep: bool = False,
) -> Iterator[Sentence]:
    """The sentences of a file, each as soon as its last line has been read.

    Args:
        blocks: number of the first line, and the lines.
        check: called with line number, columns and the expected number of columns (0 at the first token) when a token
            has another number of columns than the one before.
        split: the columns of a line, none for a blank line. None: between any spaces and tabs. Other white space, such as
            U+00A0, is part of a word.
        boundaries: first columns of lines that end a sentence and are no tokens.
        skip: whether a line is neither a token nor the end of a sentence, such as a comment. Only with `split`.
        keep: fill `rows`; lines after the last sentence become a last sentence without tokens.
    """
    tokens: list[list[str]] = []
    rows: list[Row] = []
    line = width = 0
    for start, block in blocks:
        for number, text in enumerate(block, start):
            if split is None:  # without a call for each line: evaluation reads many tokens in little time
                columns = text.replace("\t", " ").split(" ")
                if "" in columns:
                    columns = [column for column in columns if column]
            elif skip is not None and skip(number, text):
                line = line or number
                rows.append(Row(text))
                continue
            else:
                columns = split(text)
            if not columns or columns[0] in boundaries:
                if keep:
                    line = line or number
                    rows.append(Row(text))
                if tokens:
                    yield Sentence(line, tokens, rows)
                    tokens, rows, line = [], [], 0
                continue
            if len(columns) != width:
                check(number, columns, width)
                width = len(columns)
            if not tokens:
                line = number
            if keep:
                rows.append(Row(text, len(tokens)))
            tokens.append(columns)
    if tokens or rows:
        yield Sentence(line, tokens, rows)
