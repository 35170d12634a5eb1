"""The command that counts the tests of reliability: a record per test, and the table of what is held, failed and left."""

from __future__ import annotations

import os
import re

from conftest import ROOT, Record

from benchmarks.reliability.counts import COLUMNS, LEFT, PARTS, page, ran, recorded, table
from benchmarks.reliability.results import PAGE


def test_parts_name_tests() -> None:
    for name, part in PARTS.items():
        for test in part.tests:
            file, _, function = test.partition("::")
            text = (ROOT / file).read_text()
            assert (
                function in re.findall(r"^def (test_\w+)", text, re.MULTILINE) if function else "def test_" in text
            ), name
            if function:
                assert 'record_property("count"' in text or part.unit in ("filters", "accepted requests"), name


def test_a_record(record_property: Record) -> None:
    """Of this test itself, which another process runs."""
    record_property("count", 3)
    record_property("MB", 0.5)
    if os.environ.get("COUNTED"):
        return
    row = ran("tests/test_counts.py::test_a_record", {"COUNTED": "1"})
    assert (row["outcome"], row["count"], row["numbers"]) == ("passed", 3, {"MB": 0.5}), row


def test_the_table() -> None:
    row = {
        "part": "writer",
        "outcome": "passed",
        "count": 1500,
        "numbers": {"MB": 1.0},
        "date": "2026-01-02",
        "commit": "a",
    }
    bad = {**row, "outcome": "failed", "count": 0, "numbers": {"MB": 2.5}, "date": "2026-01-03", "commit": "b"}
    left = {"part": "writer", "outcome": LEFT, "count": 0, "numbers": {}}
    lines = list(table({"x": row, "y": bad, "z": left}))
    assert lines[0].count("|") == lines[2].count("|") == len(COLUMNS) + 1
    unit = PARTS["writer"].unit
    assert lines[2] == f"| writer | {unit} | 2,100 | 1,500 | 1 | 1 | 0 | 1 | 2026-01-02 to 2026-01-03 | a b |"
    assert lines[2 + len(PARTS) :] == ["", "* writer: MB: 2.5", "* writer: failed: `y`"]


def test_the_page_is_fresh() -> None:
    rows, text = recorded(), PAGE.read_text(encoding="utf-8")
    assert page(text, rows) == text, "python -m benchmarks.reliability.counts --table writes it"
    assert {row["part"] for row in rows.values()} <= {*PARTS}
