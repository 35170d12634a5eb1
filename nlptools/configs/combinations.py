"""Rules of combination: each option declares its rules, and `check_combinations` checks the rules of all options.

A condition is written as on the command line, with the names of fields:

* `vectors`: the option is set: it has another value than its default, and than those that are `off`.
* `smoothing add-k`: the option has this value.
* `scratch or features`: one of the conditions holds.

All settings of a command are checked together, so a condition may name an option of another class. Options that are not checked
are left out of conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields
from typing import TYPE_CHECKING

from nlptools.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


# conditions of an option, or of some of its values: {"plateau": ("valid",)}
Conditions = tuple[str, ...] | Mapping[str, tuple[str, ...]]
Options = Mapping[str, Field[object]]  # by the names of their fields


def check_combinations(*settings: DataclassInstance) -> None:
    """Check the rules of all options in `settings`, instances of dataclasses.

    Raises UsageError if an option lacks another, excludes another, or has no effect with the value of another.
    """
    options = {field.name: field for each in settings for field in fields(each)}
    values = {field.name: getattr(each, field.name) for each in settings for field in fields(each)}
    for name, field in options.items():
        value = values[name]
        for flag, condition in _conditions(field, "needs", value):
            if _holds(condition, options, values) is False:
                raise UsageError(f"{flag} requires {_written(condition, options)}")
        for flag, condition in _conditions(field, "excludes", value):
            if _holds(condition, options, values):
                raise UsageError(f"{flag} cannot be combined with {_written(condition, options)}")
        for other, known in field.metadata["only"].items() if _set(field, value) else ():
            if other in values and _text(values[other]) not in known:
                raise UsageError(f"{flag_of(field)} applies to {flag_of(options[other])} {', '.join(known)} only")


def free_options(*settings: DataclassInstance) -> set[str]:
    """The options in `settings` that may change when a run continues."""
    return {field.name for each in settings for field in fields(each) if field.metadata["free"]}


def flag_of(field: Field[object]) -> str:
    """The long name of an option where it is set: `--no-eos` for a switch that is on by default."""
    name = field.metadata["flag"] or field.name.replace("_", "-")
    return f"--no-{name}" if field.default is True else f"--{name}"


def describe_rules(field: Field[object], options: Options) -> str:
    """The rules of an option as sentences of its help, each after a space; "" if it has none."""
    text = "".join(
        f" Only with {_written(name, options)} {', '.join(known)}." for name, known in field.metadata["only"].items()
    )
    for rule, first, verb in (("needs", "Requires", "requires"), ("excludes", "Not with", "excludes")):
        declared: Conditions = field.metadata[rule]
        if isinstance(declared, Mapping):
            values: dict[str, list[str]] = {}
            for value, conditions in declared.items():
                values.setdefault(_listed(conditions, options), []).append(value)
            for listed, those in values.items():
                text += f" {', '.join(those)} {verb if len(those) == 1 else verb.removesuffix('s')} {listed}."
        elif declared:
            text += f" {first} {_listed(declared, options)}."
    return text


def named_options(field: Field[object]) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """The alternatives of each rule of `field`: the options that it names, each with the values that it names."""
    for rule in ("needs", "excludes"):
        declared: Conditions = field.metadata[rule]
        for conditions in declared.values() if isinstance(declared, Mapping) else (declared,):
            for condition in conditions:
                yield [(name, (value,) if value else ()) for name, value in _alternatives(condition)]
    yield from ([rule] for rule in field.metadata["only"].items())


def _conditions(field: Field[object], rule: str, value: object) -> Iterator[tuple[str, str]]:
    """The conditions of a rule for this value, each after the option as a message names it."""
    declared: Conditions = field.metadata[rule]
    if isinstance(declared, Mapping):
        for condition in declared.get(_text(value), ()):
            yield f"{flag_of(field)} {_text(value)}", condition
    elif _set(field, value):
        for condition in declared:
            yield flag_of(field), condition


def _alternatives(condition: str) -> Iterator[tuple[str, str]]:
    """Names of options, each with the value it must have, or ""."""
    for alternative in condition.split(" or "):
        name, _, value = alternative.partition(" ")
        yield name, value


def _holds(condition: str, options: Options, values: Mapping[str, object]) -> bool | None:
    """Whether a condition holds, given the options that it names and that are checked; None: none of them is."""
    known = [(name, text) for name, text in _alternatives(condition) if name in values]
    results = [_text(values[name]) == text if text else _set(options[name], values[name]) for name, text in known]
    return any(results) if results else None


def _set(field: Field[object], value: object) -> bool:
    return value != field.default and value not in field.metadata["off"]


def _written(condition: str, options: Options) -> str:
    """A condition in the notation of the command line, without the options that the command lacks."""
    known = [(flag_of(options[name]), text) for name, text in _alternatives(condition) if name in options]
    return " or ".join(f"{flag} {text}".rstrip() for flag, text in known) or f"--{condition}"


def _listed(conditions: Iterable[str], options: Options) -> str:
    return ", ".join(_written(condition, options) for condition in conditions)


def _text(value: object) -> str:
    """A value as on the command line."""
    return f"{value:g}" if isinstance(value, float) else str(value)
