"""Rotates one language's vectors onto another's, so that translations become neighbors.

The rotation W is the orthogonal matrix that brings the vectors X of words nearest to the vectors Y of their translations: W =
U V^T, where U S V^T is the singular value decomposition of X^T Y (Schoenemann 1966, orthogonal Procrustes). Vectors are
scaled to length 1 before (Xing et al. 2015, N15-1104), and may be centered (Artetxe et al. 2016, D16-1250: unit, center,
unit). Refinement (Conneau et al. 2018, arXiv 1710.04087) adds words that are each other's nearest by CSLS as pairs and
solves again.

Departures from Conneau et al.: refinement searches the first REFINED words of both sides, also for r, and keeps the given
dictionary.
Shapes: V words, D dimensions, N candidates (the first N words of each side), P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nlptools import messages
from nlptools.arrays import Array, Doubles, Floats, Longs
from nlptools.configs.alignment import Written
from nlptools.errors import DataError, display
from nlptools.metrics.metric import Evaluation
from nlptools.vectors import bilingual, csls
from nlptools.vectors.bilingual import Known, Pairs
from nlptools.vectors.rows import ChangedRows, Places, VectorRows, index, scaled, unit
from nlptools.vectors.table import Vectors
from nlptools.vectors.words import WordList

REFINED = 15_000  # words of each side that refinement searches
CANDIDATES = 200_000
_MANY = 4_000_000_000  # similarities that take more than about half a minute
STEPS = {"none": (), "unit": ("unit",), "center": ("unit", "center", "unit")}


def procrustes(one: Array, two: Array) -> Doubles:
    """The orthogonal matrix W (D, D) that makes `one` W nearest to `two`; both (P, D), computed in float64.

    With fewer than D pairs, W is one of many solutions.
    """
    left, _, right = np.linalg.svd(one.astype(np.float64).T @ two.astype(np.float64))
    return np.asarray(left @ right, np.float64)


# -- one side ---------------------------------------------------------------------------------------------------------


class Normalization:
    """The normalization of one language's vectors before the rotation."""

    def __init__(self, vectors: Vectors, how: str, restrict: int = 0) -> None:
        """`how` is a key of STEPS; the mean is over the first `restrict` words. Raises BundleError."""
        self.steps = STEPS[how]
        self.mean = np.zeros(vectors.dimensions)
        if "center" in self.steps:
            last = min(restrict or len(vectors), len(vectors))
            sums = np.zeros(vectors.dimensions)
            for _, rows in vectors.blocks(last):
                sums += scaled(rows).sum(axis=0)
            self.mean = sums / max(1, last)

    def apply(self, rows: Floats) -> Floats:
        """Normalized rows, float32 (B, D); rows of zeros stay zeros."""
        if not self.steps:
            return rows
        exact = rows.astype(np.float64)
        nothing = ~exact.any(axis=1)
        for step in self.steps:
            exact = scaled(exact) if step == "unit" else exact - self.mean
        exact[nothing] = 0
        return exact.astype(np.float32)


class _Interleaved:
    """Rows of two tables in turn, so that frequent words of both come first; then the rest of the longer one."""

    def __init__(self, one: VectorRows, two: VectorRows) -> None:
        self.tables = (one, two)
        sizes = one.shape[0], two.shape[0]
        self.shape: tuple[int, int] = (sum(sizes), one.shape[1])
        ranks = np.concatenate([np.arange(size) for size in sizes])
        sides = np.repeat(np.arange(2), sizes)
        order = np.lexsort((sides, ranks))
        self.sides, self.ranks = sides[order], ranks[order]

    def words(self, one: Sequence[str], two: Sequence[str]) -> WordList:
        """The words of both in this order."""
        lists = (one, two)
        return WordList.of(
            lists[side][rank] for side, rank in zip(self.sides.tolist(), self.ranks.tolist(), strict=True)
        )

    def take(self, places: Places) -> Floats:
        sides, ranks = self.sides[index(places)], self.ranks[index(places)]
        out = np.empty((len(sides), self.shape[1]), np.float32)
        for side, rows in enumerate(self.tables):
            here = sides == side
            if here.any():
                out[here] = rows.take(ranks[here].tolist())
        return out


