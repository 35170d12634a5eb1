"""The columns of texts, label and id in a table: by their names in published files, or by the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from nlptools import messages
from nlptools.configs.tasks.table import GLUE
from nlptools.errors import UsageError, display, shown
from nlptools.files.layout_names import named_layout
from nlptools.formats.examples import Columns, Place
from nlptools.formats.glue import GlueTask, glue_task
from nlptools.formats.lines import column_number, column_numbers, delimiter_hint, header_names, joined_names
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
        *(("query", second) for second in ("passage", "document", "answer", "text")),
    ),
}
CLASSES = (
    *("gold_label", "label", "labels", "quality", "is_duplicate", "entailment_judgment", "entailment_label"),
    *("class", "category", "sentiment", "intent", "topic", "emotion"),
)
SCORES = ("score", "relatedness_score", "similarity_score", "similarity", "rating", "label")
LABELS = {
    "classify": CLASSES,
    "pair": CLASSES,
    "regress": SCORES,
    "rank": (*SCORES, "relevance", "grade"),
}
NUMBERS = ("regress", "rank")  # tasks with numbers as labels
IDS = ("index", "id", "idx", "pair_id", "pairid", "guid")
COLUMN_NAMES = {name for names in (*TEXTS[1], *TEXTS[2], *LABELS.values(), IDS) for name in names}
UNDECIDED = ("gold_label", "-")  # SNLI's annotators disagreed: no label


@dataclass(frozen=True)
class FieldPlaces:
    """The places of the fields in a line, from 0.

    Attributes:
        texts: the places of the columns of each text; several are joined with spaces.
        least, most: the minimum and maximum number of fields of a line.
        glue: the GLUE task of the file, if any.
        delimiter: of CSV, else "".
        read: the columns by name or number; the model remembers them.
    """

    texts: tuple[tuple[int, ...], ...]
    label: int | None
    id: int | None
    least: int
    most: int | None
    header: tuple[str, ...] = ()
    glue: str = ""
    delimiter: str = ""
    read: Columns | None = None

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
    """The names of columns of texts in published files."""
    return [names for count in counts(task, options) for names in TEXTS[count]]


def table_of(
    task: str, layout: str, fields: Sequence[str], path: str, options: Options, delimiter: str = ""
) -> FieldPlaces:
    """The columns of a file with `fields` in its first line. Raises DataError, UsageError."""
    if layout.startswith(GLUE):
        return _glue(glue_task(layout), layout, fields, path)
    header = _header(task, fields, path, options)
    if header:
        header_names(header, path)
    if not header and _looks_learned(options):
        table = _as_learned(fields, path, options, delimiter)
    else:
        table = _columns(task, fields, header, path, options, delimiter)
    table = replace(table, delimiter=delimiter, read=_columns_read(table, len(fields), delimiter))
    if header and options.labelled and table.label is not None:
        texts = " and ".join(" + ".join(shown(header[place]) for place in group) for group in table.texts)
        messages.note(
            f"{display(path)}: the first line is a header: texts {texts}, labels {shown(header[table.label])}"
        )
    return table


def _columns_read(table: FieldPlaces, width: int, delimiter: str) -> Columns:
    """The columns of a table by name, or by number if they have no names."""
    last = max(
        [width, *(place for group in table.texts for place in group), table.label or 0]
    )  # a short line may lack some
    names = [name.strip() for name in table.header] or [str(number) for number in range(1, last + 2)]
    label = "" if table.label is None else names[table.label]
    texts = (",".join(names[place] for place in group) for group in table.texts)
    return Columns(tuple(texts), label, 0 if table.header else width, delimiter)


def _header(task: str, fields: Sequence[str], path: str, options: Options) -> tuple[str, ...]:
    """`fields` if they are names of columns, else nothing."""
    lowered = {name.strip().lower() for name in fields}
    given = [*options.text_column, *([] if options.label_column is None else [options.label_column])]
    texts = any(set(names) <= lowered for names in known_texts(task, options))
    others = {*CLASSES, *LABELS["rank"], *IDS} & lowered
    named = any(name.lower() in lowered for column in given for name in joined_names(column, lowered))
    if not options.labelled:  # a table of texts alone may also have a header
        others |= lowered & COLUMN_NAMES if named_layout(path) in ("csv", "table") or len(fields) > 1 else set()
        named |= names_learned(fields, options)
    return tuple(fields) if options.header or named or (texts and others) else ()


def names_learned(fields: Sequence[str], options: Options) -> bool:
    """Whether `fields` have the names of the texts that the model was trained on."""
    learned = options.learned
    if learned is None or learned.width:
        return False
    lowered = {field.strip().lower() for field in fields}
    return {name.lower() for text in learned.texts for name in joined_names(text, lowered)} <= lowered


def _looks_learned(options: Options) -> bool:
    """Whether a table without header has the texts where the training data had them."""
    return options.learned is not None and not options.text_column and options.label_column is None


def _as_learned(fields: Sequence[str], path: str, options: Options, delimiter: str) -> FieldPlaces:
    """The columns of a table without header, in the order of the training data.

    Raises:
        DataError: it is not clear which columns are the texts.
    """
    learned = options.learned
    assert learned is not None
    numbers = [text.split(",") if learned.width else [text] for text in learned.texts]
    flat, width = list(chain.from_iterable(numbers)), len(fields)
    count = len(flat)
    in_order = [*map(str, range(1, count + 2))] == [*flat, learned.label]
    if learned.width and (width == learned.width or in_order):
        texts = tuple(tuple(int(number) - 1 for number in group) for group in numbers)
        label = int(learned.label) - 1 if learned.label else None
        return FieldPlaces(texts, label, None, count if in_order else max(map(max, texts)) + 1, learned.width)
    if width == count and (learned.width or named_layout(path) not in ("csv", "table")):
        places = iter(range(count))
        return FieldPlaces(tuple(tuple(islice(places, len(group))) for group in numbers), None, None, count, count)
    names = " and ".join(map(shown, learned.texts))
    known = (
        f"the columns {names} of {learned.width}" if learned.width else f"{names}, which the first line does not name"
    )
    raise Place(path, 1).error(
        f"{messages.counted(width, 'column')}: the model was trained on {known}",
        delimiter_hint(fields, delimiter)
        or "--text-column names the texts, by a name in the first line or a number; --header skips a line of names",
    )


def _columns(
    task: str, fields: Sequence[str], header: tuple[str, ...], path: str, options: Options, delimiter: str
) -> FieldPlaces:
    """The columns: as the options name them, else as the training data or published files do, else the texts in order, then
    the label.
    """
    width, lowered = len(fields), [name.strip().lower() for name in header]
    possible = counts(task, options)
    names, label_name = options.text_column, options.label_column
    if not names and options.learned is not None and header and names_learned(header, options):
        names = options.learned.texts
        label_name = label_name or (options.learned.label if options.learned.label.lower() in lowered else None)
    texts = tuple(column_numbers(column, header, width, path) for column in names)
    if len(texts) == 1 and 1 not in possible:  # a task of two texts joins none
        texts = tuple((place,) for place in texts[0])
    if texts and len(texts) not in possible:
        wanted = " or ".join(map(str, sorted(possible)))
        raise UsageError(f"--text-column {len(texts)} times, expected {wanted} times for the task {task}")
    known = [names for names in known_texts(task, options) if set(names) <= set(lowered)]
    if not texts and known:
        texts = tuple((column_number(name, header, width, path),) for name in known[0])
    label = first_of(lowered, LABELS[task])
    if label_name is not None:
        label = column_number(label_name, header, width, path)
    elif label is not None:
        label = column_number(lowered[label], header, width, path)
    rest = tuple(place for place in range(width) if place not in (*chain.from_iterable(texts), label))
    if not texts and label is None and not (header and options.learned is not None):
        count = next((count for count in possible if width > count), possible[-1])
        return FieldPlaces(
            tuple((place,) for place in range(count)), count, None, count + options.labelled, count + 1, header
        )
    if not texts and len(rest) not in possible:
        hint = delimiter_hint(fields, delimiter) or "--text-column names the texts"
        raise Place(path, 1).error(f"{messages.counted(width, 'column')}, expected the texts and the label", hint)
    named_texts = bool(texts)
    texts = texts or tuple((place,) for place in rest)
    if label is None and len(rest) == 1 and named_texts and (options.header or not header):
        label = rest[0]
    if label is None and options.labelled:
        named = f": {', '.join(header)}" if header else ""
        hint = delimiter_hint(fields, delimiter) or (
            f"expected one of {', '.join(LABELS[task])}; or name it with --label-column"
        )
        raise Place(path, 1).error(f"no column of labels{named}", hint)
    needed = [*chain.from_iterable(texts), *([label] if label is not None and options.labelled else [])]
    return FieldPlaces(texts, label, first_of(lowered, IDS), max(needed) + 1, None if header else width, header)


def _glue(task: GlueTask, layout: str, fields: Sequence[str], path: str) -> FieldPlaces:
    """The columns of a published GLUE file: training, development or test."""
    if set(task.texts) <= set(fields):
        texts = tuple(map(fields.index, task.texts))
        label = fields.index(task.label) if task.label in fields else None
        id = fields.index(task.id) if task.id in fields else None
        return FieldPlaces(
            tuple((place,) for place in texts), label, id, max([*texts, label or 0]) + 1, None, tuple(fields), layout
        )
    if task.numbers and len(fields) == max(task.numbers.values()):
        text, label = (task.numbers[name] - 1 for name in ("text", "label"))
        return FieldPlaces(((text,),), label, None, len(fields), len(fields), (), layout)
    expected = " and ".join(task.texts)
    raise Place(path, 1).error(
        f"not a file of {layout}: its first line does not name the columns {expected}",
        "use the published file, or --task classify, pair or regress for another layout",
    )


def first_of(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The place in `names` of the first of `wanted` that it contains."""
    return next((names.index(name) for name in wanted if name in names), None)
