"""Training word vectors: speed compared with gensim and fastText.

    python benchmarks/word_vectors_speed.py [--parts skipgram,cbow,subwords] [--text TOKENS] [--rounds 3]

TOKENS is text with spaces between tokens; without it the novels of NLPTOOLS_DATA, tokenized and lower-cased, or generated text.
All sides: 100 dimensions, window 5, 5 negatives, sample 1e-3, words that occur 5 times. What is counted is words of the
vocabulary, those that are thinned out too, per second of wall clock, without the pass that counts words. For fastText (part
`subwords`), which does all in one go, that is the time of three epochs less that of one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import samples
from side_by_side import Job, Speed, bench, found, separate, write

SETTINGS = {"vector_size": 100, "window": 5, "min_count": 5, "negative": 5, "sample": 1e-3}


def main() -> None:
    with bench(__doc__, parts=PARTS, text=Path, words=6_000_000) as run:
        chosen = run.options
        text = chosen.text or tokens(run.folder, chosen.words)
        for part in chosen.parts:
            name, make = PARTS[part]
            theirs = separate(make, part, text, chosen.threads)
            run.compare(part, "words/s", {name: theirs, "nlptools": separate(ours, part, text, chosen.threads)})


def tokens(folder: Path, count: int) -> Path:
    """A text of tokens."""
    if found("eltec_eng_novels", "train.txt.gz"):
        return samples.novels(folder / "tokens")
    words = np.minimum(np.random.default_rng(1).zipf(1.1, count), 50_000)
    rows = (words[start : start + 25] for start in range(0, len(words), 25))
    return write(folder / "tokens", [" ".join(f"w{word}" for word in row) for row in rows])


def gensim(part: str, text: Path, workers: int) -> Job:
    """gensim, from a file."""
    from gensim.models import Word2Vec

    model = Word2Vec(**SETTINGS, workers=workers, sg=int(part != "cbow"))
    model.build_vocab(corpus_file=str(text))
    words = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)

    def train() -> int:
        counts = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words}
        model.train(corpus_file=str(text), epochs=1, **counts)
        return words

    return train


def fasttext(part: str, text: Path, workers: int) -> Job:
    """fastText with subwords of 3 to 6 characters."""
    import fasttext as package

    how: dict[str, Any] = {"dim": 100, "ws": 5, "neg": 5, "t": 1e-3, "minCount": 5, "minn": 3, "maxn": 6, "verbose": 0}

    def train(epochs: int) -> None:
        package.train_unsupervised(str(text), model="skipgram", epoch=epochs, thread=workers, **how)

    return two_epochs(train, text)


def two_epochs(train: Callable[[int], None], text: Path) -> Job:
    """Words per second of what three epochs take longer than one."""
    from nlptools.corpora.word_sequences import spool

    with tempfile.TemporaryDirectory() as folder:
        words = spool([str(text)], Path(folder) / "ids").tokens

    def seconds(epochs: int) -> float:
        begin = time.perf_counter()
        train(epochs)
        return time.perf_counter() - begin

    return lambda: Speed(2 * words / (seconds(3) - seconds(1)))


def ours(part: str, text: Path, workers: int) -> Job:
    """The training of `train-w2v`."""
    import torch

    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.word_vectors import TrainW2V
    from nlptools.corpora.word_sequences import spool
    from nlptools.training.word_vectors import building
    from nlptools.training.word_vectors.chunks import ChunkProgress, Plan
    from nlptools.training.word_vectors.trainer import Trainer

    corpus = spool([str(text)], Path(tempfile.mkdtemp()) / "ids", workers=workers)
    subwords = "3-6" if part == "subwords" else None
    settings = TrainW2V(model="cbow" if part == "cbow" else "skipgram", loss="ns", subwords=subwords, epochs=1)
    backend = Backend.detect(Compute(threads=1))
    made = building.tables(settings, corpus, None, 1, backend.device)
    model = building.model(settings, corpus, made, backend)
    processes = 1 if backend.device.type != "cpu" else workers
    torch.set_num_threads(workers if processes == 1 else 1)

    def train() -> int:
        plan = Plan(len(corpus.ids), 1, settings.rate, 1, tokens=building.STEP[settings.model])
        trainer = Trainer(model, corpus.ids, len(corpus.words), plan, processes, backend.device)
        trainer.run(ChunkProgress(), plan.total, lambda progress: False)
        return corpus.tokens

    return train


PARTS: dict[str, tuple[str, Callable[[str, Path, int], Job]]] = {
    "skipgram": ("gensim, corpus_file", gensim),
    "cbow": ("gensim, corpus_file", gensim),
    "subwords": ("fasttext", fasttext),
}

if __name__ == "__main__":
    main()
