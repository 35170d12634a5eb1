"""Options from TOML files and presets, and --dump-config."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from nlptools.cli.option_types import CommaList
from nlptools.errors import BundleError, UsageError, reason


def config_options() -> list[click.Option]:
    return [
        click.Option(
            ["--config"],
            metavar="FILE.toml",
            is_eager=True,
            expose_value=False,
            callback=_read_config,
            help="Read options from this file; flags and environment variables take precedence.",
        ),
        click.Option(
            ["--dump-config"],
            is_flag=True,
            is_eager=False,
            expose_value=False,
            callback=_request_dump,
            help="Print the resolved options in the format of --config, and exit.",
        ),
    ]


def _read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Put the values of the file into click's default map."""
    ctx.meta["nlptools.config"] = _load_toml(value, ctx) if value else {}
    ctx.meta["nlptools.config_file"] = value
    _set_defaults(ctx)


def read_preset(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Put the values of a preset into click's default map; callback of each of the options that name it.

    The preset's name is the values of these options, joined by spaces, otherwise the last value.
    """
    command: Any = ctx.command
    values = ctx.meta.setdefault("nlptools.preset_values", {})
    values[param.name] = value
    names = [values[name] for name in command.preset_options if values.get(name)]
    known = (command.presets[name] for name in (" ".join(names), *names[-1:]) if name in command.presets)
    ctx.meta["nlptools.preset"] = next(known, {})
    _set_defaults(ctx)
    return value


def _set_defaults(ctx: click.Context) -> None:
    """Eager options are read in the order of the command line; the file takes precedence in any order."""
    sources = (ctx.meta.get(f"nlptools.{name}", {}) for name in ("implied", "preset", "config"))
    ctx.default_map = {name: value for source in sources for name, value in source.items()}


def read_table(path: str, ctx: click.Context) -> dict[str, object]:
    """The table of the command in a TOML file. Raises UsageError, BundleError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path}: {reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: not valid TOML: {error}") from None
    inner: dict[str, object] = table.get(str(ctx.info_name), table)
    return inner


def _load_toml(path: str, ctx: click.Context) -> dict[str, object]:
    table, parameters = read_table(path, ctx), ctx.command.get_params(ctx)
    known = {parameter.name: parameter for parameter in parameters}
    flags = {_key(flag): parameter.name for parameter in parameters for flag in parameter.opts}
    values = {flags.get(key := _key(name), key): value for name, value in table.items()}
    unknown = sorted(key for key in values if key not in known)
    if unknown:
        for key in unknown:
            ctx.meta["nlptools.refuse"](key, f"{path}: ")
        earlier = ctx.meta["nlptools.earlier"]
        flags_of = [f"--{key.replace('_', '-')}" for key in unknown]
        now = "".join(f"; {flag} is now {earlier[flag]}" for flag in flags_of if flag in earlier)
        raise UsageError(f"{path}: no such option: {', '.join(unknown)}{now}")
    return {key: _text(known[key], value, path) for key, value in values.items()}


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _text(option: click.Parameter, value: object, path: str) -> object:
    """A value of a TOML file as a string, as on the command line, so that the same checks apply."""
    if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
        raise UsageError(f"{path}: {option.name} is a {type(value).__name__}, expected one value")
    if isinstance(value, list):  # commas in an item are no separators
        return [(str(item),) if isinstance(option.type, CommaList) else str(item) for item in value]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return [text] if option.multiple else text


def _request_dump(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta["nlptools.dump"] = value


def dump(ctx: click.Context) -> None:
    names = [p.name for p in ctx.command.get_params(ctx) if isinstance(p, click.Option) and p.name in ctx.params]
    rows = [f"{name} = {_toml(ctx.params[name])}" for name in names if ctx.params[name] is not None]
    click.echo("\n".join(rows))
    ctx.exit(0)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        import json

        return json.dumps(value, ensure_ascii=False)
    return repr(value)
