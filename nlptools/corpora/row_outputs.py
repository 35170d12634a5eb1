"""The output of a job in parts: for each part of the inputs a file of rows, and a file of counts when it is complete."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nlptools.errors import OutputError, UsageError, display
from nlptools.files import artifacts, atomic
from nlptools.files.json_fields import whole
from nlptools.formats.records import write_parquet

RECORD = "job.json"
ERROR = "error"  # the key of the message in a row that failed
TYPES = {"embedding": "[float]", ERROR: "string"}  # of columns of Parquet
FORMATS = ("jsonl", "parquet")


@dataclass(frozen=True)
class RowOutput:
    """A directory with `part-000000.jsonl` (or `.parquet`), `part-000000.json` with its counts, and so on.

    Both appear whole, the counts last. Raises UsageError for another format.
    """

    directory: Path
    to: str = "jsonl"

    def __post_init__(self) -> None:
        if self.to not in FORMATS:
            raise UsageError(f"no such format: {self.to}, expected {' or '.join(FORMATS)}")

    def claim(self, job: Mapping[str, object]) -> None:
        """Write the record of a new job, or check that the directory holds the output of this one.

        Raises:
            OutputError: it holds something else, or the output of another job.
        """
        record = json.loads(json.dumps({**job, "to": self.to}))
        path, name = self.directory / RECORD, display(str(self.directory))
        if path.is_file():
            before = artifacts.read_json(path)
            if different := [key for key, value in record.items() if before.get(key) != value]:
                hint = "remove it, or choose another directory"
                raise OutputError(f"{name}: holds the output of another job ({', '.join(different)})", hint=hint)
            return
        if self.directory.exists() and any(self.directory.iterdir()):
            raise OutputError(f"{name}: exists and holds no job", hint="choose another directory")
        self.directory.mkdir(parents=True, exist_ok=True)
        artifacts.write_json(path, record)

    def counts(self, part: int) -> tuple[int, int] | None:
        """The numbers of rows and of errors of a complete part; None: it is not complete. Raises BundleError."""
        path = self._place(part, "json")
        if not path.is_file():
            return None
        record = artifacts.read_json(path)
        return whole(record, "rows", path.name), whole(record, "errors", path.name)

    def write(self, part: int, rows: Sequence[Mapping[str, object]]) -> None:
        """Write a complete part.

        Raises:
            StreamError: disk full or another write error.
            DataError: values of different types have one key, which Parquet cannot hold.
        """
        path = self._place(part, self.to)
        if self.to == "parquet":
            write_parquet(path, rows, TYPES)
        else:
            lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows]
            atomic.write_whole(path, "".join(lines).encode("utf-8", "backslashreplace"))  # surrogates as JSON has them
        counts = {"rows": len(rows), "errors": sum(row.get(ERROR) is not None for row in rows)}
        artifacts.write_json(self._place(part, "json"), counts)

    def _place(self, part: int, suffix: str) -> Path:
        return self.directory / f"part-{part:06d}.{suffix}"
