"""The types of the values of options."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import click

from nlptools import configs
from nlptools.errors import UsageError


def value_type(annotation: str, field: dataclasses.Field[object]) -> click.ParamType[object]:
    """The click type of a settings field."""
    data = field.metadata
    if annotation.startswith("tuple[str"):
        return click.STRING if data["multiple"] else CommaList(data["choices"])
    if data["choices"]:
        return click.Choice(data["choices"])
    if annotation in ("int", "float"):
        return Number(field, int if annotation == "int" else float)
    return click.STRING if data["check"] is None else Checked(data["check"])


class CommaList(click.ParamType[object]):
    """`A,B,C` as a tuple of strings; if there are `choices`, each is one of them."""

    name = "A,B,..."
    envvar_list_splitter = ","

    def __init__(self, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        parts = value if isinstance(value, tuple) else tuple(part for part in value.split(",") if part)
        for part in parts:
            if self.choices and part not in self.choices:
                self.fail(f"{part!r} is not one of {', '.join(map(repr, self.choices))}.", param, ctx)
        return parts


def flat(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]) -> object:
    """The values of a repeated option with commas; its default, which may be None, if it is not given."""
    return tuple(itertools.chain.from_iterable(value)) if value else param.default


class Number(click.FloatRange):
    """A number within the bounds of its field; help shows only explicit bounds."""

    def __init__(self, field: dataclasses.Field[object], parse: Callable[[str], float]) -> None:
        self.parse, self.name = parse, "integer" if parse is int else "float"
        self.low, self.high = field.metadata["low"], field.metadata["high"]
        self.least, self.most = configs.bounds(field) or (-math.inf, math.inf)
        super().__init__(self.least, self.most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = self.parse(value)
        except ValueError:
            self.fail(f"{value!r} is not a {'whole ' if self.parse is int else ''}number", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        if not self.least <= number <= self.most:
            both = f"between {self.least} and {self.most}"
            one = f"at least {self.least}" if number < self.least else f"at most {self.most}"
            self.fail(f"must be {one if self.high is None else both}, not {value}", param, ctx)
        return number

    def _describe_range(self) -> str:
        low, high = self.low, self.high
        if low is None:
            return "" if high is None else f"x<={high}"
        return f"x>={low}" if high is None else f"{low}<=x<={high}"


class Checked(click.ParamType[object]):
    """Text that a function of `configs` accepts."""

    name = "text"

    def __init__(self, check: Callable[[str], object]) -> None:
        self.check = check
        self.name = check.__name__

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        try:
            self.check(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)
