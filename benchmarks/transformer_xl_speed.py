"""Training a Transformer-XL: speed compared with plain PyTorch.

    python benchmarks/transformer_xl_speed.py [ptb|small|char ...] [--rounds N]

The other side is written after the paper (arXiv:1901.02860, appendix B) in plain operations: one product for queries, keys and
values of memory and segment, the shift by padding, softmax, `torch.optim.AdamW`, `clip_grad_norm_`. Ours is the training step of
`train-lm` itself, in fp32 and, where the processor has it, in bf16.
"""

from __future__ import annotations

import side_by_side
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_loops import Step, Streams, compare, our_step, speed

# vocabulary, segment and memory, width, inner width, layers, heads, sequences, dropout; `tiny` is for tests of this script
SHAPES = {
    "ptb": (10_000, 70, 380, 900, 16, 10, 20, 0.2),
    "small": (10_000, 64, 256, 1024, 4, 4, 16, 0.2),
    "char": (65, 128, 384, 1536, 6, 6, 16, 0.2),
    "tiny": (50, 8, 16, 32, 2, 2, 4, 0.2),
}


class PlainLayer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.distance = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, positions: Tensor, u: Tensor, v: Tensor, later: Tensor) -> Tensor:
        B, T, D = x.shape
        joined = torch.cat([memory, x], 1)
        S = joined.shape[1]
        q, k, v_ = (y.view(B, S, self.heads, self.size).transpose(1, 2) for y in self.qkv(joined).chunk(3, -1))
        q = q[:, :, S - T :]
        r = self.distance(positions).view(S, self.heads, self.size).transpose(0, 1)
        by_distance = (q + v[:, None]) @ r.transpose(1, 2)
        shifted = F.pad(by_distance, (1, 0)).view(B, self.heads, S + 1, T)[:, :, 1:].reshape(by_distance.shape)
        scores = ((q + u[:, None]) @ k.transpose(2, 3) + shifted) * self.size**-0.5
        weights = self.dropout(scores.masked_fill(later, -torch.inf).softmax(-1))
        y = self.out((weights @ v_).transpose(1, 2).reshape(B, T, D))
        x = self.norm1(x + self.dropout(y))
        return self.norm2(x + self.dropout(self.down(self.dropout(F.relu(self.up(x))))))


class PlainXL(nn.Module):
    def __init__(self, shape: str) -> None:
        super().__init__()
        vocab, _, width, inner, layers, heads, _, dropout = SHAPES[shape]
        self.tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(PlainLayer(width, inner, heads, dropout) for _ in range(layers))
        self.u, self.v = (nn.Parameter(torch.zeros(heads, width // heads)) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, targets: Tensor, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        T, S, D = ids.shape[1], ids.shape[1] + memory[0].shape[1], self.tokens.embedding_dim
        angles = torch.arange(S - 1, -1, -1)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
        positions = self.dropout(torch.cat([angles.sin(), angles.cos()], 1).to(ids.device))
        later = torch.ones(T, S, dtype=torch.bool, device=ids.device).triu(S - T + 1)
        x, kept = self.dropout(self.tokens(ids) * D**0.5), []
        for layer, before in zip(self.layers, memory, strict=True):
            kept.append(torch.cat([before, x], 1)[:, -T:].detach())
            x = layer(x, before.to(x.dtype), positions, self.u, self.v, later)
        logits = F.linear(self.dropout(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), kept


def plain(shape: str, device: torch.device, bf16: bool) -> Step:
    """A step of the plain loop."""
    vocab, length, width, _, layers, _, batch, _ = SHAPES[shape]
    torch.manual_seed(0)
    model = PlainXL(shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    memory = [torch.zeros(batch, 0, width, device=device)] * layers

    def step() -> None:
        nonlocal memory
        x, y = (torch.randint(vocab, (batch, length), device=device) for _ in range(2))
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss, memory = model(x, y, memory)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        loss.item()

    return step


def ours(shape: str, precision: str, compiled: bool) -> Step:
    """The step that `train-lm` takes."""
    from nlptools.models.language.transformer_xl import TransformerXL, TransformerXLConfig

    vocab, length, width, inner, layers, heads, batch, dropout = SHAPES[shape]
    rates = {"embedding_dropout": dropout, "hidden_dropout": dropout, "attention_dropout": dropout}
    sizes = {"memory_length": length, "inference_memory": length, "intermediate_size": inner}
    model = TransformerXL(TransformerXLConfig(vocab, width, layers, heads, **sizes, **rates))
    return our_step(model, Streams(vocab, batch, length), precision, lr=3e-4, clip=0.25, compile=compiled)


def measure(shape: str, side: str, precision: str, compiled: bool) -> side_by_side.Measure:
    _, length, *_, batch, _ = SHAPES[shape]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    step = ours(shape, precision, compiled) if side == "ours" else plain(shape, device, precision == "bf16")
    return speed(step, 4, batch * length)


TITLES = {
    shape: f"training, Transformer-XL: {layers} x {width}, segment and memory of {length}, {batch} sequences"
    for shape, (_, length, width, _, layers, _, batch, _) in SHAPES.items()
}
SIDES = {
    "plain loop, fp32": ("plain", "fp32"),
    "nlptools, fp32": ("ours", "fp32"),
    "plain loop, bf16 autocast": ("plain", "bf16"),
    "nlptools, bf16": ("ours", "bf16"),
}

if __name__ == "__main__":
    compare(__file__, __doc__, TITLES, SIDES, measure, default=("ptb", "small", "char"))
