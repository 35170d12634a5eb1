"""Directories of OLMo 2 (arXiv:2501.00656) and OLMo 3 (arXiv:2512.13961).

Norms of what attention and feed-forward return, and of all queries, or keys, of a position together. In OLMo 3, three of four
layers have a sliding window, and only the others have scaled positions.
"""

from __future__ import annotations

from dataclasses import replace

from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import BLOCK, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import layer_types, positions_by_kind, rope_by_kind, window
from nlptools.models.language.modern import ModernConfig

_PERIOD, _WINDOW, _BASE = 4, 4096, 500_000.0  # of OLMo 3


def _common(data: JsonObject) -> JsonObject:
    has_bias = data.get("attention_bias", False)
    return {
        "layout": data["model_type"],
        "pre_norm": False,
        "output_norm": True,
        "query_key_norm": True,
        "joint_norms": True,
        "attention_bias": has_bias,
        "output_bias": has_bias,
    }


def _read_2(data: JsonObject) -> JsonObject:
    return {**_common(data), **window(data, 0, lambda layer: False)}


def _read_3(data: JsonObject) -> JsonObject:
    size = data.get("sliding_window", _WINDOW)
    return {
        **_common(data),
        **positions_by_kind(data, _BASE, _BASE, "rope_theta"),
        **window(data, size, lambda layer: (layer + 1) % _PERIOD != 0),
    }


def _write_2(config: ModernConfig) -> JsonObject:
    return {"attention_bias": config.attention_bias}


def _write_3(config: ModernConfig) -> JsonObject:
    return {
        "attention_bias": config.attention_bias,
        "sliding_window": config.sliding_window or _WINDOW,
        "layer_types": [*layer_types(config)],
        "rope_parameters": rope_by_kind(config),
    }


_OLMO_2 = DecoderLayout(
    "olmo2",
    "Olmo2",
    block={
        **BLOCK,
        "attention_output_norm": ("post_attention_layernorm",),
        "feed_forward_output_norm": ("post_feedforward_layernorm",),
    },
    sizes={**SIZES, "rms_norm_eps": ("rms_norm_eps", 1e-5)},
    reads=_read_2,
    writes=_write_2,
)
_OLMO_3 = replace(_OLMO_2, model_type="olmo3", classes="Olmo3", reads=_read_3, writes=_write_3)
FAMILY = DecoderFolders(_OLMO_2, _OLMO_3)
