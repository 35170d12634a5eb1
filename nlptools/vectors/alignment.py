"""One language's vectors rotated onto another's, so that translations become neighbours.

The rotation W is the orthogonal matrix that brings the vectors X of words nearest to those of their translations Y: W =
U V^T, with U S V^T the singular value decomposition of X^T Y (Schoenemann 1966, orthogonal Procrustes). Vectors have
length 1 for that (Xing et al. 2015, N15-1104), and may have a mean of 0 (Artetxe et al. 2016, D16-1250: unit, center,
unit). Refinement (Conneau et al. 2018, arXiv 1710.04087) takes words that are each other's nearest by CSLS as further
pairs and solves again.

Departures. From Conneau et al.: refinement looks for pairs among the first REFINED words on both sides, r included, and
keeps the given dictionary beside them.
Shapes: V words, D dimensions, N candidates (the first so many words of each side), P pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.configs.alignment import Written
from nlptools.errors import DataError, display
from nlptools.metrics.metric import Evaluation
from nlptools.vectors import bilingual, checks, csls
from nlptools.vectors.bilingual import Known, Pairs
from nlptools.vectors.csls import Places
from nlptools.vectors.table import Floats, Rows, Vectors, Words

REFINED = 15_000  # words of each side among which refinement looks for pairs
CANDIDATES = 200_000
_MANY = 4_000_000_000  # similarities that take more than about half a minute
STEPS = {"none": (), "unit": ("unit",), "center": ("unit", "center", "unit")}


def procrustes(one: NDArray[np.floating[Any]], two: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The orthogonal matrix W (D, D) that makes `one` W nearest to `two`; both (P, D), float64 inside.

    Where the pairs leave W open, as fewer than D do, it is one of many.
    """
    left, _, right = np.linalg.svd(one.astype(np.float64).T @ two.astype(np.float64))
    return np.asarray(left @ right, np.float64)


# -- one side ---------------------------------------------------------------------------------------------------------


class Normalization:
    """The steps that the vectors of one language take before they are rotated."""

    def __init__(self, vectors: Vectors, how: str, restrict: int = 0) -> None:
        """The mean of `how` "center" is that of the first `restrict` words. Raises BundleError."""
        self.steps = STEPS[how]
        self.mean = np.zeros(vectors.dimensions)
        if "center" in self.steps:
            last = min(restrict or len(vectors), len(vectors))
            sums = np.zeros(vectors.dimensions)
            for _, rows in vectors.blocks(last):
                sums += _unit(rows.astype(np.float64)).sum(axis=0)
            self.mean = sums / max(1, last)

    def apply(self, rows: Floats) -> Floats:
        """Rows as the steps leave them, float32 (B, D); rows of zeros stay zeros."""
        if not self.steps:
            return rows
        exact = rows.astype(np.float64)
        nothing = ~exact.any(axis=1)
        for step in self.steps:
            exact = _unit(exact) if step == "unit" else exact - self.mean
        exact[nothing] = 0
        return exact.astype(np.float32)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(rows / lengths, np.float64)


class _Changed:
    """Rows of a table, each block changed as it is read."""

    def __init__(self, vectors: Vectors, change: Callable[[Floats], Floats]) -> None:
        self.shape = vectors.rows.shape
        self._vectors, self._change = vectors, change

    def read(self, start: int, end: int) -> Floats:
        rows = self._vectors.rows.read(start, end)
        checks.check_finite(rows, start, self._vectors.path)
        return self._change(rows)

    def take(self, places: Sequence[int]) -> Floats:
        rows = self._vectors.rows.take(places)
        checks.check_taken(rows, places, self._vectors.path)
        return self._change(rows)


class _Interleaved:
    """Rows of two tables in turn, first with first, so that frequent words of both come early; then what is left."""

    def __init__(self, one: Rows, two: Rows) -> None:
        self.tables = (one, two)
        sizes = one.shape[0], two.shape[0]
        self.shape: tuple[int, int] = (sum(sizes), one.shape[1])
        ranks = np.concatenate([np.arange(size) for size in sizes])
        sides = np.repeat(np.arange(2), sizes)
        order = np.lexsort((sides, ranks))
        self.sides, self.ranks = sides[order], ranks[order]

    def words(self, one: Sequence[str], two: Sequence[str]) -> Words:
        """The words of both in this order."""
        lists = (one, two)
        return Words.of(lists[side][rank] for side, rank in zip(self.sides.tolist(), self.ranks.tolist(), strict=True))

    def read(self, start: int, end: int) -> Floats:
        return self.take(range(start, min(end, self.shape[0])))

    def take(self, places: Sequence[int]) -> Floats:
        which = np.asarray(places, np.int64)
        out = np.empty((len(which), self.shape[1]), np.float32)
        for side, rows in enumerate(self.tables):
            here = self.sides[which] == side
            if here.any():
                out[here] = rows.take(self.ranks[which[here]].tolist())
        return out


