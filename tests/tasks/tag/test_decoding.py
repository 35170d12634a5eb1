"""Tags that keep to their scheme: what may follow what, and the best path against all of them."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.batches.encoder_rows import bounds_of
from nlptools.errors import UsageError
from nlptools.formats.tag_schemes import SCHEMES, spans
from nlptools.tasks.tag.decoding import TagTransitions, best_tags, constraints

IOB2 = ["O", "B-X", "I-X", "B-Y", "I-Y"]
IOBES = ["O", "B-X", "I-X", "E-X", "S-X"]


def allowed(names, scheme):
    rules = constraints(names, scheme)
    pairs = {(names[a], names[b]) for a, b in zip(*np.nonzero(rules.follows))}
    return pairs, [names[i] for i in np.flatnonzero(rules.begins)], [names[i] for i in np.flatnonzero(rules.ends)]


def breaches(tags, sentences, allowed):
    """The words, of W, whose tag may not stand behind the one before it, or may not end the sentence.

    Args:
        tags: (W,) int64.
        sentences: (N + 1,) where the words of each sentence begin, and the end.
    """
    bad = np.zeros(len(tags), np.bool_)
    bad[1:] = ~allowed.follows[tags[:-1], tags[1:]]
    some = np.diff(sentences) > 0
    first, last = sentences[:-1][some], sentences[1:][some] - 1
    bad[first] = ~allowed.begins[tags[first]]
    bad[last] |= ~allowed.ends[tags[last]]
    return np.flatnonzero(bad)


def test_iob2_by_hand():
    pairs, begins, ends = allowed(IOB2, "bio")
    assert {(a, b) for a, b in product(IOB2, IOB2)} - pairs == {
        ("O", "I-X"), ("O", "I-Y"), ("B-X", "I-Y"), ("I-X", "I-Y"), ("B-Y", "I-X"), ("I-Y", "I-X"),
    }  # fmt: skip
    assert begins == ["O", "B-X", "B-Y"]
    assert ends == IOB2


def test_iobes_by_hand():
    pairs, begins, ends = allowed(IOBES, "BIOES")
    free = {(a, b) for a in ("O", "E-X", "S-X") for b in ("O", "B-X", "S-X")}
    assert pairs == free | {(a, b) for a in ("B-X", "I-X") for b in ("I-X", "E-X")}
    assert begins == ["O", "B-X", "S-X"]
    assert ends == ["O", "E-X", "S-X"]


def test_iob1_by_hand():
    pairs, begins, _ = allowed(["O", "B-X", "I-X"], "iob1")
    assert begins == ["O", "I-X"]
    assert ("O", "B-X") not in pairs
    assert ("I-X", "B-X") in pairs


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_allowed_is_what_is_scored(scheme):
    """Tags are allowed just when each that is not O belongs to an entity."""
    prefixes = {"bilou": "BILU", "iobes": "BIES"}.get(scheme, "B" if "b" in scheme else "E")
    names = ["O", *(f"{prefix}-{kind}" for prefix in {*prefixes, "I"} for kind in "XY")]
    rules = constraints(names, scheme)
    for length in (1, 2, 3):
        tags = np.array(list(product(range(len(names)), repeat=length)))
        bad = breaches(tags.ravel(), np.arange(len(tags) + 1) * length, rules)
        broken = np.isin(np.arange(len(tags)), bad // length)
        for path, wrong in list(zip(tags.tolist(), broken.tolist()))[:: 1 if length < 3 else 5]:
            written = [names[tag] for tag in path]
            assert wrong == bool(spans(written, scheme)[1]), written


def test_the_best_allowed_path_by_hand():
    scores = np.array([[0.0, 1, 2, 0, 0], [0, 0, 0, 0, 3], [1, 0, 0, 0, 0]])
    sentence = np.array([0, 3])
    assert best_tags(scores, sentence).tolist() == [2, 4, 0]
    # B-Y I-Y O makes 0 + 3 + 1, B-X O O 1 + 0 + 1
    assert best_tags(scores, sentence, constraints(IOB2, "iob2")).tolist() == [3, 4, 0]
    # in two sentences: B-X, and O O with 0 + 1, for I-Y begins none
    assert best_tags(scores, np.array([0, 1, 1, 3]), constraints(IOB2, "iob2")).tolist() == [1, 0, 0]


def test_without_any_allowed_path():
    names = ["B-X", "E-X"]
    assert best_tags(np.array([[0.0, 1.0]]), np.array([0, 1]), constraints(names, "iobes")).tolist() == [1]


def test_nothing_at_all():
    assert best_tags(np.zeros((0, 5)), np.array([0]), constraints(IOB2, "iob2")).tolist() == []
    assert best_tags(np.zeros((0, 5)), np.array([0, 0]), constraints(IOB2, "iob2")).tolist() == []
    assert breaches(np.zeros(0, np.int64), np.array([0, 0]), constraints(IOB2, "iob2")).tolist() == []


def test_what_is_refused():
    with pytest.raises(UsageError, match="no such scheme: 'conlleval'"):
        constraints(IOB2, "conlleval")
    for name in ("S-X", "B", "O-X", "NOUN"):
        with pytest.raises(UsageError, match="is not of the scheme iob2, expected O, B-TYPE, I-TYPE"):
            constraints(["O", name], "iob2")


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 1 << 30), st.lists(st.integers(0, 4), min_size=1, max_size=4), st.booleans())
def test_against_all_paths(seed, lengths, crf):
    random = np.random.default_rng(seed)
    C = len(IOBES)
    scores = random.normal(size=(sum(lengths), C))
    rules = constraints(IOBES, "iobes")
    weights = TagTransitions(random.normal(size=(C, C)), random.normal(size=C), random.normal(size=C)) if crf else None
    bounds = bounds_of(np.array(lengths))
    found = best_tags(scores, bounds, rules, weights)
    assert len(breaches(found, bounds, rules)) == 0

    def value(path, begin):
        total = scores[np.arange(begin, begin + len(path)), path].sum()
        if weights is not None and len(path):
            total += weights.begins[path[0]] + weights.ends[path[-1]] + weights.follows[path[:-1], path[1:]].sum()
        return total

    for begin, end in pairwise(bounds):
        every = [np.array(path, np.int64) for path in product(range(C), repeat=int(end - begin))]
        kept = [path for path in every if not len(breaches(path, np.array([0, len(path)]), rules))]
        assert value(found[begin:end], begin) == pytest.approx(max(value(path, begin) for path in kept))
