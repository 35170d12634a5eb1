"""Streaming writer of the vectors of tokens or words: JSON lines, or one `.npy` file with an index."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from nlptools.errors import BundleError
from nlptools.files.line_records import escape
from nlptools.files.streams import LineWriter
from nlptools.vectors.files.array_writer import ArrayWriter
from nlptools.vectors.files.decimals import rows_of_decimals

if TYPE_CHECKING:
    from nlptools.inference.embedding.units import Units


class UnitWriter:
    """Writes the vectors of tokens or words. Use as a context manager.

    JSON lines: `{"text", "tokens" or "words", "vectors"}` for each line. npy: the vectors of all lines in one array, and in
    the index `line TAB number TAB unit` for each vector, both numbers from 1.
    """

    def __init__(
        self,
        path: str,
        form: str,
        dimensions: int,
        unit: str,
        *,
        dtype: str = "float32",
        index: str | None = None,
        force: bool = False,
        line_buffered: bool = False,
    ) -> None:
        """
        Args:
            path: the file; `-` is standard output.
            form: "jsonl", or "npy", which needs an `index`.
            unit: "token" or "word".

        Raises:
            OutputError: a file exists and `force` is not set, or cannot be created.
        """
        self._key, self._count = f"{unit}s", 0
        with contextlib.ExitStack() as stack:
            self._lines = self._index = self._array = None
            if index is None:
                self._lines = stack.enter_context(
                    LineWriter(path, force=force, line_buffered=line_buffered, layout="jsonl")
                )
            else:
                self._index = stack.enter_context(LineWriter(index, force=force, line_buffered=line_buffered))
                self._array = stack.enter_context(
                    ArrayWriter(path, form, dimensions, dtype, force=force, keep_lines=False)
                )
            self._stack = stack.pop_all()

    def write(self, results: Sequence[Units], lines: Sequence[str]) -> None:
        """Write the units of some lines, and flush.

        Raises:
            BundleError: a number is not finite.
            StreamError: disk full or another write error.
        """
        if self._lines is not None:
            self._lines.write_lines([self._record(*pair) for pair in zip(results, lines, strict=True)])
        if self._array is not None and self._index is not None:
            rows = [
                f"{self._count + number}\t{place}\t{escape(name)}"
                for number, units in enumerate(results, 1)
                for place, name in enumerate(units.names, 1)
            ]
            names = [name for units in results for name in units.names]
            if names:
                self._array.write(np.concatenate([units.vectors for units in results]), names)
            self._index.write_lines(rows)
        self._count += len(results)

    def _record(self, units: Units, line: str) -> str:
        if not np.isfinite(units.vectors).all():
            raise BundleError(f"a vector of the line {line[:40]!r} is not finite")
        rows = rows_of_decimals(units.vectors, ", ")
        text, names = (json.dumps(value, ensure_ascii=False) for value in (line, units.names))
        return f'{{"text": {text}, "{self._key}": {names}, "vectors": [{", ".join(f"[{row}]" for row in rows)}]}}'

    def __enter__(self) -> UnitWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
