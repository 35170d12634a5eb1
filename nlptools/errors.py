"""Exceptions; each class has the exit status of the command line.

    NlptoolsError              1
    ├── CheckFailed            1   a check the user asked for failed (bleu --fail-under)
    ├── UsageError             2   wrong option or combination of options
    ├── Diverged               3   loss or gradient not finite several steps running
    ├── DataError             65   malformed line, unequal line counts, invalid UTF-8, no training data
    ├── InputError            66   no such input, a directory, or unreadable
    ├── Unavailable           69   device or package not available
    ├── OutputError           73   output exists, cannot be created, or is locked by another run
    ├── StreamError           74   disk full, standard output closed, read error
    ├── Stopped               75   stopped early with a checkpoint saved: the same command continues
    └── BundleError           78   bad model directory, tokenizer or configuration

The message is one lower-case sentence that names the fault and what was expected. `hint` is shown on a separate line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class NamedPart(str):
    """The name of a file that is read in part. Lines are counted from the beginning of the part."""

    def lines_before(self) -> int:
        """The number of lines of the file before the part, which an error adds."""
        raise NotImplementedError


class NlptoolsError(Exception):
    """Base of all errors that end a command with one line on standard error."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class CheckFailed(NlptoolsError):
    exit_code = 1


class UsageError(NlptoolsError):
    exit_code = 2


class Diverged(NlptoolsError):
    exit_code = 3


class DataError(NlptoolsError):
    """Bad data; the message begins with `FILE:LINE: ` when the place is known."""

    exit_code = 65

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        if line is not None and isinstance(path, NamedPart):
            line += path.lines_before()
        place = "" if path is None else f"{display(path)}: " if line is None else f"{display(path)}:{line}: "
        super().__init__(place + message, hint=hint)


class InvalidText(DataError):
    """A text that is not what a model reads. `row`: its number among the texts, from 0."""

    def __init__(self, message: str, row: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.row = row


class InputError(NlptoolsError):
    exit_code = 66


class Unavailable(NlptoolsError):
    """A device or an optional package is missing; `extra` is the extra of the installation that has the package."""

    exit_code = 69

    def __init__(self, message: str, *, hint: str | None = None, extra: str | None = None) -> None:
        super().__init__(
            message, hint=hint if extra is None else f"in the checkout of nlptools: pip install '.[{extra}]'"
        )


class NotInstalled(Unavailable):
    """A package that nlptools requires cannot be imported, as in a checkout before anything is installed."""

    def __init__(self, error: ModuleNotFoundError) -> None:
        hint = "in the checkout of nlptools: pip install . (or bin/venv: bin/nlptools uses its packages)"
        super().__init__(f"the Python package {error.name} is not installed", hint=hint)


class OutputError(NlptoolsError):
    exit_code = 73


class StreamError(NlptoolsError):
    exit_code = 74


class Stopped(NlptoolsError):
    """An early end. `exit_code`: where a launcher takes every status but 0 for a crash, a clean end has 0."""

    exit_code = 75

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 75) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class BundleError(NlptoolsError):
    exit_code = 78


def exit_status(error: BaseException | None) -> int:
    """The exit status of a command that ends with `error`; 0 without one."""
    if error is None:
        return 0
    if isinstance(error, NlptoolsError):
        return error.exit_code
    return 74 if isinstance(error, OSError) else 70


def display(path: str) -> str:
    """`path` for a message: standard input as <stdin>, control characters escaped."""
    return visible("<stdin>" if path == "-" else path)


def visible(text: str) -> str:
    """`text` with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def reason(error: OSError) -> str:
    """The operating system's reason, in lower case: "no space left on device"."""
    return (error.strerror or str(error)).lower()


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Raise BundleError for any exception of a library that reads the model, tokenizer or configuration at `path`.

    Callers check what they can first, with better messages; this covers the rest. `--debug` shows the traceback.
    """
    try:
        yield
    except (NlptoolsError, OSError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of a Rust library is not an Exception
        text = ": ".join([type(error).__name__, *str(error).split("\n")[:1]])
        raise BundleError(f"{display(str(path))}: cannot be read: {text[:300]}") from error


def shown(text: str, most: int = 60) -> str:
    """`text` in quotes for a message, truncated after `most` characters."""
    return repr(shorten(text, most))


def shorten(text: str, most: int) -> str:
    """`text` for a message, truncated after `most` characters."""
    return text if len(text) <= most else text[:most] + "…"
