"""Earlier names of options: in this version they still work, and a note names the present form."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from nlptools.errors import UsageError


def table(groups: Iterable[type]) -> dict[str, str]:
    """Earlier names of the options of settings classes, perhaps with a value (`--to json`), each with its present form."""
    settings = (field for group in groups for field in dataclasses.fields(group))
    return {name: now for field in settings for name, now in field.metadata["was"].items()}


def options_among(args: Sequence[str], valued: Collection[str]) -> list[bool]:
    """Whether each argument is an option, not the value of one or an input; `valued`: options that need a value."""
    out: list[bool] = []
    value = ended = False
    for arg in args:
        ended = ended or (arg == "--" and not value)
        out.append(not ended and not value and arg.startswith("-") and arg != "-")
        value = out[-1] and arg in valued
    return out


def renamed(args: Sequence[str], earlier: Mapping[str, str], valued: Collection[str]) -> tuple[list[str], list[str]]:
    """Arguments in which earlier names are replaced, and the notes about them; for `valued` see `options_among`.

    Raises:
        UsageError: the present form has a placeholder in capitals, which the user must fill in.
    """
    out: list[str] = []
    notes: list[str] = []
    options = options_among(args, {*valued, *(name for name, now in earlier.items() if now in valued)})
    place = 0
    while place < len(args):
        name, equals, value = args[place].partition("=") if options[place] else (args[place], "", "")
        following = args[place + 1] if place + 1 < len(args) and not equals else value
        pair = f"{name} {following}"
        used = pair if pair in earlier else name
        if not options[place] or used not in earlier:
            out.append(args[place])
            place += 1
            continue
        place += 2 if used == pair and not equals else 1
        now = earlier[used]
        if now != now.lower():
            raise UsageError(f"{used} is now {now}")
        notes.append(f"{used} is now {now}; the earlier name works in this version only")
        first, *rest = now.split(" ")
        out += [first + equals + value, *rest] if used == name else [first, *rest]
    return out, notes
