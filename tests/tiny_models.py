"""Tiny models of every architecture, for the laws that hold for all of them."""

from __future__ import annotations

from typing import Any

import torch

from nlptools.models import registry
from nlptools.models.registry import Architecture

SIZES: dict[str, dict[str, Any]] = {
    "transformer": {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 24,
    },
    "modern": {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 24,
        "intermediate_size": 48,
    },
    **{arch: {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2} for arch in ("rnn", "lstm", "gru")},
    "transformer-xl": {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "memory_length": 6,
        "inference_memory": 5,
    },
    "convolution": {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "kernel_size": 3},
    "feedforward": {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "local_tokens": 3, "far_tokens": 5},
    "toy": {"vocab_size": 50, "hidden_size": 32},
}
# a row that tests add to the registry, as proof that a file and a row are enough
TOY = Architecture(
    "toy", registry.LANGUAGE, "toy_language_model:Toy", "toy_language_model:ToyConfig", "toy_language_model:ToyOptions"
)
ELMO: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "cell_size": 40,
    "highway_layers": 1,
    "character_size": 6,
    "filters": ((1, 8), (2, 12), (3, 16)),
}
HALVES = {"elmo-forward": 0, "elmo-backward": 1}  # each direction of a bidirectional model is a language model
LANGUAGE_MODELS = (*registry.names(registry.LANGUAGE), TOY.name)


def tiny(arch: str, seed: int = 0, **changes: Any) -> Any:
    """A model of `arch` with random weights (wider than at initialisation, so that outputs differ), ready to infer."""
    if arch in HALVES:
        from nlptools.models.language.elmo import OneDirection, spelled_vocabulary

        whole, words = tiny("elmo", seed, **changes), [f"w{i}" * (i % 7) for i in range(50)]
        spellings = spelled_vocabulary(words[: whole.config.vocab_size], 1, HALVES[arch])
        return OneDirection(whole, HALVES[arch], spellings).eval()
    torch.manual_seed(seed)
    sizes = ELMO if arch == "elmo" else SIZES[arch]
    model = registry.model_class(arch)(registry.config_class(arch)(**{**sizes, **changes}))
    model.initialize()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and arch != "elmo":  # whose initial weights are wide
                parameter.mul_(4)
    return model.eval()
