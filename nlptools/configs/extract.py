"""Settings of `extract`, extractive summarization."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option

METHODS = ("textrank", "lead")


@dataclass(frozen=True)
class Extract:
    """Summary options"""

    sentences: int = option(1, "Sentences per summary; shorter texts are kept whole.", low=1, metavar="N")
    method: str = option(
        "textrank",
        "Select the most central sentences (textrank: Mihalcea and Tarau 2004) or the first ones (lead).",
        choices=METHODS,
    )
