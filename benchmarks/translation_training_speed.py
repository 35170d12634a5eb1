"""Training a translator: speed compared with plain PyTorch.

    [NLPTOOLS_DATA=DIR] python benchmarks/translation_training_speed.py [--rounds N] [--seconds N] [--dropout P] [--compile]

3 + 3 layers, 256 wide, 4 heads, 1,024 inner, norm after each sublayer, sinusoidal positions, one embedding for source, target
and output, label smoothing 0.1, 8,000 pieces; Multi30k when NLPTOOLS_DATA has it, otherwise invented sentences of the same
lengths. Batches hold at most 4,096 tokens a side, padding included, of pairs sorted by length, and are the same for all sides.
Each round goes on with the next of them for --seconds, since batches seldom have the shape of an earlier one, and kernels that
are prepared anew for a new shape take time in real training, too. Counted are target tokens with the end of sentence, without
padding.

The other side is what one writes by hand with care: masks for padding and causality in the form that lets PyTorch take its fast
attention, AdamW fused, `clip_grad_norm_`. Ours is the training step of `train-seq2seq`, in the precision that it picks.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
import translation
from side_by_side import Job, bench, device, in_steps, precisions, separate
from torch import Tensor, nn
from torch.nn import functional as F
from training_speed import Endless

from nlptools.batches.pairs import PairBatch
from nlptools.batches.windows import NO_TARGET

LAYERS, WIDTH, HEADS, INNER, SMOOTHING = 3, 256, 4, 1024, 0.1
BATCHES = 400  # different ones
VOCABULARY, PAD = translation.PIECES + 1, translation.PAD


def main() -> None:
    with bench(__doc__, seconds=20.0, tokens=4096, dropout=0.3, compile=False) as run:
        chosen = run.options
        translation.write_tokenizer(run.folder)
        batches = [*itertools.islice(translation.training_batches(run.folder, chosen.tokens), BATCHES)]
        np.savez(run.folder / "batches.npz", *(array for batch in batches for array in vars(batch).values()))
        real, rows = sum(b.num_targets for b in batches), sum(len(b.targets) for b in batches)
        shapes = len({(b.source.shape, b.targets.shape) for b in batches})
        print(f"  {len(batches)} batches of {shapes} shapes, {rows} pairs, {real / rows:.1f} target tokens each")
        sides = {}
        for precision in precisions():
            how = "fp32" if precision == "fp32" else "bf16 autocast"
            name = f"plain loop of nn.Transformer, {how}"
            sides[name] = separate(plain, run.folder, chosen.dropout, chosen.seconds, precision)
        sides[f"nlptools, {precision}"] = separate(ours, run.folder, chosen.dropout, chosen.compile, chosen.seconds)
        title = f"training, Transformer 3+3 layers, 256 wide, 8,000 pieces, dropout {chosen.dropout:g}"
        run.compare(title, "target tokens/s", sides)


def read_batches(folder: Path) -> list[PairBatch]:
    """The batches in a folder."""
    with np.load(folder / "batches.npz") as file:
        arrays = [file[f"arr_{i}"] for i in range(len(file.files))]
    return [PairBatch(*arrays[i : i + 4]) for i in range(0, len(arrays), 4)]


class PlainTranslator(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"dropout": dropout, "batch_first": True}
        encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, **sizes)
        decoder_layer = nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, **sizes)
        # stacks of our own: `nn.Transformer` would put a norm at the end of each, which the paper does not have
        encoder = nn.TransformerEncoder(encoder_layer, LAYERS, enable_nested_tensor=False)
        decoder = nn.TransformerDecoder(decoder_layer, LAYERS)
        stacks: dict[str, Any] = {"custom_encoder": encoder, "custom_decoder": decoder}
        self.transformer = nn.Transformer(WIDTH, HEADS, batch_first=True, **stacks)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        self.dropout = nn.Dropout(dropout)
        angles = torch.arange(1024)[:, None] * 10000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], 2).flatten(1), persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        positions: Any = self.positions
        return self.dropout(self.embedding(ids) * WIDTH**0.5 + positions[: ids.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        padding = source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=source.device)
        masks = {"tgt_mask": causal, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        # padding is on the right: no real position sees it
        hidden = self.transformer(self.embed(source), self.embed(inputs), tgt_is_causal=True, **masks)
        logits = F.linear(hidden, self.embedding.weight).flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten(), ignore_index=NO_TARGET, label_smoothing=SMOOTHING)


def plain(folder: Path, dropout: float, seconds: float, precision: str) -> Job:
    """The plain loop, each round over the next batches."""
    place = torch.device(device())
    torch.manual_seed(0)
    model = PlainTranslator(dropout).to(place).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), fused=True)
    endless = itertools.cycle(read_batches(folder))

    def step() -> int:
        batch = next(endless)
        arrays = (torch.from_numpy(a).to(place) for a in (batch.source, batch.inputs, batch.targets))
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = model(*arrays)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        return batch.num_targets

    return in_steps(step, seconds)


def ours(folder: Path, dropout: float, compiled: bool, seconds: float) -> Job:
    """The steps of `train-seq2seq`, each round over the next batches."""
    from nlptools.compute.backend import Backend
    from nlptools.configs import Training
    from nlptools.models import registry
    from nlptools.training.engine.steps import Fit
    from nlptools.training.objectives import Seq2Seq

    backend, name, batches = Backend.detect(), "seq2seq-transformer", read_batches(folder)
    sizes: dict[str, Any] = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "hidden_size": WIDTH}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": LAYERS, f"{side}_heads": HEADS, f"{side}_intermediate_size": INNER}
    rates = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), dropout)
    model: Any = registry.model_class(name)(registry.config_class(name)(pad=PAD, eos=translation.EOS, **sizes, **rates))
    model.initialize()
    model.to(backend.device)
    run = Training(output="", lr=5e-4, steps=10**6, warmup=0, compile=compiled)
    fit = Fit(Seq2Seq(model, SMOOTHING), Endless(lambda: itertools.cycle(batches)), backend, run, None)
    fit.objective.train()
    return in_steps(lambda: fit.step()["targets"], seconds)


if __name__ == "__main__":
    main()
