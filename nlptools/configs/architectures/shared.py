"""Options that several architectures have."""

from __future__ import annotations

import re
from typing import TypeVar

from nlptools.configs import option
from nlptools.errors import UsageError

T = TypeVar("T")


def architecture(name: str) -> str:
    """The field `arch` of the options of one architecture."""
    return option(name, "Architecture.", metavar="NAME", init=False)


def heads() -> int:
    """The option --heads."""
    return option(4, "Attention heads.", low=1, metavar="N")


def longest_context() -> int:
    """The option --context of models with a maximum context length."""
    return option(256, "Maximum context length in tokens, and the length of a training sequence.", low=1, metavar="N")


def inner_width(help: str) -> int:
    """The option --intermediate."""
    return option(0, f"Width of the feed-forward layers; 0: {help}.", high=1 << 18, metavar="N")


def probability(help: str, default: T) -> T:
    """An option for a dropout or another probability; `default`: a number, or None."""
    return option(default, help, low=0, high=0.9, metavar="P")


def adaptive(note: str = "") -> str | None:
    """The option --adaptive."""
    return option(
        None,
        "Adaptive softmax for large vocabularies in the order of frequency (Grave et al. 2017): each of these numbers is the"
        f" first token of a cluster; later clusters cost less.{note}",
        metavar="N,N,...",
        check=cutoffs,
    )


def adaptive_cutoffs(text: str | None, vocab_size: int) -> tuple[int, ...]:
    """The numbers of --adaptive, () without it. Raises UsageError unless they are below the size of the vocabulary."""
    limits = () if text is None else cutoffs(text)
    if limits and limits[-1] >= vocab_size:
        raise UsageError(f"--adaptive {text}: the vocabulary has {vocab_size} tokens, expected less")
    return limits


def cutoffs(text: str) -> tuple[int, ...]:
    """The numbers in a text such as `2000,10000`, ascending from 1 on. Raises UsageError."""
    numbers = tuple(map(int, text.split(","))) if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text) else ()
    if not numbers or list(numbers) != sorted({0, *numbers})[1:]:
        raise UsageError(f"not ascending numbers of tokens: {text!r}, expected something like 2000,10000")
    return numbers
