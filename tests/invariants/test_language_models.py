"""Laws that hold for every language model in the registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from head_law import assert_head_agrees
from tiny_models import HALVES, LANGUAGE_MODELS, SIZES, tiny

from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.inference import likelihoods, scoring
from nlptools.inference.generation import decoding
from nlptools.inference.generation.continuation import Continuation
from nlptools.models import registry

pytestmark = pytest.mark.sampled(3, always=["transformer"])

EOS = 1
BACKEND = Backend(torch.device("cpu"))
registered = pytest.mark.parametrize("arch", LANGUAGE_MODELS)
architectures = pytest.mark.parametrize("arch", (*LANGUAGE_MODELS, *HALVES))
GREEDY = Generate(temperature=0, max_new_tokens=8, logprobs=True)


def ids(rows: int = 3, length: int = 10, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(2, 50, (rows, length)))


def prompts() -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [[EOS, *rng.integers(2, 50, n).tolist()] for n in (1, 7, 3, 5, 7, 2)]


def logits(model: Any, x: torch.Tensor, state: Any = None) -> torch.Tensor:
    out: torch.Tensor = model.output.logits(model(x, state)[0])
    return out


def test_every_architecture_has_tiny_sizes() -> None:
    assert set(SIZES) == set(registry.names(registry.LANGUAGE))


@architectures
@torch.inference_mode()
def test_probabilities_sum_to_one_over_the_vocabulary(arch: str) -> None:
    model = tiny(arch)
    out = logits(model, ids())
    assert out.shape == (3, 10, 50)
    assert torch.allclose(out.softmax(-1).sum(-1), torch.ones(3, 10), atol=1e-5)


@architectures
@torch.inference_mode()
def test_logits_log_probabilities_and_losses_agree(arch: str) -> None:
    model = tiny(arch)
    assert_head_agrees(model.output, model(ids())[0].flatten(0, 1))


@architectures
@torch.inference_mode()
def test_the_future_does_not_change_the_past(arch: str) -> None:
    model, x = tiny(arch), ids()
    y = x.clone()
    y[:, [6, 7]] = x[
        :, [7, 6]
    ]  # the same words, so that a model that computes each word once computes the same products
    before, after = logits(model, x), logits(model, y)
    assert torch.equal(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6:], after[:, 6:], atol=1e-3)


@architectures
@torch.inference_mode()
def test_a_batch_equals_its_rows_one_by_one(arch: str) -> None:
    model, x = tiny(arch), ids()
    whole = logits(model, x)
    rows = torch.cat([logits(model, row[None]) for row in x])
    assert torch.allclose(whole, rows, atol=1e-4)


@pytest.mark.parametrize("arch", [arch for arch in registry.names(registry.LANGUAGE) if registry.find(arch).attends])
@torch.inference_mode()
def test_attention_weights_say_which_tokens_matter(arch: str) -> None:
    model, x = tiny(arch, num_hidden_layers=1, num_attention_heads=4), ids()
    assert model.attention_size == (1, 4)
    [weights] = model.attention_weights(x)
    assert weights.shape == (3, 4, 10, 10)
    assert torch.allclose(weights.sum(-1), torch.ones(3, 4, 10), atol=1e-5)
    before = model(x)[0]
    for changed in range(10):
        y = x.clone()
        y[:, changed] = (x[:, changed] + 7) % 50
        moved = (model(y)[0] - before).abs().amax(-1) > 1e-6
        attended = (weights[:, :, :, changed] > 0).any(1)
        attended[:, changed] = True  # also by the residual sum
        assert torch.equal(moved, attended)


@architectures
@torch.inference_mode()
def test_sequences_that_are_packed_into_rows_see_themselves_only(arch: str) -> None:
    model, x = tiny(arch), ids(2, 12)
    segments = torch.tensor([[0, 0, 0, 3, 3, 3, 3, 3, 1, 1, -1, -1], [2] * 12])
    together = model.packed(x, segments)
    assert together.shape == (2, 12, 32)
    for row, number, places in ((0, 0, slice(0, 3)), (0, 3, slice(3, 8)), (0, 1, slice(8, 10)), (1, 2, slice(0, 12))):
        alone, _ = model(x[row : row + 1, places])
        assert torch.allclose(alone[0], together[row, places], atol=1e-4), number


@architectures
@torch.inference_mode()
def test_stepwise_with_state_equals_all_at_once(arch: str) -> None:
    model, x = tiny(arch), ids()
    whole = logits(model, x)
    state, parts = model.start(3, 4), []
    for begin, end in ((0, 4), (4, 5), (5, 6), (6, 10)):
        hidden, state = model(x[:, begin:end], state)
        parts.append(model.output.logits(hidden))
    assert torch.allclose(whole, torch.cat(parts, 1), atol=1e-4)


@architectures
@torch.inference_mode()
def test_padding_on_the_left_does_not_change_real_positions(arch: str) -> None:
    model, x = tiny(arch), ids(1, 6)
    alone, state = model(x, model.start(1, 10))
    padded = torch.cat([torch.full((1, 3), 7), x], 1)
    mask = torch.arange(9)[None] >= 3
    mates = torch.cat([padded, ids(1, 9, seed=5)])
    both_mask = torch.cat([mask, torch.ones(1, 9, dtype=torch.bool)])
    together, both = model(mates, model.start(2, 10), both_mask)
    assert torch.allclose(alone[0], together[0, 3:], atol=1e-4)
    token = torch.tensor([[9]])
    next_alone, _ = model(token, state)
    next_together, _ = model(token.repeat(2, 1), both)
    assert torch.allclose(next_alone[0], next_together[0], atol=1e-4)


@architectures
@torch.inference_mode()
def test_selecting_rows_of_a_state(arch: str) -> None:
    model, x = tiny(arch), ids()
    _, state = model(x, model.start(3, 12))
    rows = torch.tensor([2, 0, 2])
    chosen, _ = model(ids(3, 1, seed=9), state.select(rows))
    reordered, again = model(x[rows], model.start(3, 12))
    expected, _ = model(ids(3, 1, seed=9), again)
    assert torch.allclose(chosen, expected, atol=1e-4)
    assert reordered.shape == (*x.shape, 32)


@architectures
@torch.inference_mode()
def test_joining_states(arch: str) -> None:
    model = tiny(arch)
    texts, new = [ids(2, 5), ids(1, 9, seed=3), ids(3, 2, seed=4)], ids(6, 3, seed=9)
    states = [model(x, model.start(len(x), 12))[1] for x in texts]
    joined = states[0].join(states[1:])
    alone = [model(x, model.start(len(x), 12))[1] for x in texts]
    for column in new.split(1, 1):
        together, joined = model(column, joined)
        parts = []
        for k, rows in enumerate(column.split([2, 1, 3])):
            hidden, alone[k] = model(rows, alone[k])
            parts.append(hidden)
        assert torch.allclose(together, torch.cat(parts), atol=1e-4)


@architectures
@pytest.mark.parametrize(
    "more", [{}, {"temperature": 1.0, "num_samples": 2}, {"no_repeat_ngram": 2, "min_new_tokens": 3}]
)
def test_a_batch_that_is_filled_up_is_one_prompt_after_the_other(arch: str, more: dict[str, Any]) -> None:
    model, rng = tiny(arch, vocab_size=12), np.random.default_rng(5)
    asked = [[EOS, *rng.integers(2, 12, n).tolist()] for n in rng.integers(0, 12, 20)]
    settings = Generate(**{"max_new_tokens": 9, "temperature": 0.0, "batch_size": 5, "logprobs": True, **more})
    samples = settings.drawn

    def ends(row: int, new: Continuation) -> bool:
        return len(new.ids) >= 3 + row * 5 % 7

    together = decoding.generate(model, asked, settings, BACKEND, eos=EOS, seed=5, watch=ends)
    assert len({len(c.ids) for row in together for c in row}) > 3, "rows end at different steps"
    for number, prompt in enumerate(asked):

        def ends_alone(row: int, new: Continuation, begin: int = number * samples) -> bool:
            return ends(begin + row, new)

        how: dict[str, Any] = {"seed": 5, "first": number, "watch": ends_alone}
        (alone,) = decoding.generate(model, [prompt], settings, BACKEND, eos=EOS, **how)
        assert [(c.ids, c.finish) for c in alone] == [(c.ids, c.finish) for c in together[number]]
        for one, other in zip(alone, together[number], strict=True):
            assert np.allclose(one.logprobs, other.logprobs, atol=1e-4)


@architectures
def test_decoding_with_state_equals_decoding_without(arch: str) -> None:
    model = tiny(arch)
    for prompt in prompts():
        found = decoding.generate(model, [prompt], GREEDY, BACKEND, eos=EOS)[0][0]
        text = list(prompt)
        for token in found.ids:
            with torch.inference_mode():
                assert int(logits(model, torch.tensor([text]))[0, -1].argmax()) == token
            text.append(token)


@architectures
@pytest.mark.parametrize("settings", [GREEDY, Generate(max_new_tokens=8, top_p=0.9, num_samples=2)])
def test_a_prompt_is_continued_the_same_whatever_its_batch_mates(arch: str, settings: Generate) -> None:
    model = tiny(arch)
    together = decoding.generate(model, prompts(), settings, BACKEND, eos=EOS, seed=5)
    for number, prompt in enumerate(prompts()):
        alone = decoding.generate(model, [prompt], settings, BACKEND, eos=EOS, seed=5, first=number)
        assert [c.ids for c in alone[0]] == [c.ids for c in together[number]]


@architectures
def test_a_beam_of_one_is_greedy(arch: str) -> None:
    model = tiny(arch)
    beam = Generate(beam=1, max_new_tokens=8)
    greedy = decoding.generate(model, prompts(), GREEDY, BACKEND, eos=EOS)
    found = decoding.generate(model, prompts(), beam, BACKEND, eos=EOS)
    assert [c[0].ids for c in found] == [c[0].ids for c in greedy]


@architectures
def test_a_wide_beam_finds_the_best_of_all_continuations(arch: str) -> None:
    model = tiny(arch, vocab_size=6)
    settings = Generate(beam=6**3, max_new_tokens=3, length_penalty=0.0, num_samples=1)
    best = decoding.generate(model, [[EOS, 2]], settings, BACKEND, eos=EOS)[0][0]

    def every(prefix: list[int], total: float) -> list[tuple[float, list[int]]]:
        if len(prefix) == 3:
            return [(total, prefix)]
        with torch.inference_mode():
            scores = logits(model, torch.tensor([[EOS, 2, *prefix]]))[0, -1].log_softmax(-1).tolist()
        ended = [(total + scores[EOS], prefix)]
        return ended + [x for t in range(6) if t != EOS for x in every([*prefix, t], total + scores[t])]

    expected = max(every([], 0.0))
    assert sum(best.logprobs) == pytest.approx(expected[0], abs=1e-4)
    assert best.ids == expected[1]


@architectures
def test_generated_logprobs_are_those_that_scoring_gives(arch: str) -> None:
    model = tiny(arch)
    for prompt in prompts():
        found = decoding.generate(model, [prompt], GREEDY, BACKEND, eos=EOS)[0][0]
        text = [*prompt[1:], *found.ids, *([EOS] if found.finish == "eos" else [])]
        with torch.inference_mode():
            scored = scoring.document_scores(model, [text], BACKEND, start=EOS)
        assert scored is not None
        assert np.allclose(scored[0][len(prompt) - 1 :], found.logprobs, atol=1e-4)


@architectures
@torch.inference_mode()
def test_scores_do_not_depend_on_batches_or_order(arch: str) -> None:
    model = tiny(arch)
    rng = np.random.default_rng(1)
    documents = [rng.integers(2, 50, n).tolist() for n in (5, 0, 60, 1, 23, 24, 25, 7)]
    whole = scoring.document_scores(model, documents, BACKEND, start=EOS, batch_tokens=64)
    assert whole is not None
    for ids_, scores in zip(documents, whole, strict=True):
        alone = scoring.document_scores(model, [ids_], BACKEND, start=EOS, batch_tokens=10_000)
        assert alone is not None
        assert scores.shape == (len(ids_),)
        assert np.allclose(scores, alone[0], atol=1e-4)


@architectures
@torch.inference_mode()
def test_likelihoods_of_choices_do_not_depend_on_batches_and_are_those_of_whole_texts(arch: str) -> None:
    model = tiny(arch)
    rng = np.random.default_rng(2)
    contexts = [[EOS, *rng.integers(2, 50, n).tolist()] for n in (3, 21, 0, 9, 60, 3)]
    pairs = [(c, rng.integers(2, 50, n).tolist()) for c in contexts for n in (1, 4, 2, 22)]
    for context in contexts:  # and the most likely token
        seen, _ = likelihoods.fit(context, [0], model.max_context)
        pairs.append((context, [int(logits(model, torch.tensor([seen]))[0, -1].argmax())]))
    whole = likelihoods.likelihoods(model, pairs, BACKEND)
    assert all(each.greedy for each in whole[-len(contexts) :])
    for batch_tokens in (1, 60):
        parts = likelihoods.likelihoods(model, pairs, BACKEND, batch_tokens)
        assert np.allclose([p.log_probability for p in parts], [w.log_probability for w in whole], atol=1e-4)
        assert [(p.tokens, p.greedy) for p in parts] == [(w.tokens, w.greedy) for w in whole]
    for pair, each in zip(pairs, whole, strict=True):
        context, continuation = likelihoods.fit(*pair, model.max_context)
        row = torch.tensor([[*context, *continuation]])
        log_probabilities = logits(model, row[:, :-1])[0, len(context) - 1 :].log_softmax(-1)
        targets = row[0, len(context) :]
        total = log_probabilities.gather(1, targets[:, None]).sum()
        greedy = bool((log_probabilities.argmax(-1) == targets).all())
        assert (each.tokens, each.greedy) == (len(continuation), greedy)
        assert np.isclose(each.log_probability, float(total), atol=1e-4)


@torch.inference_mode()
def test_every_token_of_a_long_document_has_the_context_that_the_stride_promises() -> None:
    model = tiny("transformer")  # context 24
    text = np.random.default_rng(2).integers(2, 50, 61).tolist()
    for stride in (1, 5, 24):
        scored = scoring.document_scores(model, [text], BACKEND, start=EOS, stride=stride)
        assert scored is not None
        tokens = [EOS, *text]
        for t in range(len(text)):
            # the window that scores position t ends at the first multiple of the stride, from 24 on, that reaches it
            end = 24 if t < 24 else min(len(text), 24 + -(-(t + 1 - 24) // stride) * stride)
            begin = max(0, end - 24)
            out = logits(model, torch.tensor([tokens[begin : t + 1]]))[0, -1].log_softmax(-1)
            assert float(out[text[t]]) == pytest.approx(float(scored[0][t]), abs=1e-4), (stride, t)


@architectures
@torch.inference_mode()
def test_hidden_states_of_all_layers_end_with_those_that_the_head_sees(arch: str) -> None:
    model = tiny(arch)
    hidden = model.states(ids())
    assert len(hidden.layers) == model.config.num_hidden_layers + 1
    assert all(layer.shape == (3, 10, 32) for layer in hidden.layers) and hidden.last is hidden.layers[-1]
    assert torch.allclose(hidden.last, model(ids())[0], atol=1e-5)


@registered
def test_save_and_load_gives_the_same_logits(arch: str, tmp_path: Path) -> None:
    from nlptools import bundle
    from nlptools.text import tokenizer as tokenizers

    (tmp_path / "v.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"w{i}\t1\n" for i in range(48)))
    tokenizer = tokenizers.load(str(tmp_path / "v.tsv"))
    model = tiny(arch)
    out = tmp_path / "bundle"
    out.mkdir()
    bundle.save(out, arch, model, model.state_dict(), tokenizer, eos=1, document="line", training={})
    loaded = bundle.load(out)
    assert loaded.arch == arch and loaded.eos == 1 and loaded.document == "line"
    for name, tensor in model.state_dict().items():
        kept = loaded.model.state_dict()[name]  # type: ignore[attr-defined]
        rows = 50 if name == "token_embedding.weight" else len(tensor)
        assert torch.equal(tensor[:rows], kept[:rows]), name
    with torch.inference_mode():
        assert torch.equal(logits(model, ids()), logits(loaded.model, ids()))
    assert 0 < model.config.least_weights() <= sum(p.numel() for p in model.parameters())
