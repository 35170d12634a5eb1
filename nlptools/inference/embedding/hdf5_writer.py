"""The vectors of the words of lines in HDF5, in the layout of `allennlp elmo`.

A dataset for each line, named by its number from 0: (n, D), or with all layers (layers, n, D), float32; and
"sentence_to_index", a JSON object from lines to their numbers. Of equal lines it has the last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nlptools.errors import BundleError, StreamError, Unavailable, display, reason
from nlptools.files import atomic

if TYPE_CHECKING:
    from nlptools.inference.embedding.units import Units


def check_package() -> None:
    """Raise Unavailable if h5py is not installed."""
    try:
        import h5py  # noqa: F401
    except ImportError:
        raise Unavailable("--to hdf5 needs the h5py package", extra="hdf5") from None


class Hdf5Writer:
    """Writes the vectors of tokens or words. Use as a context manager; the file appears when it is complete."""

    def __init__(self, path: str) -> None:
        """
        Raises:
            Unavailable: there is no h5py.
            StreamError: the file cannot be created.
        """
        check_package()
        import h5py

        self._path, self._lines = path, dict[str, str]()
        handle, self._temporary = atomic.temporary_file(path)
        os.close(handle)
        try:
            self._file: Any = h5py.File(self._temporary, "w", locking=False)  # `atomic` has a lock on it
        except OSError as error:
            atomic.discard(self._temporary)
            self._refuse(error)
        self._count = 0

    def write(self, results: Sequence[Units], lines: Sequence[str]) -> None:
        """Write the units of some lines. Raises BundleError for a number that is not finite, StreamError."""
        try:
            for units, line in zip(results, lines, strict=True):
                if not np.isfinite(units.vectors).all():
                    raise BundleError(f"a vector of the line {line[:40]!r} is not finite")
                by_layer = units.vectors.swapaxes(0, 1) if units.vectors.ndim == 3 else units.vectors
                self._file.create_dataset(str(self._count), data=by_layer)
                self._lines[line] = str(self._count)
                self._count += 1
        except OSError as error:
            self._refuse(error)

    def __enter__(self) -> Hdf5Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        import h5py

        try:
            if kind is None:
                text = json.dumps(self._lines, ensure_ascii=False)
                self._file.create_dataset("sentence_to_index", data=[text], dtype=h5py.string_dtype())
            self._file.close()
            if kind is None:
                atomic.publish(self._temporary, self._path)
        except OSError as error:
            self._refuse(error)
        finally:
            atomic.discard(self._temporary)

    def _refuse(self, error: OSError) -> None:
        raise StreamError(f"{display(self._path)}: write failed: {reason(error)}") from None
