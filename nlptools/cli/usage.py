"""Usage errors of click in the words of this package: the place of the wrong value, what is wrong, what was expected."""

from __future__ import annotations

import re

import click
from click.core import ParameterSource

from nlptools import messages

# (pattern of click's message, replacement)
_WORDS = (
    (r"Got unexpected extra arguments? \((.*)\)", r"unexpected argument: \1"),
    (r"Option '(.*)' requires an argument", r"\1: the value is missing"),
    (r"Option '(.*)' does not take a value", r"\1: takes no value"),
    (r"(.*) is not a valid boolean.*", r"\1 is neither true nor false"),
)


def message(error: click.UsageError) -> str:
    """One sentence without a full stop."""
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx is not None:
        names = "/".join(sorted(error.param.opts, key=len)) + " " if isinstance(error.param, click.Option) else ""
        return f"missing {error.param.param_type_name} {names}{error.param.make_metavar(error.ctx)}"
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}" + nearest(error.possibilities)
    text = error.message.strip().rstrip(".").replace("\n", " ")
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    wrong, is_not, choices = text.partition(" is not one of ")
    text = wrong + is_not + choices.replace("'", "")
    text = text[:1].lower() + text[1:]
    return (
        f"{_place(error.param, error.ctx)}: {text}" if isinstance(error, click.BadParameter) and error.param else text
    )


def hint(error: click.UsageError) -> str:
    """The command that lists what is possible, or the place of an option that was given before the command."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None and isinstance(error.ctx.command, click.Group):
        command = messages.settings.command or "COMMAND"
        return f"options follow the command: nlptools {command} {error.option_name}"
    path = error.ctx.command_path if error.ctx is not None else f"nlptools {messages.settings.command}".rstrip()
    return f"'{path} --help' lists the options"


def nearest(names: list[str] | None) -> str:
    """The question whether the first of `names` was meant."""
    return f" (did you mean {names[0]}?)" if names else ""


def _place(param: click.Parameter, ctx: click.Context | None) -> str:
    """Where the value of a parameter was given: its flag, environment variable or configuration file."""
    name = param.name or ""
    if ctx is not None and ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
        return f"environment variable {ctx.auto_envvar_prefix}_{name.upper()}"
    if ctx is not None and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
        return f"{ctx.meta['nlptools.config_file'] or 'preset'}: {name}"
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
