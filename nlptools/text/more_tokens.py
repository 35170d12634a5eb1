"""Tokens that fine-tuning adds to the vocabulary of a language model, and tokens around texts in rows of a GPT-1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nlptools.text.builtin import NamedTokenizer
from nlptools.text.huggingface import HuggingFace
from nlptools.text.packages import tokenizers_package
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab

ROW_TOKENS = ("_start_", "_delimiter_", "_classify_")  # the names in the code of Radford et al. 2018


class RowMarks(NamedTuple):
    """The ids of `ROW_TOKENS`: before a row, between two texts, and at its end, where its label is read off."""

    start: int
    delimiter: int
    extract: int


def row_tokens(vocab: Vocab | None) -> RowMarks | None:
    """The tokens of a vocabulary that has them all."""
    ids = {} if vocab is None else vocab.ids
    found = [ids[name] for name in ROW_TOKENS if name in ids]
    return RowMarks(*found) if len(found) == len(ROW_TOKENS) else None


def with_tokens(tokenizer: Tokenizer, names: Sequence[str]) -> Tokenizer | None:
    """The tokenizer with special tokens of these names after its tokens; None: tokenizers of this kind cannot have more."""
    if isinstance(tokenizer, HuggingFace):
        package = tokenizers_package().Tokenizer.from_str(tokenizer.source)
        package.add_special_tokens(list(names))
        config, template = tokenizer._config, tokenizer._chat_template
        return HuggingFace(package, tokenizer._path, config, tokenizer.lowercase, template)
    if isinstance(tokenizer, NamedTokenizer) and tokenizer.kind != "bytes" and tokenizer.vocab is not None:
        vocab = tokenizer.vocab
        more = Vocab([*vocab.tokens, *names], [*vocab.counts, *(0 for _ in names)], vocab.roles)
        return NamedTokenizer(tokenizer.kind, more, tokenizer.lowercase)
    return None
