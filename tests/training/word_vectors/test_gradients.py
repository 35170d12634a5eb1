"""The hand-written updates of word vectors beside automatic differentiation of the loss they are to minimise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nlptools.training.word_vectors.architectures import Cbow, PositionWeightedCbow, Prediction, SkipGram
from nlptools.training.word_vectors.inputs import SubwordInput, WordRows
from nlptools.training.word_vectors.negatives import Negatives
from nlptools.training.word_vectors.outputs import FullSoftmax, HierarchicalSoftmax, NegativeSampling
from nlptools.training.word_vectors.windows import ContextWindows
from nlptools.vectors.subwords import ngram_rows

V, D, W, T = 13, 6, 3, 4
COUNTS = np.array([40, 31, 20, 19, 12, 9, 8, 7, 5, 4, 3, 2, 2])
WORDS = [f"word{'abc' * i}" for i in range(V)]


def stretch(seed: int) -> torch.Tensor:
    """Ids of a few short sequences; V ends one."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, V, (41,), generator=generator)
    ids[torch.tensor([0, 7, 8, 20])] = V
    return ids


def make(architecture: str, output: str, tables: dict[str, torch.Tensor]):
    windows = ContextWindows(W, T, torch.cat([torch.ones(V), torch.zeros(1)]))
    inputs = WordRows(tables["input"])
    if architecture == "subwords":
        inputs = SubwordInput(tables["input"], WORDS, 3, 4)
    made = {
        "skipgram": lambda: SkipGram(windows, inputs),
        "subwords": lambda: SkipGram(windows, inputs),
        "cbow": lambda: Cbow(windows, inputs),
        "positions": lambda: PositionWeightedCbow(windows, inputs, tables["positions"]),
    }[architecture]()
    outputs = {
        "ns": lambda: NegativeSampling(tables["output"], Negatives(COUNTS, 0.75, torch.device("cpu")), 5, 8),
        "hs": lambda: HierarchicalSoftmax(tables["output"], COUNTS),
        "softmax": lambda: FullSoftmax(tables["output"]),
    }[output]()
    return windows, made, outputs


def new_tables(architecture: str, output: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    rows = V + 50 if architecture == "subwords" else V
    return {
        "input": 0.5 * torch.randn(rows, D),
        "output": 0.5 * torch.randn(V - (output == "hs"), D),
        "positions": 1 + 0.5 * torch.randn(2 * W, D),
    }


@pytest.mark.parametrize("output", ["ns", "hs", "softmax"])
@pytest.mark.parametrize("architecture", ["skipgram", "cbow", "positions", "subwords"])
def test_a_step_is_a_step_down_the_gradient(architecture: str, output: str) -> None:
    lr = 0.01
    tables = new_tables(architecture, output)
    leaves = {name: table.clone().requires_grad_() for name, table in tables.items()}
    generator = torch.Generator().manual_seed(5)
    windows, model, layer = make(architecture, output, tables)
    tiles = windows.tiles(stretch(1), generator)
    chosen = layer.choose(model.targets(tiles), generator)
    _, model_again, layer_again = make(architecture, output, leaves)
    layer_again.loss(model_again.predict(tiles), chosen).backward()
    before = {name: table.clone() for name, table in tables.items()}
    prediction = model.predict(tiles)
    model.spread(tiles, prediction, layer.step(prediction, chosen, lr), lr)
    for name, table in tables.items():
        wanted = leaves[name].grad
        found = (before[name] - table) / lr
        if wanted is None:
            assert not found.any()
        elif architecture == "subwords" and name == "input":
            # as fastText: each row gets the whole gradient of the mean, so that of a word with n rows is n times larger
            places, _ = ngram_rows(WORDS, 3, 4, 50)
            number = torch.from_numpy(1 + np.bincount(places, minlength=V))[:, None]
            assert torch.allclose(found[:V], number * wanted[:V], atol=1e-3)
            assert found[V:].any()
            assert not found[wanted == 0].any()
        else:
            assert torch.allclose(found, wanted, atol=2e-4), name


def test_legacy_cbow_gives_each_word_the_whole_gradient() -> None:
    tables = new_tables("cbow", "ns")
    windows, model, _ = make("cbow", "ns", tables)
    generator = torch.Generator().manual_seed(5)
    tiles = windows.tiles(stretch(1), generator)
    prediction = model.predict(tiles)
    gradient = torch.randn(*tiles.tokens.shape, D, generator=generator)
    legacy = Cbow(windows, WordRows(torch.zeros(V, D)), corrected=False)
    legacy.spread(tiles, legacy.predict(tiles), gradient, 1.0)
    expected = torch.zeros(V, D)
    for n in range(len(tiles.tokens)):
        for t in range(T):
            for distance in range(1, W + 1):
                if distance <= tiles.left[n, t]:
                    expected[tiles.contexts[n, t + W - distance]] += gradient[n, t]
                if distance <= tiles.right[n, t]:
                    expected[tiles.contexts[n, t + W + distance]] += gradient[n, t]
    assert torch.allclose(legacy.inputs.table, expected, atol=1e-4)
    assert prediction.dense_weights().diagonal(dim1=1, dim2=2).sum() == ((tiles.left + tiles.right) > 0).sum()


def test_a_word_with_n_grams_gets_the_gradient_in_each_of_its_rows() -> None:
    table = torch.zeros(V + 50, D)
    inputs = SubwordInput(table, WORDS, 3, 4)
    inputs.add(torch.tensor([[2, 5], [2, 7]]), torch.ones(2, 2, D), 1.0)
    composed = inputs.look_up(torch.tensor([2, 5, 7, 1]))
    assert table[2].tolist() == [2.0] * D and table[5].tolist() == [1.0] * D and table[1].tolist() == [0.0] * D
    assert (composed[0] >= 2).all()
    _, rows = ngram_rows([WORDS[2]], 3, 4, 50)
    mean = (table[2] + table[V + torch.from_numpy(rows)].sum(0)) / (1 + len(rows))
    assert torch.allclose(composed[0], mean, atol=1e-6)


def test_shared_negatives_have_the_loss_of_independent_ones() -> None:
    """Over many draws the mean gradient is that of `number` negatives of each pair, drawn in proportion to count^0.75."""
    torch.manual_seed(0)
    table, hidden = torch.randn(V, D), torch.randn(1, T, D)
    targets, weights = torch.tensor([[3, 1, 4]]), torch.rand(1, T, 3)
    negatives = Negatives(COUNTS, 0.75, torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    rounds = 3000  # tiles: each has its own draw
    prediction = Prediction(*(each.expand(rounds, -1, -1) for each in (hidden, weights, weights.sum(-1, keepdim=True))))
    layer = NegativeSampling(table.clone(), negatives, 5, 8)
    mean = layer.step(prediction, layer.choose(targets.expand(rounds, -1), generator), 1.0).mean(0, keepdim=True)
    shares = torch.from_numpy(COUNTS**0.75 / (COUNTS**0.75).sum()).float()
    positive = torch.einsum("ntj,njd->ntd", weights * (1 - torch.sigmoid(hidden @ table[targets[0]].T)), table[targets])
    noise = 5 * weights.sum(-1, keepdim=True) * ((torch.sigmoid(hidden @ table.T) * shares) @ table)
    assert torch.allclose(mean, positive - noise, atol=0.15)
