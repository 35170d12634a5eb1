"""The output of `predict` for words: lines of tags, lines of roles, or the input columns with one more."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools.formats.conll import with_tags
from nlptools.formats.examples import PredicateSentence, TaggedSentence
from nlptools.formats.tag_schemes import TaggedSpan, spans
from nlptools.text.words import spans as word_places


def tags(examples: Sequence[TaggedSentence], predicted: Sequence[Sequence[str]], columns: bool) -> list[str]:
    """A line of tags per sentence, or with `columns` all lines of the file with a further column of tags.

    Sentences that were read as words on one line become columns of words and tags.
    """
    lines: list[str] = []
    for e, tags in zip(examples, predicted, strict=True):
        a_line_each = e.layout == "lines"
        if columns and a_line_each:
            lines += [*map(" ".join, zip(e.words, tags, strict=True)), ""]
        elif columns:
            lines += with_tags(e, tags)
        elif e.words or a_line_each:  # an example without words holds the lines after the last sentence of a file
            lines.append(" ".join(tags))
    return lines


def entities(example: TaggedSentence, found: Sequence[TaggedSpan]) -> dict[str, object]:
    """The object of a sentence: its text, and the text, label and place of each entity.

    Places are counted in characters (Unicode code points) of the text, the end after the last. The text is the
    line; for a sentence from columns, its words with spaces between them.
    """
    text = example.rows[0].text if example.layout == "lines" else " ".join(example.words)
    places = word_places(example.words, text)
    rows = []
    for first, end, label in found:
        start, stop = places[first][0], places[end - 1][1]
        rows.append({"text": text[start:stop], "label": label, "start": start, "end": stop})
    return {"text": text, "entities": rows}


def roles(examples: Sequence[PredicateSentence], predicted: Sequence[Sequence[str]], columns: bool) -> list[str]:
    """A line per predicate: its number and word, then role, first and last word, and the words of each argument.

    With `columns` a block of lines: word, V at the predicate, the role in the file if it has roles, the predicted role.
    """
    lines: list[str] = []
    for e, tags in zip(examples, predicted, strict=True):
        if columns:
            marks = ["_"] * len(e.words)
            marks[e.predicate] = "V"
            gold = [] if e.roles is None else [e.roles]
            lines += [*map("\t".join, zip(e.words, marks, *gold, tags, strict=True)), ""]
            continue
        parts = [f"{e.predicate + 1} {e.words[e.predicate]}"]
        for start, end, name in spans(tags, "iob2")[0]:
            parts.append(f"{name} {start + 1}-{end} {' '.join(e.words[start:end])}")
        lines.append("\t".join(parts))
    return lines
