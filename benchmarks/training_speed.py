"""Training language models: speed compared with plain PyTorch.

    python benchmarks/training_speed.py [--shapes gpt2,smollm,lstm-medium,...] [--rounds N] [--seconds 10]
        [--compile]

The other side is what one writes by hand (`plain_models.py`): `nn.Module`s, `F.scaled_dot_product_attention` or `nn.LSTM`,
`F.cross_entropy`, `clip_grad_norm_`, and `torch.optim.AdamW`, or plain SGD for the LSTMs; in fp32, and under bf16 autocast
where the processor has bf16; LSTMs also with oneDNN multiplying fp32. States are carried from batch to batch. Ours is the
training step of `train-lm` itself, in fp32 and in bf16. LSTMs have the shapes of Zaremba et al. 2014 (arXiv:1409.2329) and
Merity et al. 2018 (arXiv:1708.02182), ELMos of Peters et al. 2018 (arXiv:1802.05365), with the softmax over all words and words
drawn by Zipf's law.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plain_models
import torch
from side_by_side import Job, bench, device, in_steps, precisions, separate
from torch import nn

from nlptools.batches.source import BatchSource

WIDE = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


class Endless(BatchSource):
    """A source of batches without a position."""

    batches_per_epoch, epoch = 1e6, 0.0

    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self.batches()

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Shape(NamedTuple):
    """What both sides train: `sizes` are those of the architecture."""

    title: str
    arch: str
    vocab: int
    length: int
    batch: int
    sizes: tuple[Any, ...]
    dropout: float = 0.0


def _lstm(name: str, length: int, width: int, hidden: int, layers: int, dropout: float) -> Shape:
    title = f"training, LSTM {name}: {layers} x {hidden}, embeddings of {width}, 20 sequences of {length}"
    return Shape(title, "lstm", 10_000, length, 20, (width, hidden, layers), dropout)


def _xl(vocab: int, length: int, width: int, inner: int, layers: int, heads: int, batch: int) -> Shape:
    title = f"training, Transformer-XL: {layers} x {width}, segment and memory of {length}, {batch} sequences"
    return Shape(title, "xl", vocab, length, batch, (width, inner, layers, heads), 0.2)


def _elmo(name: str, hidden: int, cells: int) -> Shape:
    title = f"training, ELMo {name}: 2 x {cells} in both directions, projected to {hidden}, 32 texts of 64 words"
    return Shape(title, "elmo", 30_000, 64, 32, (hidden, cells, 1, WIDE), 0.1)


_CHAR = "training, 6 layers, 384 wide, context 256, 16 sequences, characters"
SHAPES = {
    "gpt2": Shape("training, GPT-2 124M shape, context 512, 4 sequences", "gpt", 50257, 512, 4, (768, 12, 12)),
    "char": Shape(_CHAR, "gpt", 65, 256, 16, (384, 6, 6)),
    "char-dropout": Shape(f"{_CHAR}, dropout 0.2", "gpt", 65, 256, 16, (384, 6, 6), 0.2),
    "llama-small": Shape("training, LLaMA, 6 layers, 384 wide, context 256, 8 sequences, 8,192 tokens", "llama",
                         8192, 256, 8, (384, 6, 6, 6, 1024)),
    "smollm": Shape("training, LLaMA, SmolLM 135M shape, context 512, 2 sequences", "llama",
                    49152, 512, 2, (576, 30, 9, 3, 1536)),
    "lstm-small": _lstm("small", 20, 200, 200, 2, 0.0),
    "lstm-medium": _lstm("medium", 35, 650, 650, 2, 0.5),
    "lstm-large": _lstm("large", 35, 1500, 1500, 2, 0.65),
    "lstm-awd": _lstm("awd", 70, 400, 1150, 3, 0.4),
    "xl-ptb": _xl(10_000, 70, 380, 900, 16, 10, 20),
    "xl-small": _xl(10_000, 64, 256, 1024, 4, 4, 16),
    "xl-char": _xl(65, 128, 384, 1536, 6, 6, 16),
    "elmo-small": _elmo("small", 128, 1024),
    "elmo-medium": _elmo("medium", 256, 2048),
    "toy": Shape("training, a toy", "gpt", 50, 16, 2, (16, 1, 1)),
    "toy-llama": Shape("training, a toy LLaMA", "llama", 50, 16, 2, (16, 1, 1, 1, 32)),
    "toy-lstm": Shape("training, a toy LSTM", "lstm", 50, 8, 2, (16, 16, 2)),
    "toy-xl": Shape("training, a toy Transformer-XL", "xl", 50, 8, 2, (16, 32, 1, 1)),
    "toy-elmo": Shape("training, a toy ELMo", "elmo", 60, 8, 2, (16, 24, 1, ((1, 8), (3, 8))), 0.1),
}  # fmt: skip
USUAL = [name for name in SHAPES if not name.startswith("toy") and name not in ("lstm-large", "elmo-medium")]


def main() -> None:
    with bench(__doc__, shapes=SHAPES, seconds=10.0, compile=False) as run:
        chosen = run.options
        for name in USUAL if chosen.shapes == [*SHAPES] else chosen.shapes:
            shape = SHAPES[name]
            sides = {}
            for precision in precisions():
                how = "fp32" if precision == "fp32" else "bf16 autocast"
                sides[f"plain loop, {how}"] = separate(plain, name, chosen.seconds, precision)
                sides[f"nlptools, {precision}"] = separate(ours, name, chosen.seconds, precision, chosen.compile)
            if shape.arch == "lstm" and "bf16" in precisions():
                sides["plain loop, fp32 by oneDNN"] = separate(plain, name, chosen.seconds, "onednn")
            run.compare(shape.title, "tokens/s", sides)


# -- the plain loop -----------------------------------------------------------------------------------------------------


def plain(name: str, seconds: float, precision: str) -> Job:
    """A loop as one writes it by hand."""
    shape, place = SHAPES[name], torch.device(device())
    if precision == "onednn":
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    torch.manual_seed(0)
    model: nn.Module = plain_model(shape).to(place)
    if shape.arch == "lstm":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    clip = {"lstm": 5.0, "xl": 0.25}.get(shape.arch, 1.0)
    state: Any = None
    texts = (
        itertools.cycle(torch.from_numpy(drawn_words(shape)).to(place).split(shape.batch))
        if shape.arch == "elmo"
        else None
    )

    def step() -> int:
        nonlocal state
        x, y = (torch.randint(shape.vocab, (shape.batch, shape.length), device=place) for _ in range(2))
        if texts:
            x = nn.functional.pad(next(texts), (1, 1), value=1)
            x[:, 0], x[:, -1] = shape.vocab, shape.vocab + 1
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bf16"):
            loss, state = model(x, y, state)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        loss.item()
        return shape.batch * shape.length

    return in_steps(step, seconds)


def plain_model(shape: Shape) -> nn.Module:
    """The model of the other side."""
    vocab, sizes, dropout = shape.vocab, shape.sizes, shape.dropout
    if shape.arch == "elmo":
        from nlptools.text.byte_spelling import boundaries, spell

        spellings = torch.from_numpy(np.concatenate([spell(words(vocab)), boundaries()])).long()
        return plain_models.PlainElmo(spellings, *sizes, dropout)
    if shape.arch == "gpt":
        return plain_models.PlainGPT(vocab, shape.length, *sizes, dropout)
    if shape.arch == "llama":
        return plain_models.PlainLlama(vocab, shape.length, *sizes)
    return {"lstm": plain_models.PlainLSTM, "xl": plain_models.PlainXL}[shape.arch](vocab, *sizes, dropout)


# -- ours -------------------------------------------------------------------------------------------------------------


def ours(name: str, seconds: float, precision: str, compiled: bool) -> Job:
    """The step that `train-lm` takes."""
    shape = SHAPES[name]
    how: dict[str, Any] = {"lr": 3e-4, "compile": compiled}
    how |= {"lstm": {"lr": 0.1, "clip": 5.0, "optimizer": "sgd", "weight_decay": 0.0}, "xl": {"clip": 0.25}}.get(
        shape.arch, {}
    )
    step = our_step(our_model(shape), our_batches(shape), precision, shape.arch == "elmo", **how)
    return in_steps(lambda: step() and shape.batch * shape.length, seconds)


def our_step(
    model: Any, source: Any, precision: str, both_directions: bool = False, **options: Any
) -> Callable[[], Any]:
    """The training step of a model; `options` are fields of `Training`."""
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute, Training
    from nlptools.training.bidirectional import BidirectionalLM
    from nlptools.training.engine.steps import Fit
    from nlptools.training.objectives import CausalLM

    backend = Backend.detect(Compute(precision=precision))
    model.initialize()
    model.to(backend.device)
    run = Training(output="", steps=10**6, warmup=0, **options)
    fit = Fit((BidirectionalLM if both_directions else CausalLM)(model), source, backend, run, None)
    fit.objective.train()
    return fit.step


def our_model(shape: Shape) -> Any:
    """The model of our side."""
    vocab, length, p = shape.vocab, shape.length, shape.dropout
    rates = {"embedding_dropout": p, "hidden_dropout": p, "attention_dropout": p}
    if shape.arch == "gpt":
        from nlptools.models.language.gpt import GPT, GPTConfig

        return GPT(GPTConfig(vocab, *shape.sizes, length, **rates))
    if shape.arch == "llama":
        from nlptools.models.language.modern import Modern, ModernConfig

        width, layers, heads, groups, inner = shape.sizes
        return Modern(
            ModernConfig(vocab, width, layers, heads, length, num_key_value_heads=groups, intermediate_size=inner)
        )
    if shape.arch == "lstm":
        from nlptools.models.language.recurrent import LSTMConfig, RecurrentLM

        width, hidden, layers = shape.sizes
        return RecurrentLM(LSTMConfig(vocab, hidden, layers, p, embedding_size=width, tied=False, output_bias=True))
    if shape.arch == "xl":
        from nlptools.models.language.transformer_xl import TransformerXL, TransformerXLConfig

        width, inner, layers, heads = shape.sizes
        memory = {"memory_length": length, "inference_memory": length, "intermediate_size": inner}
        return TransformerXL(TransformerXLConfig(vocab, width, layers, heads, **memory, **rates))
    from nlptools.models.language.elmo import Elmo, ElmoConfig

    hidden, cells, highways, filters = shape.sizes
    return Elmo(ElmoConfig(vocab, hidden, cells, 2, highways, 16, filters, hidden_dropout=p))


def our_batches(shape: Shape) -> Any:
    """Random tokens; as streams for models with a state."""
    if shape.arch == "elmo":
        from nlptools.batches.spelled_texts import SpelledTexts
        from nlptools.corpora.token_file import Corpus, TextCounts
        from nlptools.text.byte_spelling import spell

        ids = np.pad(drawn_words(shape), ((0, 0), (0, 1)), constant_values=1).ravel()
        corpus = Corpus(Path(), np.append(1, ids).astype(np.uint32), TextCounts(tokens=len(ids)), "", spell([]))
        return SpelledTexts(corpus, words(shape.vocab), shape.length, shape.batch, eos=1, unk=0, seed=0)
    from nlptools.batches.windows import TextBatch

    def batches() -> Iterator[TextBatch]:
        rng = np.random.default_rng(0)
        for number in itertools.count():
            batch = TextBatch(*(rng.integers(0, shape.vocab, (shape.batch, shape.length)) for _ in range(2)))
            yield replace(batch, continues=number > 0) if shape.arch in ("lstm", "xl") else batch

    return Endless(batches)


def words(count: int) -> list[str]:
    """Different words, the first ones short."""
    letters = "etaoinshrdlucm"
    return [letters[k % 14] + "".join(letters[int(d)] for d in str(k * 7919 % 10**9)) for k in range(count)]


def drawn_words(shape: Shape) -> np.ndarray:
    """(64 batches, T) words by Zipf's law, from 2 on; the last place of a text is its end."""
    odds = 1 / np.arange(1, shape.vocab - 1)
    return (
        np.random.default_rng(0).choice(shape.vocab - 2, (64 * shape.batch, shape.length - 1), p=odds / odds.sum()) + 2
    )


if __name__ == "__main__":
    main()
