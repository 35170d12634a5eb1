"""The rules: what the end of a program means. They know no tool."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.reliability.inputs import Input
from benchmarks.reliability.servers import End

MESSAGE = 10  # lines that a message may have
EXTRA = 64 << 20  # bytes of memory besides twice the size of the file
TRACE = "Traceback (most recent call last)"
# Verdict on an input -> whether the user learns of the defect, or it does no harm.
INPUT_VERDICTS = {
    "right": True,
    "warned": True,
    "traceback": True,
    "unclear": False,
    "refused": False,
    "silent": False,
    "memory": False,
    "hang": False,
    "crash": False,
    "executed": False,
}
# Verdict on a fault -> whether nothing is lost.
FAULT_VERDICTS = {
    "kept": True,
    "no resume": False,
    "lost": False,
    "corrupt": False,
    "orphan": False,
    "hang": False,
    "executed": False,
}


def of_input(case: Input, end: End, expected: dict[str, Any] | None, base: int, size: int) -> str:
    """The verdict on what a program made of an input.

    Args:
        expected: what the program makes of a file that means the same.
        base: bytes of memory that it takes for an intact small file.
        size: bytes of the input.
    """
    if end.executed:
        return "executed"
    if end.late:
        return "hang"
    if end.status < 0:
        return "crash"
    if end.memory > base + 2 * size + EXTRA:
        return "memory"
    if end.status:
        if not case.refusable:
            return "refused"
        if not names(case, message(end)):
            return "unclear"
        if TRACE in end.err:
            return "traceback"
        return "right" if len(end.err.strip().split("\n")) <= MESSAGE else "unclear"
    if same(case, end, expected):
        return "right"
    return "warned" if names(case, end.err) else "silent"


def same(case: Input, end: End, expected: dict[str, Any] | None) -> bool:
    """Whether a program that succeeded made what it must."""
    if case.rows is not None:
        return end.result is None or end.result.get("rows", case.rows) == case.rows
    return expected is not None and expected == (end.result or {"out": end.out})


def names(case: Input, text: str) -> bool:
    """Whether a text has a word for the problem; the name of the file is none."""
    return re.search(case.words, re.sub(r"\binput(\.\w+)+", "", text), re.IGNORECASE) is not None


def message(end: End) -> str:
    """What a program says at its end: of tracebacks only the errors themselves, the causes too, without lines of source code."""
    if TRACE not in end.err:
        return end.err.strip()
    errors = []
    for part in end.err.split(TRACE)[1:]:
        lines = re.split(r"\n\n(?:The above exception was|During handling of)", part)[0].rstrip().split("\n")
        starts = [i for i, line in enumerate(lines) if re.match(r"[A-Za-z_][\w.]*(: |$)", line)]
        errors += lines[starts[0] :] if starts else []
    return "\n".join(errors)


def note(end: End) -> str:
    """One line for the record."""
    said = [line for line in message(end).split("\n") if line.strip() and "hint:" not in line]
    return f"status {end.status}: {said[-1][:140] if said else ''}".encode("ascii", "backslashreplace").decode()
