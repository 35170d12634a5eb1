"""Directories of SmolLM3: a LLaMA in which every fourth layer has no positions, or those that no_rope_layers says."""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import layer_types, window
from nlptools.models.language.modern import ModernConfig

_THETA = 2000000.0
_INTERVAL = 4


def _read(data: JsonObject) -> JsonObject:
    layers, turned = data.get("num_hidden_layers"), data.get("no_rope_layers")
    numbers = range(layers if type(layers) is int else 0)
    if turned is None:
        interval = data.get("no_rope_layer_interval", _INTERVAL)
        if type(interval) is not int or interval < 1:
            raise BundleError(f"config.json: no_rope_layer_interval is {interval!r:.80}, expected a number from 1")
        turned = [int((layer + 1) % interval != 0) for layer in numbers]
    if not isinstance(turned, list) or len(turned) < len(numbers) or any(each not in (0, 1) for each in turned):
        raise BundleError(f"config.json: no_rope_layers is {turned!r:.80}, expected {len(numbers)} of 0 and 1")
    unturned = tuple(layer for layer in numbers if not turned[layer])
    size = data.get("sliding_window") if data.get("use_sliding_window") else 0
    rotary = data.get("rope_parameters")
    has_base = "rope_theta" in data or (isinstance(rotary, dict) and "rope_theta" in rotary)
    has_bias = data.get("attention_bias", False)
    return {
        "layout": "smollm3",
        **({} if has_base else {"rope_theta": _THETA}),
        "unturned_layers": list(unturned),
        "attention_bias": has_bias,
        "output_bias": has_bias,
        "feed_forward_bias": data.get("mlp_bias", False),
        **window(data, size, lambda layer: layer in unturned),
    }


def _write(config: ModernConfig) -> JsonObject:
    layers = range(config.num_hidden_layers)
    return {
        "no_rope_layers": [int(layer not in config.unturned_layers) for layer in layers],
        "use_sliding_window": bool(config.sliding_window),
        "sliding_window": config.sliding_window or None,
        "layer_types": [*layer_types(config)],
        "attention_bias": config.attention_bias,
        "mlp_bias": config.feed_forward_bias,
    }


FAMILY = DecoderFolders(
    DecoderLayout(
        "smollm3",
        "SmolLM3",
        sizes={
            **SIZES,
            "max_position_embeddings": ("max_position_embeddings", 32768),
            "num_key_value_heads": ("num_key_value_heads", 4),
            "tie_word_embeddings": ("tie_word_embeddings", True),
        },
        reads=_read,
        writes=_write,
    )
)
