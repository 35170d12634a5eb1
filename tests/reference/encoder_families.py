"""Random small models of each family of encoders, as transformers makes them, with tokenizers in their folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.reference import encoder_tokenizers

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 90,
}


@dataclass(frozen=True)
class Family:
    """How models of a family are made.

    Attributes:
        classes: the beginning of the names of their classes.
        tokenizer: see `encoder_tokenizers.KINDS`.
        sizes: of config.json.
        variants: changes of it.
        tasks: the ends of classes for tasks.
        maskable: whether there is a class ...ForMaskedLM.
    """

    classes: str
    tokenizer: str
    sizes: Mapping[str, Any] = field(default_factory=lambda: SIZES)
    variants: tuple[Mapping[str, Any], ...] = ({},)
    tasks: tuple[str, ...] = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
    maskable: bool = True

    def model(self, kind: str, seed: int = 0, **more: Any) -> Any:
        """A model of the class that ends in `kind`, in eval mode. Its weights are large, so that errors show."""
        config = getattr(transformers, f"{self.classes}Config")(
            **{**self.sizes, "vocab_size": encoder_tokenizers.size(self.tokenizer), **more}
        )
        torch.manual_seed(seed)
        model = getattr(transformers, f"{self.classes}{kind}")(config).eval()
        for name, parameter in model.named_parameters():
            if "norm" not in name.lower():
                torch.nn.init.normal_(parameter, std=0.2)
        return model

    def folder(self, path: Path, kind: str, **more: Any) -> Any:
        """Save such a model with its tokenizer; returns the model."""
        model = self.model(kind, **more)
        model.save_pretrained(path)
        encoder_tokenizers.made(self.tokenizer).save_pretrained(path)
        return model


_POSITIONS = {**SIZES, "pad_token_id": 1}
_DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
FAMILIES = {
    "bert": Family("Bert", "wordpiece", variants=({}, {"hidden_act": "gelu_new", "type_vocab_size": 3})),
    "electra": Family("Electra", "wordpiece", variants=({"embedding_size": 16}, {"embedding_size": 32})),
    "roberta": Family("Roberta", "byte-bpe", _POSITIONS, ({"type_vocab_size": 1}, {"hidden_act": "relu"})),
    "xlm-roberta": Family("XLMRoberta", "unigram", _POSITIONS, ({"type_vocab_size": 1, "layer_norm_eps": 1e-5},)),
    "camembert": Family("Camembert", "unigram", _POSITIONS),
    "distilbert": Family(
        "DistilBert",
        "wordpiece",
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 90},
        ({}, {"activation": "relu", "sinusoidal_pos_embds": True}),
    ),
    "mpnet": Family("MPNet", "mpnet", _POSITIONS, ({}, {"hidden_act": "relu"})),
    "albert": Family(
        "Albert",
        "albert",
        {**SIZES, "embedding_size": 16},
        ({"num_hidden_layers": 4, "num_hidden_groups": 2}, {"hidden_act": "gelu_new"}),
    ),
    "modernbert": Family(
        "ModernBert",
        "wordpiece",
        {**SIZES, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3},
        (
            {"local_attention": 8, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
            {
                "norm_bias": True,
                "mlp_bias": True,
                "attention_bias": True,
                "classifier_bias": True,
                "local_attention": 4,
            },
            {"classifier_pooling": "mean", "hidden_activation": "silu"},
        ),
    ),
    "nomic_bert": Family(
        "NomicBert",
        "wordpiece",
        SIZES,
        ({}, {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "hidden_act": "gelu"}),
        tasks=("SequenceClassification", "TokenClassification"),
    ),
    "deberta-v2": Family(
        "DebertaV2",
        "deberta",
        SIZES,
        (
            {**_DEBERTA, "position_buckets": 4, "norm_rel_ebd": "layer_norm", "share_att_key": True},
            {
                **_DEBERTA,
                "position_buckets": 4,
                "max_relative_positions": 7,
                "type_vocab_size": 2,
                "embedding_size": 16,
            },
            {**_DEBERTA, "pos_att_type": ["c2p"], "position_biased_input": True, "share_att_key": True},
            {**_DEBERTA, "pos_att_type": ["p2c"], "max_relative_positions": 6, "pooler_hidden_act": "relu"},
            {"position_biased_input": True},
            {**_DEBERTA, "legacy": False},
        ),
    ),
}
