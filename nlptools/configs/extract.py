"""Settings of summaries made of sentences of the text."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option

METHODS = ("textrank", "lead")


@dataclass(frozen=True)
class Extract:
    """Summary options"""

    sentences: int = option(1, "Sentences of a summary; a text that has fewer is given whole.", low=1, metavar="N")
    method: str = option(
        "textrank",
        "Which ones: those most like all the others (textrank: Mihalcea and Tarau 2004), or the first ones (lead).",
        choices=METHODS,
    )
