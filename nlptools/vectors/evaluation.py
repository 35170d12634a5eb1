"""Scores of word vectors on analogies and word pairs, with coverage and with the conventions of their computation.

Accuracies are computed as in word2vec's compute-accuracy and in gensim, micro-averaged, by section and, if a file has both,
for semantic and syntactic sections: the names of syntactic ones begin with "gram", as in questions-words.txt. Correlations
are Spearman's, with average ranks for ties, and Pearson's.
Intervals: bootstrap over the counted questions or pairs (Efron 1979), for each score separately.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.arrays import Doubles, Longs
from nlptools.configs.eval_vectors import EvalVectors
from nlptools.errors import InputError, display
from nlptools.metrics import correlation
from nlptools.metrics.metric import Evaluation, Examples, means
from nlptools.vectors import analogies, similarity
from nlptools.vectors.analogies import Questions
from nlptools.vectors.files import formats
from nlptools.vectors.nearest import EPSILON
from nlptools.vectors.similarity import Pairs
from nlptools.vectors.table import Vectors
from nlptools.vectors.vocabulary import EvaluationVocabulary

SECTION, SUM, CORRELATION = "section", "sum", "correlation"
_CORRELATIONS = ("spearman", "pearson")


@dataclass(frozen=True)
class EvaluationScore:
    """One number, what it measures, and how it was computed.

    Attributes:
        model, file: the vectors, and the analogies or pairs.
        kind: "section" or "sum" of analogies, or "correlation" of pairs.
        name: of the section; "semantic", "syntactic" or "total"; "spearman" or "pearson".
        value: accuracy from 0 to 1, or correlation from -1 to 1; None if it is undefined.
        correct: number of solved questions; None for pairs.
        answered: number of questions or pairs with only known words.
        count: number of questions or pairs.
        unit: "questions" or "pairs".
        interval: mean and half width of the 95% interval, with bootstrap only.
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
    """The files that vectors are evaluated on."""

    analogies: list[Questions]
    pairs: list[Pairs]


def read_tests(settings: EvalVectors, errors: str = "strict") -> Tests:
    """The analogies and pairs in the files of `settings`.

    Raises:
        DataError: a malformed line (names it), or a file without questions or pairs.
        InputError, StreamError: see `streams.blocks`.
        UsageError: no file is named.
    """
    settings.check()
    return Tests(
        [analogies.read(path, errors) for path in settings.analogies],
        [similarity.read(path, errors) for path in settings.pairs],
    )


def evaluate(
    vectors: Vectors | str | os.PathLike[str], settings: EvalVectors, errors: str = "strict"
) -> list[EvaluationScore]:
    """The scores of word vectors on files of analogies and of word pairs.

    Args:
        vectors: a table, or its file or directory.
        settings: files and conventions, for instance `EvalVectors(analogies=("questions-words.txt",), restrict=0)`.
        errors: treatment of invalid UTF-8: "strict", "replace", "ignore".

    Returns:
        the scores in the order of the files: sections, then sums of sections; Spearman's, then Pearson's correlation.

    Raises:
        DataError: a malformed line (names it), or a file without questions or pairs.
        InputError: no such file.
        BundleError: the vectors are damaged, or one is not finite.
        UsageError: no file of analogies or pairs, or no format has the name of the vectors.
    """
    tests = read_tests(settings, errors)
    if not isinstance(vectors, Vectors):
        vectors = formats.load(vectors, settings.source_format, errors)
    return score(vectors, tests, settings)


def score(vectors: Vectors, tests: Tests, settings: EvalVectors) -> list[EvaluationScore]:
    """As `evaluate`, on files that are already read. Raises BundleError if a vector is not finite."""
    vocabulary = EvaluationVocabulary(vectors, settings.restrict, fold=settings.case == "fold")
    # solve all analogies together, to read the table once
    asked = [question for test in tests.analogies for question in test.questions]
    solved = analogies.solve(vocabulary, asked, method=settings.method, subwords=settings.subwords)
    scores: list[EvaluationScore] = []
    at = 0
    for test in tests.analogies:
        part = solved[at : at + len(test.questions)]
        at += len(part)
        scores += _accuracies(vectors.path, test, part, settings)
    for pairs in tests.pairs:
        cosines = similarity.similarities(vocabulary, pairs.words, subwords=settings.subwords)
        scores += _correlations(vectors.path, pairs, cosines, settings)
    return scores


