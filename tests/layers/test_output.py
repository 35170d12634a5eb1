"""Output heads: their three methods describe one distribution, with a bias as without."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from head_law import assert_head_agrees
from tiny_models import tiny
from torch import Tensor, nn

from nlptools.compute.backend import Backend
from nlptools.inference import scoring
from nlptools.inference.generation.continuation import next_logits
from nlptools.layers.output import LogProbabilities, Projection
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.language.gpt import GPT
from nlptools.training.objectives import CausalLM

BACKEND = Backend(torch.device("cpu"))


class BiasedGPT(GPT):
    """A GPT whose logits have a bias."""

    def __init__(self, config: object) -> None:
        super().__init__(config)  # type: ignore[arg-type]
        self.bias = nn.Parameter(torch.linspace(-3, 3, self.output.vocab_size))
        self.output = Projection(self.token_embedding, self.output.vocab_size, bias=self._bias)

    def _bias(self) -> Tensor:
        return self.bias


def biased() -> BiasedGPT:
    model = BiasedGPT(tiny("transformer").config)
    model.load_state_dict(tiny("transformer").state_dict(), strict=False)
    return model.eval()


@pytest.mark.parametrize("bias", [None, torch.linspace(-2, 2, 9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("matrix", [nn.Embedding(16, 5), nn.Embedding(9, 5), nn.Linear(5, 9)])
def test_a_projection_is_one_distribution(matrix: nn.Embedding, bias: Tensor | None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    bias = None if bias is None else bias.to(dtype)
    head = Projection(copy.deepcopy(matrix).to(dtype), 9, bias=lambda: bias)
    hidden = torch.randn(20, 5).to(dtype)
    assert_head_agrees(head, hidden, atol=1e-4 if dtype == torch.float32 else 0.15)
    expected = hidden.float() @ head.matrix.weight[:9].float().t() + (0 if bias is None else bias.float())
    assert torch.allclose(head.logits(hidden).float(), expected, atol=1e-4 if dtype == torch.float32 else 0.1)


def test_log_probabilities_are_a_distribution_already() -> None:
    assert_head_agrees(LogProbabilities(7), torch.randn(20, 7).log_softmax(1))
    impossible = torch.tensor([0.5, 0.5, 0.0]).log().expand(4, 3)
    assert float(LogProbabilities(3).summed_loss(impossible, torch.tensor([0, 1, -1, 0]))) == pytest.approx(
        3 * math.log(2)
    )


def test_the_head_for_masked_tokens_of_an_encoder_is_one_distribution() -> None:
    model = BertWithHeads(EncoderConfig(50, 16, 1, 2, 32), ("masked",))
    model.initialize()
    assert model.masked is not None
    with torch.no_grad():
        model.masked.bias.normal_()
        assert_head_agrees(model.output, model.masked(torch.randn(20, 16)))


def test_training_scoring_and_decoding_see_a_bias() -> None:
    model = biased()
    document = np.random.default_rng(0).integers(2, 50, 12)
    ids = torch.from_numpy(np.concatenate([[1], document]))[None]
    with torch.inference_mode():
        hidden, _ = model(ids)
        plain = hidden[0] @ model.token_embedding.weight[:50].t()
        expected = (plain + model.bias).log_softmax(1)[range(12), document]
        assert not torch.allclose(plain.log_softmax(1)[range(12), document], expected, atol=0.1)
        scored = scoring.document_scores(model, [document], BACKEND, start=1)
        assert scored is not None and np.allclose(scored[0], expected, atol=1e-4)
        assert torch.allclose(next_logits(model, hidden), plain[-1:] + model.bias, atol=1e-4)
    loss = CausalLM(model)(ids[:, :-1], ids[:, 1:])["loss"]
    assert float(loss.detach()) == pytest.approx(-float(expected.sum()), abs=1e-3)
    loss.backward()
    assert model.bias.grad is not None and bool(model.bias.grad.any())


def test_the_head_of_a_copied_model_sees_the_weights_of_the_copy() -> None:
    model = biased()
    twin = copy.deepcopy(model).to(torch.bfloat16)
    with torch.no_grad():
        twin.bias.fill_(1.0)
        twin.token_embedding.weight.zero_()
    hidden = torch.randn(3, 32)
    assert torch.equal(twin.output.logits(hidden.to(torch.bfloat16)), torch.ones(3, 50, dtype=torch.bfloat16))
    assert not torch.allclose(model.output.logits(hidden), torch.ones(3, 50))


def test_a_frozen_row_gets_no_gradient() -> None:
    embedding = nn.Embedding(8, 4)
    with torch.no_grad():
        embedding.weight[3] = 0.0
    head, hidden = Projection(embedding, 8, frozen_row=3), torch.randn(5, 4)
    loss = head.summed_loss(hidden, torch.tensor([0, 1, 2, 3, 4]))
    assert torch.allclose(loss, -head.log_probabilities(hidden, torch.arange(5)).sum(), atol=1e-5)
    loss.backward()
    assert embedding.weight.grad is not None
    assert not embedding.weight.grad[3].any() and bool(embedding.weight.grad[2].any())


def test_the_law_finds_a_head_that_forgets_its_bias() -> None:
    class Forgetful(Projection):
        def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
            return Projection(self.matrix, self.vocab_size).log_probabilities(hidden_ND, targets_N)

    with pytest.raises(AssertionError):
        assert_head_agrees(Forgetful(nn.Embedding(9, 5), 9, bias=lambda: torch.linspace(-2, 2, 9)), torch.randn(20, 5))