# -- both sides -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alignment:
    """Two tables and the rotation between them.

    Attributes:
        source, target: the tables as they were.
        rotation: W, orthogonal, float64 (D, D); normalised row vectors of the source times W lie in the target's space.
        sides: how the vectors of source and target are normalised.
        normalize, refine, restrict: the arguments of `align`.
        learned: the pairs that W was solved from, those of refinement included, int64 (P, 2).
    """

    source: Vectors
    target: Vectors
    rotation: NDArray[np.float64]
    sides: tuple[Normalization, Normalization]
    learned: Places
    normalize: str
    refine: int
    restrict: int

    def rotated_source(self) -> Vectors:
        """All words of the source with vectors in the target's space, computed as they are read."""
        turn = self.rotation.astype(np.float32)
        rows = _Changed(self.source, lambda block: self.sides[0].apply(block) @ turn)
        return Vectors(self.source.words, rows, counts=self.source.counts, path=self.source.path)

    def normalized_target(self) -> Vectors:
        """All words of the target, normalised, computed as they are read."""
        rows = _Changed(self.target, self.sides[1].apply)
        return Vectors(self.target.words, rows, counts=self.target.counts, path=self.target.path)

    def joined(self, prefixes: Sequence[str]) -> Vectors:
        """Both in one table: words of source and target in turn, each with its prefix. Raises UsageError."""
        Written(both=tuple(prefixes)).check()
        one, two = self.rotated_source(), self.normalized_target()
        rows = _Interleaved(one.rows, two.rows)
        names = [[prefix + word for word in table.words] for prefix, table in zip(prefixes, (one, two), strict=True)]
        path = f"{self.source.path} and {self.target.path}"
        return Vectors(rows.words(names[0], names[1]), rows, path=path)

    def ranks(self, known: Known) -> dict[str, Places]:
        """By "csls" and "cosine": the rank of the best translation of each word, see `bilingual.ranks`."""
        source, target = self._candidates
        if len(source) * len(target) > _MANY:
            messages.note(f"comparing {len(source):,} x {len(target):,} words for CSLS; fewer with --restrict")
        return {
            "csls": bilingual.ranks(known.places, source, target, csls.hubness(target, source)),
            "cosine": bilingual.ranks(known.places, source, target),
        }

    def precision(self, known: Known, drawn: str = "no") -> Evaluation:
        """Precision at 1, 5 and 10 of translations by CSLS and by cosine. Raises DataError if no word is known.

        `drawn` tells in the signature how `known` was held out of the dictionary.
        """
        if not len(known.places):
            raise DataError("no pair to test on is in the vocabularies")
        signature = (
            ("csls", str(csls.NEIGHBORS)),
            ("normalize", self.normalize),
            ("refine", str(self.refine)),
            ("pairs", str(len(self.learned))),
            ("candidates", str(len(self._candidates[1]))),
            ("coverage", f"{known.known_words}/{known.words}"),
            ("held-out", drawn),
        )
        return bilingual.precision(self.ranks(known), signature)

    @cached_property
    def _candidates(self) -> tuple[Floats, Floats]:
        """Rotated source and target, float32 (N, D), of length 1."""
        return _read(self.rotated_source(), self.restrict), _read(self.normalized_target(), self.restrict)


def _read(vectors: Vectors, restrict: int) -> Floats:
    """The first `restrict` rows at length 1, float32."""
    last = min(restrict or len(vectors), len(vectors))
    out = np.empty((last, vectors.dimensions), np.float32)
    for start, rows in vectors.blocks(last):
        out[start : start + len(rows)] = _unit(rows.astype(np.float64))
    return out


def align(
    source: Vectors,
    target: Vectors,
    pairs: Known | Pairs,
    *,
    normalize: str = "center",
    refine: int = 0,
    restrict: int = CANDIDATES,
) -> Alignment:
    """The rotation of `source` onto `target` that the pairs of a dictionary ask for.

    Args:
        pairs: words and their translations, of which some may be unknown; or `bilingual.look_up` of them.
        normalize: "none", "unit", or "center" (unit, center, unit).
        refine: rounds of refinement.
        restrict: how many words of each side are candidates; 0: all.

    Raises:
        DataError: no pairs, or tables of different dimensions.
        BundleError: a vector is not finite.
    """
    if source.dimensions != target.dimensions:
        raise DataError(
            f"{display(source.path)} has {source.dimensions} dimensions, {display(target.path)} has "
            f"{target.dimensions}: a rotation needs the same number"
        )
    known = pairs if isinstance(pairs, Known) else bilingual.look_up(pairs, source, target, restrict)
    if not len(known.places):
        raise DataError(
            f"none of the {known.pairs:,} pairs of the dictionary is in the vocabularies",
            hint="case counts; and the first word of a line belongs to SOURCE",
        )
    sides = (Normalization(source, normalize, restrict), Normalization(target, normalize, restrict))

    def solved(places: Places) -> Alignment:
        rotation = _solve((source, target), sides, places)
        return Alignment(source, target, rotation, sides, places, normalize, refine, restrict)

    found = solved(known.places)
    for number in range(1, refine + 1):
        among = min(REFINED, restrict or REFINED)
        one, two = _read(found.rotated_source(), among), _read(found.normalized_target(), among)
        induced = csls.mutual_nearest(one, two)
        messages.detail(f"refinement {number}: {len(induced):,} pairs of words that are each other's nearest")
        places = np.unique(np.concatenate([known.places, induced]), axis=0)
        if np.array_equal(places, found.learned):
            break
        found = solved(places)
    if len(found.learned) < source.dimensions:
        messages.warn(
            f"{len(found.learned):,} pairs do not determine a rotation of {source.dimensions:,} dimensions: expect "
            "little of it"
        )
    return found


def _solve(
    tables: tuple[Vectors, Vectors], sides: tuple[Normalization, Normalization], pairs: Places
) -> NDArray[np.float64]:
    rows = []
    for table, side, places in zip(tables, sides, pairs.T.tolist(), strict=True):
        taken = table.rows.take(places)
        checks.check_taken(taken, places, table.path)
        rows.append(side.apply(taken))
    return procrustes(rows[0], rows[1])
