"""Messages of commands on standard error: notes, warnings, details. Data never passes through here.

Control characters, as names in foreign files may have, are escaped: none reaches the terminal or the log. The command line
sets `settings` once; library code only calls `note`, `warn` and `detail`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import IO

from nlptools.errors import visible

_BAR = 20  # characters between the brackets of a bar


@dataclass
class MessageSettings:
    """How messages look and where they go."""

    command: str = ""
    quiet: bool = False
    verbose: bool = False
    progress: str = "auto"  # auto: a bar on a terminal, else a plain line from time to time
    color: str = "auto"
    log_file: IO[str] | None = None
    repeats: dict[str, int] = field(default_factory=dict)  # kind of warning -> number of warnings
    bar: bool = False  # whether a bar is on the terminal now


settings = MessageSettings()


def note(text: str) -> None:
    """Write what happened and what to do next; silenced by --quiet."""
    _write(text, show=not settings.quiet)


def detail(text: str) -> None:
    """Write a detail, shown only with --verbose."""
    _write(text, show=settings.verbose and not settings.quiet)


def warn(text: str, kind: str | None = None, most: int = 3) -> None:
    """Write a warning. Only the first `most` warnings of a `kind` are shown; `finish` reports the number of the others."""
    if kind is not None:
        settings.repeats[kind] = settings.repeats.get(kind, 0) + 1
        if settings.repeats[kind] > most:
            return
    _write(f"{_name()}: warning: {visible(text)}", show=True)


def error(text: str, hint: str | None = None) -> None:
    """Write why the command failed, and the hint on a line below; never silenced."""
    _write(f"{_name()}: {visible(text)}" + (f"\n  hint: {visible(hint)}" if hint else ""), show=True)


def progress(text: str, fraction: float | None) -> None:
    """Draw a bar with the processed share, if known, and `text`; or write a plain line."""
    if not bars():
        note(text if fraction is None else f"{fraction:.0%}  {text}")
    elif sys.stderr is not None:
        filled = round(_BAR * (fraction or 0))
        drawn = "" if fraction is None else f"[{'=' * filled}{' ' * (_BAR - filled)}] {fraction:4.0%}  "
        _draw(f"{settings.command}  {drawn}{visible(text)}"[: shutil.get_terminal_size().columns - 1])


def clock(seconds: float) -> str:
    """A duration as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def counted(count: int, one: str, many: str = "") -> str:
    """The count and its noun: "1 line", "2,000 lines"; `many` is for plurals that need more than an s ("lines were")."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def no_bar() -> None:
    """Remove the bar."""
    _draw("")


def finish() -> None:
    """Remove the bar, and report how many warnings of each kind were suppressed."""
    no_bar()
    for kind, count in settings.repeats.items():
        if count > 3:
            _write(f"{_name()}: warning: {kind}: {count - 3} more", show=True)
    settings.repeats.clear()


def stderr_is_terminal() -> bool:
    """Whether standard error is a terminal that can show progress bars and colors."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def bars() -> bool:
    """Whether to draw a moving progress bar."""
    if settings.quiet or settings.progress == "never":
        return False
    return settings.progress == "always" or stderr_is_terminal()


def colored() -> bool:
    """Whether to use colors on standard error (https://no-color.org)."""
    if settings.color != "auto":
        return settings.color == "always"
    return stderr_is_terminal() and not os.environ.get("NO_COLOR")


def _name() -> str:
    return f"nlptools {settings.command}".rstrip()


def _draw(line: str) -> None:
    """Replace the bar, the last line of the terminal; an empty line removes it."""
    if (line or settings.bar) and sys.stderr is not None:
        settings.bar = bool(line)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("\r\x1b[K" + line)
            sys.stderr.flush()


def _write(text: str, show: bool) -> None:
    text = "\n".join(map(visible, text.split("\n")))
    if settings.log_file is not None:
        settings.log_file.write(time.strftime("%Y-%m-%dT%H:%M:%S%z ") + text + "\n")
        settings.log_file.flush()
    if show and sys.stderr is not None:
        _draw("")
        with contextlib.suppress(OSError, ValueError):  # standard error is closed; the command still writes its data
            try:
                sys.stderr.write(text + "\n")
                sys.stderr.flush()
            except BrokenPipeError:  # the text stays in the buffer: its next write must not end the process
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