# -- both sides -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BilingualAlignment:
    """Two tables and the rotation between them.

    Attributes:
        source, target: the tables, unchanged.
        rotation: W, orthogonal, float64 (D, D); normalized row vectors of the source times W lie in the target's space.
        sides: the normalizations of source and target.
        normalize, refine, restrict: the arguments of `align`.
        learned: the pairs that determine W, with the pairs of refinement, int64 (P, 2).
    """

    source: Vectors
    target: Vectors
    rotation: Doubles
    sides: tuple[Normalization, Normalization]
    learned: Longs
    normalize: str
    refine: int
    restrict: int

    def rotated_source(self) -> Vectors:
        """The source with vectors in the target's space, computed when they are read."""
        turn = self.rotation.astype(np.float32)
        rows = ChangedRows(self.source.rows, lambda block: self.sides[0].apply(block) @ turn, self.source.path)
        return Vectors(self.source.words, rows, counts=self.source.counts, path=self.source.path)

    def normalized_target(self) -> Vectors:
        """The target with normalized vectors, computed when they are read."""
        rows = ChangedRows(self.target.rows, self.sides[1].apply, self.target.path)
        return Vectors(self.target.words, rows, counts=self.target.counts, path=self.target.path)

    def joined(self, prefixes: Sequence[str]) -> Vectors:
        """Both in one table: words of source and target in turn, with their prefixes. Raises UsageError."""
        Written(both=tuple(prefixes)).check()
        one, two = self.rotated_source(), self.normalized_target()
        rows = _Interleaved(one.rows, two.rows)
        names = [[prefix + word for word in table.words] for prefix, table in zip(prefixes, (one, two), strict=True)]
        path = f"{self.source.path} and {self.target.path}"
        return Vectors(rows.words(names[0], names[1]), rows, path=path)

    def ranks(self, known: Known) -> dict[str, Longs]:
        """The ranks of the best translations by "csls" and by "cosine"; see `bilingual.ranks`."""
        source, target = self._candidates
        if len(source) * len(target) > _MANY:
            messages.note(f"comparing {len(source):,} x {len(target):,} words for CSLS; fewer with --restrict")
        return {
            "csls": bilingual.ranks(known.places, source, target, csls.hubness(target, source)),
            "cosine": bilingual.ranks(known.places, source, target),
        }

    def precision(self, known: Known, drawn: str = "no") -> Evaluation:
        """Precision at 1, 5 and 10 of translations by CSLS and by cosine. Raises DataError if no word is known.

        `drawn` is the entry of the signature about how `known` was held out of the dictionary.
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
        out[start : start + len(rows)] = unit(rows)
    return out


def align(
    source: Vectors,
    target: Vectors,
    pairs: Known | Pairs,
    *,
    normalize: str = "center",
    refine: int = 0,
    restrict: int = CANDIDATES,
) -> BilingualAlignment:
    """The rotation of `source` onto `target` by the pairs of a dictionary.

    Args:
        pairs: words and their translations, some perhaps unknown; or the result of `bilingual.look_up`.
        normalize: "none", "unit", or "center" (unit, center, unit).
        refine: rounds of refinement.
        restrict: number of words of each side that are candidates; 0: all.

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
            hint="case matters, and the first word of a line belongs to SOURCE",
        )
    sides = (Normalization(source, normalize, restrict), Normalization(target, normalize, restrict))

    def solved(places: Longs) -> BilingualAlignment:
        tables = zip((source, target), sides, places.T.tolist(), strict=True)
        one, two = (side.apply(table.take(rows)) for table, side, rows in tables)
        return BilingualAlignment(source, target, procrustes(one, two), sides, places, normalize, refine, restrict)

    result = solved(known.places)
    for number in range(1, refine + 1):
        among = min(REFINED, restrict or REFINED)
        one, two = _read(result.rotated_source(), among), _read(result.normalized_target(), among)
        induced = csls.mutual_nearest(one, two)
        messages.detail(f"refinement {number}: {len(induced):,} pairs of words that are each other's nearest")
        places = np.unique(np.concatenate([known.places, induced]), axis=0)
        if np.array_equal(places, result.learned):
            break
        result = solved(places)
    if len(result.learned) < source.dimensions:
        messages.warn(
            f"{len(result.learned):,} pairs do not determine a rotation of {source.dimensions:,} dimensions: expect "
            "poor translations"
        )
    return result
