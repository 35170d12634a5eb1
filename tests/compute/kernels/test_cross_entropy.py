"""Chunked cross-entropy and R-Drop against PyTorch's losses and the formula of the paper, with their gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nlptools.compute.kernels import cross_entropy
from nlptools.layers.cross_entropy import chosen_log_probabilities, summed_cross_entropy, summed_r_drop


@pytest.mark.parametrize("rows", [0, 1, 7, 200])
def test_summed_cross_entropy_equals_projection_and_loss(rows: int) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(rows, 16, requires_grad=True)
    weight = torch.randn(64, 16, requires_grad=True)
    targets = torch.randint(-1, 50, (rows,))
    logits = hidden @ weight[:50].t()
    expected = F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
    found = summed_cross_entropy(hidden, weight, targets, 50)
    assert torch.allclose(found, expected, rtol=1e-5)
    grads = torch.autograd.grad(expected * 0.5, (hidden, weight))
    ours = torch.autograd.grad(found * 0.5, (hidden, weight))
    for a, b in zip(grads, ours, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert not ours[1][50:].any(), "rows of padding must not move"


def test_many_chunks_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(300, 8, requires_grad=True), torch.randn(40, 8, requires_grad=True)
    targets = torch.randint(0, 40, (300,))
    whole = torch.autograd.grad(summed_cross_entropy(hidden, weight, targets, 40), (hidden, weight))
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 1)
    assert cross_entropy.chunk_rows(weight) == 64
    parts = torch.autograd.grad(summed_cross_entropy(hidden, weight, targets, 40), (hidden, weight))
    for a, b in zip(whole, parts, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_cross_entropy_in_bf16_adds_up_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "BLOCK_ELEMENTS", 700)  # several blocks of rows, the last one smaller
    torch.manual_seed(2)
    hidden, weight = torch.randn(64, 32), torch.randn(100, 32)
    exact = summed_cross_entropy(hidden, weight, torch.arange(64), 100)
    rounded = summed_cross_entropy(hidden.bfloat16(), weight.bfloat16(), torch.arange(64), 100)
    assert rounded.dtype == torch.float32
    assert torch.allclose(exact, rounded, rtol=0.02)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_with_bias_and_smoothing_is_that_of_pytorch(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 1)  # chunks of 64 rows
    torch.manual_seed(4)
    hidden = torch.randn(150, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(40, 16, dtype=torch.float64, requires_grad=True)
    bias, targets = torch.randn(37, dtype=torch.float64), torch.randint(0, 37, (150,))
    targets[::7] = -1
    found = summed_cross_entropy(hidden, weight, targets, 37, smoothing=smoothing, bias_V=bias)
    exact = F.cross_entropy(
        hidden @ weight[:37].t() + bias, targets, ignore_index=-1, label_smoothing=smoothing, reduction="sum"
    )
    assert torch.allclose(found.double(), exact, rtol=1e-5)
    ours = torch.autograd.grad(found, (hidden, weight))
    theirs = torch.autograd.grad(exact, (hidden, weight))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))
    assert not ours[1][37:].any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [8, 6])
def test_the_bias_of_a_cross_entropy_gets_its_gradient(
    rows: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "chunk_rows", lambda _: 4)
    torch.manual_seed(1)
    hidden, weight = torch.randn(9, 5, requires_grad=True), torch.randn(rows, 5, requires_grad=True)
    bias, targets = torch.randn(6, requires_grad=True), torch.tensor([0, 1, 2, 3, 4, 5, -1, 2, 2])
    loss = summed_cross_entropy(hidden, weight, targets, 6, smoothing=smoothing, bias_V=bias)
    expected = F.cross_entropy(
        hidden @ weight[:6].t() + bias, targets, ignore_index=-1, reduction="sum", label_smoothing=smoothing
    )
    assert torch.allclose(loss, expected, atol=1e-4)
    for mine, theirs in zip(
        torch.autograd.grad(2 * loss, (hidden, weight, bias)),
        torch.autograd.grad(2 * expected, (hidden, weight, bias)),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, atol=1e-4)


V = 37


def r_drop_formula(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor, rate: float, smoothing: float
) -> torch.Tensor:
    """Half of -log p - log q + rate/2 (KL(p|q) + KL(q|p)), summed over the targets."""
    kept = targets >= 0
    logits = (hidden @ weight[:V].t() + bias[:V])[:, kept]
    both = targets[kept].repeat(2)
    entropy = F.cross_entropy(logits.reshape(-1, V), both, label_smoothing=smoothing, reduction="sum")
    p, q = logits.log_softmax(-1)
    apart = F.kl_div(q, p, log_target=True, reduction="sum") + F.kl_div(p, q, log_target=True, reduction="sum")
    return (entropy + rate / 2 * apart) / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("rate", [0.0, 5.0])
@pytest.mark.parametrize("blocks", [False, True])
def test_r_drop_and_its_gradients_are_those_of_the_r_drop_formula(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, rate: float, blocks: bool
) -> None:
    if blocks:
        monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", 1)
        monkeypatch.setattr(cross_entropy, "BLOCK_ELEMENTS", 4 * V * 7)  # seven rows of both passes at a time
    torch.manual_seed(0)
    hidden = torch.randn(2, 150, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(40, 16, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(40, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, V, (150,))
    targets[::7] = -1
    found = summed_r_drop(hidden, weight, targets, V, rate, smoothing=smoothing, bias_V=bias)
    exact = r_drop_formula(hidden, weight, bias, targets, rate, smoothing)
    assert torch.allclose(found.double(), exact, rtol=1e-5)
    ours = torch.autograd.grad(found * 0.5, (hidden, weight, bias))
    theirs = torch.autograd.grad(exact * 0.5, (hidden, weight, bias))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    assert not ours[1][V:].any() and not ours[2][V:].any(), "rows of padding must not move"


def test_r_drop_of_two_equal_passes_is_the_plain_loss() -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(20, 8), torch.randn(64, 8, requires_grad=True)
    targets = torch.randint(-1, 50, (20,))
    twice = summed_r_drop(torch.stack([hidden, hidden]), weight, targets, 50, 5.0, smoothing=0.1)
    once = summed_cross_entropy(hidden, weight, targets, 50, smoothing=0.1)
    assert torch.allclose(twice, once, rtol=1e-5)
    gradients = [torch.autograd.grad(loss, weight)[0] for loss in (twice, once)]
    assert torch.allclose(*gradients, atol=1e-5)


def test_r_drop_in_bf16_and_of_no_targets() -> None:
    torch.manual_seed(2)
    hidden, weight = torch.randn(2, 64, 32), torch.randn(100, 32)
    exact = summed_r_drop(hidden, weight, torch.arange(64), 100, 5.0)
    rounded = summed_r_drop(hidden.bfloat16(), weight.bfloat16(), torch.arange(64), 100, 5.0)
    assert rounded.dtype == torch.float32 and torch.allclose(exact, rounded, rtol=0.02)
    assert float(summed_r_drop(hidden, weight, torch.full((64,), -1), 100, 5.0)) == 0


@pytest.mark.parametrize("blocks", [False, True])
def test_log_sum_exp_is_that_of_pytorch(blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocks:
        monkeypatch.setattr(cross_entropy, "BLOCK_ELEMENTS", 3 * V)
    torch.manual_seed(3)
    logits = 50 * torch.randn(20, V)
    assert torch.allclose(cross_entropy.log_sum_exp(logits), logits.logsumexp(1, keepdim=True), rtol=1e-6)


@pytest.mark.parametrize(("chunk", "kept"), [(1 << 28, 1 << 26), (1 << 28, 0), (1, 1 << 26)])
@pytest.mark.parametrize(("learns", "biased"), [(True, False), (False, False), (True, True), (False, True)])
def test_chosen_log_probabilities_and_their_gradients_are_those_of_the_softmax(
    chunk: int, kept: int, learns: bool, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_BYTES", chunk)  # 1: 64 rows
    monkeypatch.setattr(cross_entropy, "KEPT_BYTES", kept)
    monkeypatch.setattr(cross_entropy, "BLOCK_ELEMENTS", 500)
    torch.manual_seed(0)
    hidden, weight = torch.randn(150, 16, requires_grad=True), torch.randn(64, 16, requires_grad=learns)
    targets, factors, V, forbidden = torch.randint(48, (150,)), torch.randn(150), 50, torch.tensor([48, 49])
    bias = torch.randn(V, requires_grad=learns) if biased else None
    values, entropies = chosen_log_probabilities(hidden, weight, targets, V, bias, forbidden)
    (values * factors).sum().backward(retain_graph=True)
    ours = [None if each is None or each.grad is None else each.grad.clone() for each in (hidden, weight, bias)]
    hidden.grad = weight.grad = None
    own_bias = torch.zeros(V) if bias is None else bias.detach().clone().requires_grad_(learns)
    logs = (hidden @ weight[:48].t() + own_bias[:48]).log_softmax(-1)
    assert torch.allclose(values, logs[torch.arange(150), targets], atol=1e-5)
    assert torch.allclose(entropies, torch.distributions.Categorical(logits=logs).entropy(), atol=1e-5)
    assert not entropies.requires_grad
    (logs[torch.arange(150), targets] * factors).sum().backward()
    assert torch.allclose(ours[0], hidden.grad, atol=1e-4)
    if learns:
        assert torch.allclose(ours[1], weight.grad, atol=1e-4)
        assert not biased or torch.allclose(ours[2], own_bias.grad, atol=1e-4)
    hidden.grad = None
    (values * factors).sum().backward()
    assert torch.equal(hidden.grad, ours[0]), "a second time"


def test_gradients_of_probable_targets_in_bf16() -> None:
    """Little is left of the sum of the exponentials when that of the target is taken away."""
    weight = torch.zeros(64, 8)
    weight[0] = 1.0
    for size in (4.0, 6.0, 8.0):
        hidden = torch.full((1, 8), size / 8)
        wanted = torch.tensor([[size] + [0.0] * 63]).softmax(-1)[0, 0].item() - 1
        for loss in (
            lambda h, w: summed_cross_entropy(h, w, torch.tensor([0]), 64),
            lambda h, w: -chosen_log_probabilities(h, w, torch.tensor([0]), 64)[0].sum(),
        ):
            small = hidden.bfloat16().requires_grad_(True)
            loss(small, weight.bfloat16()).backward()
            assert small.grad[0, 0].item() == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("rows", [1, 31, 70, 96])
@pytest.mark.parametrize("size", [32, 45])
@pytest.mark.parametrize("kind", ["loss", "loss with bias", "chosen"])
def test_gradients_in_bf16_of_any_number_of_rows_and_columns(rows: int, size: int, kind: str) -> None:
    """As far from those in float64 as roundings to 8 bits are; rows and columns may not fill lines of the cache."""
    torch.manual_seed(rows + size)
    V, used = 64, 61
    hidden, weight, bias = torch.randn(rows, size), torch.randn(V, size) / size**0.5, torch.randn(used)
    targets, upstream = torch.randint(0, used, (rows,)), torch.rand(rows)

    def gradients(dtype: torch.dtype) -> list[torch.Tensor]:
        given = [t.bfloat16().to(dtype).requires_grad_() for t in (hidden, weight, bias)]
        h, w, b = given
        if kind == "chosen":
            (chosen_log_probabilities(h, w, targets, used)[0] * upstream).sum().backward()
        else:
            summed_cross_entropy(h, w, targets, used, bias_V=b if "bias" in kind else None).backward()
        return [each.grad.double() for each in given if each.grad is not None]

    for exact, rounded in zip(gradients(torch.float64), gradients(torch.bfloat16), strict=True):
        assert float((rounded - exact).norm()) <= 0.02 * float(exact.norm())
