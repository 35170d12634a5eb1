"""Training word vectors: speed compared with gensim, word2vec.c and fastText.

    python benchmarks/word_vectors_speed.py [PART]... [--text TOKENS] [--workers 2] [--rounds 3] [--word2vec PROGRAM]

Parts: skipgram, word2vec.c, cbow, subwords, vocabulary, softmax; all without any. TOKENS is text with spaces between
tokens; without it the novels of NLPTOOLS_DATA, tokenized and lower-cased, or generated text. All sides: 100 dimensions,
window 5, 5 negatives, sample 1e-3, words that occur 5 times. What is counted is words of the vocabulary, those that are
thinned out too, per second of wall clock, without the pass that counts words. For word2vec.c and fastText, which do all in
one go, that is the time of three epochs less that of one. PROGRAM is word2vec.c, compiled with its own makefile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import side_by_side
from side_by_side import Measure, Worker, compare, found, machine, serve

PARTS = ("skipgram", "word2vec.c", "cbow", "subwords", "vocabulary", "softmax")
SETTINGS = {"vector_size": 100, "window": 5, "min_count": 5, "negative": 5, "sample": 1e-3}
SOFTMAX_BYTES = 2_000_000


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, "parts*", text=str, workers=2, rounds=3, word2vec="word2vec")
    if options.worker:
        part, side = options.worker
        serve(make_side(part, side, options))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = options.text or tokens(Path(folder))
        print(machine())
        for part in options.parts or PARTS:
            theirs = {"vocabulary": "gensim", "softmax": "plain", "subwords": "fasttext", "word2vec.c": "word2vec.c"}
            run(part, theirs.get(part, "gensim"), text, options)


def run(part: str, theirs: str, text: str, options: argparse.Namespace) -> None:
    """Both sides of one part."""
    common = ["--text", text, "--workers", str(options.workers), "--word2vec", options.word2vec]
    sides = {name: Worker(__file__, part, name, *common) for name in (theirs, "nlptools")}
    names = {"plain": "nn.Linear and cross entropy, pair by pair", "gensim": "gensim, corpus_file"}
    compare(part, "words/s", {names.get(name, name): side for name, side in sides.items()}, options.rounds)


def tokens(folder: Path) -> str:
    """The path of a text of tokens."""
    out = folder / "tokens"
    novels = found("eltec_eng_novels", "train.txt.gz")
    if novels is not None:
        subprocess.run([sys.executable, "-m", "nlptools", "tokenize", "--lowercase", novels, "-o", out], check=True)
        return str(out)
    import numpy as np

    generator = np.random.default_rng(1)
    words = np.minimum(generator.zipf(1.1, 6_000_000), 50_000)
    with open(out, "w") as stream:
        for start in range(0, len(words), 25):
            stream.write(" ".join(f"w{word}" for word in words[start : start + 25]) + "\n")
    return str(out)


def make_side(part: str, side: str, options: argparse.Namespace) -> Measure:
    """Does the job once and returns its speed."""
    if part == "softmax":
        with open(options.text, "rb") as stream:
            sample = stream.read(SOFTMAX_BYTES).rsplit(b"\n", 1)[0]
        options.text = str(Path(tempfile.mkdtemp()) / "sample")
        Path(options.text).write_bytes(sample)
    makers: dict[str, Callable[[str, argparse.Namespace], Measure]] = {
        "gensim": gensim_side, "word2vec.c": word2vec_side, "fasttext": fasttext_side, "plain": plain_side,
        "nlptools": nlptools_side,
    }  # fmt: skip
    return makers[side](part, options)


def gensim_side(part: str, options: argparse.Namespace) -> Measure:
    from gensim.models import Word2Vec

    def fresh() -> Word2Vec:
        return Word2Vec(**SETTINGS, workers=options.workers, sg=int(part != "cbow"))

    model = fresh()
    model.build_vocab(corpus_file=options.text)

    def vocabulary() -> float:
        other = fresh()
        begin = time.perf_counter()
        other.build_vocab(corpus_file=options.text)
        return other.corpus_total_words / (time.perf_counter() - begin)

    def train() -> float:
        begin = time.perf_counter()
        count, total = model.corpus_count, model.corpus_total_words
        model.train(corpus_file=options.text, total_examples=count, total_words=total, epochs=1)
        words = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)
        return words / (time.perf_counter() - begin)

    return vocabulary if part == "vocabulary" else train


def word2vec_side(part: str, options: argparse.Namespace) -> Measure:
    def epochs(number: int) -> float:
        begin = time.perf_counter()
        subprocess.run(
            [options.word2vec, "-train", options.text, "-output", "/dev/null", "-size", "100", "-window", "5", "-negative",
             "5", "-sample", "1e-3", "-min-count", "5", "-cbow", "0", "-threads", str(options.workers), "-iter",
             str(number), "-binary", "1"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return time.perf_counter() - begin

    words = vocabulary_words(options.text)
    return lambda: 2 * words / (epochs(3) - epochs(1))


def fasttext_side(part: str, options: argparse.Namespace) -> Measure:
    import fasttext

    def epochs(number: int) -> float:
        begin = time.perf_counter()
        fasttext.train_unsupervised(
            options.text, model="skipgram", dim=100, ws=5, neg=5, t=1e-3, minCount=5, minn=3, maxn=6,
            epoch=number, thread=options.workers, verbose=0,
        )  # fmt: skip
        return time.perf_counter() - begin

    words = vocabulary_words(options.text)
    return lambda: 2 * words / (epochs(3) - epochs(1))


def vocabulary_words(text: str) -> int:
    """Tokens of words that occur five times."""
    from nlptools.corpora.word_sequences import spool

    with tempfile.TemporaryDirectory() as folder:
        return spool([text], Path(folder) / "ids").tokens


def plain_side(part: str, options: argparse.Namespace) -> Measure:
    """The loop of a first lecture: pairs in batches, autograd, all words scored for each pair."""
    import numpy as np
    import torch

    from nlptools.corpora.word_sequences import spool

    torch.set_num_threads(options.workers)
    text = spool([options.text], Path(tempfile.mkdtemp()) / "ids")
    ids, V = np.array(text.ids), len(text.words)
    embedding, linear = torch.nn.Embedding(V, 100), torch.nn.Linear(100, V, bias=False)
    optimizer = torch.optim.SGD([*embedding.parameters(), *linear.parameters()], lr=0.025)
    generator = np.random.default_rng(1)
    share = text.counts / text.counts.sum()
    keep = np.append(np.sqrt(1e-3 / share) + 1e-3 / share, 0)
    pairs_of_an_epoch = float((text.counts * np.minimum(keep[:-1], 1)).sum()) * 6  # the mean window has 6 words
    kept = ids[generator.random(len(ids)) < keep[ids]]
    steps, size = 8, 512

    def measure() -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            place = generator.integers(5, len(kept) - 5, size)
            there = place + generator.integers(1, 6, size) * generator.choice([-1, 1], size)
            middle, context = torch.from_numpy(kept[place]).long(), torch.from_numpy(kept[there]).long()
            loss = torch.nn.functional.cross_entropy(linear(embedding(middle)), context, reduction="sum")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds = (time.perf_counter() - begin) / (steps * size) * pairs_of_an_epoch
        return text.tokens / seconds

    return measure


def nlptools_side(part: str, options: argparse.Namespace) -> Measure:
    import torch

    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute
    from nlptools.configs.word_vectors import TrainW2V
    from nlptools.corpora.word_sequences import spool
    from nlptools.training.word_vectors import building
    from nlptools.training.word_vectors.chunks import ChunkProgress, Plan
    from nlptools.training.word_vectors.trainer import Trainer

    path = Path(tempfile.mkdtemp()) / "ids"

    def vocabulary() -> float:
        begin = time.perf_counter()
        found = spool([options.text], path, workers=options.workers)
        return (found.tokens + found.left_out) / (time.perf_counter() - begin)

    if part == "vocabulary":
        return vocabulary
    settings = TrainW2V(
        model="cbow" if part == "cbow" else "skipgram",
        loss="softmax" if part == "softmax" else "ns",
        subwords="3-6" if part == "subwords" else None,
        epochs=1,
    )
    text = spool([options.text], path, workers=options.workers)
    backend = Backend.detect(Compute(threads=options.workers if part == "softmax" else 1))
    made = building.tables(settings, text, None, 1, backend.device)
    model = building.model(settings, text, made, backend)
    workers = 1 if part == "softmax" or backend.device.type != "cpu" else options.workers
    torch.set_num_threads(options.workers if workers == 1 else 1)

    def train() -> float:
        plan = Plan(len(text.ids), 1, settings.rate, 1, tokens=building.STEP[settings.model])
        trainer = Trainer(model, text.ids, len(text.words), plan, workers, backend.device)
        begin = time.perf_counter()
        trainer.run(ChunkProgress(), plan.total, lambda progress: False)
        return text.tokens / (time.perf_counter() - begin)

    return train


if __name__ == "__main__":
    main()
