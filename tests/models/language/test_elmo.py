"""ELMo: representations of words in their texts, and its parts beside PyTorch's."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.projected_lstm import Limits, projected_layers
from nlptools.errors import BundleError
from nlptools.layers.recurrent import ProjectedLSTM, side_by_side
from nlptools.models.language.elmo import ElmoConfig, reversal
from nlptools.text.byte_spelling import COLUMNS, spell

WORDS = ["a", "longer", "word", "Übung", "x" * 60, "."]
SPELLINGS = torch.from_numpy(spell(WORDS))


def placed(*rows: list[int]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor(list(map(len, rows)))
    return torch.tensor([[*row, *[0] * (int(lengths.max()) - len(row))] for row in rows]), lengths


@torch.inference_mode()
def test_layers_have_the_words_in_the_order_of_the_text() -> None:
    model = tiny("elmo")
    out = model.layers(SPELLINGS, *placed([0, 1, 2, 3, 4], [5], []))
    assert out.shape == (3, 3, 5, 64)
    first = model.words(SPELLINGS.long())
    assert torch.allclose(out[0, 0], torch.cat([first, first], 1)[:5], atol=1e-5), "layer 0 is the word alone, twice"
    assert not out[:, 1, 1:].any() and not out[:, 2].any(), "nothing behind the end of a text"


@torch.inference_mode()
def test_a_text_does_not_depend_on_its_batch() -> None:
    model = tiny("elmo")
    rows = [[0, 1, 2], [3], [5, 4, 3, 2, 1, 0]]
    out = model.layers(SPELLINGS, *placed(*rows))
    for number, row in enumerate(rows):
        used = sorted(set(row), reverse=True)
        alone = model.layers(SPELLINGS[used], *placed([used.index(i) for i in row]))
        assert torch.allclose(alone[:, 0], out[:, number, : len(row)], atol=1e-4)


@pytest.mark.parametrize("more", [{}, {"layer_norm": True}])
@torch.inference_mode()
def test_each_half_is_causal_and_both_together_are_not(more: dict[str, bool]) -> None:
    model = tiny("elmo", **more)
    before, after = (model.layers(SPELLINGS, *placed(row)) for row in ([0, 1, 2, 3, 5], [0, 1, 4, 3, 5]))
    for layer in (1, 2):
        forward, backward = ((before - after)[layer, 0].abs().amax(1) for before, after in (
            (before[..., :32], after[..., :32]), (before[..., 32:], after[..., 32:])))  # fmt: skip
        assert not forward[:2].any() and (forward[2:] > 1e-4).all()
        assert not backward[3:].any() and (backward[:3] > 1e-4).all()


@torch.inference_mode()
def test_the_boundaries_of_the_text_are_seen() -> None:
    """The first word has another forward state than in the middle of a text that begins with zeros."""
    model = tiny("elmo")
    out = model.layers(SPELLINGS, *placed([2]))
    x = model.words(SPELLINGS[2:3].long())[None]
    assert not torch.allclose(out[1, 0, 0, :32], model.directions[0](x)[0][0, 0], atol=1e-2)


def test_the_vector_of_a_word_is_that_of_plain_convolutions_over_all_columns() -> None:
    """Trimming the columns behind the words changes nothing, as long as windows of nothing but filling are seen."""
    words = tiny("elmo", filters=((1, 8), (2, 12), (7, 16)), highway_layers=2).words
    x = words.embedding(SPELLINGS.long())
    assert x.shape[1] == COLUMNS
    maxima = []
    for each, width in zip(words.filters, words.widths, strict=True):
        kernel = each.weight.view(len(each.weight), width, -1).transpose(1, 2)
        maxima.append(F.conv1d(x.transpose(1, 2), kernel, each.bias).amax(2).relu())
    y = torch.cat(maxima, 1)
    for highway in words.highways:
        change, gate = F.linear(y, highway.weight, highway.bias).chunk(2, 1)
        y = gate.sigmoid() * change.relu() + (1 - gate.sigmoid()) * y
    assert torch.allclose(words(SPELLINGS.long()), words.projection(y), atol=1e-4)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_without_limits_is_that_of_pytorch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = ProjectedLSTM(5, 7, 3, Limits())
    ours.reset_parameters()
    plain = nn.LSTM(5, 7, proj_size=3)
    weights = {name: p for name, p in ours.named_parameters() if name != "bias_l0"}
    plain.load_state_dict({**weights, "bias_ih_l0": ours.bias_l0, "bias_hh_l0": torch.zeros(28)})
    x, h, c = torch.randn(9, 4, 5), torch.randn(4, 3), torch.randn(4, 7)
    expected, (hidden, cell) = plain(x, (h[None], c[None]))
    out, last, last_cell = ours.to(dtype)(x.to(dtype), h, c)
    near = {"atol": 1e-5} if dtype == torch.float32 else {"atol": 0.05}
    assert torch.allclose(out.float(), expected, **near) and torch.allclose(last.float(), hidden[0], **near)
    assert torch.allclose(last_cell, cell[0], **near) and last_cell.dtype == torch.float32


@pytest.mark.sampled(1)
@pytest.mark.parametrize("limits", [Limits(), Limits(0.6, 0.5), Limits(0.6, 0.0)])
def test_gradients_of_layers_with_limits(limits: Limits) -> None:
    """Finite differences; the limits are reached at some steps and not at others."""
    torch.manual_seed(0)
    K, T, B, P, D = 2, 3, 2, 3, 4
    shapes = ((T, B, 4 * D), (4 * D, P), (P, D), (B, P))
    given = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes for _ in range(K)]
    given.append(torch.randn(K * B, D, dtype=torch.float64).requires_grad_())

    def layers(*tensors: Tensor) -> tuple[Tensor, ...]:
        gates, weights, projections, hidden = (tensors[i : i + K] for i in range(0, 4 * K, K))
        outputs, cells = projected_layers(gates, weights, projections, hidden, tensors[-1], limits)
        return *outputs, cells

    assert torch.autograd.gradcheck(layers, given)
    *outputs, cells = layers(*given)
    for value, limit in ((torch.stack(outputs), limits.hidden), (cells, limits.cell)):
        if limit:
            assert float(value.detach().abs().max()) == limit and bool((value.abs() < limit).any())


@pytest.mark.parametrize("training", [False, True])
def test_layers_side_by_side_are_layers_one_after_another(training: bool) -> None:
    torch.manual_seed(0)
    lstms = [ProjectedLSTM(5, 7, 3, Limits(1.0, 0.5)) for _ in range(2)]
    for each in lstms:
        each.reset_parameters()
    x, h, c = torch.randn(2, 9, 4, 5), torch.randn(2, 4, 3), torch.randn(8, 7)
    with torch.set_grad_enabled(training):
        outputs, last, cells = side_by_side(lstms, list(x), list(h), c)
        alone = [each(*given) for each, *given in zip(lstms, x, h, c.chunk(2), strict=True)]
    for k, expected in enumerate(alone):
        for got, value in zip((outputs[k], last[k], cells.chunk(2)[k]), expected, strict=True):
            assert torch.allclose(got, value, atol=1e-6)


def test_a_reversal_is_its_own_inverse() -> None:
    lengths = torch.tensor([4, 0, 2])
    positions = reversal(lengths, 4)
    assert positions.tolist() == [[3, 2, 1, 0], [0, 1, 2, 3], [1, 0, 2, 3]]
    assert torch.equal(positions.gather(1, positions), torch.arange(4).expand(3, 4))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"filters": ((0, 3),)}, "filters"),
        ({"filters": ()}, "filters"),
        ({"filters": "abc"}, "filters"),
        ({"cell_clip": -1}, "cell_clip"),
        ({"projection_clip": "3"}, "projection_clip"),
        ({"highway_layers": 1.5}, "highway_layers"),
        ({"cell_size": 0}, "cell_size"),
        ({"activation": "gelu"}, "activation"),
    ],
)
def test_wrong_sizes_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        ElmoConfig(**{"vocab_size": 50, "hidden_size": 8, "cell_size": 16, **wrong})  # type: ignore[arg-type]
