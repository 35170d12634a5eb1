"""Records as named fields of text, for templates: from tables, JSON objects, or the examples of a task.

Without a task, a record is a line of a table (between tabs, with escapes as in all our TSV; CSV; Parquet) or a JSON object.
Its fields have the names in the first line, or the keys, and in tables also numbers from 1. The fields `input` and `output`
are, in this order of preference: the columns that the options name, the columns called so, the first and the second column of
a table without header. With a task, a record is an example as `finetune` reads it; see `of_example`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from nlptools.configs.prompting import INPUT, OUTPUT
from nlptools.errors import UsageError
from nlptools.files import line_records
from nlptools.files.layout_names import TABLES, named_layout
from nlptools.formats import examples as kinds
from nlptools.formats import readers, records, values
from nlptools.formats.examples import Place
from nlptools.formats.lines import InputLines, column_number, header_names
from nlptools.formats.reading_options import Options
from nlptools.json_types import Json

_LAYOUTS = ("table", "csv", "jsonl", "parquet")


@dataclass(frozen=True)
class Record:
    """A record.

    Attributes:
        fields: text by name.
        value: the unchanged object of a JSON line, {} for other layouts.
        choices: the possible answers of a multiple-choice task.
    """

    place: Place
    fields: dict[str, str]
    value: Mapping[str, Json] = field(default_factory=dict)
    choices: tuple[str, ...] = ()


def read(
    task: str | None, path: str, names: Collection[str], options: Options, errors: str = "strict"
) -> Iterator[Record]:
    """The records of a file (`-`: standard input).

    Args:
        names: of the wanted fields; a first line that has all of them is a header.

    Raises:
        DataError: a malformed line; with file, line and hint.
        UsageError: a layout that the task does not have, or that is not one of tables and objects.
    """
    if task is None:
        return _records(InputLines(path, errors), names, options)
    return map(of_example, readers.read(task, [path], options, errors))


# -- without a task -----------------------------------------------------------------------------------------------------


def _records(lines: InputLines, names: Collection[str], options: Options) -> Iterator[Record]:
    layout = _layout(lines, options)
    if layout in records.OBJECTS:
        for number, value in records.objects(lines, layout):
            fields = {name: _text(each) for name, each in value.items() if each is not None}
            for name, text in fields.items():
                if not values.is_finite(value[name]):
                    raise lines.refuse(number, f"no value: {name!r} is NaN or infinity")
                if not line_records.is_text(text):
                    raise lines.refuse(number, f"the text under {name!r} holds half a surrogate pair")
            for name, column in zip((INPUT, OUTPUT), _columns(options)):
                if column is not None and column in fields:
                    fields[name] = fields[column]
            yield Record(lines.place(number), fields, value if layout == "jsonl" else {})
    else:
        yield from _rows(lines, records.delimiter_of(layout, options.delimiter), names, options)


def _layout(lines: InputLines, options: Options) -> str:
    """CSV with `options.delimiter`, else `options.layout` unless it is auto, else by the name of the file, or a first line
    that begins as a JSON object.
    """
    layout = options.layout
    if layout not in ("auto", *_LAYOUTS):
        raise UsageError(f"no layout {layout!r} without --task, expected auto, {', '.join(_LAYOUTS)}")
    if layout != "auto" or options.delimiter:
        return "csv" if options.delimiter else layout
    known = named_layout(lines.path)
    if known in TABLES:
        return known
    return "jsonl" if (lines.first() or "").startswith('{"') else "table"


def _columns(options: Options) -> tuple[str | None, str | None]:
    """The columns of the input and the output that the options name."""
    if len(options.text_column) > 1:
        raise UsageError("--text-column takes one column, the field input, unless --task is given")
    return next(iter(options.text_column), None), options.label_column


def _rows(lines: InputLines, delimiter: str, names: Collection[str], options: Options) -> Iterator[Record]:
    rows = records.rows(lines, delimiter)
    first = next(rows, None)
    if first is None:
        return
    columns = _columns(options)
    given = [column for column in columns if column is not None and not column.lstrip("-").isdecimal()]
    named = {name for name in names if not name.isdecimal()} | set(given)
    is_header = options.header or given or (named and named <= set(first[1]))
    header = header_names(first[1], lines.path, first[0]) if is_header else []
    places = [
        None if column is None else column_number(column, header, len(first[1]), lines.path) for column in columns
    ]
    if not header:
        places = [number if place is None else place for number, place in enumerate(places)]
    for number, cells in rows if header else chain([first], rows):
        texts = cells if delimiter else list(map(line_records.unescape, cells))
        fields = {str(i): text for i, text in enumerate(texts, 1)} | dict(zip(header, texts))
        for name, place in zip((INPUT, OUTPUT), places):
            if place is not None and place < len(texts):
                fields[name] = texts[place]
        yield Record(lines.place(number), fields)


def _text(value: Json) -> str:
    """A JSON value as text: text unchanged, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# -- of tasks -----------------------------------------------------------------------------------------------------------


