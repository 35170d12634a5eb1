"""Checks of sizes read from model files, made before memory is allocated for them."""

from __future__ import annotations

from nlptools.errors import BundleError


def check_sizes(config: object, **most: int) -> None:
    """Raise BundleError unless each named size is a whole number from 1 to its limit."""
    for name, limit in most.items():
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= limit:
            raise BundleError(f"{name} is {value!r}, expected a whole number from 1 to {limit}")


def check_shares(config: object, *names: str) -> None:
    """Raise BundleError unless each named value is a number from 0 to 1."""
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
            raise BundleError(f"{name} is {value!r}, expected a number from 0 to 1")
