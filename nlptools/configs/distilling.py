"""Settings of `distill-static`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import REQUIRED, option


@dataclass(frozen=True)
class DistillStatic:
    """Distillation options"""

    output: str = option(REQUIRED, "Directory for the token vectors.", short="-o", metavar="DIR")
    dims: int = option(
        256,
        "Number of principal components of the token vectors to keep; 0: keep all dimensions of the model.",
        low=0,
        metavar="N",
    )
    sif: float = option(
        1e-4,
        "Weight of a token of probability p: a / (a + p), where p follows Zipf's law for the rank in the vocabulary (Arora et"
        " al. 2017). 0: equal weights.",
        low=0,
        high=1,
        metavar="A",
    )
    fit: str | None = option(
        None,
        "Then fit the token vectors to this text: the mean of the vectors of a line approximates the vector of the model.",
        metavar="FILE",
    )
    force: bool = option(False, "Replace the directory if it exists.")
