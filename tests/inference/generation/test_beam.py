"""Laws of decoding from sources: greedy search, beams and samples against scores that are computed anew for each prefix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder_decoders import BACKEND, EOS, FORMS, marks_of, next_scores, some_sources, source_batch, tiny

from nlptools.compute.processor import has_bf16
from nlptools.configs.generation import Generate
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.decoding import translate
from nlptools.inference.generation.forced import pair_scores

SOURCES = some_sources(5, 0, 9, 1, 5, 3)
GREEDY = Generate(temperature=0, max_new_tokens=10, logprobs=True)
BEAM = Generate(beam=4, nbest=4, max_new_tokens=10)
SAMPLES = Generate(num_samples=3, max_new_tokens=10, top_p=0.9, logprobs=True)
ways = pytest.mark.parametrize("way", [GREEDY, BEAM, SAMPLES], ids=["greedy", "beam", "samples"])
forms = pytest.mark.parametrize("form", FORMS)


def changed(settings: Generate, **changes: object) -> Generate:
    return Generate(**{**vars(settings), **changes})


def say(model: Any, sources: list[list[int]], settings: Generate, **more: Any) -> list[list[Continuation]]:
    found = translate(model, sources, settings, BACKEND, marks=marks_of(model), **more)
    assert found is not None
    return found


def assert_same(found: list[Continuation], expected: list[Continuation]) -> None:
    assert [(c.ids, c.finish) for c in found] == [(c.ids, c.finish) for c in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert np.allclose(ours.logprobs, theirs.logprobs, atol=1e-4)


# -- what is chosen ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@forms
def test_greedy_search_takes_the_likeliest_token_step_by_step(form: str) -> None:
    model = tiny(form)
    for source, (found,) in zip(SOURCES, say(model, SOURCES, GREEDY), strict=True):
        said: list[int] = []
        while len(said) < 10:
            scores = next_scores(model, source, said)
            token = int(scores.argmax())
            assert found.logprobs[len(said)] == pytest.approx(float(scores[token]), abs=1e-4)
            if token == EOS:
                break
            said.append(token)
        assert found.ids == said and found.finish == ("eos" if len(said) < 10 else "length")
        assert found.score is None and len(found.logprobs) == len(said) + (found.finish == "eos")


@forms
def test_a_beam_of_one_is_greedy(form: str) -> None:
    model = tiny(form)
    found = say(model, SOURCES, changed(BEAM, beam=1, nbest=1))
    for one, expected in zip(found, say(model, SOURCES, GREEDY), strict=True):
        assert_same(one, expected)


def every_output(model: Any, source: list[int], longest: int, words: int) -> list[tuple[list[int], list[float]]]:
    """(ids, log-probabilities with the end) of all outputs that end after less than `longest` tokens, or go on."""
    out, level = [], [([], [])]  # type: ignore[var-annotated]
    for _ in range(longest):
        following = []
        for said, logprobs in level:
            scores = next_scores(model, source, said).tolist()
            out.append((said, [*logprobs, scores[EOS]]))
            following += [([*said, t], [*logprobs, scores[t]]) for t in range(words) if t != EOS]
        level = following
    return [*out, *level]


@pytest.mark.sampled(8)
@forms
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0, -0.5])
def test_a_wide_beam_finds_the_best_of_all_outputs(form: str, penalty: float) -> None:
    model = tiny(form, size=5, seed=3)
    source = [1, 3, 2]

    def score(logprobs: list[float]) -> float:
        return sum(logprobs) / len(logprobs) ** penalty

    # a beam of all hypotheses; an end is kept when it is among the best 64 of 64 * 4
    ranked = sorted(every_output(model, source, 3, 4), key=lambda one: -score(one[1]))
    assert len(ranked) == 13 + 27
    settings = Generate(beam=64, nbest=40, max_new_tokens=3, length_penalty=penalty)
    found = say(model, [source, [2]], settings)[0]
    assert len({tuple(c.ids) for c in found}) == 40
    for output, (ids, logprobs) in zip(found, ranked, strict=True):
        assert output.score == pytest.approx(score(logprobs), abs=1e-4)
        assert output.finish == ("length" if len(output.ids) == 3 else "eos")
        assert output.ids == ids or score(logprobs) - (output.score or 0) < 1e-5


def searched(model: Any, source: list[int], K: int, longest: int, penalty: float) -> list[tuple[list[int], float]]:
    """Beam search in so many words: the hypotheses that ended, or live at the limit (ids, score), best first."""
    alive: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[list[int], float]] = []
    for length in range(1, longest + 1):
        found = []
        for total, said in alive:
            found += [(total + value, said, t) for t, value in enumerate(next_scores(model, source, said).tolist())]
        found.sort(key=lambda one: -one[0])
        done += [(said, total / length**penalty) for total, said, t in found[:K] if t == EOS]
        alive = [(total, [*said, t]) for total, said, t in found[: 2 * K] if t != EOS][:K]
        if length == longest:
            done += [(said, total / length**penalty) for total, said in alive]
        done.sort(key=lambda one: -one[1])
        if len(done) >= K and done[K - 1][1] >= alive[0][0] / length**penalty:
            break
    return done


@pytest.mark.sampled(4)
@forms
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
def test_a_beam_is_the_search_in_so_many_words(form: str, penalty: float) -> None:
    model, sources = tiny(form, size=7, seed=1, end=1.0), some_sources(4, 1, 6, 3, size=7)
    settings = Generate(beam=3, nbest=3, max_new_tokens=12, length_penalty=penalty)
    some = 0
    for source, outputs in zip(sources, say(model, sources, settings), strict=True):
        expected = searched(model, source, 3, 12, penalty)
        if len(expected) < 3:
            continue
        some += 1
        assert [c.ids for c in outputs] == [ids for ids, _ in expected[:3]]
        assert np.allclose([c.score for c in outputs], [score for _, score in expected[:3]], atol=1e-4)
    assert some


# -- what is said of it -----------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@forms
def test_nbest_are_distinct_sorted_and_scored_as_forced_decoding_has_them(form: str) -> None:
    model = tiny(form)
    settings = changed(BEAM, length_penalty=0.7, max_new_tokens=25)
    pairs, outputs = [], []
    for source, found in zip(SOURCES, say(model, SOURCES, settings), strict=True):
        assert len(found) == 4 == len({tuple(c.ids) for c in found})
        scores = [c.score for c in found]
        assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
        pairs += [(source, c.ids) for c in found]
        outputs += found
    forced = pair_scores(model, pairs, BACKEND, marks=marks_of(model), batch_tokens=40)
    assert forced is not None
    for output, expected in zip(outputs, forced, strict=True):
        length = len(output.ids) + (output.finish == "eos")
        assert np.allclose(output.logprobs, expected[:length], atol=1e-4)
        assert output.score == pytest.approx(sum(output.logprobs) / length**0.7, abs=1e-4)


@pytest.mark.sampled(5)
@ways
@forms
def test_an_output_depends_neither_on_mates_nor_on_batches_nor_on_order(form: str, way: Generate) -> None:
    model = tiny(form)
    together = say(model, SOURCES, way, seed=7, first=3)
    for size in (1, 4):
        for found, expected in zip(
            say(model, SOURCES, changed(way, batch_size=size), seed=7, first=3), together, strict=True
        ):
            assert_same(found, expected)
    for number, source in enumerate(SOURCES):
        assert_same(say(model, [source], way, seed=7, first=3 + number)[0], together[number])
    if way is not SAMPLES:
        for found, expected in zip(say(model, SOURCES[::-1], way), together[::-1], strict=True):
            assert_same(found, expected)
    else:
        assert len({tuple(c.ids) for c in together[0]}) > 1
        assert [c.ids for c in together[0]] != [c.ids for c in together[4]]
        other = say(model, SOURCES, way, seed=8, first=3)
        assert [[c.ids for c in one] for one in other] != [[c.ids for c in one] for one in together]


def test_many_inputs_leave_the_batch_one_after_another() -> None:
    model = tiny("transformer", end=2.0)
    sources = some_sources(*range(1, 8), *range(7, 0, -1))
    settings = Generate(beam=3, nbest=2)  # up to 50 tokens more than the source has
    together = say(model, sources, settings)
    assert len({len(one[0].logprobs) for one in together}) > 3
    for source, found in zip(sources, together, strict=True):
        assert_same(found, say(model, [source], settings)[0])


@ways
def test_limits(way: Generate) -> None:
    model = tiny("rnn")
    for output in (c for found in say(model, SOURCES, changed(way, max_new_tokens=4, min_new_tokens=4)) for c in found):
        assert len(output.ids) == 4 and output.finish == "length" and len(output.logprobs) == 4
    model = tiny("convolution", max_position_embeddings=12)
    for output in (
        c for found in say(model, SOURCES, changed(way, max_new_tokens=40, min_new_tokens=40)) for c in found
    ):
        assert len(output.ids) == 12 and output.finish == "length"
    free = say(tiny("rnn", end=-90.0), [[1, 2], []], changed(way, max_new_tokens=None))
    assert [len(c.ids) for found in free for c in found] == [52] * len(free[0]) + [50] * len(free[1])


def test_a_stop_is_obeyed_and_no_sources_have_no_outputs() -> None:
    model = tiny("rnn")
    assert translate(model, SOURCES, GREEDY, BACKEND, marks=marks_of(model), stop=lambda: True) is None
    assert translate(model, [], GREEDY, BACKEND, marks=marks_of(model)) == []


# -- coverage ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@forms
def test_coverage_by_its_formula(form: str) -> None:
    model, sources = tiny(form, size=9, end=4.0), some_sources(5, 0, 9, 1, 5, 3, size=9)
    if not model.attends:
        pytest.skip("without attention, commands refuse a coverage penalty")
    settings = changed(BEAM, max_new_tokens=15, length_penalty=0.5)
    plain = say(model, sources, settings)
    none = say(model, sources, settings, coverage_penalty=0.0)
    assert [[(c.ids, c.score) for c in one] for one in none] == [[(c.ids, c.score) for c in one] for one in plain]
    some = 0
    for source, found in zip(sources, say(model, sources, settings, coverage_penalty=0.3), strict=True):
        for output in found:
            if output.finish != "eos":
                continue
            some += 1
            with torch.inference_mode():
                state = model.encode(source_batch([source])[0])
                state.keeps_attention = True
                _, state = model(torch.tensor([[model.start_token, *output.ids]]), state)
            attended = state.attention[0].sum(0).tolist()  # of each source position, the end token too
            penalty = sum(math.log(min(a, 1.0)) for a in attended)
            expected = sum(output.logprobs) / len(output.logprobs) ** 0.5 + 0.3 * penalty
            assert output.score == pytest.approx(expected, abs=2e-4)
    assert some > 5


# -- other models, other types ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not has_bf16(), reason="needs a processor that multiplies bfloat16")
@pytest.mark.parametrize("form", ["transformer", "transformer-pre", "convolution"])
def test_decoding_in_bf16_is_close(form: str) -> None:
    model, rounded = tiny(form), tiny(form).bfloat16()
    assert model.runs_in_16_bits
    for way in (GREEDY, BEAM, SAMPLES):
        outputs = [(s, c) for s, found in zip(SOURCES, say(rounded, SOURCES, way), strict=True) for c in found]
        exact = pair_scores(model, [(source, c.ids) for source, c in outputs], BACKEND, marks=marks_of(model))
        assert exact is not None
        far = [
            np.abs(np.array(c.logprobs) - e[: len(c.logprobs)]).mean() for (_, c), e in zip(outputs, exact, strict=True)
        ]
        assert np.mean(far) < 0.15
