"""Options of n-gram models, which are counted, not trained in steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from nlptools.configs import REQUIRED, RunDirectory, Threads, option, redefined
from nlptools.configs.architectures.shared import architecture
from nlptools.configs.combinations import check_combinations
from nlptools.configs.lm import TrainLM
from nlptools.configs.shares import Shares
from nlptools.configs.units import size
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
    """Smoothed counts of n-grams; needs no PyTorch"""

    groups: ClassVar[tuple[type, ...]] = (RunDirectory, Threads)

    tokenizer: str = redefined(TrainLM, "tokenizer", REQUIRED)
    vocab: str | None = redefined(TrainLM, "vocab", None)
    document: str = redefined(TrainLM, "document", "line")
    arch: str = architecture("ngram")
    order: int = option(5, "Length of the longest n-grams.", low=1, high=7, metavar="N")
    smoothing: str = option(
        "kneser-ney",
        "Estimation of rare and unseen n-grams; kneser-ney is interpolated modified Kneser-Ney, as in KenLM.",
        choices=SMOOTHINGS,
    )
    prune: str | None = option(
        None,
        "Remove n-grams that occur at most N times, for lengths 1, 2, ...; the last number also holds for longer n-grams.",
        metavar="0,N,...",
        check=limits,
    )
    interpolation: str | None = option(
        None,
        "Interpolation weights of lengths 1, 2, ...; default: fitted to --valid.",
        metavar="P,P,...",
        check=weights,
        only={"smoothing": ("jelinek-mercer",)},
        was={"--weights": "--interpolation"},
    )
    add: float = option(
        1.0, "Number added to each count.", low=1e-9, high=1e6, metavar="K", only={"smoothing": ("add-k",)}
    )
    memory: str | None = option(
        None,
        "Memory limit for counts and tables; the rest goes to files next to the output. The vocabulary and up to 20 bytes for"
        " each n-gram of one length are not included. Default: half of the machine's memory.",
        metavar="SIZE",
        check=size,
        free=True,
    )
    keep_counts: bool = option(False, "Keep the counts in the model directory, for --merge.")
    merge: tuple[str, ...] = option(
        (),
        "Add the counts of these models instead of reading text. The models need the same vocabulary and --keep-counts.",
        metavar="DIR",
        multiple=True,
        more=lambda argument: True,
    )
    shard: str | None = redefined(
        Shares,
        "shard",
        None,
        "Count part I of N (from 1) of the lines only; --merge adds the counts of all parts. array: the task of a SLURM job"
        " array.",
        needs=("keep_counts",),
        excludes=("merge",),
        only={"document": ("line",)},
    )
    arpa: str | None = option(None, "Also write the model to this ARPA file.", metavar="FILE", free=True)

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
        given = None if self.interpolation is None else len(weights(self.interpolation))
        if given not in (None, self.order):
            raise UsageError(f"--interpolation has {given} numbers, --order {self.order} needs {self.order}")
