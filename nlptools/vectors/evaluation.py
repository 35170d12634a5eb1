"""Scores of word vectors on analogies and word pairs, each with its coverage and the conventions it was made by.

Accuracies are those of word2vec's compute-accuracy and of gensim, micro-averaged, by section, and where a file has
sections of both kinds, of the semantic and the syntactic ones: as in questions-words.txt, the names of syntactic
sections begin with "gram". Correlations are Spearman's, with average ranks for ties, and Pearson's.
Intervals: bootstrap over the questions or pairs that count (Efron 1979), of each score by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nlptools import messages
from nlptools.configs.eval_vectors import EvalVectors
from nlptools.errors import InputError, display
from nlptools.metrics import correlation
from nlptools.metrics.metric import Evaluation, Examples, Sums
from nlptools.vectors import analogies, similarity
from nlptools.vectors.analogies import Questions
from nlptools.vectors.files import formats
from nlptools.vectors.nearest import EPSILON
from nlptools.vectors.similarity import Pairs
from nlptools.vectors.table import Vectors
from nlptools.vectors.vocabulary import Doubles, Ints, Vocabulary

SECTION, SUM, CORRELATION = "section", "sum", "correlation"
_CORRELATIONS = ("spearman", "pearson")


@dataclass(frozen=True)
class Score:
    """One number, of what, and how it was made.

    Attributes:
        model, file: the vectors, and the analogies or pairs.
        kind: "section" or "sum" of analogies, or "correlation" of pairs.
        name: of the section; "semantic", "syntactic" or "total"; "spearman" or "pearson".
        value: accuracy from 0 to 1, or correlation from -1 to 1; None where none is defined.
        correct: how many questions were solved; None for pairs.
        answered: how many questions or pairs have only known words.
        count: how many there are.
        unit: "questions" or "pairs".
        interval: mean and half the width of the 95% interval, if resamples were drawn.
    """

    model: str
    file: str
    kind: str
    name: str
    value: float | None
    correct: int | None
    answered: int
    count: int
    unit: str
    signature: str
    interval: tuple[float, float] | None = None


class Tests(NamedTuple):
    """What vectors are evaluated on."""

    analogies: list[Questions]
    pairs: list[Pairs]


def read_tests(settings: EvalVectors, errors: str = "strict") -> Tests:
    """The analogies and pairs that `settings` name.

    Raises:
        DataError: a malformed line (names it), or a file without any question or pair.
        InputError, StreamError: see `streams.blocks`.
        UsageError: no file is named.
    """
    settings.check()
    return Tests(
        [analogies.read(path, errors) for path in settings.analogies],
        [similarity.read(path, errors) for path in settings.pairs],
    )


def evaluate(vectors: Vectors | str | os.PathLike[str], settings: EvalVectors, errors: str = "strict") -> list[Score]:
    """The scores of word vectors on the files of analogies and of word pairs that `settings` name.

    Args:
        vectors: a table, or the file or directory that holds it.
        settings: files and conventions, for instance `EvalVectors(analogies=("questions-words.txt",), restrict=0)`.
        errors: what to do about invalid UTF-8: "strict", "replace", "ignore".

    Returns:
        the scores in the order of the files: sections, then their sums; Spearman's, then Pearson's correlation.

    Raises:
        DataError: a malformed line (names it), or a file without any question or pair.
        InputError: no such file.
        BundleError: the vectors are damaged, or one is not finite.
        UsageError: no file of analogies or pairs, or no format is known by the name.
    """
    tests = read_tests(settings, errors)
    if not isinstance(vectors, Vectors):
        vectors = formats.load(vectors, settings.source_format, errors)
    return score(vectors, tests, settings)


def score(vectors: Vectors, tests: Tests, settings: EvalVectors) -> list[Score]:
    """The scores of `vectors` on files that were read before. Raises BundleError if a vector is not finite."""
    vocabulary = Vocabulary(vectors, settings.restrict, fold=settings.case == "fold")
    # all analogies at once: the table is read once
    asked = [question for test in tests.analogies for question in test.questions]
    solved = analogies.solve(vocabulary, asked, method=settings.method, subwords=settings.subwords)
    found: list[Score] = []
    at = 0
    for test in tests.analogies:
        part = solved[at : at + len(test.questions)]
        at += len(part)
        found += _accuracies(vectors.path, test, part, settings)
    for pairs in tests.pairs:
        cosines = similarity.similarities(vocabulary, pairs.words, subwords=settings.subwords)
        found += _correlations(vectors.path, pairs, cosines, settings)
    return found


def check_vectors(paths: Sequence[str], format: str | None) -> None:
    """Refuse, before any is read, files of vectors that are not there, and names that tell no format.

    Raises:
        InputError: no such file.
        UsageError: no format is known by the name.
    """
    for path in paths:
        if path != "-" and not os.path.exists(path):
            raise InputError(f"{display(path)}: no such file or directory")
        if format is None:
            formats.source_format(path)


# -- analogies --------------------------------------------------------------------------------------------------------


def _accuracies(model: str, test: Questions, solved: Ints, settings: EvalVectors) -> Iterator[Score]:
    """The accuracy of each section, then of all, before it of both kinds of sections."""
    if not (solved != analogies.UNKNOWN).any():
        messages.warn(f"{display(model)} knows all words of no question in {display(test.path)}")
    syntactic = np.array([name.startswith("gram") for name in test.sections])
    parts: list[tuple[str, str, Any]] = [(SECTION, name, test.places == i) for i, name in enumerate(test.sections)]
    if test.sections == [""]:
        parts = []
    if syntactic.any() and not syntactic.all():
        inside = syntactic[test.places]
        parts += [(SUM, "semantic", ~inside), (SUM, "syntactic", inside)]
    parts.append((SUM, "total", np.ones(len(solved), bool)))
    for kind, name, chosen in parts:
        yield _accuracy(Score(model, test.path, kind, name, None, 0, 0, 0, "questions", ""), solved[chosen], settings)


def _accuracy(blank: Score, solved: Ints, settings: EvalVectors) -> Score:
    """`blank` with the accuracy of the questions of one row."""
    known = solved[solved != analogies.UNKNOWN]
    counted = known if settings.unknown == "skip" else solved
    right = (counted == analogies.RIGHT).astype(np.float64)
    rows = Sums(right[:, None], counted=True)
    items = _conventions("analogies", settings)
    accuracy = Evaluation(("accuracy",), rows, lambda sums: sums[:, :1] / sums[:, 1:], "questions", items)
    filled = replace(blank, correct=int(right.sum()), answered=len(known), count=len(solved))
    return _measured(filled, accuracy, "accuracy", settings)


# -- pairs ------------------------------------------------------------------------------------------------------------


def _correlations(model: str, test: Pairs, cosines: Doubles, settings: EvalVectors) -> Iterator[Score]:
    """Spearman's and Pearson's correlation of a file of pairs."""
    known = ~np.isnan(cosines)
    kept = known if settings.unknown == "skip" else np.ones(len(known), bool)
    sides = [test.scores[kept], np.nan_to_num(cosines[kept])]
    items = _conventions("pairs", settings)
    evaluation = Evaluation(_CORRELATIONS, Examples(0), lambda weights: np.zeros((len(weights), 2)), "pairs", items)
    if any(len(side) < 2 or (side == side[0]).all() for side in sides):
        told = f"{int(known.sum()):,} of {len(known):,} pairs in {display(test.path)}"
        messages.warn(f"{display(model)} knows {told}: no correlation is defined")
    else:
        texts = [[repr(value) for value in side.tolist()] for side in sides]
        evaluation = replace(correlation.evaluate(texts[0], texts[1], _CORRELATIONS), items=items)
    for name in _CORRELATIONS:
        blank = Score(model, test.path, CORRELATION, name, None, None, int(known.sum()), len(known), "pairs", "")
        yield _measured(blank, evaluation, name, settings)


# -- both -------------------------------------------------------------------------------------------------------------


def _measured(blank: Score, evaluation: Evaluation, name: str, settings: EvalVectors) -> Score:
    """`blank` with value, interval and signature; without examples there is no value."""
    drawn = bool(settings.confidence and evaluation.count)
    extra = {"bs": str(settings.confidence), "seed": str(settings.seed)} if settings.confidence else {}
    return replace(
        blank,
        value=evaluation.values()[name] if evaluation.count else None,
        interval=evaluation.intervals(settings.confidence, settings.seed)[name] if drawn else None,
        signature=evaluation.signature(**extra),
    )


def _conventions(kind: str, settings: EvalVectors) -> tuple[tuple[str, str], ...]:
    """What evaluators do in different ways, as far as it bears on scores of this kind."""
    common = (
        ("restrict", str(settings.restrict or "all")),
        ("case", settings.case),
        ("unknown", settings.unknown if kind == "analogies" or settings.unknown == "skip" else "zero"),
        ("subwords", "yes" if settings.subwords else "no"),
    )
    if kind == "pairs":
        return (("similarity", "cosine"), *common)
    method = (("method", settings.method), *((("epsilon", f"{EPSILON:g}"),) if settings.method == "mul" else ()))
    return (*method, *common, ("query", "excluded"), ("average", "micro"))
