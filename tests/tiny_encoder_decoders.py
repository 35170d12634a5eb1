"""Tiny encoder-decoders of every architecture, for the laws that hold for all of them, and references as plain as can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.models import registry
from nlptools.text.pair_format import PairMarks

VOCABULARY, PAD, EOS = 30, 29, 0
BACKEND = Backend(torch.device("cpu"))
_TRANSFORMER = {
    "hidden_size": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_heads": 2,
    "decoder_heads": 4,
    "encoder_intermediate_size": 24,
    "decoder_intermediate_size": 20,
}
# name of the form -> (architecture, sizes)
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("seq2seq-transformer", _TRANSFORMER),
    "transformer-pre": ("seq2seq-transformer", {**_TRANSFORMER, "norm": "pre", "share_embeddings": False}),
    "rnn": ("seq2seq-rnn", {"hidden_size": 12, "embedding_size": 10}),
    "rnn-luong": (
        "seq2seq-rnn",
        {"hidden_size": 12, "embedding_size": 10, "cell": "gru", "attention": "luong", "decoder_layers": 2},
    ),
    "rnn-fixed-vector": ("seq2seq-rnn", {"hidden_size": 12, "embedding_size": 10, "attention": "none"}),
    "convolution": (
        "seq2seq-convolution",
        {
            "hidden_size": 12,
            "embedding_size": 10,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "max_position_embeddings": 100,
        },
    ),
}
_FACTORS = {
    "transformer": 2.0,
    "transformer-pre": 1.2,
    "rnn": 2.0,
    "rnn-luong": 2.0,
    "rnn-fixed-vector": 2.0,
    "convolution": 1.3,
}


def tiny(
    form: str, seed: int = 0, factor: float | None = None, size: int = VOCABULARY, end: float = 0.0, **changes: Any
) -> Any:
    """A model with random weights, `factor` wider than at initialisation so that outputs differ but have no sure winner.

    The padding is the last of `size` tokens, unless `changes` say otherwise. `end` is added to the logit of the end token,
    so that outputs come to an end.
    """
    arch, sizes = FORMS[form]
    vocabularies = {"source_vocab_size": size, "target_vocab_size": size, "pad": size - 1, "eos": EOS}
    torch.manual_seed(seed)
    model = registry.model_class(arch)(registry.config_class(arch)(**{**vocabularies, **sizes, **changes}))
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(_FACTORS[form] if factor is None else factor)
    if end:
        logits, bonus = model.output.logits, torch.zeros(model.output.vocab_size)
        bonus[EOS] = end
        model.output.logits = lambda hidden: logits(hidden) + bonus.to(hidden.dtype)
    return model.eval()


def marks_of(model: Any) -> PairMarks:
    """The tokens around sources and targets: the end, and the start of the decoder."""
    return PairMarks(model.start_token, model.config.eos)


def some_sources(*lengths: int, size: int = VOCABULARY, seed: int = 0) -> list[list[int]]:
    """Sources of these lengths, without end token."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, size - 1, length).tolist() for length in lengths]


def source_batch(sources: list[list[int]], pad: int = PAD) -> tuple[Tensor, Tensor]:
    """(B, S) ids with their end tokens, padded on the right, and their mask."""
    longest = max(map(len, sources)) + 1
    ids = torch.tensor([[*source, EOS] + [pad] * (longest - 1 - len(source)) for source in sources])
    return ids, torch.arange(longest) <= torch.tensor([[len(source)] for source in sources])


@torch.no_grad()
def next_scores(model: Any, source: list[int], said: list[int]) -> Tensor:
    """(V,) log-probabilities of the token after `said`, all computed anew for this source alone."""
    state = model.encode(torch.tensor([[*source, EOS]]))
    hidden, _ = model(torch.tensor([[model.start_token, *said]]), state)
    scores: Tensor = model.output.logits(hidden[0, -1]).float().log_softmax(-1)
    return scores
