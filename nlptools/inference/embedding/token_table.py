"""The embeddings of a language model as word vectors, for `convert`."""

from __future__ import annotations

from nlptools import messages
from nlptools.inference.opening import Asked, Opened
from nlptools.vectors.table import Vectors


def opened(asked: Asked[object], model: Opened) -> Vectors:
    """The tokens of a language model and the vectors of its input embeddings. See `uses`."""
    loaded = model.bundle
    vocab = loaded.tokenizer.vocab
    assert vocab is not None
    kept = [i for i, token in enumerate(vocab.tokens) if "\n" not in token]
    if len(kept) < len(vocab):
        left_out = messages.counted(len(vocab) - len(kept), "token")
        messages.note(f"{left_out} with a line end left out: no format of word vectors has those")
    counts = [vocab.counts[i] for i in kept]
    rows = loaded.model.token_embedding.weight.detach()[kept].float().numpy()
    return Vectors([vocab.tokens[i] for i in kept], rows, counts=counts if any(counts) else None, path=str(asked.path))
