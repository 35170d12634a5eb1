"""A process that is killed, or a disk that fails, at the n-th change of the file system."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from nlptools.files import atomic

# functions of os, which shutil and pathlib call too, and one of atomic
CHANGES = ("replace", "mkdir", "unlink", "rmdir", "fsync", "chmod", "open", "exchange")


class Killed(BaseException):
    """Stands for SIGKILL: from here on the process changes nothing any more, whatever `finally` and `except` try."""


class Fault:
    """The `at`-th call (from 1) of one of `names` raises: `error`, once or `forever`; or, with `kill`, `Killed`, and any change
    after it too.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        at: int,
        *,
        kill: bool,
        names: tuple[str, ...] = CHANGES,
        error: int = errno.EIO,
        forever: bool = False,
    ) -> None:
        self.at, self.kill, self.calls = at, kill, 0
        self.error, self.forever = error, forever
        self.where = ""  # the call that failed
        monkeypatch.setattr(atomic, "unfinished", {})  # a killed run leaves its temporary files behind
        for name in CHANGES:
            place = atomic if name == "exchange" else os
            monkeypatch.setattr(place, name, self._wrapped(name, getattr(place, name), name in names))

    @property
    def happened(self) -> bool:
        return self.calls >= self.at

    def _wrapped(self, name: str, real: Callable[..., Any], counts: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.kill and self.happened:
                raise Killed
            self.calls += counts
            if counts and (self.calls == self.at or (self.forever and self.happened)):
                self.where = f"{name}{args}"
                raise Killed if self.kill else OSError(self.error, os.strerror(self.error))
            return real(*args, **kwargs)

        return call
