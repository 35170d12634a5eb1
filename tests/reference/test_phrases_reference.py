"""Phrases against gensim's: the same text comes out."""

from __future__ import annotations

import random

import pytest

from nlptools.configs.sequences import ENGLISH
from nlptools.files import streams
from nlptools.files.streams import LineBlock
from nlptools.sequences.phrases import Rule, learn_and_join
from tests.real_data import published

gensim_phrases = pytest.importorskip("gensim.models.phrases")
pytestmark = pytest.mark.reference


def theirs(lines, rule):
    sentences = [[word for word in line.replace("\t", " ").split(" ") if word] for line in lines]
    model = gensim_phrases.Phrases(
        sentences,
        min_count=rule.min_count,
        threshold=rule.threshold,
        scoring=rule.scoring,
        delimiter=rule.delimiter,
        connector_words=frozenset(rule.connectors),
    )
    return "".join(" ".join(model[sentence] if sentence else []) + "\n" for sentence in sentences)


def ours(lines, rule):
    return "".join(learn_and_join([LineBlock("text", 1, lines)], rule))


def test_the_english_connectors():
    assert set(ENGLISH) == gensim_phrases.ENGLISH_CONNECTOR_WORDS


def test_random_text():
    for seed in range(100):
        rng = random.Random(seed)
        words = [f"w{i}" for i in range(rng.randint(2, 12))] + ["of", "the"]
        lines = ["w0", *(" ".join(rng.choices(words, k=rng.randint(0, 15))) for _ in range(rng.randint(1, 60)))]
        scoring = rng.choice(["default", "npmi"])
        threshold = rng.choice([0.1, 0.5, 1.0, 2.0]) if scoring == "default" else rng.choice([-0.2, 0.0, 0.1, 0.3])
        connectors = rng.choice([(), ("of",), ("of", "the"), ("of", "the", "w0")])
        rule = Rule(scoring, threshold, rng.randint(1, 4), "_", connectors)
        assert ours(lines, rule) == theirs(lines, rule), seed


def test_long_runs_of_connectors():
    words = tuple(f"c{i}" for i in range(1000))  # a run of six of them fits into a number
    rng = random.Random(1)
    run = " ".join(rng.choices(words, k=9))
    lines = [f"a {run} b {' '.join(rng.choices(words, k=7))} a" for _ in range(5)] + [f"b {run} a"]
    rule = Rule("default", 0.5, 1, "_", words)
    assert ours(lines, rule) == theirs(lines, rule)
    assert "_" in ours(lines, rule)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("connectors", [(), ENGLISH])
@pytest.mark.parametrize(("scoring", "threshold"), [("default", 1.0), ("npmi", 0.5)])
def test_english(english, scoring, threshold, connectors):
    lines = [line.replace("_", "-") for line in english]
    rule = Rule(scoring, threshold, 3, "_", connectors)
    assert ours(lines, rule) == theirs(lines, rule)


def test_an_encyclopedia():
    path = published("enwiki_slice", "valid.txt")
    lines = [line.replace("_", "-") for line in streams.lines(path)]
    for rule in (Rule(), Rule(connectors=ENGLISH), Rule("npmi", 0.4)):
        assert ours(lines, rule) == theirs(lines, rule)
