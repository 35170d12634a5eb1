"""What commands say on standard error: notes, warnings, details. Data never passes through here.

The command line sets `settings` once; library code only calls `note`, `warn` and `detail`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import IO


@dataclass
class Settings:
    """How messages look and where they go."""

    command: str = ""
    quiet: bool = False
    verbose: bool = False
    progress: str = "auto"  # auto: a bar on a terminal, a plain line now and then elsewhere
    color: str = "auto"
    log_file: IO[str] | None = None
    repeats: dict[str, int] = field(default_factory=dict)  # kind of warning -> how often


settings = Settings()


def note(text: str) -> None:
    """Say what happened and what to do next; silenced by --quiet."""
    _write(text, show=not settings.quiet)


def detail(text: str) -> None:
    """Say what only --verbose users want to know."""
    _write(text, show=settings.verbose and not settings.quiet)


def warn(text: str, kind: str | None = None, most: int = 3) -> None:
    """Warn; of one `kind` only the first `most` are shown, the rest are counted by `finish`."""
    if kind is not None:
        settings.repeats[kind] = settings.repeats.get(kind, 0) + 1
        if settings.repeats[kind] > most:
            return
    _write(f"{_name()}: warning: {text}", show=True)


def error(text: str) -> None:
    """Say why the command failed; never silenced."""
    _write(text, show=True)


def counted(count: int, one: str, many: str = "") -> str:
    """The count before its words: "1 line", "2,000 lines"; `many` where an s is not enough ("line was", "lines were")."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def finish() -> None:
    """Tell how many warnings of each kind were held back."""
    for kind, count in settings.repeats.items():
        if count > 3:
            _write(f"{_name()}: warning: {kind}: {count - 3} more", show=True)
    settings.repeats.clear()


def stderr_is_terminal() -> bool:
    """Whether bars and colours make sense on standard error."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def bars() -> bool:
    """Whether to draw a moving progress bar."""
    if settings.quiet or settings.progress == "never":
        return False
    return settings.progress == "always" or stderr_is_terminal()


def colored() -> bool:
    """Whether standard error may carry colours (https://no-color.org)."""
    if settings.color != "auto":
        return settings.color == "always"
    return stderr_is_terminal() and not os.environ.get("NO_COLOR")


def _name() -> str:
    return f"nlptools {settings.command}".rstrip()


def _write(text: str, show: bool) -> None:
    if settings.log_file is not None:
        settings.log_file.write(time.strftime("%Y-%m-%dT%H:%M:%S%z ") + text + "\n")
        settings.log_file.flush()
    if show and sys.stderr is not None:
        try:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # nobody listens to our messages: the data still has to get through
