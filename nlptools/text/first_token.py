"""The token that a published tokenizer puts before each text, such as <s> of LLaMA or <|begin_of_text|> of LLaMA 3."""

from __future__ import annotations

from pathlib import Path

from nlptools.text.huggingface import HuggingFace, read_config
from nlptools.text.tokenizer import Tokenizer


def first_token(tokenizer: Tokenizer, directory: Path) -> int | None:
    """The id of that token; None: there is none.

    "add_bos_token" in tokenizer_config.json decides; without it, the template in tokenizer.json. A SentencePiece model of a
    LLaMA has neither, and a first token. Raises BundleError for a damaged tokenizer_config.json.
    """
    config = read_config(directory)
    template = tokenizer.first_token() if isinstance(tokenizer, HuggingFace) else None
    bos = None if tokenizer.vocab is None else tokenizer.vocab.bos
    if template is None and str(config.get("tokenizer_class", "")).startswith("Llama"):
        template = None if isinstance(tokenizer, HuggingFace) else bos
    added = config.get("add_bos_token")
    return template if added is None else bos if added else None
