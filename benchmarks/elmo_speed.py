"""Training an ELMo: speed compared with plain PyTorch.

    python benchmarks/elmo_speed.py [small|medium ...] [--rounds N]

The shapes are as in the presets (Peters et al. 2018, arXiv:1802.05365), with the softmax over all words. Words are drawn
from 30,000 by Zipf's law, in texts of one length. The other side is what one writes by hand: `nn.Conv1d` over the 50 characters
of each word of the batch, `nn.LSTM` with `proj_size` in each direction (without ELMo's limits), `F.cross_entropy`,
`clip_grad_norm_` and `torch.optim.AdamW`; also under bf16 autocast. Ours is the training step of `train-lm` itself, in fp32 and,
where the processor has it, in bf16.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import side_by_side
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_loops import Step, compare, our_step, speed

WIDE = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
# words, texts of a batch, words of a text, hidden, cells, highway layers, filters; `tiny` is for tests of this script
SHAPES = {
    "small": (30_000, 32, 64, 128, 1024, 1, WIDE),
    "medium": (30_000, 32, 64, 256, 2048, 1, WIDE),
    "tiny": (60, 4, 8, 16, 24, 1, ((1, 8), (3, 8))),
}
_STEPS = {"small": 1, "medium": 1, "tiny": 2}  # of a round
_DROPOUT, _CHARACTER, _COLUMNS = 0.1, 16, 50


def words(count: int) -> list[str]:
    """Different words, the first ones short."""
    letters = "etaoinshrdlucm"
    return [letters[k % 14] + "".join(letters[int(d)] for d in str(k * 7919 % 10**9)) for k in range(count)]


def texts(shape: str, count: int) -> np.ndarray:
    """(count, T) words by Zipf's law, from 2 on."""
    vocab, _, length, *_ = SHAPES[shape]
    odds = 1 / np.arange(1, vocab - 1)
    return np.random.default_rng(0).choice(vocab - 2, (count, length - 1), p=odds / odds.sum()) + 2


class PlainElmo(nn.Module):
    def __init__(self, shape: str) -> None:
        super().__init__()
        vocab, _, _, hidden, cells, highways, filters = SHAPES[shape]
        held = sum(number for _, number in filters)
        self.characters = nn.Embedding(262, _CHARACTER)
        self.filters = nn.ModuleList(nn.Conv1d(_CHARACTER, number, width) for width, number in filters)
        self.highways = nn.ModuleList(nn.Linear(held, 2 * held) for _ in range(highways))
        self.projection, self.head = nn.Linear(held, hidden), nn.Linear(hidden, vocab)
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.LSTM(hidden, cells, proj_size=hidden, batch_first=True) for _ in "ab") for _ in "12"
        )

    def forward(self, spellings: Tensor, ids: Tensor) -> Tensor:
        """(B, T, C) characters and (B, T) ids of texts with their boundaries -> the mean loss of both directions."""
        x = self.characters(spellings.flatten(0, 1)).transpose(1, 2)
        y = torch.cat([each(x).amax(2).relu() for each in self.filters], 1)
        for highway in self.highways:
            change, gate = highway(y).chunk(2, 1)
            y = gate.sigmoid() * change.relu() + (1 - gate.sigmoid()) * y
        vectors = self.projection(y).view(*ids.shape, -1)
        sides = [self._side(layer, vectors.flip(1) if i else vectors) for i, layer in enumerate(self.layers)]
        targets = ids[:, 1:], ids.flip(1)[:, 1:]
        losses = [
            F.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), y.reshape(-1))
            for x, y in zip(sides, targets, strict=True)
        ]
        return torch.stack(losses).mean()

    def _side(self, layers: nn.ModuleList, x: Tensor) -> Tensor:
        for i, layer in enumerate(layers):
            fed = F.dropout(x, _DROPOUT, self.training)
            x = layer(fed)[0]
            x = x + fed if i else x
        return F.dropout(x, _DROPOUT, self.training)


def plain(shape: str, precision: str) -> Step:
    """A step of the plain loop."""
    from nlptools.text.byte_spelling import boundaries, spell

    vocab, batch, *_ = SHAPES[shape]
    table = torch.from_numpy(np.concatenate([spell(words(vocab)), boundaries()])).long()
    torch.manual_seed(0)
    model, number = PlainElmo(shape), 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    drawn = torch.from_numpy(texts(shape, 64 * batch))

    def step() -> None:
        nonlocal number
        ids = F.pad(drawn[number % 64 * batch :][:batch], (1, 1), value=1)
        places = ids.clone()
        places[:, 0], places[:, -1], number = vocab, vocab + 1, number + 1
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(table[places], ids)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step


def ours(shape: str, precision: str, compiled: bool) -> Step:
    """The step that `train-lm` takes."""
    from nlptools.batches.spelled_texts import SpelledTexts
    from nlptools.corpora.token_file import Corpus, TextCounts
    from nlptools.models.language.elmo import Elmo, ElmoConfig
    from nlptools.text.byte_spelling import spell
    from nlptools.training.bidirectional import BidirectionalLM

    vocab, batch, length, hidden, cells, highways, filters = SHAPES[shape]
    ids = np.pad(texts(shape, 64 * batch), ((0, 0), (0, 1)), constant_values=1).ravel()
    corpus = Corpus(Path(), np.append(1, ids).astype(np.uint32), TextCounts(tokens=len(ids)), "", spell([]))
    source = SpelledTexts(corpus, words(vocab), length, batch, eos=1, unk=0, seed=0)
    config = ElmoConfig(vocab, hidden, cells, 2, highways, _CHARACTER, filters, hidden_dropout=_DROPOUT)
    how = {"lr": 1e-3, "weight_decay": 0.01, "compile": compiled}
    return our_step(Elmo(config), source, precision, objective=BidirectionalLM, **how)


def measure(shape: str, side: str, precision: str, compiled: bool) -> side_by_side.Measure:
    _, batch, length, *_ = SHAPES[shape]
    step = ours(shape, precision, compiled) if side == "ours" else plain(shape, precision)
    return speed(step, _STEPS[shape], batch * length)


TITLES = {
    shape: f"training, ELMo {shape}: 2 x {cells} in both directions, projected to {hidden}, {batch} texts of {length} words"
    for shape, (_, batch, length, hidden, cells, *_) in SHAPES.items()
}
SIDES = {
    "plain nn.LSTM and character CNN, fp32": ("plain", "fp32"),
    "nlptools, fp32": ("ours", "fp32"),
    "plain nn.LSTM and character CNN, bf16 autocast": ("plain", "bf16"),
    "nlptools, bf16": ("ours", "bf16"),
}

if __name__ == "__main__":
    compare(__file__, __doc__, TITLES, SIDES, measure, default=("small",), warm_up=1)
