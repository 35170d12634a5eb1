"""The sentencepiece and tokenizers packages, imported on first use."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from nlptools import messages

if TYPE_CHECKING:
    import tokenizers

FastTokenizer: TypeAlias = "tokenizers.Tokenizer"
Encoding: TypeAlias = "tokenizers.Encoding"
Normalizer: TypeAlias = "tokenizers.normalizers.Normalizer"
PreTokenizer: TypeAlias = "tokenizers.pre_tokenizers.PreTokenizer"
TokenModel: TypeAlias = "tokenizers.models.Model"


def sentencepiece_package() -> ModuleType:
    """The sentencepiece package, with its log turned off unless --verbose is given."""
    import sentencepiece

    sentencepiece.SetMinLogLevel(0 if messages.settings.verbose else 2)
    return sentencepiece


def tokenizers_package(threads: int = 0) -> ModuleType:
    """The tokenizers package. Its thread pool is created on first use, with `threads` threads; 0: one per core."""
    if threads:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    import tokenizers

    return tokenizers
