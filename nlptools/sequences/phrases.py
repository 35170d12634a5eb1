"""Phrases: pairs of words that occur together more often than their frequencies explain, joined to one token.

Mikolov et al. 2013, "Distributed representations of words and phrases and their compositionality"; the normalized
pointwise mutual information of Bouma 2009. With counts n(.), the score of a pair is one of:

    default      (n(ab) - min_count) / n(a) / n(b) * number of different words and pairs              as gensim's Phrases
    word2phrase  (n(ab) - min_count) / n(a) / n(b) * number of words, in single precision             as word2phrase.c
    npmi         log(p(ab) / (p(a) p(b))) / -log p(ab), p(.) = n(.) / number of words                 as gensim's Phrases

Joining goes from left to right, as in both tools: a pair above the threshold becomes one token, and the next pair begins
after it. word2phrase.c has no connectors, ignores words and pairs below min_count, and counts the last word of a line with
the first word of the next as a pair; so does word2phrase here.
Departures. Pairs are counted as pairs of tokens; the tools count equal spellings together, such as the token a_b and the
pair a b, which matters in a second pass. word2phrase.c cuts words to 59 bytes. If there are too many pairs, rare ones are
dropped as in the tools, but at other places in the text, and words are kept.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.arrays import Ints, Longs
from nlptools.configs.sequences import MAX_VOCAB, MIN_COUNT, SCORINGS, THRESHOLDS
from nlptools.errors import DataError, UsageError
from nlptools.files.streams import LineBlock, windows
from nlptools.sequences.bigrams import LINE_END, UNKNOWN, WINDOW, BigramWords, Packing, count, split

_LINES = 1000  # joined at a time: the tokens of a block of short lines take tens of megabytes


@dataclass(frozen=True)
class Rule:
    """The rule for which pairs are phrases.

    Attributes:
        scoring: default, npmi or word2phrase.
        threshold: pairs with higher scores are phrases.
        min_count: see the formulas; with npmi, the least frequency of a phrase.
        delimiter: joins the words.
        connectors: words that may be inside a phrase.

    Raises:
        UsageError: an invalid value.
    """

    scoring: str = "default"
    threshold: float = THRESHOLDS["default"]
    min_count: int = MIN_COUNT
    delimiter: str = "_"
    connectors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        npmi = self.scoring == "npmi"
        refusals = (
            (self.scoring not in SCORINGS, f"no such scoring: {self.scoring!r}, expected {', '.join(SCORINGS)}"),
            (not math.isfinite(self.threshold), f"the threshold {self.threshold} is not a finite number"),
            (npmi and abs(self.threshold) > 1, f"the threshold of npmi is from -1 to 1, not {self.threshold:g}"),
            (not npmi and self.threshold <= 0, f"the threshold is above 0, not {self.threshold:g}"),
            (self.min_count < 1, f"the least count is 1, not {self.min_count}"),
            (_has_blank(self.delimiter), f"the delimiter {self.delimiter!r} contains a space, a tab or a line end"),
            (any(not c or _has_blank(c) for c in self.connectors), "a connector is one word, without spaces"),
            (len(set(self.connectors)) < len(self.connectors), "a connector is given twice"),
        )
        for invalid, message in refusals:
            if invalid:
                raise UsageError(message)


def _has_blank(text: str) -> bool:
    return any(c in text for c in " \t\r\n")


class PhraseCounts(NamedTuple):
    """The counts of a pass over a text.

    Attributes:
        ids: the id of each token.
        packing: the integers of pairs.
        words: count of each token (V,); 0 for connectors.
        keys, pairs: integers and counts of the different pairs (U,), sorted by integer.
        total: number of words in the text, with connectors.
        entries: number of different words and pairs in the text, without connectors.
    """

    ids: dict[str, int]
    packing: Packing
    words: Longs
    keys: Longs
    pairs: Longs
    total: int
    entries: int

    def scores(self, rule: Rule) -> NDArray[np.float64]:
        """The score of each pair (U,); minus infinity for pairs that are too rare."""
        first, second = self.words[self.packing.first(self.keys)], self.words[self.packing.second(self.keys)]
        if rule.scoring == "npmi":
            scores = _npmi(self.pairs / self.total, first / self.total, second / self.total, rule.threshold)
            return np.where(self.pairs >= rule.min_count, scores, -np.inf)
        above = self.pairs - rule.min_count
        if rule.scoring == "default":
            return np.asarray(above / first / second * self.entries)
        single = np.float32
        rounded = above.astype(single) / first.astype(single) / second.astype(single) * single(self.total)
        least = np.minimum(np.minimum(first, second), self.pairs)
        return np.where(least >= rule.min_count, rounded.astype(np.float64), -np.inf)


def _npmi(
    pair: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], threshold: float
) -> NDArray[np.float64]:
    """Normalized pointwise mutual information (U,) of probabilities.

    numpy's logarithms may differ in the last digit, which matters for scores at the threshold: these are computed again.
    """
    scores: NDArray[np.float64] = np.log(pair / (first * second)) / -np.log(pair)
    for i in np.flatnonzero(np.abs(scores - threshold) < 1e-9).tolist():
        scores[i] = math.log(pair[i] / (first[i] * second[i])) / -math.log(pair[i])
    return scores


class Joiner:
    """Joins the phrases that a rule selects from counts.

    Attributes:
        phrases: the joined tokens (F,).
    """

    def __init__(self, counts: PhraseCounts, rule: Rule) -> None:
        self._packing = counts.packing
        self._ids = counts.ids
        self._keys = counts.keys[counts.scores(rule) > rule.threshold]
        size = len(counts.words)
        first, second = self._packing.first(self._keys), self._packing.second(self._keys)
        self._begins, self._ends = np.zeros(size, bool), np.zeros(size, bool)
        self._begins[first] = self._ends[second] = True
        texts = list(counts.ids)
        self.phrases = [rule.delimiter.join([texts[id] for id in ids]) for ids in self._packing.ids(self._keys)]
        self._joined = np.array(self.phrases, object)

    def text(self, text: str) -> str:
        """A text of whole lines with phrases joined and one space between tokens."""
        tokens = [token for token in split(text) if token]
        ids = np.fromiter(map(self._ids.get, tokens, repeat(UNKNOWN)), np.int32, len(tokens))
        starts, ends, which, _ = self._spans(ids)
        words = np.array([*tokens, ""], object)[:-1]  # an array of text of one length would not be one of objects
        words[starts] = self._joined[which]
        return _lines(words[_kept(len(ids), starts, ends)].tolist())

    def windows(self, windows: Iterable[Ints], ids: Ints) -> Iterator[Ints]:
        """A stream of ids, with the words of each phrase replaced by its id in `ids` (F,)."""
        rest: Ints = np.zeros(0, np.int32)
        for window in windows:
            window = np.concatenate([rest, window])
            joined, cut = self._replace(window, ids)
            rest = window[cut:]
            yield joined
        yield rest

    def _replace(self, window: Ints, ids: Ints) -> tuple[Ints, int]:
        """The beginning of `window` (T,) with phrases joined, and the place from which ids must wait for the next window."""
        starts, ends, which, cut = self._spans(window)
        joined = window.copy()
        joined[starts] = ids[which]
        return joined[:cut][_kept(len(window), starts, ends)[:cut]], cut

    def _spans(self, ids: NDArray[np.int32]) -> tuple[Longs, Longs, Longs, int]:
        """Starts and ends of phrases (S,), their numbers (S,), and the place from which a phrase may continue in later text."""
        places, keys = self._packing.pairs(ids)
        likely = np.flatnonzero(self._begins[ids[places[:-1]]] & self._ends[ids[places[1:]]])
        phrases = np.searchsorted(self._keys, keys[likely])
        phrases[phrases == len(self._keys)] = 0
        known = self._keys[phrases] == keys[likely] if len(self._keys) else np.zeros(0, bool)
        likely, phrases = likely[known], phrases[known]
        # in a chain of overlapping phrases, every second one is joined, since neighbors share a word
        order = np.arange(len(likely))
        chain = np.maximum.accumulate(np.where(np.diff(likely, prepend=-2) > 1, order, 0))
        taken = (order - chain) % 2 == 0
        likely, phrases = likely[taken], phrases[taken]
        starts, ends = places[likely], places[likely + 1] if len(likely) else places[:0]
        cut = len(ids) if not len(places) or (len(ends) and ends[-1] == places[-1]) else int(places[-1])
        return starts, ends, phrases, cut


def _kept(size: int, starts: Longs, ends: Longs) -> NDArray[np.bool_]:
    """Mask of the tokens that stay (size,): all except the tokens of a phrase after its first."""
    change = np.zeros(size + 1, np.int8)
    change[starts + 1] = 1
    change[ends + 1] = -1  # no phrase starts where another ends
    inside: NDArray[np.bool_] = np.cumsum(change[:-1], dtype=np.int8) == 0
    return inside


def _lines(tokens: list[str]) -> str:
    """Tokens, with line ends among them, as text."""
    return " ".join(tokens).replace(" \n", "\n").replace("\n ", "\n")


# -- learning ---------------------------------------------------------------------------------------------------------


def _spool(windows: Iterable[Ints], stack: contextlib.ExitStack) -> IO[bytes]:
    """A stream of ids in a temporary file, four bytes each, so that a text read several times need not fit in memory."""
    file = stack.enter_context(tempfile.TemporaryFile(prefix="nlptools-"))  # noqa: SIM115
    for ids in windows:
        file.write(np.ascontiguousarray(ids, np.int32).data)
    return file


def _spooled(file: IO[bytes]) -> Iterator[Ints]:
    """The ids in a file, in windows."""
    file.seek(0)
    while data := file.read(4 * WINDOW):
        yield np.frombuffer(data, np.int32)


def learn_and_join(
    blocks: Iterable[LineBlock],
    rule: Rule,
    passes: int = 1,
    max_vocab: int = MAX_VOCAB,
    learned: Callable[[list[tuple[Rule, PhraseCounts]]], None] | None = None,
) -> Iterator[str]:
    """Learn the phrases of a text and join them. Yields texts of many lines.

    Args:
        blocks: lines of tokens separated by spaces or tabs.
        passes: number of passes; each learns from the joined text of the one before.
        max_vocab: largest number of different pairs to count.
        learned: called with the results of all passes, before the first text is yielded.

    Raises:
        DataError: no words.
    """
    words = BigramWords()
    with contextlib.ExitStack() as stack:
        spool = _spool((ids for block in blocks for ids in words.encode("\n".join([*block.lines, ""]))), stack)
        models: list[tuple[Rule, PhraseCounts]] = []
        for turn in range(passes):
            counts = learn(_spooled(spool), words, rule, max_vocab)
            if not counts.total:
                raise DataError("no training data: expected at least one word")
            models.append((rule, counts))
            joiner = Joiner(counts, rule)
            messages.detail(
                f"{counts.total} words, {int((counts.words > 0).sum())} different ones, {len(counts.keys)} pairs,"
                f" {len(joiner.phrases)} phrases"
            )
            ids = np.array([words.ids[phrase] for phrase in joiner.phrases], np.int32)
            joined = joiner.windows(_spooled(spool), ids)
            if turn + 1 < passes:
                last, spool = spool, _spool(joined, stack)
                last.close()
        if learned is not None:
            learned(models)
        yield from _texts(joined, words.texts())


def learn(windows: Iterable[Ints], words: BigramWords, rule: Rule, max_vocab: int = MAX_VOCAB) -> PhraseCounts:
    """Count words and pairs in a stream of ids."""
    connectors = [words.ids[word] for word in rule.connectors]
    size = len(words)
    packing = Packing(size, connectors)
    counts, pairs = count(windows, packing, size, rule.scoring == "word2phrase", max_vocab)
    counts[LINE_END] = 0
    total = int(counts.sum())
    counts[connectors] = 0
    if pairs.lost:
        messages.warn(
            f"more than {max_vocab} different pairs: some with counts up to {pairs.lost} were dropped; raise --max-vocab"
        )
    entries = int((counts > 0).sum()) + len(pairs.keys)
    # a copy, since later passes add tokens to `words`
    return PhraseCounts(dict(words.ids), packing, counts, pairs.keys, pairs.counts, total, entries)


def _texts(windows: Iterable[Ints], texts: Sequence[str]) -> Iterator[str]:
    """The text of a stream of ids."""
    names = np.array([*texts, ""], object)
    inside = False  # whether a line has begun
    for ids in windows:
        if len(ids):
            text = _lines(names[ids].tolist())
            yield " " + text if inside and ids[0] != LINE_END else text
            inside = ids[-1] != LINE_END


# -- applying ---------------------------------------------------------------------------------------------------------


def join(blocks: Iterable[LineBlock], models: Sequence[tuple[Rule, PhraseCounts]]) -> Iterator[str]:
    """Join the phrases of models, one model after the other. Yields texts of whole lines."""
    joiners = [Joiner(counts, rule) for rule, counts in models]
    for part in windows(blocks, _LINES):
        text = "\n".join([*part.lines, ""])
        for joiner in joiners:
            text = joiner.text(text)
        yield text
