"""Laws that hold for every encoder-decoder in the registry."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from conftest import examples
from head_law import assert_head_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_encoder_decoders import BACKEND, EOS, FORMS, PAD, VOCABULARY, marks_of, some_sources, source_batch, tiny
from torch import Tensor

from nlptools.configs.generation import Generate
from nlptools.inference.generation.continuation import read_sources
from nlptools.inference.generation.decoding import translate
from nlptools.inference.generation.forced import alignments, pair_scores
from nlptools.models import registry
from nlptools.training.engine.optimizers import AdamW

SOURCES = some_sources(6, 3, 0)
forms = pytest.mark.parametrize("form", FORMS)


def targets(rows: int = 3, length: int = 7, seed: int = 1) -> Tensor:
    """(rows, length) of what a decoder reads: the start token, then words."""
    ids = torch.from_numpy(np.random.default_rng(seed).integers(1, PAD, (rows, length)))
    ids[:, 0] = PAD
    return ids


def logits(model: Any, read: Tensor, state: Any) -> Tensor:
    out: Tensor = model.output.logits(model(read, state)[0])
    return out


def test_every_architecture_has_tiny_sizes() -> None:
    assert {arch for arch, _ in FORMS.values()} == set(registry.names(registry.ENCODER_DECODER))


@forms
@torch.inference_mode()
def test_padding_of_the_source_changes_nothing_and_a_batch_is_its_rows(form: str) -> None:
    model, (ids, mask), read = tiny(form), source_batch(SOURCES), targets()
    together = logits(model, read, model.encode(ids, mask))
    assert together.shape == (3, 7, model.output.vocab_size)
    wider = torch.nn.functional.pad(ids, (0, 4), value=5), torch.nn.functional.pad(mask, (0, 4))
    for others in ((ids.where(mask, 5), mask), wider):
        assert torch.allclose(together, logits(model, read, model.encode(*others)), atol=1e-5)
    for row, source in enumerate(SOURCES):
        alone = logits(model, read[row : row + 1], model.encode(source_batch([source])[0]))
        assert torch.allclose(alone[0], together[row], atol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-2), "the source matters"
    whole = model.encode(ids[:1], mask[:1])
    assert torch.allclose(logits(model, read[:1], whole), together[:1], atol=1e-5), "a mask of nothing is none"


@pytest.mark.sampled(4)
@forms
@pytest.mark.parametrize("capacity", [1, 4, 100])
@torch.inference_mode()
def test_step_by_step_is_all_at_once(form: str, capacity: int) -> None:
    model, (ids, mask), read = tiny(form), source_batch(SOURCES), targets()
    whole = logits(model, read, model.encode(ids, mask))
    for cuts in ((0, 1, 2, 3, 4, 5, 6, 7), (0, 3, 4, 7), (0, 7)):
        state, parts = model.encode(ids, mask, capacity=capacity), []
        for begin, end in pairwise(cuts):
            hidden, state = model(read[:, begin:end], state)
            parts.append(model.output.logits(hidden))
        assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-5)


@forms
@torch.inference_mode()
def test_the_future_does_not_change_the_past(form: str) -> None:
    model, batch, read = tiny(form), source_batch(SOURCES), targets()
    other = read.clone()
    other[:, 4] = 1 + other[:, 4] % (PAD - 1)
    before, after = (logits(model, ids, model.encode(*batch)) for ids in (read, other))
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


@forms
@torch.inference_mode()
def test_probabilities_sum_to_one_and_leave_out_the_padding(form: str) -> None:
    model, read = tiny(form), targets()
    assert model.output.vocab_size == VOCABULARY - 1 and model.start_token == PAD
    out = logits(model, read, model.encode(*source_batch(SOURCES)))
    assert torch.allclose(out.softmax(-1).sum(-1), torch.ones(3, 7), atol=1e-5)
    hidden, _ = model(read, model.encode(*source_batch(SOURCES)))
    assert_head_agrees(model.output, hidden.flatten(0, 1))
    if form.startswith("transformer"):
        model.output_bias[1] = 3.0  # as many MarianMT models have it
        model.load_state_dict(model.state_dict())
        assert_head_agrees(model.output, hidden.flatten(0, 1))
        assert torch.allclose(model.output.logits(hidden)[..., 1], out[..., 1] + 3.0, atol=1e-5)


@torch.inference_mode()
def test_a_padding_amid_the_words_of_a_transformer_is_not_predicted_either() -> None:
    model = tiny("transformer", pad=3)
    read = targets()
    read[:, 0] = 3
    out = logits(model, read, model.encode(*source_batch(SOURCES, 3)))
    assert out.shape[-1] == VOCABULARY and not out.softmax(-1)[..., 3].any()


@forms
def test_training_leaves_the_embedding_of_the_padding_zero(form: str) -> None:
    model, batch, read = tiny(form, dropout=0.1).train(), source_batch(SOURCES), targets()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = AdamW(dict(model.named_parameters()))
    for _ in range(3):
        learn(model, optimizer, batch, read, targets(seed=3), 0.01)
    embeddings = [(name, p) for name, p in model.named_parameters() if name.endswith(("token_embedding.weight",))]
    embeddings += [(n, p) for n, p in model.named_parameters() if n in ("source_embedding.weight",)]
    embeddings += [(n, p) for n, p in model.named_parameters() if n in ("target_embedding.weight",)]
    assert embeddings
    for name, weight in embeddings:
        assert not weight[PAD].any() and not torch.equal(weight, before[name])


def learn(model: Any, optimizer: AdamW, batch: Any, read: Tensor, said: Tensor, rate: float) -> None:
    """One step; `said` has PAD where there is nothing to say."""
    hidden, _ = model(read, model.encode(*batch))
    wanted = said.masked_fill(said == PAD, -1).flatten()
    loss = model.output.summed_loss(hidden.flatten(0, 1), wanted) / (wanted >= 0).sum()
    for parameter in model.parameters():
        parameter.grad = None
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step(rate)


# -- choosing rows ----------------------------------------------------------------------------------------------------


class Story:
    """A state and, in words, what its rows have heard: each its source and all that was said."""

    def __init__(self, model: Any, prompt: int = 1, capacity: int = 3) -> None:
        self.model, self.step = model, 0
        self.rows = [(source, read.tolist()) for source, read in zip(SOURCES, targets(3, prompt), strict=True)]
        self.width = 1
        self.state = model.encode(*source_batch(SOURCES), capacity=capacity)
        self.state.keeps_attention = True
        _, self.state = model(targets(3, prompt), self.state)

    def select(self, rows: list[int], width: int) -> None:
        self.rows, self.width = [self.rows[row] for row in rows], width
        self.state = self.state.select(torch.tensor(rows), width)
        assert self.state.keeps_attention

    def go_on(self) -> None:
        """One more token for every row: each has to be as a fresh decoding of its own history."""
        self.step += 1
        new = targets(len(self.rows), 2, seed=100 + self.step)[:, 1:]
        hidden, self.state = self.model(new, self.state)
        self.rows = [(source, [*said, token]) for (source, said), (token,) in zip(self.rows, new.tolist(), strict=True)]
        ids, mask = source_batch([source for source, _ in self.rows])
        fresh = self.model.encode(ids, mask)
        fresh.keeps_attention = True
        expected, fresh = self.model(torch.tensor([said for _, said in self.rows]), fresh)
        assert torch.allclose(hidden[:, -1], expected[:, -1], atol=2e-5)
        attention = self.state.attention
        if not self.model.attends:
            assert attention is None
            return
        assert attention.shape[:2] == (len(self.rows), 1) and attention.dtype == torch.float32
        S = ids.shape[1]
        assert torch.allclose(attention[:, 0, :S], fresh.attention[:, -1], atol=1e-5)
        assert not attention[:, 0, S:].any()


@forms
@torch.inference_mode()
def test_rows_that_are_reordered_repeated_and_dropped_go_on_as_if_alone(form: str) -> None:
    story = Story(tiny(form), prompt=2)
    for rows, width in (
        ([2, 0, 1], 1),  # another order
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3),  # hypotheses
        ([1, 0, 2, 3, 3, 3, 8, 6, 7], 3),  # among themselves
        ([6, 7, 6, 2, 1, 1], 3),  # an input leaves, others change places
        ([0, 1, 3, 4], 2),  # fewer of each
        ([3, 3, 2, 0, 1, 1], 3),  # more of each
        ([5, 1, 1, 2], 1),  # apart: each for itself
        ([0, 2], 1),
        ([1, 0, 1], 1),
        ([1, 1, 1, 1], 4),
    ):
        story.select(rows, width)
        story.go_on()


@st.composite
def choices(draw: Callable[[Any], Any]) -> list[tuple[list[int], int]]:
    """Sequences of (rows, width) that a state of three rows may be asked for."""
    out, inputs, width = [], 3, 1
    for _ in range(draw(st.integers(1, 6))):
        new_width = draw(st.sampled_from([1, 1, 2, 3, 4]))
        chosen = draw(st.lists(st.integers(0, inputs - 1), min_size=1, max_size=4))
        rows = [i * width + draw(st.integers(0, width - 1)) for i in chosen for _ in range(new_width)]
        out.append((rows, new_width))
        inputs, width = len(chosen), new_width
    return out


MODELS = {form: tiny(form) for form in FORMS}


@pytest.mark.sampled(2)
@forms
@given(chosen=choices())
@settings(max_examples=examples(25), deadline=None)
@torch.inference_mode()
def test_any_choice_of_rows_after_any_other_goes_on_as_if_alone(form: str, chosen: list[tuple[list[int], int]]) -> None:
    story = Story(MODELS[form])
    for rows, width in chosen:
        story.select(rows, width)
        story.go_on()


# -- attention --------------------------------------------------------------------------------------------------------

attending = pytest.mark.parametrize("form", [form for form in FORMS if MODELS[form].attends])


@attending
@torch.inference_mode()
def test_attention_sums_to_one_over_what_is_real(form: str) -> None:
    model, (ids, mask), read = tiny(form), source_batch(SOURCES), targets()
    for capacity in (None, 9):
        state = model.encode(ids, mask, capacity=capacity)
        assert not state.keeps_attention
        _, state = model(read[:, :1], state)
        assert state.attention is None
        state = model.encode(ids, mask, capacity=capacity)
        state.keeps_attention = True
        _, state = model(read, state)
        attention = state.attention
        assert attention.shape == (3, 7, 7) and attention.dtype == torch.float32
        assert torch.allclose(attention.sum(-1), torch.ones(3, 7), atol=1e-5) and (attention >= 0).all()
        assert not attention.masked_select(~mask[:, None]).any()


@attending
@torch.inference_mode()
def test_alignments_are_the_places_attended_to_most(form: str) -> None:
    model = tiny(form)
    pairs = [(source, targets(1, 6, seed).tolist()[0][1:]) for seed, source in enumerate(SOURCES)]
    for (source, said), found in zip(
        pairs, alignments(model, pairs, BACKEND, marks=marks_of(model), batch_tokens=8), strict=True
    ):
        state = model.encode(source_batch([source])[0])
        state.keeps_attention = True
        _, state = model(torch.tensor([[PAD, *said]]), state)
        weights = state.attention[0, :5, : max(1, len(source))]
        assert found.tolist() == weights.argmax(1).tolist() and found.shape == (5,)


# -- scoring, learning ------------------------------------------------------------------------------------------------


@forms
@torch.inference_mode()
def test_scores_of_pairs_depend_on_no_batch_mates(form: str) -> None:
    model = tiny(form)
    rng = np.random.default_rng(5)
    pairs = [
        (source, rng.integers(1, PAD, n))
        for source, n in zip(some_sources(4, 0, 9, 2, 2), (3, 5, 0, 11, 1), strict=True)
    ]
    for tokens in (1, 20, 4000):
        scores = pair_scores(model, pairs, BACKEND, marks=marks_of(model), batch_tokens=tokens)
        assert scores is not None
        for (source, said), found in zip(pairs, scores, strict=True):
            out = logits(model, torch.tensor([[PAD, *said]]), model.encode(source_batch([source])[0]))[0].log_softmax(
                -1
            )
            expected = out[range(len(said) + 1), [*said, EOS]]
            assert found.dtype == np.float32 and np.allclose(found, expected.numpy(), atol=1e-4)
    assert pair_scores(model, pairs, BACKEND, marks=marks_of(model), stop=lambda: True) is None


@pytest.mark.sampled(law="pairs are learned")
@forms
def test_ten_pairs_learned_by_heart_are_said(form: str) -> None:
    model = tiny(form, factor=1.0).train()
    sources = some_sources(*[5] * 10, seed=8)
    rng = np.random.default_rng(9)
    wanted = [rng.integers(1, PAD, n).tolist() for n in (1, 2, 3, 4, 5, 6, 6, 4, 3, 0)]
    said = torch.tensor([[*ids, EOS, *[PAD] * (6 - len(ids))] for ids in wanted])
    read = torch.cat([torch.full((10, 1), PAD), said[:, :-1]], 1)
    optimizer = AdamW(dict(model.named_parameters()), beta2=0.98, weight_decay=0.0)
    for step in range(110):
        learn(model, optimizer, source_batch(sources), read, said, 0.02 * min(1, step / 10, 2 - step / 55))
    model.eval()
    for way in (Generate(temperature=0), Generate(beam=3)):
        found = translate(model, sources, way, BACKEND, marks=marks_of(model))
        assert found is not None
        assert [c[0].ids for c in found] == wanted
        assert {c[0].finish for c in found} == {"eos"}


@forms
@torch.inference_mode()
def test_an_opening_is_the_first_step(form: str) -> None:
    model = tiny(form)
    opening = read_sources(model, SOURCES, Generate(), BACKEND, marks=marks_of(model))
    expected = logits(model, targets(3, 1), model.encode(*source_batch(SOURCES)))[:, 0]
    assert torch.allclose(opening.logits, expected, atol=1e-5)
    assert opening.limits == [56, 53, 50] and opening.prompts == [[], [], []]
    assert opening.sources is not None and torch.equal(opening.sources, source_batch(SOURCES)[1])


@forms
@torch.inference_mode()
def test_attention_weights_of_each_kind(form: str) -> None:
    model, source, read = tiny(form), source_batch(some_sources(5, 5))[0], targets(2)
    state = model.encode(source)
    state.keeps_attention = True
    alignment = model(read, state)[1].attention
    assert bool(model.attention_sizes) == model.attends
    for part, (layers, heads) in model.attention_sizes.items():
        T, S = {"cross": (7, 6), "encoder": (6, 6), "decoder": (7, 7)}[part]
        found = list(model.attention_weights(part, source, read))
        assert [weights.shape for weights in found] == [(2, heads, T, S)] * layers
        for weights in found:
            assert torch.allclose(weights.sum(-1), torch.ones(2, heads, T), atol=1e-5)
            assert part != "decoder" or not weights.triu(1).any()
        if part == "cross":
            assert any(torch.allclose(weights.mean(1), alignment, atol=1e-5) for weights in found)
