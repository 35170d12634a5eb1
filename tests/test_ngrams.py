"""N-gram models: counts, smoothing and look-up beside a plain implementation with dictionaries."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from itertools import chain, pairwise

import numpy as np
import pytest

from nlptools.models.language import ngram
from nlptools.models.language.ngram import BOS, EOS, NGramConfig, NGrams
from nlptools.training.ngrams import counting, smoothing

V = 9


def sentences(seed: int, number: int = 40) -> list[list[int]]:
    """Sentences of words 3 to V - 1, small ones more often; the last word of the vocabulary does not occur."""
    draw = random.Random(seed)
    return [
        [BOS, *(min(3 + int(draw.expovariate(0.6)), V - 2) for _ in range(draw.randrange(7))), EOS]
        for _ in range(number)
    ]


def flat(text: list[list[int]]) -> np.ndarray:
    return np.array(list(chain.from_iterable(text)))


def model(text: list[list[int]], order: int, method: smoothing.Smoothing, prune: tuple[int, ...] = ()) -> NGrams:
    config = NGramConfig(V, order)
    return smoothing.estimate(counting.count(flat(text), config), config, method, prune)


class Plain:
    """The published equations, one n-gram at a time."""

    def __init__(self, text: list[list[int]], order: int, prune: tuple[int, ...] = ()) -> None:
        self.order, self.prune = order, prune
        self.raw: Counter[tuple[int, ...]] = Counter(
            tuple(words[i : i + n]) for words in text for n in range(1, order + 1) for i in range(len(words) - n + 1)
        )
        del self.raw[(BOS,)]
        self.counts = {gram: self.count(gram) for gram in self.raw}
        self.followers = defaultdict(list)
        for gram in self.raw:
            self.followers[gram[:-1]].append(gram)

    def count(self, gram: tuple[int, ...]) -> float:
        return self.raw[gram]

    def takes(self, gram: tuple[int, ...]) -> float:
        """What is taken off the count of an n-gram."""
        raise NotImplementedError

    def lost(self, gram: tuple[int, ...]) -> bool:
        return bool(self.prune) and len(gram) > 1 and self.raw[gram] <= self.prune[min(len(gram), len(self.prune)) - 1]

    def probability(self, word: int, context: tuple[int, ...]) -> float:
        below = self.probability(word, context[1:]) if context else 1 / (V - 1)
        grams = self.followers[context]
        if not grams:
            return below
        total = sum(self.counts[gram] for gram in grams)
        rest = sum(self.counts[gram] if self.lost(gram) else self.takes(gram) for gram in grams)
        gram = (*context, word)
        own = 0.0 if gram not in self.counts or self.lost(gram) else self.counts[gram] - self.takes(gram)
        return (own + rest * below) / total


class KneserNey(Plain):
    def count(self, gram: tuple[int, ...]) -> float:
        if len(gram) == self.order or gram[0] == BOS:
            return self.raw[gram]
        return sum(longer[1:] == gram for longer in self.raw)

    def takes(self, gram: tuple[int, ...]) -> float:
        n = [sum(c == k and len(g) == len(gram) for g, c in self.counts.items()) for k in range(5)]
        y = n[1] / (n[1] + 2 * n[2]) if n[1] else 0
        found = [k - (k + 1) * y * n[k + 1] / n[k] if n[k] else -1 for k in (1, 2, 3)]
        if not all(n[1:4]) or not all(0 <= d <= k for k, d in enumerate(found, 1)):
            found = [0.5, 1, 1.5]
        return found[min(int(self.counts[gram]), 3) - 1]


class Absolute(Plain):
    def takes(self, gram: tuple[int, ...]) -> float:
        once, twice = (sum(c == k and len(g) == len(gram) for g, c in self.counts.items()) for k in (1, 2))
        return once / (once + 2 * twice) if once else 0.5


class WittenBell(Plain):
    def probability(self, word: int, context: tuple[int, ...]) -> float:
        below = self.probability(word, context[1:]) if context else 1 / (V - 1)
        grams = self.followers[context]
        total = sum(self.counts[gram] for gram in grams) + len(grams)
        return (self.raw[(*context, word)] + len(grams) * below) / total if grams else below


def checked(fast: NGrams, plain: Plain, text: list[list[int]]) -> None:
    """Every word of the text, and the distributions of next words, have the probabilities of `plain`."""
    reach = plain.order - 1
    scored = fast.score(flat(text))
    expected = []
    for words in text:
        for i, word in enumerate(words):
            context = tuple(words[max(0, i - reach) : i])
            expected.append(0.0 if word == BOS else math.log10(plain.probability(word, context)))
    np.testing.assert_allclose(scored.log_probs, expected, atol=2e-6)
    for words in text[:5]:
        for i in range(1, len(words)):
            context = words[max(0, i - reach) : i]
            row = 10 ** fast.next_words(context).astype(np.float64)
            assert row.sum() == pytest.approx(1, abs=1e-5)
            np.testing.assert_allclose(
                row, [0 if word == BOS else plain.probability(word, tuple(context)) for word in range(V)], atol=1e-6
            )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("number", [3, 60])
def test_kneser_ney_is_the_published_one(seed, order, number):
    text = sentences(seed, number)
    checked(model(text, order, smoothing.kneser_ney), KneserNey(text, order), text + sentences(seed + 50, 9))


@pytest.mark.parametrize("prune", [(0, 1), (0, 0, 2), (0, 1, 3)])
def test_pruned_mass_goes_to_shorter_contexts(prune):
    text = sentences(7)
    fast = model(text, 4, smoothing.kneser_ney, prune)
    checked(fast, KneserNey(text, 4, prune), text)
    assert len(fast.levels[3]) < len(model(text, 4, smoothing.kneser_ney).levels[3])


@pytest.mark.parametrize(("method", "plain"), [(smoothing.absolute, Absolute), (smoothing.witten_bell, WittenBell)])
def test_other_methods_are_the_published_ones(method, plain):
    text = sentences(3)
    checked(model(text, 3, method), plain(text, 3), text + sentences(4, 9))


def test_add_k_counts_every_word_k_times_more():
    text = sentences(5)
    fast = model(text, 3, smoothing.add_k(0.25, V))
    raw = Counter(tuple(words[i : i + 3]) for words in text for i in range(len(words) - 2))
    for context in {gram[:2] for gram in raw} | {(4, V - 1), (V - 1, 4)}:
        seen = sum(count for gram, count in raw.items() if gram[:2] == context)
        expected = [(raw[(*context, word)] + 0.25) / (seen + 0.25 * (V - 1)) for word in range(V)]
        expected[BOS] = 0
        np.testing.assert_allclose(10 ** fast.next_words(context), expected, atol=1e-6)


def test_jelinek_mercer_mixes_relative_frequencies():
    text = sentences(6)
    fast = model(text, 2, smoothing.jelinek_mercer([0.9, 0.6]))
    words = Counter(word for line in text for word in line[1:])
    pairs = Counter(pair for line in text for pair in pairwise(line))
    for before in range(3, V):
        seen = sum(count for pair, count in pairs.items() if pair[0] == before)
        lower = [0.9 * words[w] / words.total() + 0.1 / (V - 1) for w in range(V)]
        expected = [0.6 * pairs[before, w] / seen + 0.4 * lower[w] if seen else lower[w] for w in range(V)]
        expected[BOS] = 0
        np.testing.assert_allclose(10 ** fast.next_words([before]), expected, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_scores_do_not_depend_on_the_parts_that_are_looked_up(order, monkeypatch):
    text = sentences(5)
    ids = flat([*text, *sentences(6)])
    whole = model(text, order, smoothing.kneser_ney).score(ids)
    assert whole.lengths.max() == order
    monkeypatch.setattr(ngram, "available_threads", lambda: 3)
    for size in (1, 3, 50):
        monkeypatch.setattr(ngram, "SORTED", size)
        monkeypatch.setattr(ngram, "IN_CACHE", size)
        parts = model(text, order, smoothing.kneser_ney)
        for _ in range(3):  # with searches at first, with hash tables at last
            matches = parts.score(ids)
            np.testing.assert_array_equal(matches.log_probs, whole.log_probs)
            np.testing.assert_array_equal(matches.lengths, whole.lengths)
        assert all(level.table.is_hashed for level in parts.levels[1:])
    assert not len(parts.score(ids[:0]).log_probs)
