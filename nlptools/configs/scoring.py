"""Options of scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nlptools.configs import LARGEST, option
from nlptools.errors import UsageError

COLUMNS = ("surprisal", "rank", "entropy", "tokens")  # of --per word
LOGARITHMS = {"2": math.log(2), "e": 1.0, "10": math.log(10)}  # nats in one unit


@dataclass(frozen=True)
class Score:
    """Scoring options"""

    per: str = option(
        "line",
        "Write the log-probability of each line, of each token, the surprisal of each word, or the perplexity of the whole"
        " text.",
        choices=("line", "token", "word", "total"),
    )
    json: bool = option(False, "Write a JSON object for each line.")
    field: int | None = option(
        None,
        "Score the text in column K of lines with tabs between columns, and write the log-probability and the number of"
        " tokens behind the columns of the line. Columns count from 1, negative numbers from the last.",
        low=-LARGEST,
        metavar="K",
    )
    masked: str | None = option(
        None,
        "Score text with an encoder (BERT) that predicts masked tokens: the log-probability of each token, given all others."
        " pll masks one token at a time; within-word masks the later pieces of its word, too. Without a value: pll.",
        choices=("pll", "within-word"),
        bare="pll",
        metavar="[HOW]",
    )
    columns: tuple[str, ...] = option(
        ("surprisal",),
        "Columns of --per word: surprisal; rank of the first token of the word among all tokens; entropy of the distribution"
        " of this token; number of tokens.",
        choices=COLUMNS,
        section="Words",
    )
    base: str | None = option(
        None,
        "Base of the logarithm of surprisals and entropies of --per word: 2 (bits), e (nats) or 10. Default: 2.",
        choices=tuple(LOGARITHMS),
        section="Words",
    )
    boundary_correction: bool = option(
        True,
        "Let the surprisal of a word include that the word ends, where the tokenizer puts the space before a word into the"
        " first piece of the word.",
        section="Words",
    )
    stride: int = option(
        0,
        "Tokens from one window to the next in texts longer than the context; with fewer, each token sees more context and"
        " scoring takes longer. 0: the length of the context, with --carry half of it. The last window is moved back to be"
        " full; a token counts in the first window that contains it.",
        low=0,
        metavar="N",
    )
    document: str | None = option(
        None,
        "Unit of text that --per total scores independently; default: as in training.",
        choices=("line", "paragraph", "file"),
    )
    carry: bool = option(
        False,
        "Score the text as one stream: each token given all tokens before it, those of earlier lines or documents included. A"
        " model with a state carries it over; one with a longest context sees the last tokens of the stream.",
    )
    eos: bool = option(True, "Count the end-of-text token as part of each line.")
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")
    memory_length: int | None = option(
        None,
        "Positions that each position sees before it, for a model with a memory (transformer-xl); more than in training often"
        " help. Default: as the model directory says.",
        low=0,
        high=1 << 20,
        metavar="N",
    )

    @property
    def unit(self) -> float:
        """Nats in one unit of surprisal."""
        return LOGARITHMS[self.base or "2"]

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        if self.per == "total" and not self.eos:
            raise UsageError("--no-eos does not go with --per total, which counts an end of text after each document")
        if self.per == "word" and not self.eos:
            raise UsageError("--no-eos does not go with --per word, which never writes the end of text")
        if self.per != "total" and self.document:
            raise UsageError("--document goes with --per total; otherwise each line is scored independently")
        for_words = {
            "--columns": self.columns != ("surprisal",),
            "--base": self.base is not None,
            "--no-boundary-correction": not self.boundary_correction,
        }
        if self.per != "word" and (flags := [flag for flag, given in for_words.items() if given]):
            raise UsageError(f"{flags[0]} goes with --per word")
        if len(set(self.columns)) < max(1, len(self.columns)):
            raise UsageError("--columns: expected different columns")
        self._check_field()
        self._check_masked()

    def _check_masked(self) -> None:
        if self.masked is None:
            return
        unfit = {
            "--no-eos": not self.eos,
            "--document": self.document is not None,
            "--stride": self.stride != 0,
            "--carry": self.carry,
            "--memory-length": self.memory_length is not None,
            "--no-boundary-correction": not self.boundary_correction,
        }
        if flags := [flag for flag, given in unfit.items() if given]:
            raise UsageError(
                f"{flags[0]} does not go with --masked",
                hint="lines are scored one by one, each token in the middle of its context, without an end of text",
            )

    def _check_field(self) -> None:
        if self.field is None:
            return
        if self.field == 0:
            raise UsageError("--field: columns count from 1, or from -1 for the last")
        if self.per != "line" or self.json:
            raise UsageError(
                "--field adds columns to lines: it does not go with --json or with --per token, word or total"
            )
