"""Options of n-gram models."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import option
from nlptools.errors import UsageError

SMOOTHINGS = ("kneser-ney", "absolute", "witten-bell", "jelinek-mercer", "add-k")


def limits(text: str) -> tuple[int, ...]:
    """Counts in a text such as `0,0,1`, which never fall. Raises UsageError."""
    numbers = [int(part) for part in text.split(",")] if re.fullmatch(r"\d{1,9}(,\d{1,9}){0,9}", text) else []
    if not numbers or numbers != sorted(numbers) or numbers[0] != 0:
        raise UsageError(
            f"{text!r}: expected numbers such as 0,0,1: 0 for single words, never smaller than the one before"
        )
    return tuple(numbers)


def weights(text: str) -> tuple[float, ...]:
    """Weights in a text such as `.5,.3,.2`, which sum to 1 or less. Raises UsageError."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number <= 1 for number in numbers) or sum(numbers) > 1 + 1e-9:
        raise UsageError(f"{text!r}: expected numbers such as .2,.3,.5, for 1, 2 and 3 words, that sum to 1 or less")
    return numbers


@dataclass(frozen=True)
class NGramOptions:
    """Options of --arch ngram"""

    order: int = option(5, "Words of the longest n-grams.", low=1, high=7, metavar="N")
    smoothing: str = option(
        "kneser-ney",
        "Estimation of rare and unseen n-grams; kneser-ney is interpolated modified Kneser-Ney, as in KenLM.",
        choices=SMOOTHINGS,
    )
    prune: str | None = option(
        None,
        "Leave out n-grams that occur at most N times, for 1, 2, ... words; the last number holds for longer ones.",
        metavar="0,N,...",
        check=limits,
    )
    weights: str | None = option(
        None,
        "Weights of n-grams of 1, 2, ... words (jelinek-mercer). Default: the best ones for the text of --valid.",
        metavar="P,P,...",
        check=weights,
    )
    add: float = option(1.0, "Number added to each count (add-k).", low=1e-9, high=1e6, metavar="K")
    arpa: str | None = option(None, "Also write the model to this ARPA file.", metavar="FILE")

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        if self.weights is not None and self.smoothing != "jelinek-mercer":
            raise UsageError("--weights goes with --smoothing jelinek-mercer")
        if self.weights is not None and len(weights(self.weights)) != self.order:
            raise UsageError(
                f"--weights has {len(weights(self.weights))} numbers, --order {self.order} needs {self.order}"
            )
        if self.add != 1.0 and self.smoothing != "add-k":
            raise UsageError("--add goes with --smoothing add-k")
