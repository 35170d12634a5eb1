"""Analogies: which word is to `c` as `b` is to `a`?

Files have word2vec's format (Mikolov et al. 2013, arXiv 1301.3781): four words per line, `a b c expected`, in sections
that begin with a line `: name`; in files named `.csv`, commas separate the words. Of MSR's analogies (Mikolov, Yih and
Zweig 2013, N13-1090), `NAME.questions` has the first three words and `NAME.answers` the category (`JJ_JJR`) and the
fourth word; in one file, a line may have the category as a fifth word. Each category is a section. `add`
is 3CosAdd, the word nearest to b - a + c by unit vectors; `mul` is 3CosMul (Levy and Goldberg 2014, W14-1618). a, b, c
and words that differ from them only in case are never answers, as in gensim; word2vec's compute-accuracy excludes only
the three rows.

The vector of each word is multiplied with each row once; the scores of its three words are added or
multiplied. A file of 19,544 questions on 905 words takes 905 dot products per word of the vocabulary, not 19,544.
Shapes: Q questions, W directions, V words, D dimensions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nlptools.arrays import Floats, Longs
from nlptools.errors import DataError, shown
from nlptools.files.streams import zip_blocks
from nlptools.vectors.nearest import EPSILON
from nlptools.vectors.rows import unit
from nlptools.vectors.similarity import is_csv
from nlptools.vectors.vocabulary import EvaluationVocabulary, UnitVectors

UNKNOWN, WRONG, RIGHT = -1, 0, 1
_CATEGORY = re.compile(r"[A-Z]+_[A-Z]+")  # of MSR's analogies
_WIDTH = 4096  # words in a block
_BATCH = 32  # questions, times words: 512 KiB of scores, which stay in the cache
_COSINES = 1 << 23  # scores of all directions with the words of a block: 32 MiB


class Analogy(NamedTuple):
    """`a` is to `b` as `c` is to `expected`."""

    a: str
    b: str
    c: str
    expected: str


class Questions(NamedTuple):
    """The analogies of a file, in order.

    Attributes:
        sections: names of the sections; "" if questions come before the first.
        places: int64 (Q,), the section of each question, as an index of `sections`.
    """

    path: str
    sections: list[str]
    places: Longs
    questions: list[Analogy]


def read(path: str, errors: str = "strict") -> Questions:
    """The analogies in a file (`-`: standard input); empty lines are skipped.

    Raises:
        DataError: a line does not have four words (names it), or there is no question.
        InputError, StreamError: see `streams.blocks`.
    """
    sections: list[str] = []
    places: list[int] = []
    questions: list[Analogy] = []
    csv = is_csv(path)
    for number, line in enumerate(_lines(path, errors), 1):
        words = (line.replace(",", " ") if csv else line).replace("\t", " ").split(" ")
        if words[0] == ":":
            sections.append(" ".join(filter(None, words[1:])))
            continue
        words = [word for word in words if word]
        if not words:
            continue
        category = next(filter(_CATEGORY.fullmatch, words), None) if len(words) == 5 else None
        if category is not None:
            words.remove(category)
            sections += [category] * (category not in sections)
        if len(words) != 4:
            message = f"expected four words, got {len(words)}: {shown(line)}"
            raise DataError(message, path=path, line=number, hint="sections begin with a colon and a space")
        sections = sections or [""]
        places.append(len(sections) - 1 if category is None else sections.index(category))
        questions.append(Analogy(*words))
    if not questions:
        raise DataError("no analogies: expected lines of four words", path=path)
    return Questions(path, sections, np.array(places, np.int64), questions)


def _lines(path: str, errors: str) -> Iterator[str]:
    """The lines of a file; MSR's questions are each followed by their line of the file of answers."""
    paths = [path, path.removesuffix("questions") + "answers"] if path.endswith(".questions") else [path]
    for block in zip_blocks(paths, errors):
        yield from map(" ".join, zip(*block))


