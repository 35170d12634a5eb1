"""The tokenizer of texts that consist of documents, each followed by an end-of-text token."""

from __future__ import annotations

from nlptools.errors import BundleError, display
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab


def load_tokenizer(name: str, vocab: str | None, document: str) -> Tokenizer:
    """The tokenizer `name` with the vocabulary in the file `vocab`; see `text.tokenizer.load`.

    The line end is added to a vocabulary of characters without it, if documents (`document`) have several lines.
    """
    loaded = None if vocab is None else Vocab.load(vocab)
    if loaded is not None and has_line_ends(name, document) and "\n" not in loaded.ids:
        loaded = Vocab([*loaded.tokens, "\n"], [*loaded.counts, 0])
    return tokenizers.load(name, vocab=loaded)


def has_line_ends(tokenizer: str, document: str) -> bool:
    """Whether the tokens of documents include line ends."""
    return tokenizer == "char" and document != "line"


def end_of_text(tokenizer: Tokenizer, name: str) -> int:
    """The id of the token that ends a document; for bytes, the id after the last byte.

    Args:
        tokenizer: a tokenizer with a vocabulary.
        name: its name in messages.

    Raises:
        BundleError: the vocabulary has no such token.
    """
    vocab = tokenizer.vocab
    assert vocab is not None
    if tokenizer.kind == "bytes":
        return len(vocab)
    eos = vocab.eos if vocab.eos is not None else vocab.sep
    if eos is None:
        raise BundleError(
            f"{display(name)}: no end-of-text token (</s>, <|endoftext|> or [SEP]) in the vocabulary",
            hint="build-vocab --special '</s>' adds one",
        )
    return eos
