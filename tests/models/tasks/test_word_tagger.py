"""Taggers of words: padding, spelling, rare words; by hand and against plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nlptools.configs.word_taggers import ARCHITECTURES
from nlptools.errors import BundleError
from nlptools.layers.characters import CharacterConvolution, CharacterLSTM
from nlptools.layers.dropout import LockedDropout
from nlptools.models.tasks import word_input
from nlptools.models.tasks.word_tagger import WordTagger, WordTaggerConfig

SIZES: dict[str, Any] = {
    "arch": "lstm",
    "vocab_size": 12,
    "trained": 8,
    "rare": 6,
    "embedding_size": 6,
    "num_labels": 3,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "character_hidden": 4,
    "alphabet": "abcde",
}
LENGTHS = [2, 5, 1]


def model(**changes: Any) -> WordTagger:
    torch.manual_seed(1)
    made = WordTagger(WordTaggerConfig(**{**SIZES, **changes}))
    made.initialize()
    return made.eval()


def batch(width: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Five different words of up to six characters in three sentences."""
    torch.manual_seed(2)
    letters = torch.randint(1, 9, (5, 6)) * (torch.arange(6) < torch.tensor([2, 6, 3, 4, 2])[:, None])
    places = torch.zeros(3, width, dtype=torch.int64)
    places[:, :5] = torch.randint(0, 5, (3, 5))
    return torch.tensor([2, 7, 9, 11, 1]), letters, places, torch.arange(width) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("characters", ["cnn", "lstm", "none"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_batch_is_its_sentences_one_by_one(arch: str, characters: str) -> None:
    made = model(arch=arch, characters=characters, num_hidden_layers=2)
    words, letters, places, mask = batch()
    with torch.no_grad():
        together, wider = made(words, letters, places, mask), made(*batch(9))
        longer = made(words, torch.nn.functional.pad(letters, (0, 4)), places, mask)
        assert together.shape == (3, 5, 3)
        for i, n in enumerate(LENGTHS):
            used = places[i, :n].unique()
            own = torch.searchsorted(used, places[i : i + 1, :n].contiguous())
            alone = made(words[used], letters[used], own, mask[i : i + 1, :n])
            for found in (together, wider, longer):
                assert torch.allclose(found[i, :n], alone[0], atol=1e-5)
    assert (together[1, 0] - together[1, 1]).abs().max() > 1e-4


def test_both_directions_reach_every_word() -> None:
    for arch in ARCHITECTURES:
        made = model(arch=arch, num_hidden_layers=1)
        words, letters, places, mask = batch()
        places, mask = torch.tensor([[0, 1, 2]]), torch.ones(1, 3, dtype=torch.bool)
        with torch.no_grad():
            before = made(words, letters, places, mask)
            for changed in (0, 2):
                other = places.clone()
                other[0, changed] = 3
                assert (made(words, letters, other, mask) - before)[0, 1].abs().max() > 1e-5, arch


def test_a_convolution_over_characters_by_hand() -> None:
    layer = CharacterConvolution(1, 1)
    with torch.no_grad():
        layer.filters.weight.copy_(torch.tensor([[1.0, 10.0, 100.0]]))
        layer.filters.bias.fill_(0.5)
        x = torch.tensor([[[1.0], [2.0], [3.0]], [[-5.0], [9.0], [9.0]]])
        mask = torch.tensor([[True] * 3, [True, False, False]])
        # windows 0 1 2, 1 2 3, 2 3 0; and 0 -5 0
        assert layer(x, mask).tolist() == [[321.5], [-49.5]]


def test_an_lstm_over_characters_is_that_of_pytorch() -> None:
    torch.manual_seed(1)
    layer, both = CharacterLSTM(3, 8), torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for way, end in zip(layer.layers.layers[0], ("", "_reverse"), strict=True):
            for name, parameter in way.named_parameters():
                getattr(both, name + end).copy_(parameter)
        x, lengths = torch.randn(3, 5, 3), [5, 1, 3]
        found = layer(x, torch.arange(5) < torch.tensor(lengths)[:, None])
        for i, n in enumerate(lengths):
            last = both(x[i : i + 1, :n])[1][0]  # (2, 1, 4)
            assert torch.allclose(found[i], last.flatten(), atol=1e-6)


def test_rare_words_are_unknown_from_time_to_time_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_input, "RARE_DROPOUT", 1.0)
    made = model()
    words = torch.tensor([2, 5, 6, 7, 8])
    tables = made.table()
    made.set_vectors(tables.flip(0))
    assert torch.equal(made.table(), tables.flip(0))
    made.set_vectors(tables)
    assert torch.equal(made.vectors(words), tables[words])
    made.train()
    assert torch.equal(made.vectors(words), tables[torch.tensor([2, 5, 1, 1, 8])])
    assert torch.equal(model(rare=8).train().vectors(words), model(rare=8).eval().vectors(words))


def test_words_outside_training_never_change() -> None:
    made = model().train()
    made(*batch()).sum().backward()
    assert made.more_words is not None and made.more_words.weight.grad is None
    assert made.words.weight.grad is not None and made.words.weight.grad[2].abs().max() > 0
    made.freeze_words()
    assert not made.words.weight.requires_grad


def test_dropout_of_a_sentence_is_the_same_for_all_words() -> None:
    layer, x = LockedDropout(0.5, steps=1), torch.ones(40, 6, 50)
    assert torch.equal(layer.eval()(x), x)
    out = layer.train()(x)
    assert torch.equal(out, out[:, :1].expand_as(out)) and not torch.equal(out[0], out[1])
    assert 0.4 < float((out == 0).float().mean()) < 0.6 and float(out.mean()) == pytest.approx(1, abs=0.1)


def test_forget_gates_of_an_lstm_begin_open() -> None:
    for layer in model().body.layers[0]:
        assert layer.bias_hh_l0[8:16].tolist() == [1.0] * 8 and layer.bias_hh_l0[:8].abs().max() < 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": "mean"}, "arch is 'mean'"),
        ({"characters": "bytes"}, "characters is 'bytes'"),
        ({"trained": 13}, "trained is 13"),
        ({"rare": 9}, "rare is 9"),
        ({"unk": 8}, "unk is 8"),
        ({"crf": 1}, "crf is 1"),
        ({"alphabet": "aa"}, "alphabet"),
        ({"alphabet": None}, "alphabet"),
        ({"characters": "lstm", "character_hidden": 5}, "character_hidden is 5"),
        ({"arch": "transformer", "hidden_size": 6}, "hidden size 6"),
        ({"num_labels": 0}, "num_labels is 0"),
        ({"dropout": 2.0}, "dropout is 2.0"),
    ],
)
def test_sizes_that_no_tagger_has(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        WordTaggerConfig(**{**SIZES, **changes})
