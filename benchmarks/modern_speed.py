"""Training a LLaMA: speed compared with plain PyTorch.

    python benchmarks/modern_speed.py [small|smollm ...] [--rounds N] [--compile]

The other side is what one writes by hand: `nn.RMSNorm`, rotary positions from a table, `F.scaled_dot_product_attention`, a gated
feed-forward network, `F.cross_entropy`, `torch.optim.AdamW`, `clip_grad_norm_`. Ours is the training step of `train-lm`.
"""

from __future__ import annotations

import side_by_side
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_loops import RandomBatches, Step, compare, our_step, plain_step, speed

# vocabulary, context, width, layers, heads, heads of keys, inner width, sequences
SHAPES = {
    "small": (8192, 256, 384, 6, 6, 6, 1024, 8),
    "smollm": (49152, 512, 576, 30, 9, 3, 1536, 2),
    "tiny": (512, 32, 64, 2, 4, 2, 192, 4),
}
TITLES = {
    "small": "training, LLaMA, 6 layers, 384 wide, context 256, 8 sequences, 8,192 tokens",
    "smollm": "training, LLaMA, SmolLM 135M shape, context 512, 2 sequences",
    "tiny": "training, LLaMA, 2 layers, 64 wide, context 32, 4 sequences",
}
SIDES = {
    "plain LLaMA loop, fp32": ("plain", "fp32"),
    "nlptools, fp32": ("ours", "fp32"),
    "plain LLaMA loop, bf16 autocast": ("plain", "bf16"),
    "nlptools, bf16": ("ours", "bf16"),
}


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        B, T, D = x.shape
        h = self.norm1(x)
        q, k, v = (
            p(h).view(B, T, n, -1).transpose(1, 2)
            for p, n in ((self.q, self.heads), (self.k, self.groups), (self.v, self.groups))
        )
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def turned(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class PlainLlama(nn.Module):
    def __init__(self, vocab: int, context: int, width: int, layers: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(PlainBlock(width, heads, groups, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        size = width // heads
        angles = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def plain(shape: str, device: torch.device, bf16: bool) -> Step:
    """A step of the plain loop."""
    *sizes, batch = SHAPES[shape]
    vocab, context = sizes[:2]
    torch.manual_seed(0)
    return plain_step(PlainLlama(*sizes).to(device), vocab, batch, context, bf16)


def ours(shape: str, precision: str, compiled: bool) -> Step:
    """The step that `train-lm` takes."""
    from nlptools.models.language.modern import Modern, ModernConfig

    vocab, context, width, layers, heads, groups, inner, batch = SHAPES[shape]
    config = ModernConfig(vocab, width, layers, heads, context, num_key_value_heads=groups, intermediate_size=inner)
    return our_step(Modern(config), RandomBatches(vocab, batch, context), precision, lr=3e-4, compile=compiled)


def measure(shape: str, side: str, precision: str, compiled: bool) -> side_by_side.Measure:
    _, context, *_, batch = SHAPES[shape]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    steps = 2 * (10 if device.type == "cuda" else 1)
    step = ours(shape, precision, compiled) if side == "ours" else plain(shape, device, precision == "bf16")
    return speed(step, steps, batch * context)


if __name__ == "__main__":
    compare(__file__, __doc__, TITLES, SIDES, measure, default=("small", "smollm"), warm_up=3)
