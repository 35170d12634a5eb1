"""Flat arrays that grow block by block on disk, one raw file each, under one JSON record that is written last.

`path`.json says which files belong together and what is in them; without it there is nothing. The arrays are read back
as memory maps.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from nlptools.errors import DataError, InputError, StreamError, display, reason
from nlptools.files import atomic


class ArrayFiles:
    """Files `path`.NAME in the making. They get their names in `commit`; leaving the context without it removes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, tuple[IO[bytes], np.dtype[Any], str]] = {}

    def append(self, name: str, array: np.ndarray) -> None:
        """Write `array` at the end of the file `name`, whose numbers are all of the type that the first array has.

        Raises:
            StreamError: disk full or another write error.
        """
        try:
            if name not in self._files:
                final = self._final(name)
                handle, temporary = atomic.temporary_file(final)
                self._files[name] = (os.fdopen(handle, "wb"), array.dtype, temporary)
            stream, dtype, _ = self._files[name]
            stream.write(np.ascontiguousarray(array, dtype).data)
        except OSError as error:
            raise self._refusal(error) from None

    def commit(self, record: Mapping[str, Any]) -> None:
        """Give the files their names in place of those of an earlier record, then write `record` and what they hold.

        Raises:
            StreamError: disk full or another write error.
        """
        record_path = Path(f"{self.path}.json")
        try:
            earlier = _names(record_path)
            record_path.unlink(missing_ok=True)  # from here on there is nothing, until all is there
            for name, (stream, _, temporary) in self._files.items():
                stream.close()
                atomic.publish(temporary, self._final(name))
            for name in earlier - self._files.keys():
                self._final(name).unlink(missing_ok=True)
        except OSError as error:
            raise self._refusal(error) from None
        arrays = {
            name: {"dtype": dtype.name, "length": self._final(name).stat().st_size // dtype.itemsize}
            for name, (_, dtype, _) in self._files.items()
        }
        atomic.write_whole(record_path, json.dumps({**record, "arrays": arrays}, indent=2) + "\n")

    def _final(self, name: str) -> Path:
        return Path(f"{self.path}.{name}")

    def _refusal(self, error: OSError) -> StreamError:
        return StreamError(f"{display(str(self.path))}: write failed: {reason(error)}")

    def __enter__(self) -> ArrayFiles:
        return self

    def __exit__(self, *error: object) -> None:
        for stream, _, temporary in self._files.values():
            with contextlib.suppress(OSError):
                stream.close()
            atomic.discard(temporary)


def _names(record_path: Path) -> set[str]:
    """The names of the arrays of a record that is there already, as far as it can be read."""
    try:
        names = json.loads(record_path.read_text(encoding="utf-8"))["arrays"]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if os.sep not in name}


def open_arrays(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The record at `path`.json and the arrays by name, memory-mapped for reading.

    Raises:
        InputError: no record, or a file is not there.
        DataError: a file has not the size that the record says, or the record is damaged.
    """
    try:
        record: dict[str, Any] = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
        arrays = {}
        for name, said in record["arrays"].items():
            dtype: np.dtype[Any] = np.dtype(str(said["dtype"]))
            file, length = f"{path}.{name}", int(said["length"])
            if os.path.getsize(file) != length * dtype.itemsize:
                raise DataError(f"damaged: expected {length} numbers of type {dtype.name}", path=file)
            # a plain array, as every index into a memmap makes another object of that class; no bytes, no map
            arrays[name] = np.asarray(np.memmap(file, dtype, "r")) if length else np.empty(0, dtype)
    except OSError as error:
        raise InputError(f"{display(str(error.filename or path))}: {reason(error)}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("damaged: not a record of arrays", path=f"{path}.json") from None
    return record, arrays
