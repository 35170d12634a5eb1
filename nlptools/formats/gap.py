"""Files of GAP, pronouns and two names: the task coreference.

Webster et al. 2018, "Mind the GAP" (Q18-1042). TSV with a header (ID, Text, Pronoun, Pronoun-offset, A, A-offset, A-coref,
B, B-offset, B-coref, URL); offsets count characters of the text; fields are never quoted. The official scorer reads
`ID TAB A-coref TAB B-coref` without header: `predictions_line`. The page at the URL is not used ("snippet context").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nlptools.errors import UsageError, shown
from nlptools.formats import records
from nlptools.formats.examples import Coreference
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines
from nlptools.formats.reading_options import Options

LABELS = ("A", "B", "neither")  # the classes in their order
_NEEDED = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "B", "B-offset")
_GOLD = ("A-coref", "B-coref")
_ANSWERS = {"TRUE": True, "FALSE": False}
_HINT = "expected the file as GAP publishes it"


def read_coreference(path: str, options: Options, errors: str = "strict") -> Iterator[Coreference]:
    """The examples of a file.

    Raises:
        DataError: missing columns; a name that is not at its offset; `A-coref` or `B-coref` neither TRUE nor FALSE, or both
            TRUE; with file, line and hint. And the errors of `streams.blocks`.
        UsageError: a layout other than GAP's.
    """
    layout_of("coreference", path, options.layout)
    lines = InputLines(path, errors)
    header = (lines.first() or "").split("\t")
    missing = [name for name in (*_NEEDED, *(_GOLD if options.labelled else ())) if name not in header]
    if missing and header != [""]:
        raise lines.refuse(1, f"no column {', '.join(missing)}", f"{_HINT}, with its header")
    for number, row in records.objects(lines, "tsv"):
        yield _example({name: str(field) for name, field in row.items()}, lines, number)


def _example(row: Mapping[str, str], lines: InputLines, number: int) -> Coreference:
    offsets = {}
    for name in ("Pronoun", "A", "B"):
        raw, mention = row[f"{name}-offset"], row[name]
        if not re.fullmatch(r"[0-9]{1,18}", raw):
            raise lines.refuse(number, f"{name}-offset is {shown(raw)}, expected a number", _HINT)
        offsets[name] = int(raw)
        if not mention or not row["Text"].startswith(mention, int(raw)):
            here = shown(row["Text"][int(raw) : int(raw) + max(len(mention), 1)])
            hint = "offsets count characters, not bytes, of the unchanged text"
            raise lines.refuse(
                number, f"{name} {shown(mention)} is not at offset {raw}, where the text has {here}", hint
            )
    label = _label(row, lines, number) if set(_GOLD) <= row.keys() else None
    mentions = (row["Pronoun"], offsets["Pronoun"], row["A"], offsets["A"], row["B"], offsets["B"])
    return Coreference(row["ID"], row["Text"], *mentions, label, lines.place(number))


def _label(row: Mapping[str, str], lines: InputLines, number: int) -> str:
    values = [_ANSWERS.get(row[name].upper()) for name in _GOLD]
    if None in values or values == [True, True]:
        message = f"A-coref is {shown(row['A-coref'])} and B-coref {shown(row['B-coref'])}"
        raise lines.refuse(number, message, "expected TRUE or FALSE, and not both TRUE")
    return "A" if values[0] else "B" if values[1] else "neither"


def predictions_line(id: str, label: str) -> str:
    """A line for GAP's scorer.

    Raises:
        UsageError: no such label.
    """
    if label not in LABELS:
        raise UsageError(f"label {shown(label)}, expected A, B or neither")
    return f"{id}\t{str(label == 'A').upper()}\t{str(label == 'B').upper()}"
