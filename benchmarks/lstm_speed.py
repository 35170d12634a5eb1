"""Training an LSTM language model: speed compared with plain PyTorch.

    python benchmarks/lstm_speed.py [small|medium|large|awd ...] [--rounds N]

The shapes follow Zaremba et al. 2014 (arXiv:1409.2329) and Merity et al. 2018 (arXiv:1708.02182) on the Penn
Treebank: 10,000 words. The other side is what one writes by hand: `nn.Embedding`, `nn.LSTM`, `nn.Linear`, `F.dropout`,
`F.cross_entropy`, `clip_grad_norm_` and `torch.optim.SGD`, the state detached and carried from batch to batch; also with
oneDNN multiplying fp32, and under bf16 autocast. Ours is the training step of `train-lm` itself, in fp32 and, where the
processor has it, in bf16. All sides use plain SGD.
"""

from __future__ import annotations

from typing import Any

import side_by_side
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_loops import Step, Streams, compare, our_step, speed

# vocabulary, steps, embedding, hidden, layers, sequences, dropout; `tiny` is for tests of this script
SHAPES = {
    "small": (10_000, 20, 200, 200, 2, 20, 0.0),
    "medium": (10_000, 35, 650, 650, 2, 20, 0.5),
    "large": (10_000, 35, 1500, 1500, 2, 20, 0.65),
    "awd": (10_000, 70, 400, 1150, 3, 20, 0.4),
    "tiny": (50, 8, 16, 16, 2, 8, 0.2),
}
_STEPS = {"small": 20, "medium": 4, "large": 2, "awd": 2, "tiny": 2}  # of a round


class PlainLSTM(nn.Module):
    def __init__(self, vocab: int, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.p, self.tokens, self.head = dropout, nn.Embedding(vocab, width), nn.Linear(hidden, vocab)
        self.lstm = nn.LSTM(width, hidden, layers, dropout=dropout)

    def forward(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        x, state = self.lstm(F.dropout(self.tokens(ids.t()), self.p, self.training), state)
        logits = self.head(F.dropout(x, self.p, self.training))
        return F.cross_entropy(logits.flatten(0, 1), targets.t().reshape(-1)), state


def plain(shape: str, precision: str) -> Step:
    """A step of the plain loop."""
    vocab, length, width, hidden, layers, batch, dropout = SHAPES[shape]
    if precision == "onednn":
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]
    torch.manual_seed(0)
    model = PlainLSTM(vocab, width, hidden, layers, dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    carried: Any = None

    def step() -> None:
        nonlocal carried
        x, y = (torch.randint(vocab, (batch, length)) for _ in range(2))
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss, state = model(x, y, carried)
        carried = tuple(each.detach() for each in state)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        loss.item()

    return step


def ours(shape: str, precision: str, compiled: bool) -> Step:
    """The step that `train-lm` takes."""
    from nlptools.models.language.recurrent import LSTMConfig, RecurrentLM

    vocab, length, width, hidden, layers, batch, dropout = SHAPES[shape]
    config = LSTMConfig(vocab, hidden, layers, dropout, embedding_size=width, tied=False, output_bias=True)
    how = {"lr": 0.1, "clip": 5.0, "optimizer": "sgd", "weight_decay": 0.0, "compile": compiled}
    return our_step(RecurrentLM(config), Streams(vocab, batch, length), precision, **how)


def measure(shape: str, side: str, precision: str, compiled: bool) -> side_by_side.Measure:
    _, length, *_, batch, _ = SHAPES[shape]
    step = ours(shape, precision, compiled) if side == "ours" else plain(shape, precision)
    return speed(step, _STEPS[shape], batch * length)


TITLES = {
    shape: f"training, LSTM {shape}: {layers} x {hidden}, embeddings of {width}, {batch} sequences of {length}"
    for shape, (_, length, width, hidden, layers, batch, _) in SHAPES.items()
}
SIDES = {
    "plain nn.LSTM loop, fp32": ("plain", "fp32"),
    "nlptools, fp32": ("ours", "fp32"),
    "plain nn.LSTM loop, fp32 by oneDNN": ("plain", "onednn"),
    "plain nn.LSTM loop, bf16 autocast": ("plain", "bf16"),
    "nlptools, bf16": ("ours", "bf16"),
}

if __name__ == "__main__":
    compare(__file__, __doc__, TITLES, SIDES, measure, default=("small", "medium", "awd"))
