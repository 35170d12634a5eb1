"""The embeddings of a language model as word vectors, for `convert`."""

from __future__ import annotations

from nlptools import bundle, messages
from nlptools.errors import UsageError, display
from nlptools.models import registry
from nlptools.vectors.table import Vectors


def load(path: str) -> Vectors:
    """The tokens of a language model and the vectors of its input embeddings.

    Raises:
        UsageError: the model has no embeddings of tokens, or is not a language model.
        InputError, BundleError: see `bundle.load`.
    """
    loaded = bundle.load(path)
    if loaded.family == registry.NGRAM:
        raise UsageError(f"{display(path)} is an n-gram model, which has no embeddings")
    if loaded.family != registry.LANGUAGE:
        raise UsageError(f"{display(path)} is a model of the family {loaded.family}, expected a language model")
    vocab = loaded.tokenizer.vocab
    assert vocab is not None
    kept = [i for i, token in enumerate(vocab.tokens) if "\n" not in token]
    if len(kept) < len(vocab):
        left_out = messages.counted(len(vocab) - len(kept), "token")
        messages.note(f"{left_out} with a line end left out: no format of word vectors has those")
    counts = [vocab.counts[i] for i in kept]
    rows = loaded.model.token_embedding.weight.detach()[kept].float().numpy()
    return Vectors([vocab.tokens[i] for i in kept], rows, counts=counts if any(counts) else None, path=path)
