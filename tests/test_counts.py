"""The command that counts the tests of reliability: a record per test, and the table of what is held, failed and left."""

from __future__ import annotations

import os
import re

from conftest import ROOT, Record

from benchmarks.reliability.counts import COLUMNS, PARTS, ran, table


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
    row = {"outcome": "passed", "count": 1500, "numbers": {"MB": 1.0}, "date": "2026-01-02", "commit": "a"}
    bad = {**row, "outcome": "failed", "count": 0, "numbers": {"MB": 2.5}, "date": "2026-01-03", "commit": "b"}
    lines = list(table({"writer": ["x", "y", "z"]}, {"x": row, "y": bad}))
    assert lines[0].count("|") == lines[2].count("|") == len(COLUMNS) + 1
    unit = PARTS["writer"].unit
    assert lines[2:] == [
        f"| writer | {unit} | 2,100 | 1,500 | 2 | 1 | 0 | 1 | 2026-01-02 to 2026-01-03 | a b |",
        "",
        "writer: MB: 2.5",
        "writer: failed: y",
    ]
