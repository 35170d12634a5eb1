"""Which columns of a table are texts, label and id: by their names in published files, or by the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nlptools import messages
from nlptools.configs.tasks import GLUE
from nlptools.errors import UsageError, display, shown
from nlptools.formats.examples import Place
from nlptools.formats.glue import GlueTask, glue_task
from nlptools.formats.lines import column_number, columns
from nlptools.formats.reading_options import Options

TEXTS = {
    1: tuple(
        (name,)
        for name in ("sentence", "text", "review", "question", "content", "comment", "tweet", "message", "utterance")
    ),
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
    *("class", "category", "sentiment", "intent", "topic", "emotion"),
)
LABELS = {
    "classify": CLASSES,
    "pair": CLASSES,
    "regress": ("score", "relatedness_score", "similarity_score", "similarity", "rating", "label"),
}
IDS = ("index", "id", "idx", "pair_id", "pairid", "guid")
COLUMN_NAMES = {name for names in (*TEXTS[1], *TEXTS[2], *LABELS.values(), IDS) for name in names}
UNDECIDED = ("gold_label", "-")  # SNLI's annotators disagreed: no label


@dataclass(frozen=True)
class Table:
    """The places of the fields in a line, from 0.

    Attributes:
        least, most: the minimum and maximum number of fields of a line.
        glue: the GLUE task whose file it is.
        comma: the file is CSV.
    """

    texts: tuple[int, ...]
    label: int | None
    id: int | None
    least: int
    most: int | None
    header: tuple[str, ...] = ()
    glue: str = ""
    comma: bool = False

    @property
    def undecided(self) -> bool:
        """Whether the label "-" means that annotators disagreed."""
        return self.label is not None and bool(self.header) and self.header[self.label].lower() == UNDECIDED[0]

    def label_of(self, fields: Sequence[str]) -> str | None:
        """The label in the fields of a line, None where there is none."""
        label = fields[self.label] if self.label is not None and self.label < len(fields) else None
        return None if label == UNDECIDED[1] and self.undecided else label


def counts(task: str, options: Options) -> tuple[int, ...]:
    """The numbers of texts that an example may have."""
    if task == "regress":
        return (options.texts,) if options.texts else (2, 1)
    return (1,) if task == "classify" else (2,)


def known_texts(task: str, options: Options) -> list[tuple[str, ...]]:
    """The names that columns of texts have in published files."""
    return [names for count in counts(task, options) for names in TEXTS[count]]


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
        table = _chosen(task, fields, header, path, options)
    elif header:
        table = _by_names(task, header, path, options)
    else:
        table = _by_places(task, len(fields), path, options)
    if header and options.labelled and table.label is not None:
        texts = " and ".join(shown(header[place]) for place in table.texts)
        messages.note(
            f"{display(path)}: the first line is a header: texts {texts}, labels {shown(header[table.label])}"
        )
    return replace(table, comma=layout == "csv")


def _by_places(task: str, width: int, path: str, options: Options) -> Table:
    """The columns of a file without header: the texts, then the label, unless --label-column is given."""
    possible = counts(task, options)
    if options.label_column is not None:
        label = column_number(options.label_column, (), width, path)
        rest = tuple(place for place in range(width) if place != label)
        if len(rest) not in possible:
            message = f"{columns(width)} without header, expected the columns of the texts"
            raise Place(path, 1).error(message, "name them with --text-column")
        return Table(rest, label, None, width, width)
    count = next((count for count in possible if width > count), possible[-1])
    return Table(tuple(range(count)), count, None, count + options.labelled, count + 1)


def _header(task: str, fields: Sequence[str], options: Options) -> tuple[str, ...]:
    """`fields` if they are names of columns, else nothing."""
    if options.header:
        return tuple(fields)
    lowered = [name.strip().lower() for name in fields]
    given = [*options.text_column, *([] if options.label_column is None else [options.label_column])]
    if any(column.lower() in lowered for column in given):
        return tuple(fields)
    texts = any(set(names) <= set(lowered) for names in known_texts(task, options))
    others = {*CLASSES, *LABELS["regress"], *IDS}
    return tuple(fields) if texts and others & set(lowered) else ()


def _chosen(task: str, fields: Sequence[str], header: tuple[str, ...], path: str, options: Options) -> Table:
    """The columns of --text-column and --label-column."""
    if len(options.text_column) not in counts(task, options):
        wanted = " or ".join(map(str, sorted(counts(task, options))))
        raise UsageError(f"--text-column {len(options.text_column)} times, expected {wanted} times for the task {task}")
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
    return _finish(texts, label, header, width, options)


def _by_names(task: str, header: tuple[str, ...], path: str, options: Options) -> Table:
    """The columns whose names published files use."""
    lowered = [name.strip().lower() for name in header]
    known = known_texts(task, options)
    names = next((names for names in known if set(names) <= set(lowered)), None)
    if names is None and len(header) - 1 in counts(task, options):
        return replace(_by_places(task, len(header), path, options), header=header)
    if names is None:
        raise Place(path, 1).error(
            f"the header has no column of texts: {', '.join(header)}",
            f"expected {', or '.join(' and '.join(names) for names in known)}; or name it with --text-column",
        )
    label = first_of(lowered, LABELS[task])
    if label is None and len(header) == len(names) + 1 and options.header:
        label = next(place for place, name in enumerate(lowered) if name not in names)
    if options.label_column is not None:
        label = column_number(options.label_column, header, len(header), path)
    if label is None and options.labelled:
        raise Place(path, 1).error(
            f"the header has no column of labels: {', '.join(header)}",
            f"expected one of {', '.join(LABELS[task])}; or name it with --label-column",
        )
    return _finish(tuple(map(lowered.index, names)), label, header, len(header), options)


def _finish(texts: tuple[int, ...], label: int | None, header: tuple[str, ...], width: int, options: Options) -> Table:
    id = first_of([name.strip().lower() for name in header], IDS)
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
