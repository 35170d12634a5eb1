"""The examples of each task, which readers return and writers take.

Every example has a `Place`, so that later errors (an unknown label, a truncated text) name file and line. A gold label is
None if the file has none, as in a test set: examples for training and for prediction have the same type.
Offsets count characters (Unicode code points) of a text from 0; token numbers count words from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.errors import DataError, display
from nlptools.formats.token_lines import Row


@dataclass(frozen=True)
class Place:
    """The place where an example begins.

    Attributes:
        path: the file, `-` for standard input.
        line: number of its first line, from 1; 0 if not known.
    """

    path: str
    line: int

    def __str__(self) -> str:
        return f"{display(self.path)}:{self.line}"

    def error(self, message: str, hint: str | None = None) -> DataError:
        """The error of data at this place."""
        return DataError(message, path=self.path, line=self.line or None, hint=hint)


@dataclass(frozen=True)
class Columns:
    """Which columns of a file have the texts and the label.

    Attributes:
        texts: names in the header, keys of objects, or numbers from 1.
        label: the name, key or number of the label; "": none.
        width: number of columns of the first line, if they have no names; else 0.
        delimiter: of CSV; "" for other layouts.
    """

    texts: tuple[str, ...]
    label: str = ""
    width: int = 0
    delimiter: str = ""


@dataclass(frozen=True)
class TextExample:
    """One text (`classify`, `regress`) or two (`pair`, `regress`), and their label.

    Attributes:
        texts: one or two strings, perhaps empty.
        label: the class by its name in the file, or the number as text (`regress`); None if it has none.
        id: its id in the file (the column `index` of GLUE, `pair_ID` of SICK).
        columns: the unchanged fields of its line; for objects and TREC one field: the object as JSON, the line.
        labels: all its classes if an example can have several; `label` is None then.
        header: the fields of the first line of its file, if that is a header.
        layout: of `columns`: "table" (between tabs), "csv" or "jsonl".
        read: the columns of its file that were read, if it has columns.
    """

    texts: tuple[str, ...]
    label: str | None
    place: Place
    id: str | None = None
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    layout: str = "table"
    read: Columns | None = None


@dataclass(frozen=True)
class TextGroup:
    """Two texts that belong together, or two texts and how similar they are.

    Attributes:
        texts: the two texts, then texts that do not belong to the first one.
        score: None: the first two belong together.
    """

    texts: tuple[str, ...]
    score: float | None
    place: Place


@dataclass(frozen=True)
class TaggedSentence:
    """W words and their tags.

    Attributes:
        words: (W,). Empty for the blank lines and comments after the last sentence: without labels, these are a last
            example, so that they can be written back.
        tags: (W,), or None if the file has none.
        rows: all lines from the end of the previous sentence to the blank line after this one, inclusive: the rows of
            all examples, concatenated, are the file.
        scheme: of the tags in the file, None if unknown.
        layout: of the file: conll, conllu or lines.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    place: Place
    rows: tuple[Row, ...] = ()
    scheme: str | None = None
    layout: str = "conll"

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence, with spaces between words."""
        return (" ".join(self.words),)


@dataclass(frozen=True)
class UniversalSentence:
    """W words in CoNLL-U and their annotation.

    Attributes:
        words: (W,), perhaps none, as in TaggedSentence.
        fields: the ten columns of each word, (W, 10); empty for lines that are not CoNLL-U.
        rows: as in TaggedSentence; for lines that are not CoNLL-U, new ones.
        heads: (W,) the number of the head of each word from 1, 0 for the root; None if they were not read.
        layout: of the file: conll, conllu or lines.
    """

    words: tuple[str, ...]
    fields: tuple[tuple[str, ...], ...]
    place: Place
    rows: tuple[Row, ...]
    heads: tuple[int, ...] | None = None
    layout: str = "conllu"

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence, with spaces between words."""
        return (" ".join(self.words),)

    def column(self, number: int) -> tuple[str, ...]:
        """The values (W,) of a column, counted from 0."""
        return tuple(fields[number] for fields in self.fields)


@dataclass(frozen=True)
class AnswerSpan:
    """An answer as a span of its context: `context[start : start + len(text)] == text`."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context.

    Attributes:
        answers: the spans of the context that answer it; empty if it has no answer or the file has none.
        impossible: whether the context has no answer; None if unknown (version 1.1, test sets).
        yes_no: the answer "yes" or "no" (with or without a span that supports it), "none" if the answer is neither, None if
            unknown.
    """

    id: str
    question: str
    context: str
    answers: tuple[AnswerSpan, ...]
    impossible: bool | None
    place: Place
    yes_no: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return (self.question, self.context)


