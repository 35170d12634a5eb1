"""Directories of LLaMA and its nearest relatives: Mistral, Qwen2, Qwen3 (SmolLM and many others are LLaMA).

A decoder that we train is written as the first of these that has words for it.
"""

from __future__ import annotations

from dataclasses import fields

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models.huggingface.decoder_folders import SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import layer_types, window, window_everywhere
from nlptools.models.language.modern import ModernConfig

_MISTRALS_WINDOW = 4096
_QWENS_WINDOW, _QWENS_WINDOW_LAYERS = 4096, 28
_QWEN: dict[str, tuple[str, Json]] = {
    **SIZES,
    "max_position_embeddings": ("max_position_embeddings", 32768),
    "num_key_value_heads": ("num_key_value_heads", 32),
}
_BEYOND = (  # fields that none of these folders has
    *(
        "layout",
        "positions",
        "norm",
        "pre_norm",
        "output_norm",
        "joint_norms",
        "parallel",
        "feed_forward",
        "rotary_share",
        "causal",
    ),
    *("unturned_layers", "local_rope_theta", "embedding_scale", "score_size", "score_cap", "logit_cap"),
)
_PLAIN = {field.name: field.default for field in fields(ModernConfig) if field.name in _BEYOND}


def _family(config: ModernConfig) -> str | None:
    """The family of a configuration, LLaMA if possible; None: its variants do not go together in any."""
    if any(vars(config)[name] != value for name, value in _PLAIN.items()):
        return None
    biases = (config.attention_bias, config.output_bias)
    if config.query_key_norm:
        return "qwen3" if biases[0] == biases[1] and not config.feed_forward_bias else None
    if biases == (True, False):
        return None if config.feed_forward_bias else "qwen2"
    if config.sliding_window:
        return "mistral" if not any((*biases, config.feed_forward_bias, config.whole_layers)) else None
    return "llama" if biases[0] == biases[1] else None


def _qwens_window(data: JsonObject) -> JsonObject:
    first = data.get("max_window_layers", _QWENS_WINDOW_LAYERS)
    if type(first) is not int or first < 0:
        raise BundleError(f"config.json: max_window_layers is {first!r:.80}, expected a whole number from 0")
    size = data.get("sliding_window", _QWENS_WINDOW) if data.get("use_sliding_window") else 0
    return window(data, size, lambda layer: layer >= first)


def _window_to_qwen(config: ModernConfig) -> JsonObject:
    out: JsonObject = {"use_sliding_window": bool(config.sliding_window)}
    if config.sliding_window:
        first = next(layer for layer in range(config.num_hidden_layers) if config.has_window(layer))
        out |= {"sliding_window": config.sliding_window, "max_window_layers": first}
        if config.whole_layers != tuple(range(first)):
            out["layer_types"] = [*layer_types(config)]
    return out


def _read_llama(data: JsonObject) -> JsonObject:
    has_bias = data.get("attention_bias", False)
    biases = {"attention_bias": has_bias, "output_bias": has_bias, "feed_forward_bias": data.get("mlp_bias", False)}
    return {**biases, **window(data, 0, lambda layer: False)}


def _read_mistral(data: JsonObject) -> JsonObject:
    return window_everywhere(data, data.get("sliding_window", _MISTRALS_WINDOW))


def _read_qwen2(data: JsonObject) -> JsonObject:
    return {"attention_bias": True, **_qwens_window(data)}


def _read_qwen3(data: JsonObject) -> JsonObject:
    has_bias = data.get("attention_bias", False)
    return {"query_key_norm": True, "attention_bias": has_bias, "output_bias": has_bias, **_qwens_window(data)}


FAMILY = DecoderFolders(
    DecoderLayout(
        "llama",
        "Llama",
        reads=_read_llama,
        writes=lambda config: {"attention_bias": config.attention_bias, "mlp_bias": config.feed_forward_bias},
    ),
    DecoderLayout(
        "mistral",
        "Mistral",
        reader_prefix="model.",
        sizes={
            **SIZES,
            "max_position_embeddings": ("max_position_embeddings", 131072),
            "num_key_value_heads": ("num_key_value_heads", 8),
        },
        reads=_read_mistral,
        writes=lambda config: {"sliding_window": config.sliding_window},
    ),
    DecoderLayout("qwen2", "Qwen2", sizes=_QWEN, reads=_read_qwen2, writes=_window_to_qwen),
    DecoderLayout(
        "qwen3",
        "Qwen3",
        sizes={**_QWEN, "head_dim": ("head_dim", 128)},
        reads=_read_qwen3,
        writes=lambda config: {"attention_bias": config.attention_bias, **_window_to_qwen(config)},
    ),
    choose=_family,
)
