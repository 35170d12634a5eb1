"""Settings of corpus BLEU."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option

TOKENIZERS = ("13a", "none")


@dataclass(frozen=True)
class Bleu:
    """BLEU options"""

    input: str = option("-", "The translations, one segment per line; - is standard input.", short="-i", metavar="FILE")
    tokenize: str = option(
        "13a", "Tokenizer: 13a is WMT's; none takes the text as tokenized already.", choices=TOKENIZERS
    )
    score_only: bool = option(False, "Print the number alone.", short="-b")
    width: int = option(1, "Decimal places of the score.", short="-w", low=0, high=17, metavar="N")
    fail_under: float | None = option(None, "End with status 1 if the score is below this.", metavar="X")
