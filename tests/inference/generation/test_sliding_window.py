"""Continuations beyond the context of the model: beside scores that are computed anew for each token in its window."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run
from tiny_bundles import words_bundle
from tiny_encoder_decoders import BACKEND
from tiny_models import tiny

from nlptools.configs.generation import Generate
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.decoding import generate

CONTEXT, HALF, NEW, EOS = 24, 12, 40, 1
PROMPTS = [[EOS, *np.random.default_rng(n).integers(2, 50, n).tolist()] for n in (0, 5, 11, 30)]


def scores(model: Any, prompt: list[int], new: list[int]) -> np.ndarray:
    """The log-probabilities (V,) of the next token.

    The model sees the whole row as long as it fits. Then its window begins anew with half a context each time that it is full.
    """
    row, window = [*prompt, *new], list(prompt[-CONTEXT:])
    for token in new:
        window = [*window, token] if len(window) < CONTEXT else [*window, token][-HALF:]
    assert len(row) > CONTEXT or window == row
    with torch.inference_mode():
        hidden, _ = model(torch.tensor([window]))
        found: np.ndarray = torch.log_softmax(model.output.logits(hidden[0, -1]), -1).numpy()
    found[EOS] = -np.inf
    return found


def continuations(model: Any, prompts: list[list[int]], **settings: Any) -> list[list[Continuation]]:
    """`NEW` tokens for each prompt, none of them the end."""
    chosen = Generate(max_new_tokens=NEW, min_new_tokens=NEW, **settings)
    return generate(model, prompts, chosen, BACKEND, eos=EOS, forbidden=[EOS])


def test_greedy_search_is_that_of_single_steps() -> None:
    model = tiny("transformer")
    for prompt, (found,) in zip(PROMPTS, continuations(model, PROMPTS, temperature=0), strict=True):
        for step, token in enumerate(found.ids):
            expected = scores(model, prompt, found.ids[:step])
            assert expected[token] == pytest.approx(expected.max(), abs=1e-4)
        assert (len(found.ids), found.finish) == (NEW, "length")


@pytest.mark.parametrize("beam", [1, 3])
def test_a_beam_is_that_of_single_steps(beam: int) -> None:
    model = tiny("transformer")
    for prompt, found in zip(PROMPTS, continuations(model, PROMPTS, beam=beam, nbest=beam), strict=True):
        alive: list[tuple[float, list[int]]] = [(0.0, [])]
        for _ in range(NEW):
            extended = [
                (total + float(value), [*ids, token])
                for total, ids in alive
                for token, value in enumerate(scores(model, prompt, ids))
            ]
            alive = sorted(extended, key=lambda one: -one[0])[:beam]
        assert [c.ids for c in found] == [ids for _, ids in alive]
        assert [c.score for c in found] == pytest.approx([total / NEW for total, _ in alive], abs=1e-4)


def test_samples_do_not_depend_on_the_batch() -> None:
    model = tiny("transformer")
    together = generate(
        model, PROMPTS, Generate(max_new_tokens=NEW, num_samples=2, top_k=5), BACKEND, eos=EOS, seed=3, forbidden=[EOS]
    )
    for number, prompt in enumerate(PROMPTS):
        settings = Generate(max_new_tokens=NEW, num_samples=2, top_k=5)
        (alone,) = generate(model, [prompt], settings, BACKEND, eos=EOS, seed=3, first=number, forbidden=[EOS])
        assert [c.ids for c in together[number]] == [c.ids for c in alone]
        assert alone[0].ids != alone[1].ids and len(alone[0].ids) == NEW


def test_the_command_writes_as_many_tokens_as_requested(call: Run, tmp_path: Any) -> None:
    model = words_bundle(tmp_path / "lm")
    for more in (("--temperature", 0), ("--beam", 2), ("--num-samples", 2)):
        lengths = ("--max-new-tokens", 80, "--min-new-tokens", 80)
        done = call("generate", model, *lengths, *more, "--to", "jsonl", "--logprobs", stdin="w1 w2\n\nw3\n")
        assert (done.code, done.err, len(done.lines)) == (0, "", 3)
        found = [row for line in done.lines for row in json.loads(line)["continuations"]]
        assert all(len(row["tokens"]) == 80 and row["finish"] == "length" for row in found)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [{"temperature": 0}, {"num_samples": 2, "top_k": 5}])
def test_a_batch_that_is_filled_up_has_windows_of_its_own(more: dict[str, Any]) -> None:
    model, rng = tiny("transformer"), np.random.default_rng(3)
    prompts = [[EOS, *rng.integers(2, 50, n).tolist()] for n in rng.integers(0, 40, 12)]
    settings = Generate(max_new_tokens=NEW, batch_size=3, **more)
    ends = [NEW - n % 23 for n in range(12)]

    def together(row: int, new: Continuation) -> bool:
        return len(new.ids) >= ends[row // settings.drawn]

    found = generate(model, prompts, settings, BACKEND, eos=EOS, seed=3, watch=together, forbidden=[EOS])
    for number, prompt in enumerate(prompts):

        def single(row: int, new: Continuation, end: int = ends[number]) -> bool:
            return len(new.ids) >= end

        how: dict[str, Any] = {"seed": 3, "first": number, "watch": single, "forbidden": [EOS]}
        (alone,) = generate(model, [prompt], settings, BACKEND, eos=EOS, **how)
        assert [c.ids for c in found[number]] == [c.ids for c in alone]
        assert len(alone[0].ids) == ends[number]
