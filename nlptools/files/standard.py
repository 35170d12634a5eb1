"""Standard input, output and error of the process; they may be closed when it starts."""

from __future__ import annotations

import io
import os
import sys
from typing import IO, cast

from nlptools.errors import StreamError

closed: set[int] = set()  # which of 0, 1, 2 were closed when the process started


def output_bytes() -> IO[bytes]:
    """Standard output for bytes. Raises StreamError if it was closed before the process started."""
    if 1 in closed or sys.stdout is None:
        raise StreamError("<stdout>: standard output is closed")
    return cast(IO[bytes], sys.stdout.buffer)


class ClosedOutput(io.StringIO):
    """Replaces a standard output that was closed before the process started: writing to it is an error."""

    def write(self, text: str) -> int:
        """Raises StreamError."""
        raise StreamError("<stdout>: standard output is closed")


def plug_closed() -> None:
    """Open /dev/null on each of descriptors 0 to 2 that is closed.

    Otherwise the next opened file would get that number, and output for the standard streams would go into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            closed.add(descriptor)
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
