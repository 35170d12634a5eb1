"""Bans on the next token, alone and together, on scores by hand and in decoding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_encoder_decoders import BACKEND, EOS, PAD, marks_of, next_scores, some_sources, tiny

from nlptools.configs.generation import Generate
from nlptools.inference.generation.constraints import DecodingState, bans, penalize, penalize_counts, penalized
from nlptools.inference.generation.decoding import translate

BEAM = Generate(beam=3, max_new_tokens=12)
GREEDY = Generate(temperature=0, max_new_tokens=12)
SAMPLES = Generate(num_samples=3, max_new_tokens=12)
ways = pytest.mark.parametrize("way", [BEAM, GREEDY, SAMPLES], ids=["beam", "greedy", "samples"])


def left(
    settings: Generate,
    said: list[list[int]],
    *,
    size: int = 6,
    forbidden: Sequence[int] = (),
    prefixes: list[list[int]] | None = None,
) -> list[set[int]]:
    """The tokens that may follow each of `said`; their scores are what they were."""
    scores = torch.randn(len(said), size, generator=torch.Generator().manual_seed(1))
    banned = scores.clone()
    rows = DecodingState(len(said[0]), range(len(said)), np.array(said, np.int64).reshape(len(said), -1))
    for ban in bans(settings, EOS, forbidden, prefixes):
        ban(banned, rows)
    open_ = banned != -torch.inf
    assert torch.equal(banned[open_], scores[open_])
    return [set(row.nonzero().flatten().tolist()) for row in open_]


def changed(settings: Generate, **changes: object) -> Generate:
    return Generate(**{**vars(settings), **changes})


def test_nothing_asked_for_bans_nothing() -> None:
    assert bans(Generate(), EOS, ()) == [] == bans(Generate(), EOS, (), [[], []])


def test_each_ban_by_hand() -> None:
    assert left(Generate(), [[1], [2]], forbidden=[3, 5]) == [{0, 1, 2, 4}] * 2
    assert left(Generate(min_new_tokens=2), [[1]]) == [{1, 2, 3, 4, 5}]
    assert left(Generate(min_new_tokens=2), [[1, 1]]) == [{0, 1, 2, 3, 4, 5}]
    assert left(Generate(no_repeat_ngram=2), [[1, 2, 1], [1, 1, 1], [1, 2, 3]]) == [
        {0, 1, 3, 4, 5},
        {0, 2, 3, 4, 5},
        {0, 1, 2, 3, 4, 5},
    ]
    assert left(Generate(no_repeat_ngram=3), [[1, 2, 3, 1, 2]]) == [{0, 1, 2, 4, 5}]
    assert left(Generate(no_repeat_ngram=1), [[1, 2]]) == [{0, 3, 4, 5}]
    assert left(Generate(), [[1], [1]], prefixes=[[1, 4], [1]]) == [{4}, {0, 1, 2, 3, 4, 5}]


def test_a_prefix_comes_whatever_else_is_banned() -> None:
    every = Generate(no_repeat_ngram=1, min_new_tokens=9)
    assert left(every, [[2], [2], [2]], forbidden=[5], prefixes=[[2, 2], [2, 5], [2]]) == [{2}, {5}, {1, 3, 4}]
    assert left(Generate(min_new_tokens=3), [[]], prefixes=[[0]]) == [{0}]


def test_the_end_comes_too_soon_rather_than_nothing() -> None:
    settings = Generate(no_repeat_ngram=1, min_new_tokens=9)
    assert left(settings, [[1, 2, 3], [1, 1, 3]], forbidden=[4, 5]) == [{EOS}, {2}]


@given(st.lists(st.integers(0, 3), max_size=14), st.integers(1, 5))
def test_what_is_left_makes_no_ngram_twice(said: list[int], n: int) -> None:
    grams = [said[i : i + n] for i in range(len(said) - n + 1)]
    expected = {token for token in range(6) if len(said) < n - 1 or [*said[len(said) - n + 1 :], token] not in grams}
    assert left(Generate(no_repeat_ngram=n), [said]) == [expected]


def test_the_penalty_of_repetition_by_hand() -> None:
    logits = torch.tensor([[2.0, -1.0, 3.0], [2.0, -1.0, 3.0]])
    assert penalize(logits, [[0, 1, 1], []], 2.0).tolist() == [[1.0, -2.0, 3.0], [2.0, -1.0, 3.0]]
    assert logits[0, 0] == 2.0, "what was given stays"


def test_presence_and_frequency_penalties_by_hand() -> None:
    logits = torch.tensor([[2.0, -1.0, 3.0], [2.0, -1.0, 3.0]])
    assert penalize_counts(logits, [[0, 1, 1], []], 0.5, 0.25).tolist() == [[1.25, -2.0, 3.0], [2.0, -1.0, 3.0]]
    settings = Generate(presence_penalty=0.5, frequency_penalty=0.25, repetition_penalty=2.0)
    both = penalized(logits, settings, [[2], [0]], [[0, 1, 1], []])
    assert both.tolist() == [[0.25, -3.0, 1.5], [1.0, -1.0, 3.0]], "a prompt counts for the repetition penalty alone"
    assert penalized(logits, Generate(), [[2], [0]], [[0], [1]]) is logits


@ways
def test_in_decoding_no_ngram_comes_twice_and_a_rule_that_does_not_bind_changes_nothing(way: Generate) -> None:
    model, sources = tiny("transformer", factor=4), some_sources(5, 2, 7, 3)
    way = changed(way, min_new_tokens=12)
    free = translate(model, sources, way, BACKEND, marks=marks_of(model))
    bound = translate(model, sources, changed(way, no_repeat_ngram=2), BACKEND, marks=marks_of(model))
    loose = translate(model, sources, changed(way, no_repeat_ngram=12), BACKEND, marks=marks_of(model))
    assert free is not None and bound is not None and loose is not None
    assert [[c.ids for c in outputs] for outputs in loose] == [[c.ids for c in outputs] for outputs in free]

    def repeats(ids: list[int]) -> bool:
        return len(set(pairwise(ids))) < len(ids) - 1

    assert any(repeats(c.ids) for outputs in free for c in outputs)
    assert not any(repeats(c.ids) for outputs in bound for c in outputs)


@ways
def test_in_decoding_what_is_forbidden_never_comes_and_nothing_ends_too_soon(way: Generate) -> None:
    model, sources = tiny("rnn"), some_sources(5, 2, 7, 3)
    forbidden = list(range(1, 20))
    free = translate(model, sources, way, BACKEND, marks=marks_of(model))
    found = translate(
        model, sources, changed(way, min_new_tokens=7), BACKEND, marks=marks_of(model), forbidden=forbidden
    )
    assert free is not None and found is not None
    assert any(set(c.ids) & set(forbidden) for outputs in free for c in outputs)
    for output in (c for outputs in found for c in outputs):
        assert set(output.ids) <= set(range(20, PAD)) and 7 <= len(output.ids) <= 12


@pytest.mark.sampled(3)
@ways
@pytest.mark.parametrize("form", ["transformer", "convolution"])
def test_in_decoding_a_prefix_is_obeyed_and_gone_on_with(way: Generate, form: str) -> None:
    model, sources = tiny(form), some_sources(5, 2, 7)
    prefixes = [[4, 4, 4], [], [7]]
    way = changed(way, no_repeat_ngram=1, logprobs=True)
    found = translate(model, sources, way, BACKEND, marks=marks_of(model), prefixes=prefixes, forbidden=[7])
    free = translate(model, sources, way, BACKEND, marks=marks_of(model), forbidden=[7])
    assert found is not None and free is not None
    assert [c.ids for c in found[1]] == [c.ids for c in free[1]], "no prefix is asked for here"
    for source, prefix, outputs in zip(sources, prefixes, found, strict=True):
        for output in outputs:
            assert output.ids[: len(prefix)] == prefix and len(output.ids) > len(prefix)
            for t in range(len(output.logprobs) - (output.finish == "eos")):
                expected = next_scores(model, source, output.ids[:t])[output.ids[t]]
                assert output.logprobs[t] == pytest.approx(float(expected), abs=1e-4)
    if way.temperature == 0:
        for source, prefix, (output,) in zip(sources, prefixes, found, strict=True):
            for t in range(len(prefix), len(output.ids)):
                scores = next_scores(model, source, output.ids[:t])
                scores[[7, *output.ids[:t]]] = -torch.inf
                assert output.ids[t] == int(scores.argmax())


@ways
def test_every_input_has_an_output_where_nothing_is_left_to_say(way: Generate) -> None:
    model = tiny("rnn", size=8)
    settings = changed(way, no_repeat_ngram=1, min_new_tokens=10)
    found = translate(model, some_sources(3, 2, size=8), settings, BACKEND, marks=marks_of(model), forbidden=[3])
    assert found is not None
    for output in (c for outputs in found for c in outputs):
        assert sorted(output.ids) == [1, 2, 4, 5, 6] and output.finish == "eos"


@ways
def test_in_decoding_frequent_tokens_become_rare(way: Generate) -> None:
    model, sources = tiny("transformer", factor=4), some_sources(5, 2, 7, 3)
    way = changed(way, min_new_tokens=12)
    free = translate(model, sources, way, BACKEND, marks=marks_of(model))
    found = translate(model, sources, changed(way, presence_penalty=1e4), BACKEND, marks=marks_of(model))
    assert free is not None and found is not None
    assert any(len(set(c.ids)) < 12 for outputs in free for c in outputs)
    assert all(len(set(c.ids)) == 12 for outputs in found for c in outputs)


@pytest.mark.parametrize("way", [BEAM, GREEDY])
def test_the_penalty_of_repetition_counts_what_the_decoder_has_said_alone(way: Generate) -> None:
    model, sources = tiny("rnn", factor=3), some_sources(4, 6)
    free = translate(model, sources, changed(way, min_new_tokens=12), BACKEND, marks=marks_of(model))
    found = translate(
        model, sources, changed(way, min_new_tokens=12, repetition_penalty=50.0), BACKEND, marks=marks_of(model)
    )
    assert free is not None and found is not None
    assert sum(len(set(c[0].ids)) for c in found) > sum(len(set(c[0].ids)) for c in free)
    if not way.beam:
        assert [c[0].ids[0] for c in found] == [c[0].ids[0] for c in free], "nothing is said at first"