@dataclass(frozen=True)
class Choice:
    """A context and several endings; one is the right continuation.

    Attributes:
        endings: two or more; their common beginning (`sent2` of SWAG) is part of each.
        label: number of the right ending, from 0; None if unknown.
    """

    context: str
    endings: tuple[str, ...]
    label: int | None
    place: Place
    id: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return (self.context, *self.endings)


@dataclass(frozen=True)
class PredicateSentence:
    """One predicate of a sentence of W words, and who does what to whom.

    Attributes:
        words: (W,), at least one.
        predicate: number of the predicate among the words.
        sense: its sense in PropBank (`have.03`), None if unknown.
        roles: (W,) IOB2 tags of the arguments, None if unknown.
        rows: as in TaggedSentence, for the first predicate of a sentence, preceded by the rows of sentences without
            predicates before it (with `word` None); empty for the other predicates.
    """

    words: tuple[str, ...]
    predicate: int
    sense: str | None
    roles: tuple[str, ...] | None
    place: Place
    rows: tuple[Row, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The sentence, with spaces between words."""
        return (" ".join(self.words),)


@dataclass(frozen=True)
class Coreference:
    """A pronoun and the two names that it may refer to.

    Attributes:
        label: "A", "B" or "neither"; None if unknown.
    """

    id: str
    text: str
    pronoun: str
    pronoun_offset: int
    name_a: str
    a_offset: int
    name_b: str
    b_offset: int
    label: str | None
    place: Place

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts."""
        return (self.text,)


Span = tuple[int, int]  # the first and the last word of a mention
Chain = tuple[Span, ...]  # the mentions of one entity


@dataclass(frozen=True)
class CoreferenceDocument:
    """A document of W words, and which of its spans mention the same entities.

    Attributes:
        name: as in the line `#begin document`, with the part.
        words: (W,). Empty for the lines after the last document: without labels, these are a last example, so that they can
            be written back.
        sentences: the first word of each sentence.
        chains: in the order in which they begin; a span is in one chain at most. None if the file has none.
        rows: all lines from the end of the previous document to `#end document`.
    """

    name: str
    words: tuple[str, ...]
    sentences: tuple[int, ...]
    chains: tuple[Chain, ...] | None
    place: Place
    rows: tuple[Row, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The document, with spaces between words."""
        return (" ".join(self.words),)


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation, or a plain text.

    Attributes:
        role: "system", "user" or "assistant"; "" of plain text.
    """

    role: str
    content: str


Turns = tuple[Turn, ...]


@dataclass(frozen=True)
class Demonstration:
    """A prompt and the answer to it, or a conversation with several answers.

    Attributes:
        learned: number of the first turn that may be an answer; from this turn on, plain texts and turns of the assistant are
            answers.
    """

    turns: Turns
    learned: int
    place: Place


@dataclass(frozen=True)
class Ranking:
    """Responses to a prompt: the best first if read with labels, else in the order of the file.

    Attributes:
        responses: one or more; each begins with the white space that separates it from the prompt, if any.
        ranks: of each response, lower is better, equal ones are ties. Empty if the file has none.
        margin: minimum difference between the rewards of a response and of a worse one.
    """

    prompt: Turns
    responses: tuple[Turns, ...]
    ranks: tuple[float, ...]
    place: Place
    margin: float = 0.0

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the prompt and the responses."""
        return tuple(turn.content for turns in (self.prompt, *self.responses) for turn in turns)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The numbers of each better and each worse response."""
        count = len(self.ranks)
        return [(i, j) for i in range(count) for j in range(i + 1, count) if self.ranks[i] < self.ranks[j]]


@dataclass(frozen=True)
class Judgement:
    """A response to a prompt, and whether it is a good one."""

    prompt: Turns
    response: Turns
    good: bool
    place: Place


# of tasks with a head
TaskExample = (
    TextExample
    | TaggedSentence
    | UniversalSentence
    | Question
    | Choice
    | PredicateSentence
    | Coreference
    | CoreferenceDocument
    | Ranking
)
Example = TaskExample | TextGroup | Demonstration | Judgement
