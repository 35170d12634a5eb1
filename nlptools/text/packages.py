"""The sentencepiece and tokenizers packages, imported on first use."""

from __future__ import annotations

import os
from typing import Any

from nlptools import messages


def sentencepiece_package() -> Any:
    """The sentencepiece package, with its log turned off unless --verbose is given."""
    import sentencepiece

    sentencepiece.SetMinLogLevel(0 if messages.settings.verbose else 2)
    return sentencepiece


def tokenizers_package(threads: int = 0) -> Any:
    """The tokenizers package. Its thread pool is created on first use, with `threads` threads; 0: one per core."""
    if threads:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    import tokenizers

    return tokenizers
