"""The page of figures and the records that it is made of."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

import page  # noqa: E402
import records  # noqa: E402
import side_by_side  # noqa: E402


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_the_page_shows_the_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "stale: run benchmarks/run --render"
    readme = page.README.read_text(encoding="utf-8")
    assert readme == page.with_speeds(readme), "stale: run benchmarks/run --render"


def test_a_line_of_the_first_table_compares_the_best_settings_of_both_sides() -> None:
    row = {"job": "x", "ratios": {"tool, fp32": 4.0, "tool, bf16": 2.5, "another": 1.0}}
    assert page.least(row, "tool") == 2.5 and page.least(row, "none") is None
    assert 0 < sum(job.readme for job in page.JOBS) <= 8


@pytest.mark.parametrize("path", sorted((FOLDER / "results").glob("*.jsonl")), ids=lambda path: path.stem)
def test_records_say_where_they_come_from(path: Path) -> None:
    assert (FOLDER / f"{path.stem}.py").is_file()
    for row in rows(path):
        assert row["date"] and row["commit"]
        if "note" not in row:
            assert row["sides"] and row["processor"] and row["versions"]
            without = row["unit"] in records.NO_RATIOS
            assert row["ratios"] == ({} if without else records.ratios(row["sides"], row.get("less", False)))


def test_compare_records_what_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = {"theirs": iter([9.0, 2.0, 1.0, 3.0]), "nlptools, fp32": iter([9.0, 4.0, 5.0, 3.0])}
    sides = {name: (lambda values=values: next(values)) for name, values in speeds.items()}
    monkeypatch.setenv(records.OUTPUT, str(tmp_path / "job.jsonl"))
    assert side_by_side.compare("a job", "lines/s", sides) == {"theirs": 2.0, "nlptools, fp32": 4.0}
    [row] = rows(tmp_path / "job.jsonl")
    assert row["sides"] == {"theirs": 2.0, "nlptools, fp32": 4.0} and row["ratios"] == {"theirs": 2.0}
    assert row["ranges"] == {"theirs": [1.0, 3.0], "nlptools, fp32": [3.0, 5.0]} and row["rounds"] == 3
    assert row["units"] in (*records.UNITS, records.NEITHER) and row["versions"]["python"]
    monkeypatch.delenv(records.OUTPUT)
    side_by_side.compare("another job", "lines/s", {"nlptools": lambda: 1.0})
    assert len(rows(tmp_path / "job.jsonl")) == 1


def test_a_table_has_the_last_figure_of_each_processor() -> None:
    def row(processor: str, sides: dict[str, float], **more: object) -> dict:
        place = {"processor": processor, "units": "AMX", "unit": "s"}
        return place | {"job": "x", "sides": sides, "ratios": records.ratios(sides, less=True)} | more

    old = row("Intel(R) Xeon(R)", {"theirs": 8.0, "nlptools": 4.0}, source="by hand")
    shown = page.table("x", [old, row("AMD", {"theirs": 3.0}), row("Intel Xeon", {"nlptools": 2000.4})])
    assert shown.split("\n")[2:6] == [
        "| s | Intel, AMX | times | AMD, AMX |",
        "|---|---|---|---|",
        "| theirs | 8.0* | 2 | 3.0 |",
        "| **nlptools** | 2,000 |  |  |",
    ]


def test_a_job_in_several_units_has_a_column_for_each() -> None:
    def row(unit: str, name: str, value: float) -> dict:
        machine = {"processor": "AMD", "units": "AMX", "cores": 2}
        return {**machine, "job": "x", "unit": unit, "sides": {name: value}, "ratios": {}}

    rows = [row("perplexity", "nlptools a", 9.0), row("s", "nlptools a", 2.0), row("perplexity", "nlptools b", 8.0)]
    shown = page.wide_table("x", [*rows, row("perplexity", "nlptools a", 7.0)])
    assert shown.split("\n")[2:6] == [
        "| | perplexity | s | processor |",
        "|---|---|---|---|",
        "| **nlptools a** | 7.0 | 2.0 | AMD, AMX; cores: 2 |",
        "| **nlptools b** | 8.0 |  | AMD, AMX; cores: 2 |",
    ]
