"""Options of scoring."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.errors import UsageError


@dataclass(frozen=True)
class Score:
    """Scoring options"""

    per: str = option(
        "line",
        "Write the log-probability of each line, of each token, or the perplexity of the whole text.",
        choices=("line", "token", "total"),
    )
    stride: int = option(
        0,
        "Tokens from one window to the next in texts longer than the context; with fewer, each token sees more context and"
        " scoring takes longer. 0: the length of the context. The last window is moved back to be full; a token counts in"
        " the first window that contains it.",
        low=0,
        metavar="N",
    )
    document: str | None = option(
        None,
        "Unit of text that --per total scores independently; default: as in training.",
        choices=("line", "paragraph", "file"),
    )
    eos: bool = option(True, "Count the end-of-text token as part of each line.")
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        if self.per == "total" and not self.eos:
            raise UsageError("--no-eos does not go with --per total, which counts an end of text after each document")
        if self.per != "total" and self.document:
            raise UsageError("--document goes with --per total; otherwise each line is scored independently")
