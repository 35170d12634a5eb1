"""Directories of StarCoder2 (arXiv:2402.19173): LayerNorm, biases, and a feed-forward network without a gate."""

from __future__ import annotations

from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import BLOCK, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import window_everywhere
from nlptools.models.language.modern import ModernConfig


def _read(data: JsonObject) -> JsonObject:
    has_bias = data.get("use_bias", True)
    return {
        "layout": "starcoder2",
        "norm": "layer",
        "feed_forward": "plain",
        "attention_bias": has_bias,
        "output_bias": has_bias,
        "feed_forward_bias": has_bias,
        **window_everywhere(data, data.get("sliding_window")),
    }


def _write(config: ModernConfig) -> JsonObject:
    return {"use_bias": config.attention_bias, "sliding_window": config.sliding_window or None}


FAMILY = DecoderFolders(
    DecoderLayout(
        "starcoder2",
        "Starcoder2",
        block={
            **{ours: theirs for ours, theirs in BLOCK.items() if ours != "feed_forward.gate"},
            "feed_forward.up": ("mlp.c_fc",),
            "feed_forward.down": ("mlp.c_proj",),
        },
        sizes={
            **SIZES,
            "num_key_value_heads": ("num_key_value_heads", 2),
            "max_position_embeddings": ("max_position_embeddings", 4096),
            "initializer_range": ("initializer_range", 0.018042),
            "rms_norm_eps": ("norm_epsilon", 1e-5),
            "hidden_dropout": ("residual_dropout", 0.0),
            "tie_word_embeddings": ("tie_word_embeddings", True),
        },
        activation=("hidden_act", "gelu_pytorch_tanh"),
        reads=_read,
        writes=_write,
    )
)
