"""Training a GPT-2: speed compared with plain PyTorch.

    python benchmarks/training_speed.py [gpt2|char|char-dropout ...] [--rounds N] [--compile]

The other side is what one writes by hand: `nn.Module`s, `F.scaled_dot_product_attention`, `F.cross_entropy`,
`torch.optim.AdamW`, `clip_grad_norm_`. Ours is the training step of `train-lm` itself, in fp32 and, where the processor
has it, in bf16.
"""

from __future__ import annotations

import side_by_side
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_loops import RandomBatches, Step, compare, our_step, plain_step, speed

# vocabulary, context, width, layers, heads, sequences, dropout
SHAPES = {
    "gpt2": (50257, 512, 768, 12, 12, 4, 0.0),
    "char": (65, 256, 384, 6, 6, 16, 0.0),
    "char-dropout": (65, 256, 384, 6, 6, 16, 0.2),
}
TITLES = {
    "gpt2": "training, GPT-2 124M shape, context 512, 4 sequences",
    "char": "training, 6 layers, 384 wide, context 256, 16 sequences, characters",
    "char-dropout": "the same with dropout 0.2",
}
SIDES = {
    "plain loop, fp32": ("plain", "fp32"),
    "nlptools, fp32": ("ours", "fp32"),
    "plain loop, bf16 autocast": ("plain", "bf16"),
    "nlptools, bf16": ("ours", "bf16"),
}


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.heads, D // self.heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(D, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(B, T, D)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class PlainGPT(nn.Module):
    def __init__(self, vocab: int, context: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(PlainBlock(width, heads, dropout) for _ in range(layers))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def plain(shape: str, device: torch.device, bf16: bool) -> Step:
    """A step of the plain loop."""
    vocab, context, width, layers, heads, batch, dropout = SHAPES[shape]
    torch.manual_seed(0)
    return plain_step(PlainGPT(vocab, context, width, layers, heads, dropout).to(device), vocab, batch, context, bf16)


def ours(shape: str, precision: str, compiled: bool) -> Step:
    """The step that `train-lm` takes."""
    from nlptools.models.language.gpt import GPT, GPTConfig

    vocab, context, width, layers, heads, batch, dropout = SHAPES[shape]
    rates = {"embedding_dropout": dropout, "hidden_dropout": dropout, "attention_dropout": dropout}
    model = GPT(GPTConfig(vocab, width, layers, heads, context, **rates))
    return our_step(model, RandomBatches(vocab, batch, context), precision, lr=3e-4, compile=compiled)


def measure(shape: str, side: str, precision: str, compiled: bool) -> side_by_side.Measure:
    _, context, *_, batch, _ = SHAPES[shape]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    steps = (2 if shape == "gpt2" else 4) * (10 if device.type == "cuda" else 1)
    step = ours(shape, precision, compiled) if side == "ours" else plain(shape, device, precision == "bf16")
    return speed(step, steps, batch * context)


if __name__ == "__main__":
    compare(__file__, __doc__, TITLES, SIDES, measure, warm_up=6)
