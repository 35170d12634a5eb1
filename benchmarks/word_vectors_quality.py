"""Word vectors: quality compared with gensim.

    python benchmarks/word_vectors_quality.py TOKENS ANALOGIES PAIRS... [--epochs 1,3,5] [--seeds 3] [--model cbow]

TOKENS is text with spaces between tokens, ANALOGIES a file as questions-words.txt, PAIRS are files as WordSim-353 and MEN.
Both sides train with 100 dimensions, window 5, 5 negatives, sample 1e-3, words that occur 5 times, and two processes or
threads, gensim by corpus_file; each at its own learning rate unless --lr gives one. Both are scored by the same code: 3CosAdd
and cosine, the first 30,000 words, unknown words skipped, case folded.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import records
import side_by_side
from gensim.models import Word2Vec
from side_by_side import machine

from nlptools import load_vectors, messages
from nlptools.configs import Devices
from nlptools.configs.eval_vectors import EvalVectors
from nlptools.configs.word_vectors import TrainW2V, VectorRun
from nlptools.training.word_vectors.train import train_vectors
from nlptools.vectors.evaluation import evaluate


def main() -> None:
    """Train and report."""
    options = side_by_side.options(
        __doc__, "tokens", "analogies", "pairs+", epochs="1,3,5", seeds=3, model="skipgram", lr=float, side=str
    )
    messages.settings.quiet = True
    print(machine(), flush=True)
    for epochs in map(int, options.epochs.split(",")):
        for name, train in (("gensim", theirs), ("nlptools", ours)):
            if options.side not in (None, name):
                continue
            scores: list[list[float]] = []
            for seed in range(1, options.seeds + 1):
                with tempfile.TemporaryDirectory() as folder:
                    path = str(Path(folder) / "vectors.bin")
                    train(path, options, epochs, seed)
                    scores.append(measure(path, options))
            shown = "  ".join(
                f"{statistics.mean(column):.4f} ({min(column):.4f} .. {max(column):.4f})"
                for column in zip(*scores, strict=True)
            )
            titles = ["analogies: accuracy", *(f"{Path(name).stem}: Spearman's correlation" for name in options.pairs)]
            for title, values in zip(titles, zip(*scores, strict=True), strict=True):
                side = f"{name}, {options.model}, epochs: {epochs}"
                ranges = {side: (min(values), max(values))}
                records.record(title, "score", {side: statistics.mean(values)}, ranges=ranges, rounds=len(values))
            print(f"{options.model} {epochs} epochs  {name:<9} {shown}", flush=True)


def theirs(path: str, options: argparse.Namespace, epochs: int, seed: int) -> None:
    """gensim's vectors."""
    rate = {} if options.lr is None else {"alpha": options.lr}
    model = Word2Vec(
        corpus_file=options.tokens, vector_size=100, window=5, min_count=5, negative=5, sample=1e-3, workers=2,
        sg=int(options.model == "skipgram"), epochs=epochs, seed=seed, **rate,
    )  # fmt: skip
    model.wv.save_word2vec_format(path, binary=True)


def ours(path: str, options: argparse.Namespace, epochs: int, seed: int) -> None:
    """Our vectors."""
    settings = TrainW2V(model=options.model, epochs=epochs, lr=options.lr)
    train_vectors([options.tokens], settings, VectorRun(output=path, workers=2), Devices(seed=seed))


def measure(path: str, options: argparse.Namespace) -> list[float]:
    """Accuracy on analogies, then Spearman's correlation on each file of pairs."""
    asked = EvalVectors(analogies=(options.analogies,), pairs=tuple(options.pairs))
    found = evaluate(load_vectors(path), asked)
    return [score.value or 0.0 for score in found if score.name in ("total", "spearman")]


if __name__ == "__main__":
    main()
