"""The other sides of `scaling`, as a user would write them: text from standard input, results to the file `out`."""

from __future__ import annotations

import sys


def nltk() -> None:
    """Treebank tokens."""
    from nltk.tokenize import NLTKWordTokenizer

    tokenizer = NLTKWordTokenizer()
    with open("out", "w") as out:
        for line in sys.stdin:
            print(*tokenizer.tokenize(line), file=out)


def sentencepiece(model: str) -> None:
    """Ids of pieces."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=model)
    with open("out", "w") as out:
        for line in sys.stdin:
            print(*processor.encode(line.rstrip("\n")), file=out)


def gensim(text: str, workers: int) -> None:
    """CBOW vectors of 50 dimensions, one pass."""
    from gensim.models import Word2Vec

    model = Word2Vec(corpus_file=text, vector_size=50, sg=0, epochs=1, workers=workers)
    model.wv.save_word2vec_format("out", binary=True)


def sentence_transformers(model: str) -> None:
    """Vectors of all lines; `encode` wants them all at once."""
    import numpy as np
    from sentence_transformers import SentenceTransformer

    lines = [line.rstrip("\n") for line in sys.stdin]
    np.save("out.npy", SentenceTransformer(model, device="cpu").encode(lines, batch_size=64))


def numpy(vectors: str, queries: str) -> None:
    """The ten nearest rows by a product of matrices."""
    import numpy as np

    rows, asked = _rows(vectors, queries)
    with open("out", "w") as out:
        for start in range(0, len(asked), 100):
            scores = asked[start : start + 100] @ rows.T
            found = np.argpartition(-scores, 10, axis=1)[:, :10]
            for row, places in zip(scores, found, strict=True):
                print(*sorted(places.tolist(), key=lambda place: -row[place]), file=out)


def hnswlib(vectors: str, queries: str) -> None:
    """The ten nearest rows by a graph, which is made first."""
    from hnswlib import Index

    rows, asked = _rows(vectors, queries)
    index = Index("cosine", rows.shape[1])
    index.init_index(len(rows), M=16, ef_construction=200)
    index.add_items(rows)
    index.set_ef(100)
    with open("out", "w") as out:
        for places in index.knn_query(asked, k=10)[0]:
            print(*places, file=out)


def _rows(vectors: str, queries: str):
    """Rows of length 1, and the rows of the queries: words that end with their number."""
    import numpy as np

    rows = np.load(vectors)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with open(queries) as stream:
        return rows, rows[[int(line.strip("wx\n")) for line in stream]]
