"""Word vectors: quality compared with gensim.

    NLPTOOLS_DATA=DIR python benchmarks/word_vectors_quality.py [TOKENS] [--epochs 1,3,5] [--seeds 3] [--model cbow] [--lr X]

TOKENS is text with spaces between tokens, by default the novels of DIR; DIR/analogies and DIR/wordsim hold the questions. Both
sides train with 100 dimensions, window 5, 5 negatives, sample 1e-3, words that occur 5 times, and two processes or threads,
gensim by corpus_file; each at its own learning rate unless --lr gives one. Both are scored by the same code: 3CosAdd and
cosine, the first 30,000 words, unknown words skipped, case folded.
"""

from __future__ import annotations

from pathlib import Path

import samples
from side_by_side import bench, nlptools, published, report

from nlptools import load_vectors
from nlptools.configs.eval_vectors import EvalVectors
from nlptools.vectors.evaluation import evaluate


def main() -> None:
    with bench(__doc__, "/tokens?", epochs="1,3,5", seeds=3, model="skipgram", lr=0.0, side="") as run:
        chosen, vectors = run.options, run.folder / "vectors.bin"
        text = chosen.tokens or samples.novels(run.folder / "tokens")
        tables: dict[str, dict[str, list[float]]] = {}
        for epochs in map(int, chosen.epochs.split(",")):
            for name in ("gensim", "nlptools"):
                for seed in range(1, chosen.seeds + 1) if name.startswith(chosen.side) else ():
                    (gensim if name == "gensim" else ours)(text, vectors, chosen.model, epochs, seed, chosen.lr)
                    for title, value in measured(vectors).items():
                        row = f"{name}, {chosen.model}, epochs: {epochs}"
                        tables.setdefault(title, {}).setdefault(row, []).append(value)
        for title, rows in tables.items():
            report(title, "score", rows)


def gensim(text: Path, vectors: Path, model: str, epochs: int, seed: int, lr: float) -> None:
    """gensim's vectors."""
    from gensim.models import Word2Vec

    how = {"vector_size": 100, "window": 5, "min_count": 5, "negative": 5, "sample": 1e-3, "workers": 2}
    rate = {"alpha": lr} if lr else {}
    made = Word2Vec(corpus_file=str(text), sg=int(model == "skipgram"), epochs=epochs, seed=seed, **how, **rate)
    made.wv.save_word2vec_format(str(vectors), binary=True)


def ours(text: Path, vectors: Path, model: str, epochs: int, seed: int, lr: float) -> None:
    """Our vectors."""
    rate = ("--lr", lr) if lr else ()
    how = ("--model", model, "--epochs", epochs, "--seed", seed, "--workers", 2, *rate)
    nlptools("train-w2v", "-q", "--force", *how, "-o", vectors, text)


def measured(vectors: Path) -> dict[str, float]:
    """Accuracy on analogies, then Spearman's correlation on each file of pairs."""
    pairs = [published("wordsim", name) for name in ("wordsim353.tsv", "men.csv")]
    analogies = published("analogies", "questions-words.txt")
    asked = EvalVectors(analogies=(str(analogies),), pairs=tuple(map(str, pairs)))
    values = [s.value or 0.0 for s in evaluate(load_vectors(str(vectors)), asked) if s.name in ("total", "spearman")]
    titles = ["analogies: accuracy", *(f"{path.stem}: Spearman's correlation" for path in pairs)]
    return dict(zip(titles, values, strict=True))


if __name__ == "__main__":
    main()
