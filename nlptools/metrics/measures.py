"""What every metric of predictions is: values that can be computed from weighted examples.

`accuracy`, `rouge` or `squad` differ in how they read their examples; then each is a function from weights (how often
does each example count) to values. With all weights one that is the score, with those of a resample one draw of the
bootstrap, so one implementation serves both.
Shapes: N examples, B resamples, M values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nlptools import __version__
from nlptools.metrics import resampling
from nlptools.metrics.resampling import Values, Weights


@dataclass(frozen=True)
class Measures:
    """One metric of one set of predictions, not yet computed.

    Attributes:
        names: what the M values are called, for instance `f1` or `f1:B-PER`.
        count: N, the number of examples that are resampled.
        unit: what an example is: `labels`, `sentences`, `questions`.
        compute: weights (B, N) -> values (B, M), float64.
        signature: how the values were made, (key, value) in order; the unit and the version are added.
        details: what belongs to the score but is not a number of its own, such as a confusion matrix; plain JSON.
    """

    names: tuple[str, ...]
    count: int
    unit: str
    compute: Callable[[Weights], Values]
    signature: tuple[tuple[str, str], ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """The values by name."""
        computed = self.compute(np.ones((1, self.count), np.int64))[0]
        return dict(zip(self.names, computed.tolist(), strict=True))

    def intervals(
        self, resamples: int = resampling.RESAMPLES, seed: int | None = resampling.SEED
    ) -> dict[str, tuple[float, float]]:
        """(mean, half width of the 95% interval) of each value, by name."""
        drawn = resampling.bootstrap(self.compute, self.count, resamples, seed)
        return {name: resampling.interval(drawn[:, i]) for i, name in enumerate(self.names)}

    def signed(self, **extra: str) -> str:
        """The signature as one text: `key:value|...|version:...`."""
        items = [*self.signature, ("unit", self.unit), *extra.items(), ("version", f"nlptools-{__version__}")]
        return "|".join(f"{key}:{value}" for key, value in items)
