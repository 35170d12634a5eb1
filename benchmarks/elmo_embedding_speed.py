"""ELMo vectors: speed compared with plain PyTorch.

    [NLPTOOLS_DATA=DIR] python benchmarks/elmo_embedding_speed.py [TEXT] [--shape elmo-small] [--lines 400] [--rounds 3]

The shapes are as in `training_speed`, with random weights, which both sides share. TEXT: words between spaces, by default the
validation text of the slice of Wikipedia in NLPTOOLS_DATA, lines of 5 to 60 words. The other side is what one writes by hand:
batches of 32 lines in their order through `PlainElmo`; also under bf16 autocast. Ours embeds 512 lines at a time, as the command
does. Vectors are compared in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import samples
import torch
from plain_models import PlainElmo
from side_by_side import Job, bench, by_precision, published, read, write
from torch import Tensor
from training_speed import SHAPES, our_model, plain_model

BATCH, TOGETHER = 32, 512  # lines of the plain side, and of the command


def main() -> None:
    with bench(__doc__, "/text?", shape="elmo-small", lines=400) as run:
        text = run.options.text or published("enwiki_slice", "valid.txt")
        path = write(run.folder / "lines.txt", samples.sentences(text, run.options.lines))
        sides = by_precision({"plain nn.LSTM and character CNN": plain, "nlptools": ours}, run.options.shape, path)
        title = f"word vectors of an ELMo, {run.options.shape.removeprefix('elmo-')}, {len(read(path))} lines"
        run.compare(title, "words/s", sides, check=differences)


def differences(results: Mapping[str, np.ndarray]) -> str:
    """How far the vectors are apart."""
    theirs, ours = results["plain nn.LSTM and character CNN, fp32"], results["nlptools, fp32"]
    return f"vectors in fp32 differ by at most {np.abs(theirs - ours).max():.0e}"


def model(shape: str) -> Any:
    """An `Elmo` with random weights."""
    torch.manual_seed(0)
    made = our_model(SHAPES[shape])
    made.initialize()
    return made.eval()


def shared(theirs: PlainElmo, ours: Any) -> PlainElmo:
    """The plain implementation, with the weights of ours."""
    words = ours.words
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


def plain(shape: str, path: Path, precision: str) -> Job:
    """All vectors, by the plain implementation."""
    made: Any = plain_model(SHAPES[shape])
    theirs, lines = shared(made.eval(), model(shape)), [text.split() for text in read(path)]

    @torch.inference_mode()
    def job() -> tuple[int, np.ndarray]:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            rows = [row for at in range(0, len(lines), BATCH) for row in plain_vectors(theirs, lines[at : at + BATCH])]
        return len(torch.cat(rows)), torch.cat(rows).numpy()

    return job


def plain_vectors(theirs: PlainElmo, lines: list[list[str]]) -> list[Tensor]:
    """The last layer of each word of some lines, (T, 2 P) each."""
    from nlptools.text.byte_spelling import boundaries, spell

    begin, end = boundaries()
    longest, lengths = max(map(len, lines)), torch.tensor([len(line) for line in lines])
    spelled = np.zeros((len(lines), longest + 2, len(begin)), np.int64)
    for row, line in zip(spelled, lines, strict=True):
        row[0], row[1 : len(line) + 1], row[len(line) + 1] = begin, spell(line), end
    vectors = theirs.words(torch.from_numpy(spelled))
    steps = torch.arange(longest + 2)
    turned = torch.where(steps < lengths[:, None] + 2, lengths[:, None] + 1 - steps, steps)[..., None]
    turned = turned.expand(-1, -1, vectors.shape[2])
    forward = theirs.direction(theirs.layers[0], vectors)
    backward = theirs.direction(theirs.layers[1], vectors.gather(1, turned)).gather(1, turned)
    both = torch.cat([forward, backward], 2).float()
    return [row[1 : length + 1] for row, length in zip(both, lengths, strict=True)]


def ours(shape: str, path: Path, precision: str) -> Job:
    """All vectors, by the embedder of the command."""
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.embed import Embed
    from nlptools.inference.embedding.elmo_embedder import ElmoEmbedder

    loaded: Any = SimpleNamespace(model=model(shape), tokenizer=SimpleNamespace(lowercase=False))
    embedder = ElmoEmbedder(loaded, Backend.detect(Compute(precision=precision)), Embed(unit="word"))
    texts = read(path)

    def job() -> tuple[int, np.ndarray]:
        parts = (texts[at : at + TOGETHER] for at in range(0, len(texts), TOGETHER))
        vectors = np.concatenate([units.vectors for part in parts for units in embedder.embed_units(part)])
        return len(vectors), vectors

    return job


if __name__ == "__main__":
    main()
