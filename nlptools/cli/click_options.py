"""Options of click from the fields of settings classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import click

from nlptools.cli import environment
from nlptools.cli.option_types import CommaList, flat, value_type
from nlptools.configs.combinations import describe_rules


def of_groups(command: str, *groups: type) -> list[click.Option]:
    """The options of the settings classes of a command."""
    fields = {field.name: field for group in groups for field in dataclasses.fields(group)}
    return [of_field(field, command, describe_rules(field, fields)) for field in fields.values()]


def of_field(field: dataclasses.Field[object], command: str, rules: str = "") -> click.Option:
    """The option of a settings field of a command; `rules`: sentences at the end of its help."""
    data = field.metadata
    flag = "--" + (data["flag"] or field.name.replace("_", "-"))
    variables = environment.variables(command, flag, field.name)
    required = field.default is dataclasses.MISSING
    annotation = str(field.type).removesuffix(" | None")
    help_text = data["help"] + rules
    if annotation == "bool":
        names = [f"{flag}/--no-{flag[2:]}"] + ([data["short"]] if data["short"] else [])
        if data["short"]:
            names = [f"{data['short']}/", f"{flag}/--no-{flag[2:]}"]
        return click.Option([*names, field.name], default=field.default, help=help_text, is_flag=True, envvar=variables)
    names = [flag, field.name, *([data["short"]] if data["short"] else [])]
    kind = value_type(annotation, field)
    shown = not required and field.default not in (None, "", ()) and data["bare"] is None
    return click.Option(
        names,
        # a required option must have no default at all, not even None
        **({"required": True} if required else {"default": field.default}),
        help=help_text,
        envvar=variables,
        metavar=data["metavar"],
        type=kind,
        show_default=shown,
        multiple=data["multiple"] or isinstance(kind, CommaList),
        callback=flat if isinstance(kind, CommaList) else None,
    )


def names_with_values(options: Collection[click.Parameter], fields: dict[str, dataclasses.Field[object]]) -> set[str]:
    """The names of options that need a value; `fields`: the settings of the names."""
    names = {
        name for option in options if isinstance(option, click.Option) and not option.is_flag for name in option.opts
    }
    return {name for name in names if name not in fields or fields[name].metadata["bare"] is None}
