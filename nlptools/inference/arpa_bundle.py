"""An ARPA file, opened as a model directory is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from nlptools import bundle
from nlptools.files import compression


def is_arpa(path: str | Path) -> bool:
    """Whether a path has the name of an ARPA file, compressed or not."""
    return Path(compression.without_suffix(str(path))).suffix == ".arpa"


def load(path: str | Path) -> bundle.Bundle:
    """The model of an ARPA file as a bundle; tokens are words with white space between them. Raises as `arpa.read`."""
    from nlptools.models.language import arpa
    from nlptools.text.builtin import NamedTokenizer
    from nlptools.text.vocab import Vocab

    model, words = arpa.read(str(path))
    vocab = Vocab(words)
    config = {"vocab_size": len(words), "eos_token_id": vocab.eos, "nlptools": {"document": "line"}}
    return bundle.Bundle(Path(path), "ngram", cast(Any, model), NamedTokenizer("whitespace", vocab), config, {})
