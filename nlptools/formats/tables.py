"""Which columns of a table are texts, label and id: by their names in published files, or by the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nlptools.configs.tasks import GLUE
from nlptools.errors import UsageError
from nlptools.formats.examples import Place
from nlptools.formats.glue import GlueTask, glue_task
from nlptools.formats.lines import column_number, columns
from nlptools.formats.reading_options import Options

TEXTS = {
    1: (("sentence",), ("text",)),
    2: (
        ("sentence1", "sentence2"),
        ("#1 string", "#2 string"),
        ("question1", "question2"),
        ("question", "sentence"),
        ("sentence_a", "sentence_b"),
        ("premise", "hypothesis"),
        ("text1", "text2"),
        ("text_a", "text_b"),
    ),
}
CLASSES = (
    *("gold_label", "label", "labels", "quality", "is_duplicate", "entailment_judgment", "entailment_label"),
    *("class", "category"),
)
LABELS = {
    "classify": CLASSES,
    "pair": CLASSES,
    "regress": ("score", "relatedness_score", "similarity_score", "similarity", "label"),
}
UNDECIDED = ("gold_label", "-")  # SNLI's annotators disagreed: no label
IDS = ("index", "id", "idx", "pair_id", "pairid", "guid")


@dataclass(frozen=True)
class Table:
    """The places of the fields in a line, from 0.

    Attributes:
        least, most: the minimum and maximum number of fields of a line.
    """

    texts: tuple[int, ...]
    label: int | None
    id: int | None
    least: int
    most: int | None
    header: tuple[str, ...] = ()
    published: str = ""  # the GLUE task


def count_of(task: str) -> int:
    """The number of texts of an example."""
    return 1 if task == "classify" else 2


def table_of(task: str, layout: str, fields: Sequence[str], path: str, options: Options) -> Table:
    """The columns of a file whose first line has `fields`. Raises DataError, UsageError."""
    if layout.startswith(GLUE):
        return _glue(glue_task(layout), layout, fields, path)
    if layout == "cola":
        return Table((3,), 1, None, 4, 4, (), layout)
    if layout == "stsbenchmark":
        return Table((5, 6), 4, None, 7, None)
    header = _header(task, fields, options)
    if options.text_column:
        return _chosen(task, fields, header, path, options)
    if header:
        return _by_names(task, header, path, options)
    count = count_of(task)
    places = tuple(range(count))
    id = None if options.id_column is None else column_number(options.id_column, (), len(fields), path)
    if options.label_column is not None:
        label = column_number(options.label_column, (), len(fields), path)
        rest = tuple(place for place in range(len(fields)) if place not in (label, id))
        if len(rest) != count:
            message = f"{columns(len(fields))} without header, expected the columns of the texts"
            raise Place(path, 1).error(message, "name them with --text-column")
        return Table(rest, label, id, len(fields), len(fields))
    return Table(places, count, id, count + options.labelled, count + 1)


def _header(task: str, fields: Sequence[str], options: Options) -> tuple[str, ...]:
    """`fields` if they are names of columns, else nothing."""
    if options.header:
        return tuple(fields)
    lowered = [name.strip().lower() for name in fields]
    given = [*options.text_column, *(c for c in (options.label_column, options.id_column) if c is not None)]
    if any(column.lower() in lowered for column in given):
        return tuple(fields)
    texts = any(set(names) <= set(lowered) for names in TEXTS[count_of(task)])
    others = {*CLASSES, *LABELS["regress"], *IDS}
    return tuple(fields) if texts and others & set(lowered) else ()


def _chosen(task: str, fields: Sequence[str], header: tuple[str, ...], path: str, options: Options) -> Table:
    """The columns of --text-column and --label-column."""
    if len(options.text_column) != count_of(task):
        raise UsageError(f"task {task} has {count_of(task)} text column(s), not {len(options.text_column)}")
    width = len(fields)
    texts = tuple(column_number(column, header, width, path) for column in options.text_column)
    label = None
    if options.label_column is not None:
        label = column_number(options.label_column, header, width, path)
    elif header:
        label = first_of([name.strip().lower() for name in header], LABELS[task])
    elif width == len(texts) + 1:
        label = next(place for place in range(width) if place not in texts)
    if label is None and options.labelled:
        raise Place(path, 1).error("no column of labels", "name it with --label-column")
    return _finish(texts, label, header, width, path, options)


def _by_names(task: str, header: tuple[str, ...], path: str, options: Options) -> Table:
    """The columns whose names published files use."""
    lowered = [name.strip().lower() for name in header]
    known = TEXTS[count_of(task)]
    names = next((names for names in known if set(names) <= set(lowered)), None)
    if names is None:
        raise Place(path, 1).error(
            f"the header has no column of texts: {', '.join(header)}",
            f"expected {', or '.join(' and '.join(names) for names in known)}; or name it with --text-column",
        )
    label = first_of(lowered, LABELS[task])
    if options.label_column is not None:
        label = column_number(options.label_column, header, len(header), path)
    if label is None and options.labelled:
        raise Place(path, 1).error(
            f"the header has no column of labels: {', '.join(header)}",
            f"expected one of {', '.join(LABELS[task])}; or name it with --label-column",
        )
    return _finish(tuple(map(lowered.index, names)), label, header, len(header), path, options)


def _finish(
    texts: tuple[int, ...], label: int | None, header: tuple[str, ...], width: int, path: str, options: Options
) -> Table:
    id = first_of([name.strip().lower() for name in header], IDS)
    if options.id_column is not None:
        id = column_number(options.id_column, header, width, path)
    needed = [*texts, *([label] if label is not None and options.labelled else [])]
    return Table(texts, label, id, max(needed) + 1, None if header else width, header)


def _glue(task: GlueTask, layout: str, fields: Sequence[str], path: str) -> Table:
    """The columns of a published GLUE file: training, development or test."""
    if set(task.texts) <= set(fields):
        texts = tuple(map(fields.index, task.texts))
        label = fields.index(task.label) if task.label in fields else None
        id = fields.index(task.id) if task.id in fields else None
        return Table(texts, label, id, max([*texts, label or 0]) + 1, None, tuple(fields), layout)
    if task.numbers and len(fields) == max(task.numbers.values()):
        text, label = (task.numbers[name] - 1 for name in ("text", "label"))
        return Table((text,), label, None, len(fields), len(fields), (), layout)
    expected = " and ".join(task.texts)
    raise Place(path, 1).error(
        f"not a file of {layout}: its first line does not name the columns {expected}",
        "use the published file, or --task classify, pair or regress for another layout",
    )


def first_of(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The place in `names` of the first of `wanted` that is there."""
    return next((names.index(name) for name in wanted if name in names), None)
