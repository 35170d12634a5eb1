"""Sentences in columns: the files of the CoNLL shared tasks, and CoNLL-U.

Tjong Kim Sang & Buchholz 2000, W00-0726; https://universaldependencies.org/format.html. One word per line, a blank line
after each sentence, tags in some of the columns. A line with `-X-` in the first column also ends a sentence, as in conlleval.
`token_lines.sentences` reads the lines of all layouts. Training and evaluation differ in two rules:
    columns       training (`read_columns`): tabs separate the columns of a line that has a tab, since a word may contain
                  spaces; evaluation (`metrics.tags.read_tags`): spaces and tabs do, since users join gold and predicted
                  columns with either
    `-DOCSTART-`  training: ends a sentence and is no word; evaluation: a token, as in conlleval, unless the user skips it
Layouts of `read_columns`:
    conll   columns as above
    conllu  ten or more columns between tabs; comments, multiword tokens and empty nodes (`1-2`, `1.1`) are no words
    lines   a sentence per line, words between spaces, no tags
Without `Options.layout`, `.conllu` files are conllu, and `.conll` files and all training files are conll. `tag_layouts`
recognizes the layout of other files to predict.
`read_columns` keeps every line unchanged, so that `with_tags` returns the file with an additional column of predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nlptools import messages
from nlptools.errors import DataError, UsageError
from nlptools.formats.examples import TaggedSentence
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines, column_number
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_layouts import recognized
from nlptools.formats.token_lines import BOUNDARY, DOCSTART, Row, Sentence, sentences

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NAMES = {3: ("word", "pos", "chunk"), 4: ("word", "pos", "chunk", "ner")}  # CoNLL-2000, CoNLL-2003


def read_columns(path: str, options: Options, errors: str = "strict") -> Iterator[TaggedSentence]:
    """The sentences of a file, each as soon as its last line has been read.

    Raises:
        DataError: a line has too few columns or another number than the first, or a named column does not exist; names
            file, line and remedy.
        InputError, StreamError: see `streams.blocks`.
        UsageError: a layout that the task does not have.
    """
    layout = layout_of("tag", path, options.layout)
    lines = InputLines(path, errors)
    if layout == "auto":
        layout = "conll" if options.tagged is None else recognized(lines, options, options.tagged)
    return _one_line_each(lines, options) if layout == "lines" else _Columns(lines, layout, options).read()


def split_tabs(line: str) -> list[str]:
    """The columns of a line: between tabs if it has any, so that a word may contain spaces; else between spaces."""
    if "\t" in line:
        stripped = line.rstrip("\t ")
        return stripped.split("\t") if stripped else []
    return [field for field in line.split(" ") if field]


# -- sentences with words and tags ------------------------------------------------------------------------------------


class _Columns:
    """The columns of the words and the tags of one file, known from its first token."""

    def __init__(self, lines: InputLines, layout: str, options: Options) -> None:
        self.lines, self.options = lines, options
        self.universal = layout == "conllu"
        self.word: int = 0
        self.tag: int | None = None

    def read(self) -> Iterator[TaggedSentence]:
        """The sentences of the file."""
        split = _split_conllu if self.universal else split_tabs
        blocks = [(1, (line for _, line in self.lines))]
        skip = self._skip_conllu if self.universal else _is_comment if self.options.comments else None
        for sentence in sentences(
            blocks, self._check, split=split, boundaries=(BOUNDARY, DOCSTART), skip=skip, keep=True
        ):
            if sentence.tokens or not self.options.labelled:
                yield self._tagged(sentence)

    def _tagged(self, sentence: Sentence) -> TaggedSentence:
        start = sentence.line - next((i for i, row in enumerate(sentence.rows) if row.word == 0), 0)
        last = max(self.word, self.tag or 0)
        for offset, row in enumerate(sentence.rows):
            if row.word is None:
                continue
            columns = sentence.tokens[row.word]
            if last >= len(columns) or not columns[self.word] or (self.tag is not None and not columns[self.tag]):
                raise self.lines.refuse(start + offset, "an empty column", "a missing word or tag is written `_`")
        words = tuple(columns[self.word] for columns in sentence.tokens)
        tags = None if self.tag is None else tuple(columns[self.tag] for columns in sentence.tokens)
        layout = "conllu" if self.universal else "conll"
        return TaggedSentence(words, tags, self.lines.place(start), tuple(sentence.rows), layout=layout)

    def _skip_conllu(self, number: int, line: str) -> bool:
        """Whether a line of CoNLL-U is a comment, a multiword token or an empty node."""
        if not line.strip("\t "):
            return False
        if line.startswith("#"):
            return True
        id = line.split("\t", 1)[0]
        if id.isdecimal() or id in (BOUNDARY, DOCSTART):
            return False
        if not set(id) <= set("0123456789-.") or not id:
            raise self.lines.refuse(number, f"expected the number of a word, got {id!r}", _CONLLU_CURE)
        return True

    def _check(self, number: int, fields: list[str], width: int) -> None:
        """Check the number of columns; the first token determines the columns of words and tags."""
        if not width:
            self._begin(number, fields)
        elif not self.universal:
            cure = "all words of a file have the same columns, and a blank line separates sentences"
            raise self.lines.refuse(number, f"{messages.counted(len(fields), 'column')}, expected {width}", cure)
        if self.universal and len(fields) < len(CONLLU):
            raise self.lines.refuse(
                number, f"{messages.counted(len(fields), 'column')}, expected {len(CONLLU)}", _CONLLU_CURE
            )

    def _begin(self, number: int, fields: Sequence[str]) -> None:
        path, width = self.lines.path, len(fields)
        names = CONLLU if self.universal else _NAMES.get(width, ())
        self.word = column_number((*self.options.text_column, "form" if self.universal else "1")[0], names, width, path)
        column = self.options.label_column
        if column is None and self.universal:
            if not self.options.labelled:
                return
            hint = "--label-column upos, xpos, feats or deprel, or a number"
            raise DataError("which column has the tags?", path=path, line=number, hint=hint)
        try:
            self.tag = column_number(column or "-1", names, width, path)
        except DataError:
            if self.options.labelled:
                raise
        if self.tag == self.word:
            if self.options.labelled:
                hint = "the word first, its tag last, between spaces or tabs"
                raise self.lines.refuse(number, f"{messages.counted(width, 'column')}, expected a word and a tag", hint)
            self.tag = None


_CONLLU_CURE = "CoNLL-U has ten tab-separated columns; --layout conll takes any columns"


def _split_conllu(line: str) -> list[str]:
    return line.split("\t") if line.strip("\t ") else []


def _is_comment(number: int, line: str) -> bool:
    return line.startswith(("# ", "#\t"))


def _one_line_each(lines: InputLines, options: Options) -> Iterator[TaggedSentence]:
    for number, line in lines:
        yield TaggedSentence(tuple(options.words_of(line)), None, lines.place(number), (Row(line),), layout="lines")


# -- back -------------------------------------------------------------------------------------------------------------


def with_tags(sentence: TaggedSentence, tags: Sequence[str], universal: bool | None = None) -> list[str]:
    """The unchanged lines of a sentence, with `tags` (W,) as an additional last column.

    The tag of `-DOCSTART-` and `-X-` is O, the tag of multiword tokens and empty nodes of CoNLL-U is `_`; blank lines and
    comments have none. If the last column of the file has the gold tags, the output suits conlleval.

    Args:
        universal: the rows are CoNLL-U; None: if the first word is numbered 1 and has ten columns between tabs.
    """
    if len(tags) != len(sentence.words):
        raise UsageError(f"{len(tags)} tags for {len(sentence.words)} words")
    if universal is None:
        universal = any(row.word == 0 and row.text.count("\t") >= 9 and row.text[:2] == "1\t" for row in sentence.rows)
    lines = []
    for row in sentence.rows:
        stripped = row.text.rstrip("\t ")
        if row.word is None and (not stripped or stripped.startswith("#")):
            lines.append(row.text)
            continue
        field = tags[row.word] if row.word is not None else "_" if universal else "O"
        if universal:
            lines.append(f"{row.text}\t{field}")
        else:
            lines.append(f"{stripped}{_separator(stripped)}{field}")
    return lines


def _separator(line: str) -> str:
    return "\t" if "\t" in line else " "
