"""The start, delimiter and extract tokens of a GPT-1 (Radford et al. 2018, section 3.3), which fine-tuning adds and trains."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch

from nlptools import bundle, messages
from nlptools.errors import display
from nlptools.models import registry
from nlptools.models.contract import LanguageModel
from nlptools.models.tasks.heads import EncoderWithHeads
from nlptools.text.more_tokens import ROW_TOKENS, row_tokens, with_tokens


def added(base: bundle.Bundle) -> bundle.Bundle:
    """The language model with rows of zeros for the tokens, and its tokenizer with the tokens; unchanged if it has them, or if
    its tokenizer cannot have more, with a warning.
    """
    if row_tokens(base.tokenizer.vocab) is not None:
        return base
    tokenizer = with_tokens(base.tokenizer, ROW_TOKENS)
    if tokenizer is None:
        messages.warn(
            f"{display(str(base.path))}: the tokenizer cannot have more tokens, so the end-of-text token marks the texts"
        )
        return base
    assert tokenizer.vocab is not None
    ids = row_tokens(tokenizer.vocab)
    assert ids is not None
    size = max(base.model.config.vocab_size, len(tokenizer.vocab))
    model = _larger(base, size)
    config = {**base.config, "vocab_size": size, "bos_token_id": ids.start}
    return replace(base, model=model, tokenizer=tokenizer, config=config, bos=None)


def _larger(base: bundle.Bundle, vocab_size: int) -> LanguageModel:
    """The model with this size of the vocabulary; new rows are zero."""
    config = base.model.config
    model = registry.build(base.arch, replace(config, vocab_size=vocab_size))
    weights = base.weights()
    for name, wanted in model.state_dict().items():
        rows = weights[name]
        if rows.shape != wanted.shape:
            weights[name] = torch.zeros_like(wanted)
            weights[name][: config.vocab_size] = rows[: config.vocab_size]
    model.load_state_dict(weights)
    return cast(LanguageModel, model.eval())


@torch.no_grad()
def draw(model: EncoderWithHeads, ids: range, std: float) -> None:
    """Draw random embeddings for the new tokens of a language model with heads, as for all its tokens before training."""
    cast(LanguageModel, model.encoder).token_embedding.weight[ids.start : ids.stop].normal_(std=std)
