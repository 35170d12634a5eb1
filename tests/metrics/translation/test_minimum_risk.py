"""Choosing the candidate that is most like the others: by hand, and as its definition says."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.metrics.translation.corpus import metric_class
from nlptools.metrics.translation.minimum_risk import choose

metrics = pytest.mark.parametrize("metric", ["bleu", "chrf"])


def score(metric: str, hypothesis: str, reference: str) -> float:
    """Of one segment, by way of a corpus of one."""
    scorer: Any = metric_class(metric)(**({"effective_order": True} if metric == "bleu" else {}))
    return float(scorer.scores(scorer.statistics([hypothesis], [[reference]]))[0])


@metrics
def test_by_hand(metric: str) -> None:
    # the middle one shares three words with each of the others, which share two
    assert choose(["a b c x", "a b c d", "y b c d"], metric) == 1
    # what is said twice has itself as a reference
    assert choose(["one two three", "four five six", "four five six"], metric) == 1
    assert choose(["q w e", "a b c d", "r t z", "a b c d"], metric) == 1
    assert choose(["only"], metric) == 0 == choose(["same", "same"], metric)
    assert choose(["", ""], metric) == 0
    assert choose(["", "a b", "a b"], metric) == 1
    # nothing in common: of several equally good ones the first
    assert choose(["abc", "def", "ghi"], metric) == 0


def test_no_candidates() -> None:
    with pytest.raises(ValueError, match="no candidates"):
        choose([], "chrf")


def test_a_sentence_shorter_than_four_words_has_a_bleu() -> None:
    assert choose(["x y", "a b", "a b c"], "bleu") in (1, 2)


@metrics
@given(candidates=st.lists(st.lists(st.sampled_from("abcd"), max_size=5).map(" ".join), min_size=1, max_size=6))
@settings(max_examples=examples(25), deadline=None)
def test_the_chosen_one_has_the_highest_mean_over_all_samples(metric: str, candidates: list[str]) -> None:
    utilities = [sum(score(metric, c, other) for other in candidates) for c in candidates]
    place = choose(candidates, metric)
    assert utilities[place] >= max(utilities) - 1e-6
    assert place == candidates.index(candidates[place])
    if len(set(candidates)) > 1:
        backwards = choose(candidates[::-1], metric)
        assert utilities[::-1][backwards] >= max(utilities) - 1e-6
