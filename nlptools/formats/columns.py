"""Tagged sentences in columns: those of the CoNLL shared tasks, CoNLL-U, and words on one line.

Tjong Kim Sang & Buchholz 2000, W00-0726; https://universaldependencies.org/format.html. One word per line, a blank line
behind each sentence, a tag in one of the columns. Layouts:
    conll   columns between spaces or, in a line that has one, tabs; `-DOCSTART-` lines end a sentence and are no words
    conllu  ten or more columns between tabs; comments, multiword and empty nodes (`1-2`, `1.1`) are no words
    lines   a sentence per line, words between spaces, no tags
Every line is kept as it stands, so that `with_tags` gives the file back with a column of predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nlptools.errors import DataError, UsageError
from nlptools.formats.conll import BOUNDARY, DOCSTART
from nlptools.formats.examples import Row, TaggedSentence
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import Lines, column_number, columns
from nlptools.formats.reading_options import Options

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NAMES = {3: ("word", "pos", "chunk"), 4: ("word", "pos", "chunk", "ner")}  # CoNLL-2000, CoNLL-2003


def read_columns(path: str, options: Options, errors: str = "strict") -> Iterator[TaggedSentence]:
    """The sentences of a file, each as soon as its last line has come.

    Raises:
        DataError: a line has too few columns or not as many as the first, or there is no column as the user names;
            names file, line and cure. And what `streams.blocks` raises.
        UsageError: a layout that the task does not have.
    """
    layout = layout_of("tag", path, options.layout)
    lines = Lines(path, errors)
    if layout == "lines":
        yield from _one_line_each(lines)
        return
    reader = _Reader(lines, layout, options)
    for number, line in lines:
        if reader.add(number, line):
            yield reader.sentence()
    if reader.words or (reader.rows and not options.labelled):
        yield reader.sentence()


def fields_of(line: str) -> list[str]:
    """The columns of a line: between tabs if it has any, else between spaces, any number of them."""
    if "\t" in line:
        return line.rstrip("\t ").split("\t")
    return [field for field in line.split(" ") if field]


class _Reader:
    """Lines, one at a time, into sentences."""

    def __init__(self, lines: Lines, layout: str, options: Options) -> None:
        self.lines, self.options = lines, options
        self.universal = layout == "conllu"
        self.width = self.word_at = 0  # of the first word line
        self.tag_at: int | None = None
        self._clear()

    def _clear(self) -> None:
        self.rows: list[Row] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.start = 0

    def add(self, number: int, line: str) -> bool:
        """Take a line; whether it ends a sentence."""
        if self._is_comment(line):
            self._keep(number, line)
            return False
        fields = line.split("\t") if self.universal else fields_of(line)
        if not line.strip("\t ") or fields[0] in (BOUNDARY, DOCSTART):
            self._keep(number, line)
            return bool(self.words)
        if self.universal and not fields[0].isdecimal():
            if not set(fields[0]) <= set("0123456789-.") or not fields[0]:
                raise self.lines.refuse(number, f"expected the number of a word, got {fields[0]!r}", _CONLLU_CURE)
            self._keep(number, line)
            return False
        self._check(number, fields)
        self._keep(number, line, len(self.words))
        self.words.append(fields[self.word_at])
        if self.tag_at is not None:
            self.tags.append(fields[self.tag_at])
        return False

    def sentence(self) -> TaggedSentence:
        """What has been taken since the last sentence."""
        tags = tuple(self.tags) if self.tag_at is not None else None
        made = TaggedSentence(tuple(self.words), tags, self.lines.place(self.start), tuple(self.rows))
        self._clear()
        return made

    def _keep(self, number: int, line: str, word: int | None = None) -> None:
        self.start = self.start or number
        self.rows.append(Row(line, word))

    def _is_comment(self, line: str) -> bool:
        if self.universal:
            return line.startswith("#")
        return self.options.comments and line.startswith(("# ", "#\t"))

    def _check(self, number: int, fields: Sequence[str]) -> None:
        """The columns are as expected; the first line says what is to be expected."""
        if not self.width:
            self._begin(number, fields)
        elif not self.universal and len(fields) != self.width:
            cure = "each word of a file has the same columns; a blank line stands between sentences"
            raise self.lines.refuse(number, f"{columns(len(fields))}, expected {self.width}", cure)
        if self.universal and len(fields) < len(CONLLU):
            raise self.lines.refuse(number, f"{columns(len(fields))}, expected {len(CONLLU)}", _CONLLU_CURE)
        if not fields[self.word_at] or (
            self.tag_at is not None and not (self.tag_at < len(fields) and fields[self.tag_at])
        ):
            raise self.lines.refuse(number, "an empty column", "a word or a tag that is not there is written `_`")

    def _begin(self, number: int, fields: Sequence[str]) -> None:
        self.width = len(fields)
        path = self.lines.path
        names = CONLLU if self.universal else _NAMES.get(self.width, ())
        word = self.options.word_column or ("form" if self.universal else "1")
        self.word_at = column_number(word, names, self.width, path)
        column = self.options.label_column
        if column is None and self.universal:
            if not self.options.labelled:
                return
            hint = "--label-column upos, xpos, feats or deprel, or a number"
            raise DataError("which column has the tags?", path=path, line=number, hint=hint)
        try:
            self.tag_at = column_number(column or "-1", names, self.width, path)
        except DataError:
            if self.options.labelled:
                raise
        if self.tag_at == self.word_at:
            if self.options.labelled:
                hint = "the word first, its tag last, between spaces or tabs"
                raise self.lines.refuse(number, f"{columns(self.width)}, expected a word and a tag", hint)
            self.tag_at = None


_CONLLU_CURE = "CoNLL-U has ten columns between tabs; --layout conll takes any columns"


def _one_line_each(lines: Lines) -> Iterator[TaggedSentence]:
    for number, line in lines:
        words = tuple(word for word in line.split(" ") if word)
        yield TaggedSentence(words, None, lines.place(number), (Row(line),))


# -- back -------------------------------------------------------------------------------------------------------------


def with_tags(sentence: TaggedSentence, tags: Sequence[str], universal: bool | None = None) -> list[str]:
    """The lines of a sentence as they stood, with a last column of `tags` (W,).

    `-DOCSTART-` and `-X-` get an O, multiword and empty nodes of CoNLL-U a `_`, blank lines and comments nothing. The
    last two columns are then gold and predicted tags, as conlleval takes them, if the tags came from the last column.

    Args:
        universal: the rows are CoNLL-U; None: if their lines look so, the words numbered in the first of ten columns.
    """
    if len(tags) != len(sentence.words):
        raise UsageError(f"{len(tags)} tags for {len(sentence.words)} words")
    if universal is None:
        universal = any(row.word == 0 and row.text.count("\t") >= 9 and row.text[:2] == "1\t" for row in sentence.rows)
    made = []
    for row in sentence.rows:
        stripped = row.text.rstrip("\t ")
        if row.word is None and (not stripped or stripped.startswith("#")):
            made.append(row.text)
            continue
        field = tags[row.word] if row.word is not None else "_" if universal else "O"
        if universal:
            made.append(f"{row.text}\t{field}")
        else:
            made.append(f"{stripped}{_separator(stripped)}{field}")
    return made


def _separator(line: str) -> str:
    return "\t" if "\t" in line else " "
