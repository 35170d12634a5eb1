"""Decoding with drafts that are copied from the text so far: the output of decoding without them, to the last digit."""

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
from nlptools.inference.generation.lookup import Repeats
from nlptools.models import registry

NEW, EOS = 40, 1
PROMPTS = [[EOS, *(np.random.default_rng(n).integers(2, 6, n) if n % 2 else [7, 8, 9] * 4)] for n in (0, 3, 5, 8, 21)]
ARCHES = [*registry.names(registry.LANGUAGE), *HALVES]
REWINDING = [arch for arch in ARCHES if tiny(arch).rewinds]


def frozen(arch: str) -> Any:
    """A tiny model whose weights do not learn, as those of a loaded one."""
    model = tiny(arch)
    for weight in model.parameters():
        weight.requires_grad_(False)
    return model


def decoded(model: Any, prompts: list[list[int]] = PROMPTS, **options: Any) -> list[list[Continuation]]:
    watch = options.pop("watch", None)
    settings = Generate(**{"temperature": 0.0, "max_new_tokens": NEW, "logprobs": True, **options})
    return generate(model, prompts, settings, BACKEND, eos=EOS, watch=watch)


def calls(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of tokens of the calls of a model, as they come."""
    sizes, forward = [], type(model).forward

    def counted(self: Any, ids: torch.Tensor, *arguments: Any) -> Any:
        sizes.append(ids.shape[1])
        return forward(self, ids, *arguments)

    monkeypatch.setattr(type(model), "forward", counted)
    return sizes


@pytest.mark.parametrize("arch", REWINDING)
@pytest.mark.parametrize("n", [1, 2, 5, 15])
def test_the_output_is_that_without_drafts(arch: str, n: int) -> None:
    """Beyond the context of the model, too."""
    model = frozen(arch)
    assert decoded(model, lookup=n) == decoded(model, batch_size=1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", REWINDING)
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0, "top_k": 3},
        {"temperature": 0.7, "top_p": 0.6},
        {"repetition_penalty": 1.3},
        {"no_repeat_ngram": 3},
        {"frequency_penalty": 0.5, "presence_penalty": 0.2},
        {"min_new_tokens": 12},
        {"max_new_tokens": 1},
        {"max_new_tokens": 3},
        {"strict": True},
        {"top_logprobs": 3},
    ],
    ids=str,
)
def test_with_all_that_changes_the_choice(arch: str, options: dict[str, Any]) -> None:
    model = frozen(arch)
    assert decoded(model, lookup=6, **options) == decoded(model, batch_size=1, **options)


@pytest.mark.parametrize("arch", REWINDING)
def test_prompts_that_fill_the_context(arch: str) -> None:
    """The window moves before the first draft, also after a prompt with drafts."""
    model = frozen(arch)
    full = [EOS, *[7, 8, 9] * model.max_context]
    prompts = [full, PROMPTS[3], full[: model.max_context], full[: model.max_context - 1]]
    for each in (prompts, prompts[:1]):
        assert decoded(model, each, lookup=6) == decoded(model, each, batch_size=1)


def test_an_end_within_a_draft() -> None:
    model = frozen("transformer")

    def stop(row: int, new: Continuation) -> bool:
        return len(new.ids) >= 5 + row

    assert decoded(model, lookup=8, watch=stop) == decoded(model, batch_size=1, watch=stop)


def test_a_text_that_repeats_itself_takes_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = frozen("transformer")
    sizes = calls(model, monkeypatch)
    ((without,),) = decoded(model, [[EOS, 5]], max_new_tokens=20)
    steps = len(sizes)
    sizes.clear()
    ((found,),) = decoded(model, [[EOS, 5]], max_new_tokens=20, lookup=8)
    assert found == without and len(set(found.ids[-8:])) < 8  # a random model in a loop
    assert len(sizes) < 0.7 * steps and max(sizes) <= 9


def test_drafts_stay_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token is read that cannot be part of the output."""
    model = frozen("transformer")
    prompt = [EOS, 5, 6, 7, 5, 6, 7, 5, 6]
    sizes = calls(model, monkeypatch)
    decoded(model, [prompt], max_new_tokens=4, lookup=15)
    assert max(sizes[1:]) <= 3 and sum(sizes[1:]) < 4 + 3


@pytest.mark.parametrize("arch", [arch for arch in ARCHES if arch not in REWINDING][:4])
def test_other_models_are_refused(arch: str) -> None:
    with pytest.raises(UsageError, match="Transformer"):
        decoded(frozen(arch), lookup=4)


def test_drafts() -> None:
    text = Repeats()
    assert text.draft(4) == []
    text.extend([1, 2, 3, 4, 1, 2])
    assert text.draft(3) == [3, 4, 1]
    assert text.draft(9) == [3, 4, 1, 2, 3, 4, 1, 2, 3]  # a copy of the copy
    text.extend([5, 1, 2])
    assert text.draft(2) == [5, 1]  # the last place
    text.extend([6])
    assert text.draft(2) == []
    text.extend([2, 3])
    assert text.draft(2) == [4, 1]
    text.extend([9, 1, 2])
    assert text.draft(1) == [6]


def test_the_longest_match_is_copied() -> None:
    text = Repeats()
    text.extend([3, 1, 2, 7, 4, 1, 2, 8, 3, 1, 2])
    assert text.draft(2) == [7, 4]
