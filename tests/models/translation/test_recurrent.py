"""Laws of the recurrent encoder-decoder, in all its forms, and what it can learn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import this_month
from torch import Tensor, nn

from nlptools.models.translation.recurrent import RecurrentTranslator, RecurrentTranslatorConfig
from nlptools.training.engine.optimizers import AdamW

PAD, EOS = 29, 0
FORMS = [
    {"cell": "lstm", "attention": "bahdanau"},
    {"cell": "gru", "attention": "bahdanau", "decoder_layers": 2, "bidirectional": False},
    {"cell": "lstm", "attention": "luong", "decoder_layers": 2, "encoder_layers": 2, "share_embeddings": False},
    {"cell": "gru", "attention": "luong", "encoder_layers": 2},
    {"cell": "lstm", "attention": "luong", "input_feeding": False, "bidirectional": False},
    {"cell": "gru", "attention": "luong", "input_feeding": False, "decoder_layers": 2},
    {"cell": "lstm", "attention": "none", "encoder_layers": 2},
    {"cell": "gru", "attention": "none", "decoder_layers": 2, "bidirectional": False},
]
forms = pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form.values())))


def tiny(form: dict[str, Any], **changes: Any) -> RecurrentTranslator:
    sizes = {"source_vocab_size": 30, "target_vocab_size": 30, "pad": PAD, "eos": EOS}
    torch.manual_seed(0)
    model = RecurrentTranslator(
        RecurrentTranslatorConfig(**{**sizes, "hidden_size": 12, "embedding_size": 10, **form, **changes})
    )
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)  # so that outputs differ
    return model.eval()


def sources() -> tuple[Tensor, Tensor]:
    """Three rows of 7, 4 and 2 tokens, and their mask."""
    ids = torch.randint(1, 29, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    return ids.where(mask, PAD), mask


def targets(rows: int = 3, length: int = 6) -> Tensor:
    ids = torch.randint(1, 29, (rows, length), generator=torch.Generator().manual_seed(2))
    ids[:, 0] = PAD
    return ids


@forms
@torch.inference_mode()
def test_padding_of_the_source_changes_nothing_and_a_batch_is_its_rows(form: dict[str, Any]) -> None:
    model, (ids, mask), said = tiny(form), sources(), targets()
    together, _ = model(said, model.encode(ids, mask))
    assert together.shape == (3, 6, 10)
    assert model.output.logits(together).shape == (3, 6, 29)
    other, _ = model(said, model.encode(ids.where(mask, 5), mask))
    assert torch.equal(together, other)
    for row in range(3):
        alone, _ = model(said[row : row + 1], model.encode(ids[row : row + 1, : int(mask[row].sum())]))
        assert torch.allclose(alone[0], together[row], atol=1e-5)


@forms
@torch.inference_mode()
def test_step_by_step_is_all_at_once_and_the_future_does_not_change_the_past(form: dict[str, Any]) -> None:
    model, said = tiny(form), targets()
    start = model.encode(*sources())
    whole, _ = model(said, start)
    state, parts = start, []
    for begin, end in ((0, 1), (1, 2), (2, 5), (5, 6)):
        hidden, state = model(said[:, begin:end], state)
        parts.append(hidden)
    assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-5)
    changed = said.clone()
    changed[:, 3] = 1 + changed[:, 3] % 28
    after, _ = model(changed, start)
    assert torch.equal(after[:, :3], whole[:, :3])
    assert not torch.allclose(after[:, 3:], whole[:, 3:], atol=1e-3)


@pytest.mark.sampled(3)
@forms
@torch.inference_mode()
def test_selected_rows_go_on_as_if_they_had_been_alone(form: dict[str, Any]) -> None:
    """From 3 rows to 2 inputs of 3 rows each, reordered among themselves, then 1 input of 2 rows, then 2 of 1."""
    model, (ids, mask), said = tiny(form), sources(), targets()
    source, history = [0, 1, 2], [[row] for row in said.tolist()]
    _, state = model(said, model.encode(ids, mask))
    for step, (rows, width) in enumerate(
        [([2, 2, 2, 0, 0, 0], 3), ([1, 0, 2, 5, 5, 3], 3), ([4, 3], 2), ([1, 0], 2), ([1, 1], 1), ([0, 1], 1)]
    ):
        before = state.source
        state = state.select(torch.tensor(rows), width)
        inputs = [source[row] for row in rows]
        same = [source[i] for i in range(0, len(source), len(source) // len(before.keys))] == inputs[::width]
        assert (state.source is before) == same, "the source side is copied when the inputs change, else not"
        assert len(state.source.keys) == len(rows) // width
        source, history = inputs, [[*history[row]] for row in rows]
        new = torch.randint(1, 29, (len(rows), 1), generator=torch.Generator().manual_seed(step))
        hidden, state = model(new, state)
        for row in range(len(rows)):
            history[row].append(new[row].tolist())
            text = torch.tensor([[token for part in history[row] for token in part]])
            one = slice(source[row], source[row] + 1)
            expected, _ = model(text, model.encode(ids[one], mask[one]))
            assert torch.allclose(hidden[row, -1], expected[0, -1], atol=1e-5), (step, row)


@forms
@torch.inference_mode()
def test_attention_sums_to_one_over_what_is_real(form: dict[str, Any]) -> None:
    model, (ids, mask), said = tiny(form), sources(), targets()
    state = model.encode(ids, mask)
    assert model(said, state)[1].attention is None
    state.keeps_attention = True
    _, after = model(said, state)
    attention = after.attention
    assert model.attends == (form["attention"] != "none")
    if not model.attends:
        assert attention is None
        return
    assert attention is not None and attention.shape == (3, 6, 7)
    assert torch.allclose(attention.sum(-1), torch.ones(3, 6))
    assert not attention.masked_select(~mask[:, None]).any()
    rows = torch.tensor([0, 0, 2, 2])
    _, wide = model(targets(4, 1), after.select(rows, 2))
    assert wide.attention is not None and wide.attention.shape == (4, 1, 7)
    assert not wide.attention[2:, :, 2:].any()


@torch.inference_mode()
def test_without_attention_the_decoder_reads_the_last_states_of_both_directions_alone() -> None:
    model, (ids, mask) = tiny({"attention": "none"}), sources()
    memory = model.encode(ids, mask).source
    embedded = nn.utils.rnn.pack_padded_sequence(model.target_embedding(ids), mask.sum(1), batch_first=True)
    torch_lstm = nn.LSTM(10, 12, batch_first=True, bidirectional=True)
    weights = model.encoder.forwards[0].state_dict()
    weights |= {f"{name}_reverse": value for name, value in model.encoder.backwards[0].state_dict().items()}
    torch_lstm.load_state_dict(weights)
    _, (last, _) = torch_lstm(embedded)  # (2, B, D)
    assert memory.outputs.shape == (3, 1, 24) and memory.keys.numel() == 0
    assert torch.allclose(memory.outputs[:, 0], torch.cat(last.unbind(), -1), atol=1e-6)


@forms
def test_every_parameter_learns_and_the_padding_stays_zero(form: dict[str, Any]) -> None:
    model, (ids, mask), said = tiny(form, dropout=0.2).train(), sources(), targets()
    optimizer = AdamW(dict(model.named_parameters()))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for _ in range(2):
        hidden, _ = model(said, model.encode(ids, mask))
        loss = model.output.summed_loss(hidden.flatten(0, 1), said.flatten() % 29)
        loss.backward()
        optimizer.step(0.01)
    for name, parameter in model.named_parameters():
        assert not torch.equal(parameter, before[name]), name
    for embedding in (model.target_embedding, model.source_embedding):
        assert embedding is None or not embedding.weight[PAD].any()


def test_a_padding_that_is_a_word_of_the_output_is_still_zero_to_start_from() -> None:
    model = tiny(FORMS[0], pad=3)
    assert model.output.vocab_size == 30 and model.start_token == 3
    said = targets()
    said[:, 0] = 3
    before, _ = model(said, model.encode(*sources()))
    with torch.no_grad():
        model.target_embedding.weight[3] = 1.0
    ids, mask = sources()
    assert not (ids == 3).any()
    assert torch.equal(before, model(said, model.encode(ids, mask))[0])


@pytest.mark.sampled(3)
@forms
def test_the_gradient_is_that_of_differences(form: dict[str, Any]) -> None:
    model, (ids, mask), said = tiny(form).double(), sources(), targets()

    def loss() -> Tensor:
        return model.output.logits(model(said, model.encode(ids, mask))[0]).log_softmax(-1)[..., 4].sum()

    loss().backward()
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if "embedding" in name:
            direction[PAD] = 0.0
        with torch.no_grad():
            parameter.add_(direction, alpha=1e-5)
            above = loss()
            parameter.sub_(direction, alpha=2e-5)
            slope = (above - loss()) / 2e-5
            parameter.add_(direction, alpha=1e-5)
        assert torch.allclose((parameter.grad * direction).sum(), slope, rtol=1e-5, atol=1e-6), name


@forms
def test_saved_and_loaded_it_is_the_same_and_frozen_too(form: dict[str, Any]) -> None:
    model, said = tiny(form), targets()
    other = RecurrentTranslator(model.config).eval()
    other.load_state_dict(model.state_dict())
    expected, _ = model(said, model.encode(*sources()))
    assert torch.equal(expected, other(said, other.encode(*sources()))[0])
    other.requires_grad_(False)  # from now on with packed weights
    many = said.repeat(4, 1)
    ids, mask = sources()
    found, _ = other(many, other.encode(ids.repeat(4, 1), mask.repeat(4, 1)))
    assert torch.allclose(found, expected.repeat(4, 1, 1), atol=1e-5)


def test_the_source_side_without_gradients_can_be_learned_from_too() -> None:
    model = tiny(FORMS[0])
    with torch.no_grad():
        state = model.encode(*sources())
    hidden, _ = model(targets(), state)
    hidden.sum().backward()
    assert model.attention.energy is not None and model.attention.energy.grad is not None
    assert model.attention.keys.weight.grad is None


# -- learning ---------------------------------------------------------------------------------------------------------


def reversals(rows: int, longest: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources with their end, what the decoder reads, and the reversed sources (-1 behind their end)."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.full((rows, longest + 1), PAD)
    said, expected = source.clone(), torch.full_like(source, -1)
    for row, length in enumerate(torch.randint(1, longest + 1, (rows,), generator=generator).tolist()):
        text = torch.randint(1, 11, (length,), generator=generator)
        source[row, : length + 1] = nn.functional.pad(text, (0, 1), value=EOS)
        said[row, 1 : length + 1] = text.flip(0)
        expected[row, : length + 1] = nn.functional.pad(text.flip(0), (0, 1), value=EOS)
    return source, said, expected


def train(model: RecurrentTranslator, batches: list[tuple[Tensor, Tensor, Tensor]], rate: float) -> None:
    model.train()
    optimizer = AdamW(dict(model.named_parameters()), beta2=0.98, weight_decay=0.0)
    for step, (source, said, expected) in enumerate(batches):
        hidden, _ = model(said, model.encode(source, source != PAD))
        loss = model.output.summed_loss(hidden.flatten(0, 1), expected.flatten()) / (expected >= 0).sum()
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(rate * min(1.0, (step + 1) / 20, 4 * (1 - step / len(batches))))
    model.eval()


@torch.inference_mode()
def share_right(model: RecurrentTranslator, source: Tensor, expected: Tensor) -> float:
    """The share of rows that greedy decoding gets right to the last token."""
    state, token, out = model.encode(source, source != PAD), torch.full((len(source), 1), PAD), []
    for _ in range(expected.shape[1]):
        hidden, state = model(token, state)
        token = model.output.logits(hidden[:, -1]).argmax(-1, keepdim=True)
        out.append(token)
    return float(((torch.cat(out, 1) == expected) | (expected < 0)).all(1).float().mean())


@pytest.mark.sampled(law="pairs are learned")
@pytest.mark.parametrize("form", this_month([FORMS[0], FORMS[3]], 1), ids=lambda form: form["cell"])
def test_it_learns_to_reverse(form: dict[str, Any]) -> None:
    model = tiny({"cell": form["cell"], "attention": form["attention"]}, hidden_size=64, embedding_size=32)
    model.initialize()
    train(model, [reversals(32, 4, seed) for seed in range(100)], 0.01)
    source, _, expected = reversals(200, 4, 1000)
    assert share_right(model, source, expected) > 0.9


# also tests/invariants/test_encoder_decoders.py, with two forms
@pytest.mark.sampled(law="pairs are learned")
@pytest.mark.parametrize("form", this_month(FORMS, 2), ids=lambda form: "-".join(map(str, form.values())))
def test_it_can_learn_ten_pairs_by_heart(form: dict[str, Any]) -> None:
    model = tiny(form, hidden_size=32, embedding_size=16)
    model.initialize()
    batch = reversals(10, 6, 7)
    train(model, [batch] * (60 if model.attends else 160), 0.02)
    assert share_right(model, batch[0], batch[2]) == 1.0
