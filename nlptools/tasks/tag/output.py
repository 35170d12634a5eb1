"""What `predict` writes for words: tags between spaces, spans of roles, or columns with one more."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools.formats.conll import layout_of, with_tags
from nlptools.formats.examples import PredicateSentence, TaggedSentence
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_schemes import spans


def tags(
    examples: Sequence[TaggedSentence], said: Sequence[Sequence[str]], options: Options, columns: bool
) -> list[str]:
    """A line of tags per sentence, or all lines of their file with a column of tags.

    Sentences that were given as words on one line become columns of words and tags.
    """
    made: list[str] = []
    for e, found in zip(examples, said, strict=True):
        a_line_each = layout_of(e.place.path, options) == "lines"
        if columns and a_line_each:
            made += [*map(" ".join, zip(e.words, found, strict=True)), ""]
        elif columns:
            made += with_tags(e, found)
        elif e.words or a_line_each:  # what stands behind the last sentence of a file of columns is no sentence
            made.append(" ".join(found))
    return made


def roles(examples: Sequence[PredicateSentence], said: Sequence[Sequence[str]], columns: bool) -> list[str]:
    """A line per predicate: its number and itself, then role, first and last word, and the words of each argument.

    With `columns` a block of lines: word, V at the predicate, the role that the file has if it has any, the role that
    was found.
    """
    made: list[str] = []
    for e, found in zip(examples, said, strict=True):
        if columns:
            marks = ["_"] * len(e.words)
            marks[e.predicate] = "V"
            gold = [] if e.roles is None else [e.roles]
            made += [*map("\t".join, zip(e.words, marks, *gold, found, strict=True)), ""]
            continue
        parts = [f"{e.predicate + 1} {e.words[e.predicate]}"]
        for start, end, name in spans(found, "iob2")[0]:
            parts.append(f"{name} {start + 1}-{end} {' '.join(e.words[start:end])}")
        made.append("\t".join(parts))
    return made
