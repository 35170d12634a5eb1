"""Scoring by recurrent language models: speed compared with plain PyTorch.

    [NLPTOOLS_DATA=DIR] python benchmarks/recurrent_scoring_speed.py [--cells lstm,gru] [--layers 2] [--hidden 650]
        [--lines 800] [--rounds 3]

Random weights; the text is the validation text of the Penn Treebank of Mikolov where NLPTOOLS_DATA has it (ptb), otherwise
CPython's help topics. Both sides are whole commands in fp32, from text to its total log-probability. Theirs is a script with
`nn.LSTM` or `nn.GRU` and log_softmax: a line at a time, which is how a loop is usually written, or batches of 32 lines in the
order of the text; with the state carried from line to line, as `score --carry`, chunks of 256 tokens.

Limits, for an LSTM of 2 x 650 and 6,022 words on two cores of an AMD EPYC without AVX-512: a token takes 21 million
operations, and products of matrices reach 140 billion a second, so that no program reads more than 6,500 tokens a second;
`score` of the whole validation text (73,760 tokens) reads 3,900. With the state carried, each step reads all recurrent
matrices (13.5 MB, or 10 MB of a GRU) from the shared cache, at 30 to 55 GB/s. Products of both layers in one batched call,
matrices packed for oneDNN, and matrices packed for MKL were not faster.

On two cores of an AMD EPYC with AVX512-bf16, `score` reads the whole validation text at 12,300 tokens a second with the LSTM
and at 13,900 with the GRU; with the state carried, at 7,500 and 5,000. Products reach 490 billion operations a second there, so
no program reads more than 23,000 and 27,000. With the state carried, each step reads its matrices from the shared cache, at 135
GB/s for the LSTM (one call of PyTorch's kernel) and 105 GB/s for the GRU. PyTorch's own GRU takes 1.4 times as long a step.
"""

from __future__ import annotations

import sys
from pathlib import Path

import samples
from side_by_side import Command, bench, found, nlptools, ours, read, write

CELLS = ("lstm", "gru")
WAYS = {"each line alone": ("lines", "batches"), "one stream": ("stream",)}  # what a script may do
PLAIN = """
import sys, torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
way, cell, layers, hidden, words = sys.argv[1], sys.argv[2].upper(), *map(int, sys.argv[3:6])
embedding, output = nn.Embedding(words, hidden), nn.Linear(hidden, words)
network = getattr(nn, cell)(hidden, hidden, layers, batch_first=True)
known = {}
lines = [[known.setdefault(word, 1 + len(known)) for word in line.split()] + [0] for line in sys.stdin]
def logprobs(ids, targets, state=None):
    hidden, state = network(embedding(ids), state)
    return output(hidden).log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1), state
total = 0.0
with torch.inference_mode():
    if way == "stream":
        ids, state = torch.tensor([0] + [id for line in lines for id in line]), None
        for begin in range(0, len(ids) - 1, 256):
            part = ids[begin:begin + 257]
            scores, state = logprobs(part[None, :-1], part[None, 1:], state)
            total += float(scores.sum())
    else:
        size = 32 if way == "batches" else 1
        for begin in range(0, len(lines), size):
            group = [torch.tensor(line) for line in lines[begin:begin + size]]
            targets = pad_sequence(group, True, -1)
            ids = pad_sequence([torch.tensor([0] + line[:-1]) for line in lines[begin:begin + size]], True)
            scores, _ = logprobs(ids, targets.clamp(min=0))
            total += float(scores[targets >= 0].sum())
print(total)
"""


def main() -> None:
    with bench(__doc__, cells=CELLS, layers=2, hidden=650, lines=800) as run:
        chosen = run.options
        published = found("ptb", "ptb.valid.txt")
        lines = (read(published) if published else samples.help_topics())[: chosen.lines]
        text, count = write(run.folder / "text.txt", lines), sum(len(line.split()) + 1 for line in lines)
        vocabulary = run.folder / "vocab.txt"
        nlptools("build-vocab", "-t", "whitespace", "-o", vocabulary, text)
        for cell in chosen.cells:
            folder = trained(run.folder / cell, cell, vocabulary, text, chosen.layers, chosen.hidden)
            sizes = [cell, chosen.layers, chosen.hidden, len(read(vocabulary)) + 8]
            for title, ways in WAYS.items():
                words = [*ours("score", "-q", "--per", "total", "--precision", "fp32", folder)]
                sides = {"nlptools score": Command([*words, *["--carry"] * (title == "one stream")], count, text)}
                for way in ways:
                    script = [sys.executable, "-c", PLAIN, way, *map(str, sizes)]
                    sides[f"plain nn.{cell.upper()}, {way}"] = Command(script, count, text)
                name = f"scoring, {cell.upper()} of {chosen.layers} x {chosen.hidden}, {title}"
                run.compare(f"{name}, {count:,} tokens, whole commands", "tokens/s", sides)


def trained(folder: Path, cell: str, vocabulary: Path, text: Path, layers: int, hidden: int) -> Path:
    """The directory of a model after a step."""
    if not folder.exists():
        how = ("--arch", cell, "--layers", layers, "--hidden", hidden, "--steps", 1)
        nlptools("train-lm", "-q", "-t", "whitespace", "--vocab", vocabulary, *how, "-o", folder, text)
    return folder


if __name__ == "__main__":
    main()
