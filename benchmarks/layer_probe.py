"""Layers of a frozen encoder for tagging.

    NLPTOOLS_DATA=DIR python benchmarks/layer_probe.py MODEL [--sentences 3000] [--data conll2003]

The six choices of Devlin et al. 2019 (table 7): embeddings, second-to-last, last, sum of the last four, the last four side by
side, sum of all. For each, `nlptools embed --unit word` turns the words of CoNLL-2003 (DIR/conll2003: eng.train, eng.testa)
into vectors, and a linear classifier learns their tags; entity F1 on testa is conlleval's. A choice that wins here holds more
of what names are in a form that is easy to read off; a tagger with layers of its own, as in the paper, levels the choices.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import records
import side_by_side
import torch
from side_by_side import nlptools

from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.formats.tag_schemes import as_iob2
from nlptools.metrics.spans import entities

CHOICES = {
    "embeddings": "0",
    "second to last": "-2",
    "last": "last",
    "sum of the last four": "sum:-4:",
    "last four side by side": "concat:-4:",
    "sum of all": "sum:all",
}
EPOCHS, BATCH, RATE = 6, 256, 2e-3


def sentences(path: Path, most: int) -> list[Any]:
    """The first sentences of a column file, with IOB2 tags."""
    found = itertools.islice(read("tag", [str(path)], Options()), most)
    return [sentence for sentence in as_iob2(list(found))[0] if sentence.words]


def vectors(model: str, layers: str, text: Sequence[Any], folder: Path) -> np.ndarray:
    """(words, D) of all sentences."""
    lines, out = folder / "lines", folder / "vectors.npy"
    lines.write_text("".join(" ".join(sentence.words) + "\n" for sentence in text), encoding="utf-8")
    options = ["--unit", "word", "--layers", layers, "--long", "window", "--to", "npy", "-q", "--force"]
    nlptools("embed", model, *options, "--index", folder / "index", "-o", out, lines)
    found: np.ndarray = np.load(out)
    assert len(found) == sum(len(sentence.words) for sentence in text), "a vector for each word"
    return found


def probe(train: np.ndarray, labels: np.ndarray, test: np.ndarray, count: int) -> np.ndarray:
    """The labels that a linear classifier gives to `test`, (words,)."""
    torch.manual_seed(0)
    mean, scale = train.mean(0), train.std(0) + 1e-6
    x, y = torch.from_numpy((train - mean) / scale), torch.from_numpy(labels)
    model = torch.nn.Linear(x.shape[1], count)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
    with torch.inference_mode():
        return model(torch.from_numpy((test - mean) / scale)).argmax(1).numpy()


def main() -> None:
    arguments = side_by_side.options(__doc__, "model", sentences=3000, data="conll2003")
    folder = side_by_side.published(arguments.data)
    train, test = sentences(folder / "eng.train", arguments.sentences), sentences(folder / "eng.testa", 1 << 30)
    names = sorted({tag for sentence in train for tag in sentence.tags})
    labels = np.array([names.index(tag) for sentence in train for tag in sentence.tags])
    gold = [list(sentence.tags) for sentence in test]
    print(side_by_side.machine())
    print(f"  {len(train):,} sentences to learn from, {len(test):,} to measure on")
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, layers in CHOICES.items():
            sides = [vectors(arguments.model, layers, text, Path(temporary)) for text in (train, test)]
            tags = iter([names[label] for label in probe(sides[0], labels, sides[1], len(names))])
            predicted = [[next(tags) for _ in row] for row in gold]
            found[name] = 100 * float(dict(entities(gold, predicted, "conlleval").values())["f1"])
            print(f"  {name:<24} F1 {found[name]:.1f}", flush=True)
    records.record(
        "names in CoNLL-2003 from the layers of a model", "F1", {f"nlptools, {k}": v for k, v in found.items()}
    )
    print()
    most = max(found.values())
    for name, score in found.items():
        print(f"  {name:<24} {'█' * round(40 * score / most):<40} {score:.1f}")


if __name__ == "__main__":
    main()
