"""Masked words of Wikipedia: the fillers of `fill`, compared with the masked accuracy of pretraining.

    NLPTOOLS_DATA=DIR python benchmarks/filling_quality.py [--bert DIR] [--masks 500] [--lines N] [--keep DIR]
        [-- OPTIONS of pretrain-bert]

DIR/enwiki_slice (train.txt.gz, valid.txt) is articles of Wikipedia. Without --bert, the directory of a BERT, the script trains
one: `pretrain-bert --preset hour` with a WordPiece vocabulary of 12,000, on --lines of the text or all. Each text is the
beginning of a paragraph of valid.txt; one of its words, drawn from those that are one piece, is [MASK]. The third row always
answers the most frequent word of the training text.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from side_by_side import Bench, bench, nlptools, published, read, report, trained, write

from nlptools import bundle
from nlptools.batches.pretraining import PretrainingBatch
from nlptools.compute.backend import Backend
from nlptools.text.tokenizer import Tokenizer
from nlptools.training.pretraining.evaluation import measure

WORD = re.compile("[a-zA-Z]+")
WORDS = (8, 30)  # of a text
PIECES = 60  # most of a text: every BERT reads them whole
SEED = 1


class Gap(NamedTuple):
    """A text with a mask."""

    text: str
    word: str
    ids: list[int]  # of the text, the mask among them
    place: int  # of the mask


def main() -> None:
    with bench(__doc__, "rest*", bert=Path, masks=500, size=12_000, lines=0) as run:
        folder = run.options.bert or pretrained(run)
        loaded = bundle.load(folder)
        gaps = drawn(loaded.tokenizer, read(published("enwiki_slice", "valid.txt")), run.options.masks)
        texts = write(run.folder / "gaps.txt", [gap.text for gap in gaps])
        rows = nlptools("fill", folder, "-k", 1, "--to", "tsv", texts).splitlines()
        fillers = [row.split("\t")[3] for row in rows]
        right = [filler == gap.word for filler, gap in zip(fillers, gaps, strict=True)]
        frequent = most_frequent()
        seconds = json.loads((folder / "training.json").read_text(encoding="utf-8"))["metrics"]["seconds"]
        sides = {
            "nlptools, fill": [100 * float(np.mean(right))],
            "nlptools, accuracy of pretraining": [100 * accuracy(loaded, gaps)],
            f"always {frequent!r}": [100 * float(np.mean([gap.word == frequent for gap in gaps]))],
        }
        report(f"{len(gaps)} masked words of enwiki_slice, BERT of {seconds / 60:.0f} minutes", "percent", sides)


def pretrained(run: Bench) -> Path:
    """The directory of a BERT of an hour."""
    pieces, text = run.folder / "pieces", published("enwiki_slice", "train.txt.gz")
    if run.options.lines:
        text = write(
            run.folder / "train.txt", gzip.decompress(text.read_bytes()).decode().split("\n")[: run.options.lines]
        )
    if not pieces.exists():
        nlptools("build-vocab", "--kind", "wordpiece", "--size", run.options.size, "--lowercase", "-o", pieces, text)
    trained(run.folder / "bert", "pretrain-bert", "-t", pieces, "--preset", "hour", *run.options.rest, text)
    return run.folder / "bert"


def drawn(tokenizer: Tokenizer, lines: list[str], count: int) -> list[Gap]:
    """Texts with a mask each, from lines in random order."""
    assert tokenizer.vocab is not None and tokenizer.vocab.mask is not None
    vocab, chance, out = tokenizer.vocab, random.Random(SEED), list[Gap]()
    for line in chance.sample(lines, len(lines)):
        words = line.split()[: WORDS[1]]
        places = [i for i, word in enumerate(words) if WORD.fullmatch(word) and len(tokenizer.encode(word)) == 1]
        if len(words) < WORDS[0] or not places:
            continue
        i = chance.choice(places)
        before, after = (tokenizer.encode(" ".join(part)) for part in (words[:i], words[i + 1 :]))
        if len(before) + len(after) >= PIECES:
            continue
        text = " ".join([*words[:i], vocab.tokens[vocab.mask], *words[i + 1 :]])
        word = tokenizer.decode(tokenizer.encode(words[i]))
        out.append(Gap(text, word, [*before, vocab.mask, *after], len(before)))
        if len(out) == count:
            break
    return out


def accuracy(loaded: bundle.Bundle, gaps: list[Gap]) -> float:
    """The masked accuracy that `pretrain-bert` measures on held-out text, with these masks."""
    vocab = loaded.tokenizer.vocab
    assert vocab is not None and vocab.cls is not None and vocab.sep is not None
    batches = []
    for gap in gaps:
        ids = np.array([[vocab.cls, *gap.ids, vocab.sep]])
        zeros, first = np.zeros_like(ids), np.zeros(1, np.int64)
        target = loaded.tokenizer.encode(gap.word)
        positions, place = np.arange(ids.size)[None], np.array([1 + gap.place])
        batches.append(PretrainingBatch(ids, zeros, positions, zeros + 1, place, np.array(target), first, first))
    backend = Backend.detect().for_model(loaded.model)
    metrics = measure(lambda: iter(batches), backend, backend.for_inference(loaded.model), lambda: False)
    assert metrics is not None
    return metrics["masked_accuracy"]


def most_frequent() -> str:
    """The most frequent word of the training text, in lower case."""
    text = gzip.decompress(published("enwiki_slice", "train.txt.gz").read_bytes()).decode().lower()
    [(word, _)] = Counter(WORD.findall(text[: 1 << 23])).most_common(1)
    return word


if __name__ == "__main__":
    main()
