"""Sentences in CoNLL-U, with all columns of their words: part of speech, morphology, dependency tree.

https://universaldependencies.org/format.html. `conll.read_columns` reads the lines; this module checks what a sentence of CoNLL-U
must be: ten columns, words numbered from 1, and for trees, heads that form a tree with one root.
Lines of text and other columns of words, which have no annotation yet, become CoNLL-U.
Shapes: W words of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nlptools import messages
from nlptools.errors import UsageError, shown
from nlptools.formats.conll import CONLLU, read_columns
from nlptools.formats.examples import TaggedSentence, UniversalSentence
from nlptools.formats.lines import column_numbers
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_schemes import place_of
from nlptools.formats.token_lines import Row

FORM, UPOS, XPOS, FEATS, HEAD, DEPREL = map(CONLLU.index, ("form", "upos", "xpos", "feats", "head", "deprel"))
NOT_LABELS = ("id", "form", "head")  # columns that are no labels of words
ROOT = "root"  # the relation of the word that depends on no other
_NONE = "_"
_NO_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # numbers of multiword tokens and empty nodes
_HINT = "see https://universaldependencies.org/format.html"


def label_columns(text: str) -> tuple[str, ...]:
    """The columns of CoNLL-U in --label-column, names or numbers between commas, by name.

    Raises:
        DataError: no such column.
        UsageError: a column twice, or one that has no labels.
    """
    names = tuple(CONLLU[i] for i in column_numbers(text, CONLLU, len(CONLLU), "CoNLL-U"))
    for name in names:
        if name in NOT_LABELS or names.count(name) > 1:
            reason = "has no labels of words" if name in NOT_LABELS else "is named twice"
            raise UsageError(f"--label-column {text}: the column {name} {reason}", hint="such as upos,xpos,feats")
    return names


def column_of(text: str) -> str:
    """The name of the column of CoNLL-U that a name or a number from 1 stands for; "" for another column."""
    number = int(text) if text.isdecimal() else 0
    return text.lower() if text.lower() in CONLLU else CONLLU[number - 1] if 0 < number <= len(CONLLU) else ""


def read_universal(path: str, options: Options, errors: str = "strict") -> Iterator[UniversalSentence]:
    """The sentences of a file.

    With `options.labelled`, or with ten columns between tabs, the file is CoNLL-U; else its lines are sentences or words to
    annotate, see `tag_layouts`. With `options.labelled` and `options.trees`, the heads are read.

    Raises:
        DataError: not ten columns, wrong numbers of words, heads that are no tree; with file, line and hint.
        InputError, StreamError: see `streams.blocks`.
    """
    layout = "conllu" if options.labelled else options.layout
    for sentence in read_columns(path, replace(options, layout=layout, labelled=False, label_column=None), errors):
        if sentence.words or not options.labelled:
            yield _universal(sentence, options)


def _universal(sentence: TaggedSentence, options: Options) -> UniversalSentence:
    if sentence.layout != "conllu":
        return as_universal(sentence)
    fields = tuple(tuple(row.text.split("\t")) for row in sentence.rows if row.word is not None)
    for offset, row in enumerate(sentence.rows):
        _check_row(sentence, offset, row)
    heads = _tree(sentence, fields) if options.trees and options.labelled else None
    return UniversalSentence(sentence.words, fields, sentence.place, sentence.rows, heads)


def _check_row(sentence: TaggedSentence, offset: int, row: Row) -> None:
    """Check the number of the word and the columns of a line. Raises DataError."""
    if row.word is None and (not row.text.strip("\t ") or row.text.startswith("#")):
        return
    place = replace(sentence.place, line=sentence.place.line + offset)
    fields = row.text.split("\t")
    if len(fields) != len(CONLLU):
        raise place.error(f"{messages.counted(len(fields), 'tab-separated column')}, expected {len(CONLLU)}", _HINT)
    if row.word is None and not _NO_WORD.fullmatch(fields[0]):
        raise place.error(f"id {shown(fields[0])}, expected a number, a range (1-2) or a decimal (1.1)", _HINT)
    if row.word is not None and fields[0] != str(row.word + 1):
        raise place.error(f"id {shown(fields[0])}, expected {row.word + 1}", "the words of a sentence count from 1")


def _tree(sentence: TaggedSentence, fields: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The head of each word, 0 the root: (W,). Raises DataError if they are no tree."""
    heads = []
    for word, row in enumerate(fields):
        if not re.fullmatch(r"[0-9]{1,9}", row[HEAD]) or int(row[HEAD]) > len(fields):
            message = (
                f"head {shown(row[HEAD])}, expected the number of a word of the sentence (1 to {len(fields)}), or 0"
            )
            raise place_of(sentence, word).error(message, "0 is the head of the root")
        heads.append(int(row[HEAD]))
    roots = [word for word, head in enumerate(heads) if not head]
    if len(roots) != 1 and fields:
        message = f"{len(roots)} words have the head 0, expected one root"
        hint = "one word of each sentence depends on no other word"
        raise place_of(sentence, roots[1] if roots else 0).error(message, hint)
    for word in cycle(heads)[:1]:
        raise place_of(sentence, word).error(f"the heads of word {word + 1} lead back to it", "heads form a tree")
    return tuple(heads)


def cycle(heads: Sequence[int]) -> list[int]:
    """The words, from 0, of a cycle among `heads` (numbers from 1, 0 the root); empty if every word leads to the root."""
    reached = [0] * len(heads)  # the word, from 1, from which each word was reached first
    for start in range(1, len(heads) + 1):
        at = start
        while at and not reached[at - 1]:
            reached[at - 1] = start
            at = heads[at - 1]
        if at and reached[at - 1] == start:
            words = [at]
            while heads[words[-1] - 1] != at:
                words.append(heads[words[-1] - 1])
            return sorted(word - 1 for word in words)
    return []


# -- back -------------------------------------------------------------------------------------------------------------


def annotated(sentence: UniversalSentence, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The lines of a sentence, with the values (W,) of some columns replaced; all else is unchanged."""
    places = [(CONLLU.index(name), values) for name, values in columns.items()]
    lines = []
    for row in sentence.rows:
        if row.word is None:
            lines.append(row.text)
            continue
        fields = row.text.split("\t")
        for place, values in places:
            fields[place] = values[row.word]
        lines.append("\t".join(fields))
    return lines


def as_universal(sentence: TaggedSentence) -> UniversalSentence:
    """The sentence with its lines; with new ones if it is not CoNLL-U. Without `fields`."""
    rows = sentence.rows if sentence.layout == "conllu" else _new_rows(sentence.words)
    return UniversalSentence(sentence.words, (), sentence.place, rows, layout=sentence.layout)


def _new_rows(words: Sequence[str]) -> tuple[Row, ...]:
    """The lines of a sentence without any annotation, the blank line after it included."""
    empty = [_NONE] * (len(CONLLU) - 2)
    rows = [
        Row("\t".join([str(number), word.replace("\t", " ") or _NONE, *empty]), number - 1)
        for number, word in enumerate(words, 1)
    ]
    return (*rows, Row(""))
