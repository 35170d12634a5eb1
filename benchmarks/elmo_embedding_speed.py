"""ELMo vectors: speed compared with plain PyTorch.

    [NLPTOOLS_DATA=DIR] python benchmarks/elmo_embedding_speed.py [TEXT] [--shape small] [--lines 400] [--rounds 3]

The shapes are as in `elmo_speed`, with random weights, which both sides share. TEXT: words between spaces, by default the
validation text of the slice of Wikipedia in NLPTOOLS_DATA, lines of 5 to 60 words. The other side is what one writes by hand:
batches of 32 lines in their order, `nn.Conv1d` over the 50 characters of each of their words, `nn.LSTM` with `proj_size` in
each direction; also under bf16 autocast. Ours embeds 512 lines at a time, as the command does. Vectors are compared in fp32.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import side_by_side
import torch
from elmo_speed import SHAPES, PlainElmo
from torch import Tensor

BATCH = 32  # lines, of the plain side
TOGETHER = 512  # lines that the command reads together


def model(shape: str) -> Any:
    """An `Elmo` with random weights."""
    from nlptools.models.language.elmo import Elmo, ElmoConfig

    vocab, _, _, hidden, cells, highways, filters = SHAPES[shape]
    torch.manual_seed(0)
    made = Elmo(ElmoConfig(vocab, hidden, cells, 2, highways, 16, filters))
    made.initialize()
    return made.eval()


def plain(shape: str, ours: Any) -> PlainElmo:
    """The plain implementation, with the weights of `ours`."""
    theirs, words = PlainElmo(shape).eval(), ours.words
    with torch.no_grad():
        theirs.characters.weight.copy_(words.embedding.weight)
        for conv, own, width in zip(theirs.filters, words.filters, words.widths, strict=True):
            conv.weight.copy_(own.weight.view(len(own.weight), width, -1).transpose(1, 2))
            conv.bias.copy_(own.bias)
        for one, other in zip(theirs.highways, words.highways, strict=True):
            one.load_state_dict(other.state_dict())
        theirs.projection.load_state_dict(words.projection.state_dict())
        for layers, direction in zip(theirs.layers, ours.directions, strict=True):
            for lstm, layer in zip(layers, direction.layers, strict=True):
                for name in ("weight_ih_l0", "weight_hh_l0", "weight_hr_l0"):
                    getattr(lstm, name).copy_(getattr(layer, name))
                lstm.bias_ih_l0.copy_(layer.bias_l0)
                lstm.bias_hh_l0.zero_()
    return theirs


@torch.inference_mode()
def plain_vectors(theirs: PlainElmo, lines: list[list[str]]) -> list[Tensor]:
    """The last layer of each word of some lines, (T, 2 P) each."""
    from nlptools.text.byte_spelling import boundaries, spell

    begin, end = boundaries()
    longest, lengths = max(map(len, lines)), torch.tensor([len(line) for line in lines])
    spelled = np.zeros((len(lines), longest + 2, len(begin)), np.int64)
    for row, line in zip(spelled, lines, strict=True):
        row[0], row[1 : len(line) + 1], row[len(line) + 1] = begin, spell(line), end
    x = theirs.characters(torch.from_numpy(spelled).flatten(0, 1)).transpose(1, 2)
    y = torch.cat([each(x).amax(2).relu() for each in theirs.filters], 1)
    for highway in theirs.highways:
        change, gate = highway(y).chunk(2, 1)
        y = gate.sigmoid() * change.relu() + (1 - gate.sigmoid()) * y
    vectors = theirs.projection(y).view(len(lines), longest + 2, -1)
    steps = torch.arange(longest + 2)
    turned = torch.where(steps < lengths[:, None] + 2, lengths[:, None] + 1 - steps, steps)[..., None]
    turned = turned.expand(-1, -1, vectors.shape[2])
    sides = []
    for layers, fed in zip(theirs.layers, (vectors, vectors.gather(1, turned)), strict=True):
        for i, layer in enumerate(layers):
            out = layer(fed)[0]
            fed = out + fed if i else out
        sides.append(fed)
    both = torch.cat([sides[0], sides[1].gather(1, turned)], 2).float()
    return [row[1 : length + 1] for row, length in zip(both, lengths, strict=True)]


def plain_side(shape: str, precision: str, texts: list[str]) -> Callable[[], list[Tensor]]:
    """All vectors, by the plain implementation."""
    theirs, lines = plain(shape, model(shape)), [text.split() for text in texts]

    def vectors() -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            batches = [lines[at : at + BATCH] for at in range(0, len(lines), BATCH)]
            return [row for batch in batches for row in plain_vectors(theirs, batch)]

    return vectors


def our_side(shape: str, precision: str, texts: list[str]) -> Callable[[], list[Tensor]]:
    """All vectors, by the embedder of the command."""
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.embed import Embed
    from nlptools.inference.embedding.elmo_embedder import ElmoEmbedder

    loaded: Any = SimpleNamespace(model=model(shape), tokenizer=SimpleNamespace(lowercase=False))
    embedder = ElmoEmbedder(loaded, Backend.detect(Compute(precision=precision)), Embed(unit="word"))

    def vectors() -> list[Tensor]:
        parts = [texts[at : at + TOGETHER] for at in range(0, len(texts), TOGETHER)]
        return [torch.from_numpy(units.vectors) for part in parts for units in embedder.embed_units(part)]

    return vectors


def worker(shape: str, side: str, precision: str, place: str) -> None:
    """Serve one side."""
    torch.set_num_threads(side_by_side.CORES)
    texts = Path(place, "lines.txt").read_text(encoding="utf-8").split("\n")[:-1]
    count = sum(len(text.split()) for text in texts)
    vectors = (our_side if side == "ours" else plain_side)(shape, precision, texts)

    def measure() -> float:
        begin = time.perf_counter()
        result = vectors()
        took = time.perf_counter() - begin
        np.save(Path(place, f"{side}-{precision}.npy"), torch.cat(result).numpy())
        return count / took

    side_by_side.serve(measure)


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, "/text?", shape="small", lines=400, rounds=3)
    if options.worker:
        worker(*options.worker)
        return

    print(side_by_side.machine())
    text = options.text or side_by_side.published("enwiki_slice", "valid.txt")
    rows = [line for line in text.read_text(encoding="utf-8").split("\n") if 5 <= len(line.split()) <= 60]
    precisions = side_by_side.precisions()
    named = {"plain": "plain nn.LSTM and character CNN", "ours": "nlptools"}
    with tempfile.TemporaryDirectory() as place:
        Path(place, "lines.txt").write_text("".join(f"{row}\n" for row in rows[: options.lines]), encoding="utf-8")
        sides = {f"{name}, {p}": (side, p) for p in precisions for side, name in named.items()}
        workers = {name: side_by_side.Worker(__file__, options.shape, *side, place) for name, side in sides.items()}
        title = f"word vectors of an ELMo, {options.shape}, {min(len(rows), options.lines)} lines"
        side_by_side.compare(title, "words/s", workers, options.rounds)
        theirs, ours = (np.load(Path(place, f"{side}-fp32.npy")) for side in named)
        print(f"  largest difference in fp32: {np.abs(theirs - ours).max():.1e}")


if __name__ == "__main__":
    main()