def solve(
    vocabulary: EvaluationVocabulary,
    questions: Sequence[Analogy],
    *,
    method: str = "add",
    subwords: bool = False,
    epsilon: float = EPSILON,
) -> Longs:
    """RIGHT, WRONG, or UNKNOWN (a word is not known) for each question; int64 (Q,).

    Args:
        method: "add" or "mul".
        subwords: a, b and c may have vectors outside the vocabulary; the answer may not.
        epsilon: added to the denominator of 3CosMul.

    Raises:
        BundleError: a vector is not finite.
    """
    directions = UnitVectors(vocabulary, subwords=subwords)
    number_of = functools.cache(directions.number)
    places = [vocabulary.place(question.expected) for question in questions]
    expected = np.array([-1 if place is None else place for place in places], np.int64)
    asked: list[tuple[int, ...]] = []
    known: list[int] = []
    for place in np.flatnonzero(expected >= 0).tolist():
        words = [number_of(word) for word in questions[place][:3]]
        if None not in words:
            known.append(place)
            asked.append(tuple(number for number in words if number is not None))
    solved = np.full(len(questions), UNKNOWN, np.int64)
    if known:
        hidden = _hidden(vocabulary, [questions[place] for place in known])
        best = _search(vocabulary, unit(directions.matrix()), np.array(asked, np.int64), hidden, method, epsilon)
        right = (best >= 0) & (vocabulary.first[best] == expected[known])
        solved[known] = np.where(right, RIGHT, WRONG)
    return solved


def _hidden(vocabulary: EvaluationVocabulary, questions: Sequence[Analogy]) -> Longs:
    """The words that cannot be answers because the question contains them: (question, row), int64 (N, 2), by row."""
    pairs = [
        (number, row)
        for number, question in enumerate(questions)
        for word in question[:3]
        if (place := vocabulary.place(word)) is not None
        for row in vocabulary.rows(place)
    ]
    hidden = np.array(pairs, np.int64).reshape(-1, 2)
    return hidden[np.argsort(hidden[:, 1], kind="stable")]


def _search(
    vocabulary: EvaluationVocabulary, directions: Floats, asked: Longs, hidden: Longs, method: str, epsilon: float
) -> Longs:
    """The first row with the highest score for each question; -1 if all are hidden.

    Args:
        directions: float32 (W, D).
        asked: the numbers of the directions of a, b and c, (Q, 3).
        hidden: see `_hidden`.
    """
    best: Floats = np.full(len(asked), -np.inf, np.float32)
    rows = np.full(len(asked), -1, np.int64)
    width = max(256, min(_WIDTH, _COSINES // len(directions)))
    for start, block in vocabulary.vectors.blocks(vocabulary.size):
        for first in range(0, len(block), width):
            part = unit(block[first : first + width])
            begin = start + first
            low, high = np.searchsorted(hidden[:, 1], [begin, begin + len(part)])
            names = hidden[low:high] - np.array([0, begin])
            tables = _tables(directions @ part.T, method, epsilon)
            scores, places = _best(tables, asked, names[np.argsort(names[:, 0])], method)
            better = scores > best
            best[better], rows[better] = scores[better], places[better] + begin
    return rows


def _tables(cosines: Floats, method: str, epsilon: float) -> tuple[Floats, Floats]:
    """(factors or terms of b and c, factors or terms of a), each (W, B), for the words of a block."""
    if method == "add":
        return cosines, cosines
    cosines += np.float32(1)
    cosines *= np.float32(0.5)
    np.maximum(cosines, np.float32(0), out=cosines)
    return cosines, np.reciprocal(cosines + np.float32(epsilon))


def _best(tables: tuple[Floats, Floats], asked: Longs, hidden: Longs, method: str) -> tuple[Floats, Longs]:
    """(highest score, its column) for each question; `hidden` is (question, column), by question."""
    given, taken = tables
    away: np.ufunc = np.subtract if method == "add" else np.multiply
    onto: np.ufunc = np.add if method == "add" else np.multiply
    count, width = len(asked), given.shape[1]
    scores: Floats = np.empty((_BATCH, width), np.float32)
    spare = np.empty_like(scores)
    best: Floats = np.empty(count, np.float32)
    columns = np.empty(count, np.int64)
    starts = range(0, count, _BATCH)
    bounds = np.searchsorted(hidden[:, 0], [*starts, count])
    for turn, start in enumerate(starts):
        a, b, c = asked[start : start + _BATCH].T
        score, other = scores[: len(a)], spare[: len(a)]
        # mode "clip" avoids a copy of the result; all indexes are valid
        np.take(given, b, axis=0, out=score, mode="clip")
        away(score, np.take(taken, a, axis=0, out=other, mode="clip"), out=score)
        onto(score, np.take(given, c, axis=0, out=other, mode="clip"), out=score)
        names = hidden[bounds[turn] : bounds[turn + 1]]
        score[names[:, 0] - start, names[:, 1]] = -np.inf
        highest = score.argmax(axis=1)
        columns[start : start + len(a)] = highest
        best[start : start + len(a)] = score[np.arange(len(a)), highest]
    return best, columns
