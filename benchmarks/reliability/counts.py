"""Run the counted tests of reliability, record how many cases each has and whether they hold, and write the table of README.md.

    python -m benchmarks.reliability.counts [PART...] [--minutes N]    # run what the present commit has not been tested with
    python -m benchmarks.reliability.counts --table                    # only write the table, from the records

Each test runs in its own process, and its record is written as soon as it ends, so the command can be interrupted at any time and
goes on when it is called again. All parts together take several hours. With --minutes, no test begins after that time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reliability.results import PAGE, origin
from benchmarks.reliability.servers import whole

FOLDER = Path(__file__).parent
ROOT, RECORDS = FOLDER.parents[1], FOLDER / "counts.jsonl"
START, END = "<!-- counts: written by python -m benchmarks.reliability.counts -->", "<!-- end of counts -->"
COUNT = "count"  # the property in which a test records its number of cases; without it, a test is one case
LEFT = "left"  # outcome of a test that has not been run yet
COLUMNS = ("part", "cases of", "at least", "held", "tests passed", "failed", "skipped", "left", "date", "commit")


class Part(NamedTuple):
    """Tests that are counted together.

    Attributes:
        unit: what their cases are.
        least: how many there must be.
        tests: files or tests, as pytest names them.
        env: how long or large they are, unless the environment says so.
    """

    unit: str
    least: int
    tests: tuple[str, ...]
    env: Mapping[str, str] = {}


ENGINE, CLI = "tests/training/engine", "tests/cli"
PARTS = {
    "writer": Part(
        "system calls of a save that fail",
        2100,
        ("tests/files/test_writer_faults.py::test_what_was_there_or_the_new_one_is_whole",),
    ),
    "training": Part("trainer, stage and fault", 1679, (f"{ENGINE}/test_faults.py::test_all_cells",)),
    "resume": Part(
        "steps at which a run is stopped", 1372, (f"{ENGINE}/test_every_step.py::test_every_step_of_every_trainer",)
    ),
    "state": Part(
        "entries of a checkpoint that are dropped",
        276,
        (f"{ENGINE}/test_state_keys.py::test_an_entry_that_is_dropped_is_missed",),
    ),
    "ranks": Part(
        "tests of several processes",
        50,
        (
            *(f"{ENGINE}/{name}.py" for name in ("test_rank_faults", "test_ranks", "test_sharded")),
            "tests/test_clusters.py",
            "tests/test_slurm_examples.py",
            "tests/test_ray.py",
            "tests/training/word_vectors/test_merging.py",
            f"{CLI}/test_processes.py",
        ),
    ),
    "defects": Part(
        "command and defect",
        476,
        (
            f"{CLI}/test_defects.py::test_light_commands",
            f"{CLI}/test_defects.py::test_all_defects_of_models",
        ),
    ),
    "hostile": Part("hostile files", 60, ("tests/test_hostile_files.py::test_hostile_files",)),
    "flips": Part(
        "flipped bits", 1000, ("tests/files/test_bit_flips.py::test_a_thousand_flips_and_all_of_the_manifest",)
    ),
    "fuzz": Part(
        "changed files",
        100_000,
        ("tests/test_fuzz.py::test_changed_files_are_read_or_refused",),
        {"FUZZ_EXAMPLES": "10000"},
    ),
    "memory": Part("filters", 20, (f"{CLI}/test_memory.py::test_every_filter",), {"LARGEST_MEGABYTES": "2048"}),
    "length": Part("filter and run of characters", 200, (f"{CLI}/test_memory.py::test_every_filter_on_long_runs",)),
    "readers": Part("filters", 20, (f"{CLI}/test_memory.py::test_every_filter_ends_with_its_reader",)),
    "serve": Part(
        "accepted requests", 1000, (f"{CLI}/test_serve_load.py::test_a_thousand_clients",), {"LOAD_SECONDS": "600"}
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    chosen = parser.parse_args()
    if wrong := [name for name in chosen.parts if name not in PARTS]:
        parser.error(f"no part {', '.join(wrong)}")
    names, end = chosen.parts or [*PARTS], time.monotonic() + 60 * chosen.minutes
    rows = recorded()
    for name in () if chosen.table else names:
        tests = collected(PARTS[name])
        rows = {test: row for test, row in rows.items() if row["part"] != name or test in tests}
        for test in tests:
            rows.setdefault(test, {"part": name, "outcome": LEFT, COUNT: 0, "numbers": {}})
        for test in tests:
            if rows.get(test, {}).get("commit") == origin()["commit"] and rows[test]["outcome"] == "passed":
                continue
            if time.monotonic() > end:
                print("the time is over; the same command goes on", file=sys.stderr)
                break
            rows[test] = {"part": name} | ran(test, PARTS[name].env) | origin()
            print(
                f"{rows[test]['outcome']}\t{rows[test]['seconds']:.0f} s\t{rows[test][COUNT]:,}\t{test}",
                file=sys.stderr,
            )
            whole(RECORDS, "".join(f"{json.dumps({'test': test} | row)}\n" for test, row in rows.items()))
    whole(PAGE, page(PAGE.read_text(encoding="utf-8"), rows))
    print("\n".join(table(rows)))
    if any(row["outcome"] == "failed" for row in rows.values() if row["part"] in names):
        sys.exit(1)


def pytest(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run pytest as `bin/test --all` does; the environment may say otherwise than `env`."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    variables = {"OMP_NUM_THREADS": "1", "NLPTOOLS_TEST_ALL": "1", **env, **os.environ}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)


def collected(part: Part) -> list[str]:
    """The tests of a part. Exits if there is none."""
    done = pytest("--collect-only", *part.tests, env={})
    tests = [line for line in done.stdout.split("\n") if "::" in line and not line.startswith("ERROR")]
    if not tests or done.returncode:
        sys.exit(f"no tests in {' '.join(part.tests)}:\n{done.stdout}{done.stderr}")
    return tests


def ran(test: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Run a test: its outcome, seconds, number of cases, and other numbers that it records."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        done = pytest(test, "-o", "junit_family=xunit1", f"--junitxml={report}", env=env)
        found = next(ElementTree.parse(report).iter("testcase"), None) if report.exists() else None
    if found is None:
        return {"outcome": "failed", "seconds": 0.0, COUNT: 0, "numbers": {}, "note": done.stdout[-500:]}
    bad = next((child for child in found if child.tag in ("failure", "error", "skipped")), None)
    outcome = "passed" if bad is None else "skipped" if bad.tag == "skipped" else "failed"
    numbers = {each.attrib["name"]: float(each.attrib["value"]) for each in found.iter("property")}
    count = int(numbers.pop(COUNT, 1)) * (outcome == "passed")
    note = {} if bad is None else {"note": bad.attrib.get("message", "").replace(f"{ROOT}/", "")[:500]}
    return {"outcome": outcome, "seconds": float(found.attrib["time"]), COUNT: count, "numbers": numbers, **note}


def recorded() -> dict[str, dict[str, Any]]:
    """The records, by test."""
    lines = RECORDS.read_text(encoding="utf-8").split("\n") if RECORDS.exists() else []
    rows = [json.loads(line) for line in lines if line]
    return {row.pop("test"): row for row in rows}


def page(text: str, rows: Mapping[str, dict[str, Any]]) -> str:
    """The page with a fresh table between its markers."""
    before, rest = text.split(START)
    return f"{before}{START}\n{chr(10).join(table(rows))}\n{END}{rest.split(END)[1]}"


def table(rows: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """The table in Markdown, then the numbers that tests have recorded (the largest ones), and the tests that failed."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    notes = []
    for name, part in PARTS.items():
        found = {test: row for test, row in rows.items() if row["part"] == name}
        outcomes = [row["outcome"] for row in found.values()]
        counted = f"{sum(row[COUNT] for row in found.values()):,}"
        dates, commits = (sorted({row[key] for row in found.values() if key in row}) for key in ("date", "commit"))
        cells = [name, part.unit, f"{part.least:,}", counted]
        cells += [str(outcomes.count(outcome)) for outcome in ("passed", "failed", "skipped", LEFT)]
        cells += [" to ".join(dict.fromkeys([*dates[:1], *dates[-1:]])), " ".join(commits)]
        yield f"| {' | '.join(cells)} |"
        keys = dict.fromkeys(key for row in found.values() for key in row["numbers"])
        notes += [f"{name}: {key}: {max(row['numbers'].get(key, 0) for row in found.values()):g}" for key in keys]
        notes += [f"{name}: failed: `{test}`" for test, row in found.items() if row["outcome"] == "failed"]
    yield from ["", *(f"* {note}" for note in notes)] if notes else ()


if __name__ == "__main__":
    main()
