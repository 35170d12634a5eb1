"""Options in the environment: a warning about variables that no option reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches

import click

from nlptools import messages
from nlptools.cli import usage
from nlptools.errors import visible

# variables without an option: the package, its tests or its benchmarks read them
_OTHERS = {
    "NLPTOOLS_DEBUG",
    "NLPTOOLS_PROCESS_TIMEOUT",
    "NLPTOOLS_DATA",
    "NLPTOOLS_EMULATE_BF16",
    "NLPTOOLS_TEST_PROCESSES",
    "NLPTOOLS_TEST_ALL",
}
_PREFIX = "NLPTOOLS_"


def check(ctx: click.Context, elsewhere: Callable[[str], bool]) -> None:
    """Warn about each variable NLPTOOLS_... of the command of `ctx`, or of no command, that no option reads.

    `elsewhere`: whether another variant of the command has an option. Such a variable has no effect.
    """
    names = [name for name in os.environ if name.startswith(_PREFIX) and name not in _OTHERS]
    group = ctx.find_root().command
    if not names or not isinstance(group, click.Group):
        return
    prefixes = [_prefix(name) for name in group.list_commands(ctx)]
    own = _prefix(str(ctx.info_name))
    known = {own + str(option.name).upper() for option in ctx.command.get_params(ctx)}
    known |= {variable for option in ctx.command.get_params(ctx) for variable in option.envvar or ()}
    for name in sorted(set(names) - set(known)):
        # a command's name may begin with another's: the longest prefix decides
        if max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default=own) == own:
            if name.startswith(own) and elsewhere(name.removeprefix(own).lower()):
                continue
            close = usage.nearest(get_close_matches(name, [*known, *_OTHERS], n=1, cutoff=0.8))
            messages.warn(f"no option reads the environment variable {visible(name)}{close}")


def variables(command: str, flag: str, field: str) -> list[str] | None:
    """The variables of an option with a flag other than the name of its field; None: click's own rule names the variable."""
    name = flag.removeprefix("--").replace("-", "_")
    return None if name == field else [_prefix(command) + each.upper() for each in (name, field)]


def _prefix(command: str) -> str:
    return f"{_PREFIX}{command.replace('-', '_').upper()}_"
