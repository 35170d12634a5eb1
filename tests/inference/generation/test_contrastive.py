"""Contrastive search, beside the equation of the paper, computed anew for each token of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder_decoders import BACKEND
from tiny_models import HALVES, tiny

from nlptools.configs.generation import Generate
from nlptools.errors import UsageError
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.decoding import generate
from nlptools.models import registry
from nlptools.models.language.ngram_decoder import NGramDecoder

NEW, EOS = 10, 1
PROMPTS = [[EOS, *np.random.default_rng(n).integers(2, 50, n).tolist()] for n in (0, 3, 4, 11)]


def naive(model: Any, prompt: list[int], alpha: float, k: int, end: int | None = None, new: int = NEW) -> list[int]:
    """Equation 5 of Su et al. 2022, without a cache: `end` ends the text, and is never chosen if it is None."""
    ids = list(prompt)
    with torch.inference_mode():
        while len(ids) < len(prompt) + new:
            hidden, _ = model(torch.tensor([ids]))
            logits = model.output.logits(hidden[0, -1])
            if end is None:
                logits[EOS] = -torch.inf
            p = torch.softmax(logits, -1)
            candidates = [v for v in p.topk(k).indices.tolist() if p[v]]
            h = model(torch.tensor([[*ids, v] for v in candidates]))[0]
            similar = torch.cosine_similarity(h[:, -1:], h[:, :-1], dim=-1).amax(1)
            scores = ((1 - alpha) * p[candidates] - alpha * similar).tolist()
            ids.append(candidates[scores.index(max(scores))])
            if ids[-1] == end:
                return ids[len(prompt) : -1]
    return ids[len(prompt) :]


def search(model: Any, prompts: list[list[int]], alpha: float, k: int = 4, **more: Any) -> list[list[int]]:
    """The texts by `generate`, none of them with an end."""
    settings = Generate(contrastive=alpha, top_k=k, **{"max_new_tokens": NEW, **more})
    return [row[0].ids for row in generate(model, prompts, settings, BACKEND, eos=EOS, forbidden=[EOS])]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", [*registry.names(registry.LANGUAGE), *HALVES])
def test_the_text_is_that_of_the_equation(arch: str) -> None:
    model = tiny(arch)
    found = search(model, PROMPTS, 0.6)
    assert found == [naive(model, prompt, 0.6, 4) for prompt in PROMPTS]
    assert found != search(model, PROMPTS, 0.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("alpha", "k"), [(0.1, 2), (0.6, 8), (1.0, 3), (0.5, 1), (0.5, 60)])
def test_any_weight_and_number_of_candidates(alpha: float, k: int) -> None:
    model = tiny("transformer")
    assert search(model, PROMPTS, alpha, k) == [naive(model, prompt, alpha, min(k, 50)) for prompt in PROMPTS]


def test_without_weight_it_is_greedy_search() -> None:
    model = tiny("lstm")
    greedy = generate(model, PROMPTS, Generate(temperature=0, max_new_tokens=NEW), BACKEND, eos=EOS, forbidden=[EOS])
    assert search(model, PROMPTS, 0.0) == [row[0].ids for row in greedy]


def test_the_end_token_is_a_candidate() -> None:
    model = tiny("transformer", seed=5)
    ends = [naive(model, prompt, 0.6, 4)[3] for prompt in PROMPTS]
    for prompt, end in zip(PROMPTS, ends, strict=True):
        settings = Generate(contrastive=0.6, top_k=4, max_new_tokens=NEW)
        ((found,),) = generate(model, [prompt], settings, BACKEND, eos=end)
        assert found.ids == naive(model, prompt, 0.6, 4, end)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", ["transformer", "modern", "lstm", "transformer-xl"])
def test_rows_do_not_depend_on_the_batch(arch: str) -> None:
    """Of many prompts in small batches, whose rows end at different times, beyond the context of the model."""
    model, rng = tiny(arch), np.random.default_rng(3)
    prompts = [[EOS, *rng.integers(2, 50, n).tolist()] for n in rng.integers(0, 40, 8)]
    settings = Generate(contrastive=0.6, top_k=3, max_new_tokens=30, batch_size=3)
    ends = [30 - 3 * n for n in range(8)]

    def ended(row: int, new: Continuation) -> bool:
        return len(new.ids) >= ends[row]

    together = generate(model, prompts, settings, BACKEND, eos=EOS, watch=ended, forbidden=[EOS])
    for number, prompt in enumerate(prompts):
        alone = search(model, [prompt], 0.6, 3, max_new_tokens=ends[number])[0]
        assert together[number][0].ids == alone


def test_forbidden_tokens_are_never_chosen() -> None:
    model = tiny("transformer")
    settings = Generate(contrastive=1.0, top_k=50, max_new_tokens=NEW)
    allowed = [7, 9]
    forbidden = [v for v in range(50) if v not in allowed]
    for (found,) in generate(model, PROMPTS, settings, BACKEND, eos=EOS, forbidden=forbidden):
        assert set(found.ids) <= set(allowed)


def test_log_probabilities_are_those_of_the_model() -> None:
    model = tiny("transformer")
    settings = Generate(contrastive=0.6, top_k=4, max_new_tokens=NEW, logprobs=True)
    for prompt, (found,) in zip(PROMPTS, generate(model, PROMPTS, settings, BACKEND, eos=EOS), strict=True):
        with torch.inference_mode():
            hidden, _ = model(torch.tensor([[*prompt, *found.ids]]))
            logs = torch.log_softmax(model.output.logits(hidden[0]), -1)
        wanted = [float(logs[len(prompt) - 1 + i, v]) for i, v in enumerate(found.ids)]
        assert found.logprobs[: len(wanted)] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    "more",
    [
        {"top_k": 0},
        {"beam": 2},
        {"temperature": 0.7},
        {"top_p": 0.9},
        {"min_p": 0.1},
        {"typical": 0.9},
        {"top_n_sigma": 1.0},
        {"num_samples": 2},
        {"best_of": 2},
    ],
)
def test_options_that_do_not_go_with_it(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--contrastive"):
        Generate(**{"contrastive": 0.6, "top_k": 4, **more}).check()


def test_a_model_without_hidden_states_is_refused() -> None:
    class Words:
        order, vocab_size, config = 2, 5, None

    model: Any = NGramDecoder(Words(), 0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hidden states"):
        search(model, [[1]], 0.6)
