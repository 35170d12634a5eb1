"""Training a translator: speed compared with plain PyTorch.

    NLPTOOLS_DATA=DIR python benchmarks/translation_training_speed.py [--rounds N] [--batches N] [--dropout P] [--compile]

3 + 3 layers, 256 wide, 4 heads, 1,024 inner, norm after each sublayer, sinusoidal positions, one embedding for source,
target and output, label smoothing 0.1, 8,000 pieces; Multi30k when NLPTOOLS_DATA has it, otherwise invented sentences of
the same lengths. Batches hold at most 4,096 tokens a side, padding included, of pairs sorted by length, and are the same
for all sides. Each round goes on with the next --batches of them, since batches seldom have the shape of an earlier one,
and kernels that are prepared anew for a new shape take time in real training, too. Counted are target tokens with the end
of sentence, without padding. On two cores a round of nn.Transformer in fp32 takes most of a minute.

The other side is what one writes by hand with care: masks for padding and causality in the form that lets PyTorch take its
fast attention, AdamW fused, `clip_grad_norm_`. Ours is the training step of `train-seq2seq`, in the precision that it picks.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import side_by_side
import torch
import translation
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.batches.pairs import PairBatch
from nlptools.batches.windows import NO_TARGET

LAYERS, WIDTH, HEADS, INNER, SMOOTHING = 3, 256, 4, 1024, 0.1
VOCABULARY, PAD = translation.PIECES + 1, translation.PAD


class PlainTranslator(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"dropout": dropout, "batch_first": True}
        encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, **sizes)
        decoder_layer = nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, **sizes)
        # stacks of our own: `nn.Transformer` would put a norm at the end of each, which the paper does not have
        self.transformer = nn.Transformer(
            WIDTH,
            HEADS,
            custom_encoder=nn.TransformerEncoder(encoder_layer, LAYERS, enable_nested_tensor=False),
            custom_decoder=nn.TransformerDecoder(decoder_layer, LAYERS),
            batch_first=True,
        )
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(1024), persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        positions: Any = self.positions
        return self.dropout(self.embedding(ids) * WIDTH**0.5 + positions[: ids.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=source.device)
        hidden = self.transformer(
            self.embed(source),
            self.embed(inputs),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,  # padding is on the right: no real position sees it
        )
        logits = F.linear(hidden, self.embedding.weight)
        return F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET, label_smoothing=SMOOTHING
        )


def sinusoids(length: int) -> Tensor:
    """(length, WIDTH) sines and cosines."""
    angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


def plain(batches: list[PairBatch], dropout: float, bf16: bool, steps: int) -> Callable[[], float]:
    """Tokens per second of `steps` steps of the plain loop, each time over the next batches."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = PlainTranslator(dropout).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), fused=True)
    endless = itertools.cycle(batches)

    def step() -> int:
        batch = next(endless)
        arrays = (torch.from_numpy(a).to(device) for a in (batch.source, batch.inputs, batch.targets))
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss = model(*arrays)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return batch.num_targets

    return lambda: _speed(step, steps)


def ours(batches: list[PairBatch], dropout: float, compiled: bool, steps: int) -> Callable[[], float]:
    """Tokens per second of `steps` steps as `train-seq2seq` takes them, each time over the next batches."""
    # imported here: the other side must not get what this does to the process
    from nlptools.compute.backend import Backend
    from nlptools.configs import Training
    from nlptools.models import registry
    from nlptools.training.engine.steps import Fit
    from nlptools.training.objectives import Seq2Seq

    backend = Backend.detect()
    name = "seq2seq-transformer"
    config = registry.config_class(name)(
        source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY, pad=PAD, eos=translation.EOS, hidden_size=WIDTH,
        encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_heads=HEADS, decoder_heads=HEADS,
        encoder_intermediate_size=INNER, decoder_intermediate_size=INNER,
        dropout=dropout, attention_dropout=dropout, activation_dropout=dropout,
    )  # fmt: skip
    model: Any = registry.model_class(name)(config)
    model.initialize()
    model.to(backend.device)
    run = Training(output="", lr=5e-4, steps=10**6, warmup=0, compile=compiled)
    state = Fit(Seq2Seq(model, SMOOTHING), Repeated(batches), backend, run, None)
    state.objective.train()
    return lambda: _speed(lambda: state.step()["targets"], steps)


class Repeated(side_by_side.Endless):
    """A source of batches, from the beginning again after the last."""

    def __init__(self, batches: list[PairBatch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[PairBatch]:
        return itertools.cycle(self.batches)


def _speed(step: Callable[[], float], steps: int) -> float:
    begin = time.perf_counter()
    tokens = sum(step() for _ in range(steps))
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return tokens / (time.perf_counter() - begin)


def make_batches(folder: Path, most_tokens: int, count: int) -> list[PairBatch]:
    """The first `count` batches, written to `folder` for the sides to read."""
    translation.write_tokenizer(folder)
    batches = list(itertools.islice(translation.training_batches(folder, most_tokens), count))
    np.savez(folder / "batches.npz", *(array for batch in batches for array in vars(batch).values()))
    return batches


def read_batches(folder: Path) -> list[PairBatch]:
    """See `make_batches`."""
    with np.load(folder / "batches.npz") as file:
        arrays = [file[f"arr_{i}"] for i in range(len(file.files))]
    return [PairBatch(*arrays[i : i + 4]) for i in range(0, len(arrays), 4)]


def worker(folder: str, side: str, arguments: argparse.Namespace) -> None:
    """Serve one side."""
    torch.set_num_threads(side_by_side.CORES)
    batches, dropout = read_batches(Path(folder)), arguments.dropout
    if side == "nlptools":
        measure = ours(batches, dropout, arguments.compile, arguments.batches)
    else:
        measure = plain(batches, dropout, side == "bf16", arguments.batches)
    side_by_side.serve(measure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    default = 104 if torch.cuda.is_available() else 26
    parser.add_argument("--batches", type=int, default=default, help="of a round: 26, or 104 with a GPU")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch, padding included")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--worker", nargs=2, metavar=("DIR", "SIDE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(*arguments.worker, arguments)
        return

    from nlptools.compute.backend import Backend

    precision = Backend.detect().precision
    print(side_by_side.machine())
    kinds = {
        "nn.Transformer, fp32": "fp32",
        "nn.Transformer, bf16 autocast": "bf16",
        f"nlptools, {precision}": "nlptools",
    }
    if precision != "bf16":
        del kinds["nn.Transformer, bf16 autocast"]
    passed = ["--dropout", str(arguments.dropout), "--batches", str(arguments.batches)]
    passed += ["--compile"] if arguments.compile else []
    with tempfile.TemporaryDirectory() as folder:
        # the round before the first, which is not counted, has separate batches
        batches = make_batches(Path(folder), arguments.tokens, (arguments.rounds + 1) * arguments.batches)
        real, rows = sum(b.num_targets for b in batches), sum(len(b.targets) for b in batches)
        padding = 1 - real / sum(b.targets.size for b in batches)
        shapes = len({(b.source.shape, b.targets.shape) for b in batches})
        print(
            f"{len(batches)} batches of {shapes} shapes, {arguments.batches} in a round, {rows} pairs, "
            f"{real / rows:.1f} target tokens each, {padding:.0%} padding"
        )
        workers = {name: side_by_side.Worker(__file__, folder, kind, *passed) for name, kind in kinds.items()}
        title = f"training, Transformer 3+3 layers, 256 wide, 8,000 pieces, dropout {arguments.dropout:g}"
        side_by_side.compare(title, "target tokens/s", workers, arguments.rounds)


if __name__ == "__main__":
    main()
