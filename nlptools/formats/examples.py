"""One example of each task, as the readers give it and the writers take it back.

Every example knows its `Place`, so that whatever turns out wrong later (a label that training never saw, a text that is
cut) can still be told with file and line. Gold answers are None where the file has none, as in a test set: what is read
for prediction and what is read for training have the same type.
Offsets count characters (Unicode code points) of the text they belong to, from 0; token numbers count words, from 0.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where an example begins.

    Attributes:
        path: the file, `-` for standard input.
        line: number of its first line, from 1.
    """

    path: str
    line: int


@dataclass(frozen=True)
class TextExample:
    """One text (`classify`) or two (`pair`, `regress`), and what is said of them.

    Attributes:
        texts: one or two strings, perhaps empty.
        label: the class by its name in the file, or the number as text (`regress`); None where none is given.
        id: what the file calls it (the column `index` of GLUE, `pair_ID` of SICK).
        columns: the fields of its line as they stand in the file, joined by tabs it comes back; one field, the line,
            for JSON lines and TREC.
        labels: all its classes when the task has several at once, perhaps none; `label` is None then.
        header: the fields of the first line of its file, if that names the columns.
    """

    texts: tuple[str, ...]
    label: str | None
    place: Place
    id: str | None = None
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    header: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of a file of columns.

    Attributes:
        text: the line as it stands, without its end.
        word: which word of the sentence it describes, from 0; None for blank lines, comments, `-DOCSTART-`, and the
            multiword and empty nodes of CoNLL-U.
    """

    text: str
    word: int | None = None


@dataclass(frozen=True)
class TaggedSentence:
    """W words and their tags.

    Attributes:
        words: (W,). None in one case: read without labels, blank lines and comments at the end of a file that belong to
            no sentence come as a last example without words, so that they can be written back.
        tags: (W,), or None where the file has none.
        rows: all lines from the end of the sentence before to the blank line behind this one, that one too: those of
            all examples of a file, one after the other, are the file.
        scheme: of the tags in the file, None where it is not known.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    place: Place
    rows: tuple[Row, ...] = ()
    scheme: str | None = None


@dataclass(frozen=True)
class Answer:
    """An answer that stands in its context: `context[start : start + len(text)] == text`."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context.

    Attributes:
        answers: the places in the context that answer it; none where it has no answer, or none is given.
        impossible: whether the context does not answer it; None where that is not told (version 1.1, test sets).
        yes_no: "yes" or "no" where that is the answer (with or without a place that says so), "none" where the file
            tells that it is neither, None where it tells nothing.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    impossible: bool | None
    place: Place
    yes_no: str | None = None


@dataclass(frozen=True)
class Choice:
    """A context and the endings of which one goes on with it.

    Attributes:
        endings: two or more; what an ending begins with in all of them (`sent2` of SWAG) is part of each.
        label: number of the right ending, from 0; None where none is given.
    """

    context: str
    endings: tuple[str, ...]
    label: int | None
    place: Place
    id: str | None = None


@dataclass(frozen=True)
class PredicateSentence:
    """One predicate of a sentence of W words, and who does what to whom.

    Attributes:
        words: (W,), at least one.
        predicate: which word is the predicate.
        sense: its sense in PropBank (`have.03`), None where none is given.
        roles: (W,) IOB2 tags of the arguments, None where none are given.
        rows: as in TaggedSentence, for the first predicate of a sentence, with those of sentences without predicates
            before it (they describe no word of this one); empty for the other predicates.
    """

    words: tuple[str, ...]
    predicate: int
    sense: str | None
    roles: tuple[str, ...] | None
    place: Place
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Coreference:
    """A pronoun and the two names that it may mean.

    Attributes:
        label: "A", "B" or "neither"; None where none is given.
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


Example = TextExample | TaggedSentence | Question | Choice | PredicateSentence | Coreference
