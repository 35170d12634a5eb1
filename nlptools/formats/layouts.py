"""Layouts of files by their names."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools.configs.tasks.table import TASKS
from nlptools.errors import UsageError
from nlptools.files.compression import without_suffix
from nlptools.files.input_parts import TEXT

_OBJECTS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_TEXTS = {".csv": "csv", **_OBJECTS, ".json": "jsonl", ".xml": "rte", "": "table"}
_SUFFIXES = {  # of each task, tried in order
    "classify": {".label": "trec", **_TEXTS},
    "pair": _TEXTS,
    "regress": _TEXTS,
    "rank": _TEXTS,
    "similarity": {".csv": "csv", **_OBJECTS, ".json": "jsonl", "": "table"},
    "tag": {".conllu": "conllu", ".conll": "conll", TEXT: "lines", "": "auto"},
    "roles": {"": "conllu"},
    "parse": {"": "auto"},
    "answer": {".json": "squad", ".csv": "csv", **_OBJECTS, "": "table"},
    "choice": {".csv": "csv", ".tsv": "tsv", **_OBJECTS, "": "jsonl"},
    "coreference": {"conll": "conll", "": "gap"},  # also .gold_conll
    "chains": {"": "conll"},
    **{task: {**_OBJECTS, "": "jsonl"} for task in ("instruct", "reward", "preference")},
}


def task_of_files(task: str, names: Sequence[str], layout: str) -> str:
    """The task that files are for, by the layout of the first one, if `task` depends on it; else `task`. Raises UsageError."""
    other, _, instead = (TASKS[task].by_layout if task in TASKS else "").partition(":")
    return instead if other and layout_of(task, names[0] if names else "-", layout) == other else task


def layout_of(task: str, path: str, layout: str = "auto", delimiter: str | None = None) -> str:
    """The layout of a file of a task: CSV with a `delimiter`, `layout` unless it is auto, else by the suffix of the file.

    auto: the file has words to tag, and its lines decide; see `tag_layouts`.

    Raises:
        UsageError: a layout that the task does not have, or a delimiter that the layout does not have.
    """
    if delimiter:
        if "csv" not in TASKS[task].layouts or layout not in ("auto", "csv"):
            raise UsageError(
                f"--delimiter is for CSV, not for {f'task {task}' if layout in ('auto', 'csv') else layout}"
            )
        return "csv"
    if layout != "auto":
        if layout not in TASKS[task].layouts:
            known = ", ".join(TASKS[task].layouts)
            raise UsageError(f"task {task} has no layout {layout!r}, expected auto, {known}")
        return layout
    name = without_suffix(path)
    return next(layout for suffix, layout in _SUFFIXES[task].items() if name.endswith(suffix))
