"""Counts of a text that add up over its parts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

C = TypeVar("C", bound="Counts")


@dataclass(frozen=True)
class Counts:
    """Base of the counts of a corpus: every field is a number, and `+` adds field by field."""

    def __add__(self: C, other: C) -> C:
        return type(self)(*(vars(self)[field.name] + vars(other)[field.name] for field in fields(self)))
