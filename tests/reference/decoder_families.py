"""Random small models of each family of decoders, as transformers makes them, with tokenizers in their folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from llama_folders import tokenizer

SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}


@dataclass(frozen=True)
class Family:
    """How models of a family are made.

    Attributes:
        classes: the beginning of the names of their classes.
        variants: changes of `SIZES` in config.json.
        tasks: the ends of classes for tasks.
        refused: changes of config.json, and what the message says.
        others: the beginning of the names of other classes than ...ForCausalLM; "": `classes`.
    """

    classes: str
    variants: tuple[Mapping[str, Any], ...] = ({},)
    tasks: tuple[str, ...] = ("SequenceClassification", "TokenClassification")
    refused: tuple[tuple[Mapping[str, Any], str], ...] = ()
    sizes: Mapping[str, Any] = field(default_factory=lambda: SIZES)
    others: str = ""

    def model(self, kind: str = "ForCausalLM", seed: int = 0, **more: Any) -> Any:
        """A model of the class that ends in `kind`, in eval mode. Its weights are large, so that errors show."""
        others = self.others or self.classes
        config = getattr(transformers, f"{others}Config")(**{**self.sizes, "vocab_size": len(tokenizer()), **more})
        config._attn_implementation = "eager"
        torch.manual_seed(seed)
        classes = self.classes if kind == "ForCausalLM" else others
        model = getattr(transformers, f"{classes}{kind}")(config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=0.2)
                elif "norm" not in name or "bias" in name:
                    parameter.normal_(std=0.1)
                else:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    def folder(self, path: Path, kind: str = "ForCausalLM", bos: bool = False, **more: Any) -> Any:
        """Save such a model with its tokenizer; returns the model."""
        model = self.model(kind, **more)
        model.save_pretrained(path)
        tokenizer(bos).save_pretrained(path)
        return model


def _renamed(sizes: Mapping[str, Any], **names: str | None) -> dict[str, Any]:
    """Sizes under other names; None: without this one."""
    named = {names.get(name, name): value for name, value in sizes.items()}
    return {name: value for name, value in named.items() if name is not None}


_TRAINED = {"original_max_position_embeddings": 12}
_LISTS = {"short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [2.0, 3.0, 4.5, 8.0]}
_SCALED = (  # every scaling of rotary positions
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}},
    {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0}},
    {"rope_parameters": {"rope_type": "yarn", "factor": 3.0, "rope_theta": 500.0, **_TRAINED}},
    {"rope_parameters": {"rope_type": "yarn", "factor": 3.0, "rope_theta": 500.0, **_TRAINED, "truncate": False,
                         "mscale": 0.8, "mscale_all_dim": 0.6, "beta_fast": 16, "beta_slow": 2}},
    {"rope_parameters": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "rope_theta": 500.0, **_TRAINED}},
    {"rope_parameters": {"rope_type": "longrope", **_LISTS, "rope_theta": 500.0, **_TRAINED}},
    {"rope_parameters": {"rope_type": "longrope", **_LISTS, "factor": 2.0, "rope_theta": 500.0,
                         "original_max_position_embeddings": 40}},
)  # fmt: skip
_GEMMA = {**SIZES, "head_dim": 8, "query_pre_attn_scalar": 12, "sliding_window": 4}
_HALF = {"short_factor": [1.0, 1.5], "long_factor": [2.0, 5.0]}
_QWEN = {"use_sliding_window": True, "sliding_window": 4}
_SEQUENCES = ("SequenceClassification", "TokenClassification", "QuestionAnswering")
FAMILIES = {
    "llama": Family("Llama", ({}, {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True}, *_SCALED),
                    _SEQUENCES, refused=(({"is_causal": False}, "is_causal false is not supported"),)),
    "mistral": Family("Mistral", ({"sliding_window": None, "head_dim": 12}, {"sliding_window": 5}), _SEQUENCES),
    "qwen2": Family("Qwen2", ({"tie_word_embeddings": True}, {**_QWEN, "max_window_layers": 1}), _SEQUENCES),
    "qwen3": Family(
        "Qwen3",
        ({"head_dim": 12}, {**_QWEN, "head_dim": 8,
                            "layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
        _SEQUENCES,
    ),
    "phi3": Family(
        "Phi3",
        (
            {},
            {"sliding_window": 5, "tie_word_embeddings": True, "num_key_value_heads": 1},
            {"rope_parameters": {"rope_type": "longrope", **_LISTS}, **_TRAINED},
            {"rope_parameters": {"rope_type": "longrope", **_HALF, "partial_rotary_factor": 0.5}, **_TRAINED},
            {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.75}},
        ),
        refused=(
            ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "'linear' is not one of a phi3"),
            ({"rope_parameters": {"rope_type": "longrope", **_HALF}}, "short_factor is not a list of 4 numbers"),
            ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.4}}, "parts of heads of an even size"),
        ),
    ),
    "olmo2": Family(
        "Olmo2",
        ({}, {"num_key_value_heads": 4, "attention_bias": True, "tie_word_embeddings": True}),
        tasks=("SequenceClassification",),
        refused=(({"layer_types": ["sliding_attention"] * 3}, "layer_types has layers with a window"),),
    ),
    "olmo3": Family(
        "Olmo3",
        (
            {"num_hidden_layers": 4, "sliding_window": 4},
            {"layer_types": ["full_attention", "sliding_attention", "full_attention"], "sliding_window": 5,
             "rope_parameters": {
                 "full_attention": {"rope_type": "yarn", "factor": 3.0, "rope_theta": 500.0, **_TRAINED},
                 "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}},
            {"layer_types": ["full_attention"] * 3, "attention_bias": True, "tie_word_embeddings": True},
        ),
        tasks=("SequenceClassification",),
        refused=(({"rope_parameters": {"sliding_attention": {"rope_type": "yarn", "factor": 2.0}}}, "in layers with a window"),),
    ),
    "stablelm": Family(
        "StableLm",
        (
            {"num_key_value_heads": 4},
            {"use_qkv_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu"},
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0, "partial_rotary_factor": 0.5}},
        ),
        refused=(
            ({"qk_layernorm": True}, "qk_layernorm is not supported in a stablelm"),
            ({"use_parallel_residual": True}, "use_parallel_residual is not supported in a stablelm"),
        ),
    ),
    "starcoder2": Family(
        "Starcoder2",
        (
            {},
            {"use_bias": False, "tie_word_embeddings": False, "num_key_value_heads": 4},
            {"sliding_window": 5, "hidden_act": "relu"},
        ),
        refused=(({"layer_types": ["full_attention", "sliding_attention"] * 2, "num_hidden_layers": 4, "sliding_window": 3},
                  "a starcoder2 has a window in all layers or in none"),),
    ),
    "smollm3": Family(
        "SmolLM3",
        (
            {"num_hidden_layers": 4},
            {"no_rope_layers": [0, 1, 0], "tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
            {"no_rope_layers": [1, 0, 1], **_QWEN},
        ),
        _SEQUENCES,
        refused=(
            ({"no_rope_layers": [1, 2, 1]}, r"no_rope_layers is \[1, 2, 1\], expected 3 of 0 and 1"),
            ({"no_rope_layers": [1]}, r"no_rope_layers is \[1\]"),
            ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "in a part of each head"),
        ),
    ),
    "gpt_neox": Family(
        "GPTNeoX",
        (
            {},
            {"use_parallel_residual": False, "hidden_act": "gelu_new", "tie_word_embeddings": True},
            {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0},
             "attention_bias": False},
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0,
                                 "partial_rotary_factor": 0.5}},
        ),
        _SEQUENCES,
        refused=(({"rotary_pct": 0.0, "rope_parameters": None}, "the part of each head that turns is 0"),),
        sizes={key: value for key, value in SIZES.items() if key != "num_key_value_heads"},
    ),
    "opt": Family(
        "OPT",
        ({}, {"activation_function": "gelu", "tie_word_embeddings": False}, {"enable_bias": False}),
        ("SequenceClassification", "QuestionAnswering"),
        refused=(
            ({"do_layer_norm_before": False}, "do_layer_norm_before False is not supported in an opt"),
            ({"word_embed_proj_dim": 16}, "word_embed_proj_dim 16 is not supported"),
            ({"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine False is not supported"),
        ),
        sizes=_renamed(SIZES, intermediate_size="ffn_dim", num_key_value_heads=None),
    ),
    "gpt_neo": Family(
        "GPTNeo",
        (
            {"attention_types": [[["global", "local"], 1], [["local"], 1]], "window_size": 4},
            {"attention_types": [[["global"], 3]], "intermediate_size": 48, "tie_word_embeddings": False},
            {"attention_types": [[["local"], 3]], "window_size": 7, "activation_function": "relu"},
        ),
        _SEQUENCES,
        refused=(
            ({"attention_layers": None, "attention_types": [["global", 3]]}, "attention_types has .'global', 3., expected kinds"),
            ({"attention_layers": None, "attention_types": [[["global", "local"], 1]]}, "expected 3 of full_attention"),
            ({"attention_layers": ["global", "local", "random"]}, "layer_types is .*'random'"),
        ),
        sizes=_renamed(SIZES, num_hidden_layers="num_layers", num_attention_heads="num_heads", intermediate_size=None,
                       num_key_value_heads=None) | {"attention_types": [[["global", "local", "global"], 1]]},
    ),
    "gpt_bigcode": Family(
        "GPTBigCode",
        (
            {},
            {"multi_query": False, "n_inner": 48, "tie_word_embeddings": False},
            {"scale_attn_weights": False, "activation_function": "relu"},
        ),
        refused=(({"add_cross_attention": True}, "add_cross_attention is not supported in a gpt_bigcode"),),
        sizes=_renamed(SIZES, hidden_size="n_embd", num_hidden_layers="n_layer", num_attention_heads="n_head",
                       max_position_embeddings="n_positions", intermediate_size=None, num_key_value_heads=None),
    ),
    "gemma": Family(
        "Gemma",
        (
            {},
            {"hidden_act": "silu", "attention_bias": True, "tie_word_embeddings": False},
            {"hidden_act": "gelu", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0}},
        ),
        refused=(({"use_bidirectional_attention": True}, "use_bidirectional_attention is not supported in a gemma"),),
        sizes={**SIZES, "head_dim": 12},
    ),
    "gemma2": Family(
        "Gemma2",
        (
            {},
            {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0, "attention_bias": True, "hidden_activation": "silu"},
            {"attn_logit_softcapping": None, "final_logit_softcapping": None, "tie_word_embeddings": False,
             "layer_types": ["full_attention", "sliding_attention", "full_attention"], "query_pre_attn_scalar": 8,
             "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0}},
        ),
        refused=(
            ({"use_bidirectional_attention": True}, "use_bidirectional_attention is not supported"),
            ({"layer_types": ["chunked_attention"] * 3}, "layer_types is .* expected 3 of full_attention, sliding"),
        ),
        sizes=_GEMMA,
    ),
    "gemma3_text": Family(
        "Gemma3",
        (
            {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
            {"num_hidden_layers": 6, "final_logit_softcapping": 3.0},
            {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "attention_bias": True,
             "rope_parameters": {
                 "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
                 "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}},
        ),
        tasks=("SequenceClassification",),
        refused=(
            ({"attn_logit_softcapping": 2.0}, "attn_logit_softcapping is not supported in a gemma3_text"),
            ({"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}}, "in layers with a window"),
            ({"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters of a gemma3_text has"),
        ),
        sizes=_GEMMA,
        others="Gemma3Text",
    ),
}  # fmt: skip
