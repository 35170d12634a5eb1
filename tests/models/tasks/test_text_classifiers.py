"""Text classifiers: padding, pairs, pooling, turning around; by hand and against plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nlptools.configs.text_classifiers import ARCHITECTURES
from nlptools.errors import BundleError
from nlptools.layers.sentence import turned
from nlptools.models.tasks import text_classifiers
from nlptools.models.tasks.text_classifiers import TextClassifier, TextClassifierConfig, apart

LENGTHS = [2, 3, 7, 2, 4]


def model(arch: str, **changes: Any) -> TextClassifier:
    sizes: dict[str, Any] = {"vocab_size": 20, "embedding_size": 8, "num_labels": 3, "hidden_size": 8}
    torch.manual_seed(1)
    made = TextClassifier(TextClassifierConfig(**{"arch": arch, **sizes, "num_attention_heads": 2, **changes}))
    made.initialize()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.3)
    return made.eval()


def padded(width: int, texts: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    whole = torch.randint(1, 20, (len(LENGTHS), 7))
    mask = torch.arange(width) < torch.tensor(LENGTHS)[:, None]
    ids = torch.zeros(len(LENGTHS), width, dtype=torch.int64)
    ids[:, :7] = whole
    types = (torch.arange(width) >= 1).long().expand_as(ids) * (texts - 1)
    return ids.masked_fill(~mask, 0), mask, types * mask


VARIANTS = [
    *((arch, {}) for arch in ARCHITECTURES if arch != "bag"),
    ("rnn", {"num_hidden_layers": 2}),
    ("transformer", {"num_hidden_layers": 2}),
]


@pytest.mark.parametrize(("arch", "changes"), VARIANTS)
@pytest.mark.parametrize("texts", [1, 2])
def test_padding_does_not_change_answers(arch: str, changes: dict[str, Any], texts: int) -> None:
    made = model(arch, texts=texts, **changes)
    with torch.no_grad():
        together, wider = made(*padded(7, texts)), made(*padded(11, texts))
        ids, mask, types = padded(7, texts)
        alone = [made(ids[i : i + 1, :n], mask[i : i + 1, :n], types[i : i + 1, :n]) for i, n in enumerate(LENGTHS)]
    assert torch.allclose(together, wider, atol=1e-5) and torch.allclose(together, torch.cat(alone), atol=1e-5)
    assert together.shape == (5, 3) and (together[0] - together[1]).abs().max() > 1e-3


def test_a_bag_is_its_rows_one_by_one() -> None:
    made = model("bag", num_ngrams=4)
    ids, lengths = torch.tensor([3, 21, 5, 5, 1, 23]), torch.tensor([2, 0, 4])
    table, head = made.token_embedding.weight, made.sequence.output
    with torch.no_grad():
        found = made(ids, lengths)
        expected = [head(part.mean(0) if len(part) else torch.zeros(8)) for part in table[ids].split(lengths.tolist())]
        alone = torch.cat([made(part, torch.tensor([len(part)])) for part in ids.split(lengths.tolist())])
    assert torch.allclose(found, torch.stack(expected), atol=1e-6) and torch.allclose(found, alone, atol=1e-6)


def test_two_texts_side_by_side() -> None:
    made = model("mean", texts=2)
    ids, mask, types = torch.tensor([[3, 4, 5, 6, 0]]), torch.tensor([[True] * 4 + [False]]), torch.zeros(1, 5).long()
    types[0, 1:4] = 1
    moved, where = apart(ids, mask, types)
    assert moved[0][where[0]].tolist() == [3] and moved[1][where[1]].tolist() == [4, 5, 6]
    with torch.no_grad():
        u, v = (made.features(torch.tensor([row]), torch.ones(1, len(row)).bool()) for row in ([3], [4, 5, 6]))
        expected = made.sequence(torch.cat([u, v, (u - v).abs(), u * v], 1))
        assert torch.allclose(made(ids, mask, types), expected, atol=1e-6)
    bag = model("bag", texts=2)
    with torch.no_grad():
        u, v = bag.bag(torch.tensor([3, 4, 5, 6]), torch.tensor([1, 3]))
        expected = bag.sequence(torch.cat([u, v, (u - v).abs(), u * v]))[None]
        assert torch.allclose(bag(torch.tensor([3, 4, 5, 6]), torch.tensor([1, 3])), expected, atol=1e-6)


def test_rows_are_turned_around_each_by_itself() -> None:
    mask = torch.tensor([[True, True, True, False], [True] * 4, [True, False, False, False]])
    assert turned(mask).tolist() == [[2, 1, 0, 3], [3, 2, 1, 0], [0, 1, 2, 3]]


@pytest.mark.parametrize("arch", ["lstm", "gru", "rnn"])
def test_both_ways_are_those_of_pytorch(arch: str) -> None:
    made = model(arch)
    both = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[arch](
        8, 8, batch_first=True, bidirectional=True
    )
    with torch.no_grad():
        for way, end in enumerate(("", "_reverse")):
            for name, parameter in made.body.layers[0][way].named_parameters():
                getattr(both, name + end).copy_(parameter)
        ids, mask, _ = padded(7)
        x = made.token_embedding(ids)
        found = made.body(x, mask)
        for i, length in enumerate(LENGTHS):
            expected = both(x[i : i + 1, :length])[0].mean(1)
            assert torch.allclose(found[i : i + 1], expected, atol=1e-6)


def test_convolutions_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_classifiers, "WIDTHS", (2,))
    made = model("cnn", hidden_size=1, embedding_size=1)
    with torch.no_grad():
        made.body.filters[0].weight.copy_(torch.tensor([[1.0, 10.0]]))
        made.body.filters[0].bias.fill_(0.5)
        x, mask = (
            torch.tensor([[[1.0], [2.0], [4.0]], [[3.0], [9.0], [9.0]]]),
            torch.tensor([[True] * 3, [True, False, False]]),
        )
        # windows 0 1, 1 2, 2 4, 4 0; and 0 3, 3 0
        assert made.body(x, mask).tolist() == [[42.5, (10.5 + 21.5 + 42.5 + 4.5) / 4], [30.5, (30.5 + 3.5) / 2]]


def test_words_are_dropped_in_training_only() -> None:
    made = model("mean", dropout=0.0)
    made.word_dropout = 0.99
    ids, mask, types = torch.full((4, 6), 5), torch.ones(4, 6).bool(), torch.zeros(4, 6).long()
    unknown = torch.full((4, 6), made.config.unk)
    with torch.no_grad():
        calm = made(ids, mask, types)
        made.train()
        torch.manual_seed(0)
        dropped = made(ids, mask, types)
        gone = made.eval()(unknown, mask, types)
    assert torch.allclose(dropped, gone, atol=0.3) and (calm - gone).abs().max() > (dropped - gone).abs().max()


@pytest.mark.parametrize(
    ("said", "value"),
    [("arch", "svm"), ("vocab_size", 0), ("texts", 3),
     ("char_ngrams", "6-3"), ("unk", 20), ("num_ngrams", -1), ("dropout", 2), ("hidden_size", 9)],
)  # fmt: skip
def test_sizes_that_no_model_has(said: str, value: Any) -> None:
    with pytest.raises(BundleError, match=said.split("_")[0]):
        model(**{"arch": "transformer", said: value})
