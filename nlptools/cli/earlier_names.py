"""Earlier names of options: in this version they still work, and a note says what is written now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from nlptools.errors import UsageError


def table(groups: Iterable[type]) -> dict[str, str]:
    """Earlier names of the options of settings classes, perhaps with a value (`--to json`): what is written now."""
    settings = (field for group in groups for field in dataclasses.fields(group))
    return {name: now for field in settings for name, now in field.metadata["was"].items()}


def renamed(args: list[str], earlier: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Arguments in which earlier names are replaced, and the notes about them.

    Raises:
        UsageError: the user has to fill in something that stands in capitals in what is written now.
    """
    out: list[str] = []
    notes: list[str] = []
    end = args.index("--") if "--" in args else len(args)
    place = 0
    while place < end:
        name, equals, value = args[place].partition("=")
        following = args[place + 1] if place + 1 < end and not equals else value
        pair = f"{name} {following}"
        used = pair if pair in earlier else name
        place += 2 if used == pair and not equals else 1
        if used not in earlier:
            out.append(f"{name}{equals}{value}")
            continue
        now = earlier[used]
        if now != now.lower():
            raise UsageError(f"{used} is now {now}")
        notes.append(f"{used} is now {now}; the earlier name works in this version only")
        first, *rest = now.split(" ")
        out += [first + equals + value, *rest] if used == name else [first, *rest]
    return out + args[end:], notes
