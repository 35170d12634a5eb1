"""Files of semantic roles (who does what to whom), one example per predicate: the task roles.

Palmer et al. 2005, PropBank (J05-1004); Jindal et al. 2022, Universal PropBank 2.0. The file is CoNLL-U with an 11th column
for the sense of each predicate (`have.03`). One column per predicate follows, in the order of the predicates: the roles of its
arguments (ARG0, ARGM-TMP, R-ARG1, C-ARG1), and V at the predicate. `_` and nothing mean none.
* A role is on the head of its argument, one word. With `role_spans="subtrees"`, it covers the words around the head that
  depend on it, except the predicate, other arguments and the words that depend on them: arguments do not overlap.
* V repeats the sense and is not a role; where they disagree (mostly at verbs of several words), the sense counts.
* A sentence without predicates is not an example; its lines are kept with the next example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nlptools import messages
from nlptools.errors import UsageError
from nlptools.formats.conll import CONLLU, read_columns
from nlptools.formats.examples import PredicateSentence, TaggedSentence
from nlptools.formats.layouts import layout_of
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_schemes import TaggedSpan, place_of, tags_of
from nlptools.formats.token_lines import Row

_SENSE = len(CONLLU)  # the column of the sense, from 0
_HEAD = CONLLU.index("head")
_NONE = ("", "_")
_HINT = "expected CoNLL-U, the sense of each predicate in column 11, then a column of roles per predicate"


def read_roles(path: str, options: Options, errors: str = "strict") -> Iterator[PredicateSentence]:
    """The predicates of a file, sentence by sentence, and their roles.

    Raises:
        DataError: fewer than eleven columns, or with `options.labelled` fewer role columns than predicates; a head
            that is not a word of the sentence (subtrees); with file, line and hint. And the errors of `streams.blocks`.
        UsageError: an unknown `options.role_spans`, or a layout other than CoNLL-U.
    """
    if options.role_spans not in ("heads", "subtrees"):
        raise UsageError(f"role spans {options.role_spans!r}, expected heads or subtrees")
    layout_of("roles", path, options.layout)
    waiting: tuple[Row, ...] = ()
    for sentence in read_columns(path, replace(options, layout="conllu", labelled=False, label_column=None), errors):
        predicates = list(_predicates(sentence, options))
        if not predicates:
            waiting += tuple(Row(row.text) for row in sentence.rows)
            continue
        yield replace(predicates[0], rows=waiting + sentence.rows)
        yield from predicates[1:]
        waiting = ()


def _predicates(sentence: TaggedSentence, options: Options) -> Iterator[PredicateSentence]:
    fields = [row.text.split("\t") for row in sentence.rows if row.word is not None]
    for word, row in enumerate(fields):
        if len(row) <= _SENSE:
            raise place_of(sentence, word).error(f"{messages.counted(len(row), 'column')}, expected 11 or more", _HINT)
    predicates = [word for word, row in enumerate(fields) if row[_SENSE] not in _NONE]
    for number, predicate in enumerate(predicates):
        place = _SENSE + 1 + number
        roles = None
        if all(len(row) > place for row in fields):
            labels = [row[place] for row in fields]
            roles = tuple(_tags(sentence, fields, labels, predicate, options))
        elif options.labelled:
            raise place_of(sentence, predicate).error(f"predicate {number + 1} has no column of roles", _HINT)
        yield PredicateSentence(sentence.words, predicate, fields[predicate][_SENSE], roles, sentence.place)


def _tags(
    sentence: TaggedSentence, fields: Sequence[Sequence[str]], labels: Sequence[str], predicate: int, options: Options
) -> list[str]:
    """IOB2 tags of the arguments of a predicate."""
    heads = [word for word, label in enumerate(labels) if label not in (*_NONE, "V")]
    if options.role_spans == "heads":
        return tags_of([TaggedSpan(word, word + 1, labels[word]) for word in heads], len(fields), "iob2")
    parents = [_parent(sentence, fields, word) for word in range(len(fields))]
    owner = _owners(parents, {predicate, *heads})
    arguments = []
    for head in heads:
        start, end = head, head + 1
        while start > 0 and owner[start - 1] == head:
            start -= 1
        while end < len(fields) and owner[end] == head:
            end += 1
        arguments.append(TaggedSpan(start, end, labels[head]))
    return tags_of(arguments, len(fields), "iob2")


def _parent(sentence: TaggedSentence, fields: Sequence[Sequence[str]], word: int) -> int:
    """The head of `word`, -1 for the root."""
    raw = fields[word][_HEAD]
    if not re.fullmatch(r"\d{1,9}", raw) or int(raw) > len(fields):
        raise place_of(sentence, word).error(f"head {raw!r}, expected the number of a word, or 0", _HINT)
    return int(raw) - 1


def _owners(parents: Sequence[int], marked: set[int]) -> list[int]:
    """For each word the first of `marked` on its path to the root, itself included; -1 for none: (W,)."""
    owner: list[int] = []
    for word in range(len(parents)):
        at, steps = word, 0
        while at >= 0 and at not in marked and steps <= len(parents):  # a damaged tree may have a cycle
            at, steps = parents[at], steps + 1
        owner.append(at if at in marked else -1)
    return owner
