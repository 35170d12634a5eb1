"""The convolutional encoder-decoder: its laws, its state, its limits, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nlptools.errors import DataError
from nlptools.models import registry
from nlptools.models.translation.convolutional import ConvolutionTranslator, ConvolutionTranslatorConfig
from nlptools.training.engine.optimizers import AdamW

PAD, EOS = 29, 0
SIZES: dict[str, Any] = {
    "source_vocab_size": 30,
    "target_vocab_size": 30,
    "pad": PAD,
    "eos": EOS,
    "hidden_size": 24,
    "embedding_size": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "kernel_size": 5,
    "max_position_embeddings": 12,
}


def tiny(**changes: Any) -> ConvolutionTranslator:
    torch.manual_seed(0)
    model: ConvolutionTranslator = registry.model_class("seq2seq-convolution")(
        ConvolutionTranslatorConfig(**{**SIZES, **changes})
    )
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2).add_(0.05 * torch.randn(parameter.shape))  # biases too, as after training
        model.target_embedding.weight[model.config.pad] = 0
    return model.eval()


def ids(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 29, (rows, length), generator=torch.Generator().manual_seed(seed))


def sources() -> tuple[Tensor, Tensor]:
    """Three sources of 7, 2 and 5 tokens, and their mask."""
    mask = torch.arange(7) < torch.tensor([[7], [2], [5]])
    return torch.where(mask, ids(3, 7), PAD), mask


def decode(model: ConvolutionTranslator, targets: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
    out: Tensor = model.output.logits(model(targets, model.encode(source, mask))[0])
    return out


def close(a: Tensor, b: Tensor) -> bool:
    """Equal up to the rounding of sums of values that large."""
    share = 1e-11 if b.dtype == torch.float64 else 5e-6
    return a.shape == b.shape and torch.allclose(a, b, rtol=2 * share, atol=share * max(20.0, float(b.abs().max())))


variants = pytest.mark.parametrize("changes", [{}, {"kernel_size": 1}, {"kernel_size": 3, "share_embeddings": False}])


@variants
@torch.inference_mode()
def test_a_padded_batch_equals_its_rows_one_by_one(changes: dict[str, Any]) -> None:
    # in float64: weights this large make more of a rounding than of what a leak of padding could be in float32
    model, targets = tiny(**changes).double(), ids(3, 6, seed=1)
    source, mask = sources()
    together = decode(model, targets, source, mask)
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = decode(model, targets[row : row + 1], source[row : row + 1, :length])
        assert close(together[row : row + 1], alone)
    other = torch.where(mask, source, 3)
    assert torch.equal(decode(model, targets, other, mask), together), "what stands on padding must not matter"
    assert not close(decode(model, targets, source), together), "the mask does something"


@variants
@torch.inference_mode()
def test_stepwise_equals_all_at_once_and_the_future_is_unknown(changes: dict[str, Any]) -> None:
    model, targets = tiny(**changes), ids(3, 9, seed=1)
    whole = decode(model, targets, *sources())
    model.requires_grad_(False)  # as in inference, where products have ways of their own
    state, parts = model.encode(*sources(), capacity=9), []
    for begin, end in ((0, 1), (1, 2), (2, 6), (6, 7), (7, 9)):
        hidden, state = model(targets[:, begin:end], state)
        parts.append(model.output.logits(hidden))
    assert close(torch.cat(parts, 1), whole)
    changed = targets.clone()
    changed[:, 4] = targets[:, 4] % 28 + 1
    after = decode(model, changed, *sources())
    assert torch.equal(after[:, :4], whole[:, :4])
    assert not close(after[:, 4], whole[:, 4])


@torch.inference_mode()
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_selecting_rows(data: st.DataObject) -> None:
    """Beams that come, go and change places are what they would be had they been alone all the time."""
    model = tiny()
    source, mask = sources()
    state = model.encode(source, mask, 9)
    hidden, state = model(ids(3, 2), state)
    history, owners, width = ids(3, 2), [0, 1, 2], 1
    for step in range(2):
        groups = data.draw(st.lists(st.integers(0, len(owners) // width - 1), min_size=1, max_size=3))
        new = data.draw(st.integers(1, 3))
        rows = [g * width + data.draw(st.integers(0, width - 1)) for g in groups for _ in range(new)]
        owners, width = [owners[r] for r in rows], new
        state = state.select(torch.tensor(rows), new)
        token = ids(len(rows), 1, seed=step)
        history = torch.cat([history[rows], token], 1)
        hidden, state = model(token, state)
        expected, _ = model(history, model.encode(source[owners], mask[owners]))
        assert close(hidden, expected[:, -1:])


@torch.inference_mode()
def test_the_source_is_kept_once_and_copied_only_when_sources_change() -> None:
    model = tiny()
    state = model.encode(*sources(), capacity=9)
    state.keeps_attention = True
    wider = state.select(torch.arange(3).repeat_interleave(2), 2)
    assert wider.source is state.source
    assert wider.keeps_attention
    _, wider = model(ids(6, 1), wider)
    swapped = wider.select(torch.tensor([1, 0, 2, 2, 5, 4]), 2)
    assert swapped.source is state.source
    fewer = swapped.select(torch.tensor([4, 5, 2, 3]), 2)
    assert torch.equal(fewer.source.keys, state.source.keys[[2, 1]])


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_a_distribution_over_the_source(dtype: torch.dtype) -> None:
    model = tiny().to(dtype)
    _, mask = sources()
    state = model.encode(*sources())
    _, state = model(ids(3, 4), state)
    assert state.attention is None
    state.keeps_attention = True
    state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]), 2)
    _, state = model(ids(6, 3), state)
    assert state.attention is not None
    assert state.attention.shape == (6, 3, 7)
    assert state.attention.dtype == torch.float32
    assert torch.allclose(state.attention.sum(-1), torch.ones(6, 3), atol=1e-6)
    assert not state.attention.masked_select(~mask.repeat_interleave(2, 0)[:, None]).any()
    assert (state.attention[:2] > 0).all()


@torch.inference_mode()
def test_attention_is_the_mean_over_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    seen: list[Tensor] = []
    for layer in model.decoder_layers:
        layer.register_forward_hook(lambda module, given, out: seen.append(out[2]))
    state = model.encode(*sources())
    state.keeps_attention = True
    model(ids(3, 4), state)
    assert len(seen) == 3
    assert not close(seen[0], seen[1])
    assert state.attention is not None
    assert close(state.attention, (seen[0] + seen[1] + seen[2]) / 3)


@torch.inference_mode()
def test_bf16_is_close_to_fp32() -> None:
    model, targets = tiny(), ids(3, 6, seed=1)
    exact = decode(model, targets, *sources())
    rounded = decode(model.bfloat16(), targets, *sources())
    assert rounded.dtype == torch.bfloat16
    assert float((exact - rounded).pow(2).mean().sqrt() / exact.std()) < 0.05


def test_longer_than_the_positions() -> None:
    model = tiny()
    with pytest.raises(DataError, match="13 source tokens are more than the model's limit of 12"):
        model.encode(ids(2, 13))
    state = model.encode(ids(1, 12))
    _, state = model(ids(1, 12), state)
    with pytest.raises(DataError, match="13 target tokens are more than the model's limit of 12"):
        model(ids(1, 1), state)


@torch.inference_mode()
def test_padding_may_stand_beyond_the_positions() -> None:
    model, source = tiny(), ids(1, 15)
    mask = torch.arange(15)[None] < 12
    state = model.encode(source, mask)
    assert close(model(ids(1, 3), state)[0], model(ids(1, 3), model.encode(source[:, :12]))[0])


@pytest.mark.parametrize("pad", [PAD, 5])
@pytest.mark.parametrize("share", [True, False])
def test_the_decoder_starts_from_zeros_also_after_training(pad: int, share: bool) -> None:
    model = tiny(pad=pad, share_embeddings=share, dropout=0.1).train()
    assert model.start_token == pad
    assert model.output.vocab_size == (29 if pad == PAD else 30)
    optimizer = AdamW(dict(model.named_parameters()))
    before = model.target_embedding.weight.detach().clone()
    targets = torch.cat([torch.full((3, 1), pad), ids(3, 4)], 1)
    for _ in range(3):
        hidden, _ = model(targets, model.encode(ids(3, 5, seed=4)))
        model.output.summed_loss(hidden.flatten(0, 1), ids(3, 5).flatten()).backward()
        optimizer.step(1e-2)
    rows = model.target_embedding.weight.detach()
    assert not rows[pad].any()
    assert len(rows) >= model.output.vocab_size
    others = [row for row in range(model.output.vocab_size) if row != pad]
    assert (rows[others] != before[others]).any(1).all()


def test_every_weight_learns_and_is_stored_once() -> None:
    model = tiny(share_embeddings=False)
    hidden, _ = model(ids(3, 5), model.encode(*sources()))
    model.output.summed_loss(hidden.flatten(0, 1), ids(3, 5).flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


@torch.inference_mode()
def test_initialization_keeps_the_size_of_activations() -> None:
    """Thirty layers deep, what comes out of encoder and decoder is neither gone nor grown."""
    torch.manual_seed(1)
    sizes = {"encoder_layers": 30, "decoder_layers": 30, "hidden_size": 64, "embedding_size": 64, "kernel_size": 3}
    model = ConvolutionTranslator(ConvolutionTranslatorConfig(**{**SIZES, **sizes}))
    model.initialize()
    state = model.encode(ids(8, 12))
    hidden, _ = model(ids(8, 12, seed=1), state)
    embedded = model.target_embedding.weight[1:29].std()
    for out in (state.source.keys, hidden):
        assert 0.3 < float(out.std() / embedded) < 10


@pytest.mark.sampled(law="pairs are learned")
def test_it_learns_to_reverse() -> None:
    """Sequences of up to 5 symbols out of 8, right to the last token."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 48, "embedding_size": 48, "encoder_layers": 2, "decoder_layers": 2, "kernel_size": 3}
    model = ConvolutionTranslator(ConvolutionTranslatorConfig(10, 10, 9, 8, **sizes, max_position_embeddings=8))
    model.initialize()
    optimizer = AdamW(dict(model.named_parameters()), beta2=0.98, weight_decay=0.0)
    for step in range(250):
        source, targets = _reversals(32)
        inputs = torch.cat([torch.full((32, 1), 9), targets[:, :-1].clamp(min=0)], 1)
        hidden, _ = model(inputs, model.encode(source, source != 9))
        loss = model.output.summed_loss(hidden.flatten(0, 1), targets.flatten())
        model.zero_grad(set_to_none=True)
        (loss / (targets >= 0).sum()).backward()
        optimizer.step(4e-3 * min(1.0, (step + 1) / 20, (250 - step) / 125))
    source, targets = _reversals(200)
    with torch.inference_mode():
        state = model.encode(source, source != 9, capacity=6)
        token, said = torch.full((200, 1), 9), []
        for _ in range(6):
            hidden, state = model(token, state)
            token = model.output.logits(hidden).argmax(-1)
            said.append(token)
    exact = ((torch.cat(said, 1) == targets) | (targets < 0)).all(1).float().mean()
    assert float(exact) > 0.95


def _reversals(rows: int) -> tuple[Tensor, Tensor]:
    """Sources (rows, 6) of 1 to 5 symbols, the end 8 and padding 9; targets with -1 where nothing counts."""
    source, targets = torch.full((rows, 6), 9), torch.full((rows, 6), -1)
    for row, length in enumerate(torch.randint(1, 6, (rows,)).tolist()):
        symbols = torch.randint(0, 8, (length,))
        source[row, : length + 1] = torch.cat([symbols, torch.tensor([8])])
        targets[row, : length + 1] = torch.cat([symbols.flip(0), torch.tensor([8])])
    return source, targets
