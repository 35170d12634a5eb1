"""Directories of OLMo 2 (arXiv:2501.00656): norms of what attention and feed-forward return, and of all queries, or keys, of a
position together.
"""

from __future__ import annotations

from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import BLOCK, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import window
from nlptools.models.language.modern import ModernConfig


def _read(data: JsonObject) -> JsonObject:
    has_bias = data.get("attention_bias", False)
    return {
        "layout": "olmo2",
        "pre_norm": False,
        "output_norm": True,
        "query_key_norm": True,
        "joint_norms": True,
        "attention_bias": has_bias,
        "output_bias": has_bias,
        **window(data, 0, lambda layer: False),
    }


def _write(config: ModernConfig) -> JsonObject:
    return {"attention_bias": config.attention_bias}


FAMILY = DecoderFolders(
    DecoderLayout(
        "olmo2",
        "Olmo2",
        block={
            **BLOCK,
            "attention_output_norm": ("post_attention_layernorm",),
            "feed_forward_output_norm": ("post_feedforward_layernorm",),
        },
        sizes={**SIZES, "rms_norm_eps": ("rms_norm_eps", 1e-5)},
        reads=_read,
        writes=_write,
    )
)