def of_example(example: kinds.Example) -> Record:
    """The record of an example. Besides `input` and `output`, the answer if it is known, it has the fields

    classify, regress   text, label, and the columns of its file
    pair                text1, text2, label, and the columns of its file
    similarity          text1, text2 (the output), negative_1 and so on, score
    tag                 words, tags
    roles               words, predicate, roles
    answer              context, question, answer (unanswerable, if the context has none)
    choice              context, answer
    coreference         text, pronoun, name_a, name_b, answer (neither, if it is none of the two names)
    chains              text, chains (the mentions of each chain, with ` = ` between them, chains with `; `)
    """
    fields, output = _fields(example)
    known = {name: text for name, text in {**fields, OUTPUT: output}.items() if text is not None}
    if isinstance(example, kinds.TextExample) and example.layout == "jsonl":
        return Record(example.place, known, json.loads(example.columns[0]))
    return Record(example.place, known, {}, example.endings if isinstance(example, kinds.Choice) else ())


Fields = tuple[dict[str, str | None], str | None]  # the fields but `output`, and that


def _fields(example: kinds.Example) -> Fields:
    match example:
        case kinds.TextExample():
            return _of_text(example)
        case kinds.TextGroup():
            names = ("text1", "text2", *(f"negative_{i}" for i in range(1, len(example.texts) - 1)))
            score = None if example.score is None else f"{example.score:g}"
            return {**dict(zip(names, example.texts)), INPUT: example.texts[0], "score": score}, example.texts[1]
        case kinds.TaggedSentence():
            return _of_tagged(example)
        case kinds.PredicateSentence():
            return _of_roles(example)
        case kinds.Question():
            return _of_question(example)
        case kinds.Choice():
            return _of_choice(example)
        case kinds.Coreference():
            return _of_coreference(example)
        case kinds.CoreferenceDocument():
            return _of_chains(example)
    message = "--task instruct, reward and preference: their examples are prompts already"
    raise UsageError(message, hint="without --task, the keys of JSON lines are fields")


def _of_text(example: kinds.TextExample) -> Fields:
    label = ", ".join(example.labels) if example.labels else example.label
    if example.layout == "jsonl":
        columns = {name: _text(value) for name, value in json.loads(example.columns[0]).items() if value is not None}
    else:
        columns = dict(zip(example.header, example.columns))
    names = ("text",) if len(example.texts) == 1 else ("text1", "text2")
    return {**columns, **dict(zip(names, example.texts)), INPUT: "\n".join(example.texts), "label": label}, label


def _of_tagged(example: kinds.TaggedSentence) -> Fields:
    words, tags = " ".join(example.words), None if example.tags is None else " ".join(example.tags)
    return {INPUT: words, "words": words, "tags": tags}, tags


def _of_roles(example: kinds.PredicateSentence) -> Fields:
    words, roles = " ".join(example.words), None if example.roles is None else " ".join(example.roles)
    predicate = example.words[example.predicate]
    return {INPUT: f"{words}\n{predicate}", "words": words, "predicate": predicate, "roles": roles}, roles


def _of_question(example: kinds.Question) -> Fields:
    answer = example.answers[0].text if example.answers else None
    if example.yes_no in ("yes", "no"):
        answer = example.yes_no
    elif example.impossible:
        answer = "unanswerable"  # Khashabi et al. 2020, UnifiedQA; Wei et al. 2022, FLAN
    both = {INPUT: f"{example.context}\n{example.question}", "context": example.context, "question": example.question}
    return {**both, "answer": answer}, answer


def _of_choice(example: kinds.Choice) -> Fields:
    answer = None if example.label is None else example.endings[example.label]
    return {INPUT: example.context, "context": example.context, "answer": answer}, answer


def _of_coreference(example: kinds.Coreference) -> Fields:
    names = {"A": example.name_a, "B": example.name_b, None: None}
    answer = names.get(example.label, "neither")
    fields = {"pronoun": example.pronoun, "name_a": example.name_a, "name_b": example.name_b, "answer": answer}
    return {INPUT: example.text, "text": example.text, **fields}, answer


def _of_chains(example: kinds.CoreferenceDocument) -> Fields:
    (text,), chains = example.texts, example.chains
    mentions = ([" ".join(example.words[a : b + 1]) for a, b in sorted(chain)] for chain in chains or ())
    listed = None if chains is None else "; ".join(map(" = ".join, mentions))
    return {INPUT: text, "text": text, "chains": listed}, listed
