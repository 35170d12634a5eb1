"""Try the bad inputs and faults on every tool that is installed, record the verdicts, and print the table.

    python -m benchmarks.reliability [--tools A,B] [--parts inputs,faults] [--only REGEX] [--record] [--keep DIR]
    python -m benchmarks.reliability --render      # only write the table of README.md from the records

Run it in the folder above benchmarks/, with a Python that has the packages; it says which are missing.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.reliability import results
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.inputs import INPUTS
from benchmarks.reliability.tools import TOOLS
from benchmarks.reliability.trials import Bench

PARTS = ("inputs", "faults")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(TOOLS), help="names, joined by commas")
    parser.add_argument("--parts", default=",".join(PARTS), help="inputs, faults, or both")
    parser.add_argument("--only", default="", help="only those whose names match this regular expression")
    parser.add_argument("--record", action="store_true", help="write the verdicts to results.jsonl, and README.md")
    parser.add_argument("--render", action="store_true", help="only write README.md")
    parser.add_argument("--keep", type=Path, help="a folder for the directories of the cells")
    chosen = parser.parse_args()
    if chosen.render:
        results.write()
        return
    place = chosen.keep or Path(tempfile.mkdtemp(prefix="reliability-"))
    try:
        for name in chosen.tools.split(","):
            if missing := TOOLS[name].missing:
                print(f"{name}: not tried, for lack of the package {missing}", file=sys.stderr)
                continue
            for row in tried(name, chosen.parts.split(","), chosen.only, place / name.replace(" ", "-")):
                if chosen.record:
                    results.record([row])
    finally:
        if not chosen.keep:
            shutil.rmtree(str(place).encode(), ignore_errors=True)
    if chosen.record:
        results.write()


def tried(name: str, parts: list[str], only: str, place: Path) -> Iterator[results.Row]:
    """The verdicts on a tool; each is printed when it is known."""
    bench = Bench(name, TOOLS[name], place)
    cases = [("inputs", case.name, case) for case in INPUTS] + [("faults", fault.name, fault) for fault in FAULTS]
    for part, title, case in cases:
        if part not in parts or not re.search(only, title):
            continue
        began = time.monotonic()
        verdict, note = bench.input(case) if part == "inputs" else case.verdict(bench)
        print(f"{name}\t{title}\t{verdict}\t{note}\t{time.monotonic() - began:.1f} s", flush=True)
        yield results.Row(part, title, name, verdict, note)
    bench.server.close()


if __name__ == "__main__":
    main()
