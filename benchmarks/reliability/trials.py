"""A cell of the table: a fresh directory in which a program of a tool meets a defect."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.reliability import inputs, verdicts
from benchmarks.reliability.inputs import Input
from benchmarks.reliability.programs import WORDS
from benchmarks.reliability.servers import End, Request, Server
from benchmarks.reliability.tools import Tool

LINES = 300  # of the text of trainings


class Bench:
    """A tool at work, in directories under `place`."""

    def __init__(self, name: str, tool: Tool, place: Path) -> None:
        self.name, self.tool, self.place = name, tool, place
        self.server = Server(name)
        draw = Random(1)
        self.text = "".join(" ".join(draw.choices(WORDS[3:], k=9)) + "\n" for _ in range(LINES))
        self._count = 0
        self._clean: dict[Any, End] = {}
        self.whole: dict[str, Any] | None = None  # the result of a training that nothing disturbs
        self.models = place / "models"
        if tool.layout:
            self.models.mkdir(parents=True)
            (self.models / "text.txt").write_text(self.text)
            self.succeed("make", self.models, file="model")

    def fresh(self) -> Path:
        """A new directory, with an intact model."""
        self._count += 1
        place = self.place / str(self._count)
        place.mkdir(parents=True)
        (place / "text.txt").write_text(self.text)
        if self.tool.layout:
            shutil.copytree(self.models / "model", place / "model")
        return place

    def program(self, part: str) -> str:
        """The name of the program that makes a model, saves or trains one, or verifies it."""
        prefix = self.tool.trains if part == "train" else self.tool.saves
        return f"{prefix or self.name.split()[-1].replace('-', '_')}_{part}"

    def request(self, part: str, place: Path, arguments: dict[str, Any], **how: Any) -> Request:
        name = part if "_" in part else self.program(part)
        return Request(name, str(place), arguments, **how)

    def run(self, part: str, place: Path, how: dict[str, Any] | None = None, **arguments: Any) -> End:
        return self.server.run(self.request(part, place, arguments, **(how or {})))

    def succeed(self, part: str, place: Path, **arguments: Any) -> End:
        end = self.run(part, place, None, **arguments)
        if end.status:
            raise SystemExit(f"{self.name}: {part} fails without a fault: {end.err}")
        return end

    # -- inputs -------------------------------------------------------------------------------------------------------

    def clean(self, case: Input, program: str) -> End:
        """The end of a program for the intact file that means the same as an input."""
        key = program, case.twin, case.rows
        if key not in self._clean:
            place = self.fresh()
            file = inputs.write(case, place, self.tool.layout, twin=True)
            self._clean[key] = end = self.server.run(Request(program, str(place), {"file": file}))
            if end.status:
                raise SystemExit(f"{self.name}: {program} fails for an intact file: {end.err}")
        return self._clean[key]

    def unread(self, case: Input) -> str:
        """Why an input is not tried."""
        return self.tool.unread.get(case.name) or self.tool.unread.get(case.kind, "")

    def input(self, case: Input) -> tuple[str, str]:
        """The verdict on an input, and what the program said."""
        if reason := self.unread(case):
            return "-", reason
        program = self.tool.reads[case.kind]
        intact = self.clean(case, program)
        place = self.fresh()
        file = inputs.write(case, place, self.tool.layout)
        end = self.server.run(Request(program, str(place), {"file": file}, c_locale=case.c_locale))
        size = sum(each.stat().st_size for each in [place / file, *place.glob(f"{file}/*")] if each.is_file())
        expected = intact.result or {"out": intact.out}
        if case.twin is None and case.kind != "model":
            expected = {}
        verdict = verdicts.of_input(case, end, expected, intact.memory, size)
        if case.rows == 0 and not self.tool.filters and verdict == "right" and not end.status:
            verdict = "silent"  # something was made of nothing
        shutil.rmtree(os.fsencode(place))
        return verdict, verdicts.note(end)
