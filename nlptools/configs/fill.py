"""Settings of the command that fills masks."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, quantize_option


@dataclass(frozen=True)
class Fill:
    """Filling options"""

    top: int = option(5, "Number of fillers per mask.", flag="top", short="-k", low=1, metavar="N")
    choices: tuple[str, ...] = option(
        (), "Rank these words instead of the whole vocabulary, for example is,are.", metavar="WORD,..."
    )
    mask: str | None = option(
        None,
        "Word that marks a gap in the input. Default: the mask token of the model, such as [MASK]; of a T5: [MASK].",
        metavar="WORD",
    )
    to: str = option(
        "text",
        "Output format: a line per line of input, a line per filler (tsv), or JSON lines.",
        choices=("text", "tsv", "jsonl"),
    )
    quantize: str | None = quantize_option()
