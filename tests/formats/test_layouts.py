"""Layouts by the names of files, or as given."""

from __future__ import annotations

import pytest

from nlptools.configs.tasks.table import TASKS
from nlptools.errors import UsageError
from nlptools.formats.layouts import layout_of


@pytest.mark.parametrize(
    ("task", "path", "layout"),
    [
        ("tag", "a.conllu", "conllu"),
        ("tag", "a.txt", "auto"),
        ("tag", "a.conll.gz", "conll"),
        ("tag", "-", "auto"),
        ("roles", "a.txt", "conllu"),
        ("answer", "a.json", "squad"),
        ("answer", "a.ndjson.gz", "jsonl"),
        ("answer", "a.tsv.zst", "table"),
        ("choice", "a.csv.xz", "csv"),
        ("choice", "a.parquet", "parquet"),
        ("pair", "a.xml", "rte"),
        ("choice", "a.json", "jsonl"),
        ("coreference", "a.tsv", "gap"),
    ],
)
def test_layout_by_name(task: str, path: str, layout: str) -> None:
    assert layout_of(task, path) == layout
    assert layout in (*TASKS[task].layouts, "auto")
    for given in TASKS[task].layouts:
        assert layout_of(task, path, given) == given


def test_a_layout_of_another_task_is_refused() -> None:
    with pytest.raises(UsageError, match="task choice has no layout 'squad', expected auto, csv, tsv, jsonl"):
        layout_of("choice", "a.csv", "squad")
