"""Flat arrays on disk that are written block by block: a raw file for each, and a JSON record of all, written last.

`path`.json lists the arrays with their types and lengths; files without it are not read. Arrays are memory-mapped.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from nlptools.errors import BundleError, DataError, InputError, StreamError, display, reason
from nlptools.files import atomic
from nlptools.files.json_fields import child, text, whole
from nlptools.json_types import JsonObject


class ArrayFiles:
    """Writes files `path`.NAME under temporary names. `commit` renames them; leaving the context without it removes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, tuple[IO[bytes], np.dtype[np.generic], str]] = {}

    def append(self, name: str, array: np.ndarray) -> None:
        """Append `array` to the file `name`, in the type of the first array of that file.

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

    def commit(self, record: Mapping[str, object]) -> None:
        """Rename the files, remove the files of an earlier record, then write `record` with the types and lengths.

        Raises:
            StreamError: disk full or another write error.
        """
        record_path = Path(f"{self.path}.json")
        try:
            earlier = _names(record_path)
            record_path.unlink(missing_ok=True)  # a record always has all of its files
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
    """The names of the arrays of an existing record; none if it cannot be read."""
    try:
        names = json.loads(record_path.read_text(encoding="utf-8"))["arrays"]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if os.sep not in name}


def open_arrays(path: Path) -> tuple[JsonObject, dict[str, np.ndarray]]:
    """The record at `path`.json and the arrays by name, memory-mapped for reading.

    Raises:
        InputError: the record or a file is missing.
        DataError: a file has another size than in the record, or the record is damaged.
    """
    try:
        record: JsonObject = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
        arrays = {}
        listed = child(record, "arrays", f"{path}.json")
        for name in listed:
            array = child(listed, name, f"{path}.json")
            dtype = np.dtype(text(array, "dtype", f"{path}.json"))
            file, length = f"{path}.{name}", whole(array, "length", f"{path}.json")
            if os.path.getsize(file) != length * dtype.itemsize:
                raise DataError(f"damaged: expected {length} numbers of type {dtype.name}", path=file)
            # a plain array: each index into a memmap creates another memmap; an empty file cannot be mapped
            arrays[name] = np.asarray(np.memmap(file, dtype, "r")) if length else np.empty(0, dtype)
    except OSError as error:
        raise InputError(f"{display(str(error.filename or path))}: {reason(error)}") from None
    except (ValueError, TypeError, AttributeError, BundleError):
        raise DataError("damaged: not a record of arrays", path=f"{path}.json") from None
    return record, arrays
