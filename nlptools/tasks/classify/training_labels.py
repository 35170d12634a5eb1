"""Labels and columns of training data: their errors, and the parts that a model directory keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nlptools import messages
from nlptools.errors import BundleError, DataError, display, shown
from nlptools.formats import values
from nlptools.formats.examples import Columns, TextExample
from nlptools.formats.tables import COLUMN_NAMES
from nlptools.json_types import JsonObject
from nlptools.tasks.task import saved_setting

COLUMNS = ("text_column", "label_column", "width", "delimiter")  # the names of `Columns` in config.json
_LONG_LABEL = 30  # characters; texts that were taken for labels are longer on average


def counted(labels: Iterable[str]) -> Counter[str]:
    """How often each label occurs, by its first spelling: "1" and "1.0" are the same label."""
    each = Counter(labels)
    names = values.spellings(each)
    counts: Counter[str] = Counter()
    for label, count in each.items():
        counts[names[values.key(label)]] += count
    return counts


def check(counts: Counter[str], examples: Sequence[TextExample]) -> None:
    """Look for labels that are none.

    Raises:
        DataError: a label is NaN or infinity, while the others are numbers; or the labels look like texts.
    """
    if missing := values.without_value(counts):
        wrong = next(e for e in examples if missing & {str(e.label), *e.labels})
        label = next(iter(missing & {str(wrong.label), *wrong.labels}))
        raise wrong.place.error(
            f"no label: expected a number or a name, got {shown(label)}",
            "each line of training and validation data needs one",
        )
    _warn_of_spaces(counts)
    _check_columns(counts, examples)


def _warn_of_spaces(labels: Iterable[str]) -> None:
    """Warn of labels that differ in nothing but white space."""
    seen: dict[str, str] = {}
    for label in sorted(labels):
        other = seen.setdefault("".join(label.split()), label)
        if other != label:
            messages.warn(f"the labels {shown(other)} and {shown(label)} differ in spaces only")


def _check_columns(counts: Counter[str], examples: Sequence[TextExample]) -> None:
    """Look for wrong columns. Raises DataError if the labels look like texts; warns if the first line looks like a header."""
    first, total = examples[0], counts.total()
    if total >= 5 and len(counts) > total / 2 and sum(map(len, counts)) / len(counts) > _LONG_LABEL:
        message = f"the labels look like texts: {len(counts):,} different ones in {total:,} examples, such as"
        raise first.place.error(
            f"{message} {shown(next(iter(counts)))}", "--label-column and --text-column name the right columns"
        )
    if total >= 20 and len(counts) > total / 2:
        kinds = f"{len(counts):,} different labels in {total:,} examples"
        messages.warn(f"{display(first.place.path)}: {kinds}: --label-column names another column")
    label, words = str(first.label), {str(first.label).lower(), *(text.lower() for text in first.texts)}
    once = words & COLUMN_NAMES or sum(count == 1 for count in counts.values()) == 1
    if not first.header and counts[label] == 1 and len(counts) > 2 and once:
        messages.warn(f"{first.place}: the label {shown(label)} occurs once: --header, if this line names the columns")


def learned_columns(config: JsonObject) -> Columns | None:
    """The columns that the training data had, None if config.json does not say. Raises BundleError."""
    of_texts, of_label, of_width, of_delimiter = COLUMNS
    names: list[str] = saved_setting(config, of_texts, [])
    label, width = saved_setting(config, of_label, ""), saved_setting(config, of_width, 0)
    delimiter = saved_setting(config, of_delimiter, "")
    numbers = [*names, *([label] if label else [])]
    if not all(isinstance(name, str) for name in names) or not 0 <= width < 1 << 20 or len(delimiter) > 1:
        raise BundleError(f'config.json: "nlptools", "task": text_column is {names!r:.80}, expected names')
    if width and not all(text.isdecimal() and 0 < int(text) <= width + 1 for text in numbers):
        raise BundleError(f'config.json: "nlptools", "task": no columns {", ".join(numbers):.80} of {width}')
    return Columns(tuple(names), label, width, delimiter) if names else None


def require_two(counts: Counter[str], path: str) -> None:
    """Raise DataError for training data of one class."""
    if len(counts) == 1:
        hint = "--label-column names the column of the labels"
        raise DataError(f"only one class: every label is {shown(next(iter(counts)))}", path=path, hint=hint)