def check_vectors(paths: Sequence[str], format: str | None) -> None:
    """Check files of vectors before any is read: they exist and their names tell their format.

    Raises:
        InputError: no such file.
        UsageError: no format has such a name.
    """
    for path in paths:
        if path != "-" and not os.path.exists(path):
            raise InputError(f"{display(path)}: no such file or directory")
        if format is None:
            formats.source_format(path)


# -- analogies --------------------------------------------------------------------------------------------------------


def _accuracies(model: str, test: Questions, solved: Longs, settings: EvalVectors) -> Iterator[EvaluationScore]:
    """The accuracies of each section, of both kinds of sections, and of all."""
    if not (solved != analogies.UNKNOWN).any():
        messages.warn(f"{display(test.path)}: every question has a word that {display(model)} does not know")
    syntactic = np.array([name.startswith("gram") for name in test.sections])
    parts: list[tuple[str, str, NDArray[np.bool_]]] = [
        (SECTION, name, test.places == i) for i, name in enumerate(test.sections)
    ]
    if test.sections == [""]:
        parts = []
    if syntactic.any() and not syntactic.all():
        inside = syntactic[test.places]
        parts += [(SUM, "semantic", ~inside), (SUM, "syntactic", inside)]
    parts.append((SUM, "total", np.ones(len(solved), bool)))
    items = _conventions("analogies", settings)
    for kind, name, chosen in parts:
        results = solved[chosen]
        known = results[results != analogies.UNKNOWN]
        right = ((known if settings.unknown == "skip" else results) == analogies.RIGHT).astype(np.float64)
        accuracy = means(("accuracy",), right[:, None], "questions", items)
        value, signature, interval = _measured(accuracy, "accuracy", settings)
        yield EvaluationScore(
            model, test.path, kind, name, value, int(right.sum()), len(known), len(results), "questions",
            signature, interval,
        )  # fmt: skip


# -- pairs ------------------------------------------------------------------------------------------------------------


def _correlations(model: str, test: Pairs, cosines: Doubles, settings: EvalVectors) -> Iterator[EvaluationScore]:
    """Spearman's and Pearson's correlation of a file of pairs."""
    known = ~np.isnan(cosines)
    kept = known if settings.unknown == "skip" else np.ones(len(known), bool)
    sides = [test.scores[kept], np.nan_to_num(cosines[kept])]
    items = _conventions("pairs", settings)
    evaluation = Evaluation(_CORRELATIONS, Examples(0), lambda weights: np.zeros((len(weights), 2)), "pairs", items)
    if any(len(side) < 2 or (side == side[0]).all() for side in sides):
        pairs = f"{int(known.sum()):,} of {len(known):,} pairs in {display(test.path)}"
        messages.warn(f"{display(model)} knows {pairs}: the correlation is undefined")
    else:
        texts = [[repr(value) for value in side.tolist()] for side in sides]
        evaluation = replace(correlation.evaluate(texts[0], texts[1], _CORRELATIONS), items=items)
    for name in _CORRELATIONS:
        value, signature, interval = _measured(evaluation, name, settings)
        yield EvaluationScore(
            model, test.path, CORRELATION, name, value, None, int(known.sum()), len(known), "pairs",
            signature, interval,
        )  # fmt: skip


# -- both -------------------------------------------------------------------------------------------------------------


def _measured(
    evaluation: Evaluation, name: str, settings: EvalVectors
) -> tuple[float | None, str, tuple[float, float] | None]:
    """Value, signature and interval of a score; without examples there is no value."""
    resampled = bool(settings.confidence and evaluation.count)
    extra = {"bs": str(settings.confidence), "seed": str(settings.seed)} if settings.confidence else {}
    value = evaluation.values()[name] if evaluation.count else None
    interval = evaluation.intervals(settings.confidence, settings.seed)[name] if resampled else None
    return value, evaluation.signature(**extra), interval


def _conventions(kind: str, settings: EvalVectors) -> tuple[tuple[str, str], ...]:
    """The conventions that evaluators differ in, as far as they affect scores of this kind, for signatures."""
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
