"""Settings of `attend`, which shows attention weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nlptools.configs import Compute, option, redefined
from nlptools.errors import UsageError, display

PARTS = ("cross", "encoder", "decoder")
PICTURES = ("svg", "png")
FORMATS = ("jsonl", *PICTURES, "html")


def number(text: str) -> int:
    """The number of a layer or a head. Raises UsageError."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not value:
        raise UsageError(f"not a number of a layer or a head: {text!r}, expected 1, 2, ... or -1 for the last")
    return value


def numbers(text: str) -> list[int]:
    """Numbers with commas between them. Raises UsageError."""
    return [number(part) for part in text.split(",")]


@dataclass(frozen=True)
class Attend:
    """Attention options"""

    layer: tuple[str, ...] = option((), "Layers, from 1; -1 is the last. Default: all.", metavar="N,...", check=numbers)
    head: tuple[str, ...] = option((), "Heads, from 1; -1 is the last. Default: all.", metavar="N,...", check=numbers)
    mean: bool = option(False, "Average over the chosen layers and heads.")
    part: str | None = option(
        None,
        "Which attention of a translation model: to the source (cross), or self-attention of the encoder or the decoder."
        " Default: cross.",
        choices=PARTS,
    )
    per: str = option(
        "word",
        "Attention between words or tokens. Attention to a word is the sum over its tokens, attention from a word the mean.",
        choices=("word", "token"),
    )
    special: bool = option(
        True, "Show special tokens, such as [CLS]. Without them, the weights of a word may sum to less than 1."
    )
    query: tuple[str, ...] = option((), "Show only attention from these words.", metavar="WORD,...")
    to: str | None = option(
        None,
        "Output format: JSON lines, a picture, or a page to explore in a browser. Default: by the suffix of --output, else"
        " jsonl.",
        choices=FORMATS,
    )
    view: str | None = option(
        None,
        "Kind of picture: one heat map, lines between words, or a small heat map for each head. Default: heads; heat for a"
        " single head and with --mean.",
        choices=("heat", "lines", "heads"),
    )

    @property
    def layers(self) -> list[int]:
        """The chosen layers; empty: all."""
        return [number(text) for text in self.layer]

    @property
    def heads(self) -> list[int]:
        """The chosen heads; empty: all."""
        return [number(text) for text in self.head]


@dataclass(frozen=True)
class AttendCompute(Compute):
    """Compute options"""

    precision: str = redefined(
        Compute,
        "precision",
        "fp32",
        "Number format of matrix products. In 16 bits, weights are correct to about two digits.",
    )


def output_format(settings: Attend, output: str) -> str:
    """The format to write: the one of --to, or by the suffix of the output. Raises UsageError for a contradiction."""
    suffix = Path(output).suffix.lower().removeprefix(".")
    named = suffix if suffix in FORMATS else None
    chosen = settings.to or named or "jsonl"
    if named not in (None, chosen):
        raise UsageError(f"{display(output)}: the output is {chosen}, but the name ends with .{suffix}")
    if settings.view is not None and chosen not in PICTURES:
        raise UsageError("--view is for pictures: --to svg or --to png, or -o with such a name")
    return chosen
