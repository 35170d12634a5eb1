"""Paths in the directory of a run: a run that a killed one was to replace is put back before they are read."""

from __future__ import annotations

import os
from pathlib import Path

from nlptools.errors import BundleError
from nlptools.files.atomic import REPLACED

_DEPTH = 3  # of a file in a run: checkpoints/step-000002/weights.safetensors


def restore(path: str | Path) -> None:
    """Put back the run that is, or has, the file or directory `path`, see `replaced_run.restore`. Else do nothing.

    Raises:
        BundleError: a directory without a model, or nothing, is at `path`, because another run is replacing it or was killed.
    """
    given = Path(str.__str__(os.fspath(path)))  # of an `InputPart` too, which Path does not take
    if REPLACED in given.parts or "\0" in str(path):  # the run from before, by its own name; or no name of a file
        return
    real = Path(os.path.realpath(path))
    for directory in dict.fromkeys((given, *given.parents[:_DEPTH], real, *real.parents[:_DEPTH])):
        if os.path.isdir(directory / REPLACED):
            from nlptools.files import replaced_run  # slow to import

            try:
                replaced_run.restore(directory)
            except BundleError:
                if directory in (given, real) or not os.path.exists(given):
                    raise
