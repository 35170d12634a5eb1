"""Directories of the text models Gemma (arXiv:2403.08295), Gemma 2 (arXiv:2408.00118) and Gemma 3 (arXiv:2503.19786).

Norms have a gain of 1 plus the weight, and embeddings are multiplied by the root of their size. Since Gemma 2, each part also
ends with a norm, and some layers have a sliding window. Gemma 2 caps scores and logits; Gemma 3 has norms of queries and keys,
and another base of positions in layers with a window. EmbeddingGemma (arXiv:2509.20354) is a Gemma 3 that attends in both
directions.
"""

from __future__ import annotations

from collections.abc import Callable

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.decoder_folders import BLOCK, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import layer_types, positions_by_kind, rope_by_kind, window
from nlptools.models.language.modern import ModernConfig

_WINDOW, _SCORE_SIZE = 4096, 256
_SCORE_CAP, _LOGIT_CAP = 50.0, 30.0  # of Gemma 2
_PATTERN = 6  # of Gemma 3: every sixth layer has no window
_TANH, _LEGACY = "gelu_pytorch_tanh", "gelu"  # one activation: the first folders of Gemma had another name
_BOTH_WAYS = "use_bidirectional_attention"
_BASES = 1_000_000.0, 10_000.0  # of positions of Gemma 3: in layers without a window, and with one


def _common(data: JsonObject) -> JsonObject:
    size, has_bias = data.get("hidden_size"), data.get("attention_bias", False)
    return {
        "layout": data["model_type"],
        "norm": "offset-rms",
        "attention_bias": has_bias,
        "output_bias": has_bias,
        "embedding_scale": size**0.5 if type(size) is int and size > 0 else 1.0,
    }


def _since_2(data: JsonObject, size_of_window: Json, has_window: Callable[[int], bool]) -> JsonObject:
    return {
        **_common(data),
        "output_norm": True,
        "score_size": data.get("query_pre_attn_scalar", _SCORE_SIZE),
        **window(data, size_of_window, has_window),
    }


def _refuse_both_ways(data: JsonObject) -> None:
    if data.get(_BOTH_WAYS):
        raise BundleError(f"config.json: {_BOTH_WAYS} is not supported in a {data['model_type']}")


def _read_1(data: JsonObject) -> JsonObject:
    _refuse_both_ways(data)
    by_tanh = {"activation": checks.activation(_TANH)} if data.get("hidden_act") == _LEGACY else {}
    return {**_common(data), **window(data, 0, lambda layer: False), **by_tanh}


def _read_2(data: JsonObject) -> JsonObject:
    _refuse_both_ways(data)
    return {
        **_since_2(data, data.get("sliding_window", _WINDOW), lambda layer: layer % 2 == 0),
        "score_cap": data.get("attn_logit_softcapping", _SCORE_CAP) or 0.0,
        "logit_cap": data.get("final_logit_softcapping", _LOGIT_CAP) or 0.0,
    }


def _read_3(data: JsonObject) -> JsonObject:
    if data.get("attn_logit_softcapping") is not None:
        raise BundleError("config.json: attn_logit_softcapping is not supported in a gemma3_text")
    pattern = data.get("sliding_window_pattern", _PATTERN)
    if type(pattern) is not int or pattern < 1:
        raise BundleError(f"config.json: sliding_window_pattern is {pattern!r:.80}, expected a whole number from 1")
    both_ways, size = bool(data.get(_BOTH_WAYS)), data.get("sliding_window", _WINDOW)
    if both_ways and type(size) is int:  # on either side, the position itself included
        size = size // 2 + 1
    return {
        **_since_2(data, size, lambda layer: (layer + 1) % pattern != 0),
        "causal": not both_ways,
        **positions_by_kind(data, *_BASES, "rope_local_base_freq"),
        "query_key_norm": True,
        "logit_cap": data.get("final_logit_softcapping") or 0.0,
    }


def _write_common(config: ModernConfig) -> JsonObject:
    return {
        "attention_bias": config.attention_bias,
        "query_pre_attn_scalar": config.score_size or config.head_dim,
        "sliding_window": config.sliding_window or _WINDOW,
        "layer_types": [*layer_types(config)],
        "final_logit_softcapping": config.logit_cap or None,
    }


def _write_3(config: ModernConfig) -> JsonObject:
    out = _write_common(config)
    if not config.causal:
        out |= {
            _BOTH_WAYS: True,
            "sliding_window": 2 * (config.sliding_window - 1) if config.sliding_window else _WINDOW,
        }
    return {
        **out,
        "rope_local_base_freq": config.local_rope_theta,
        "rope_parameters": rope_by_kind(config),
    }


_BLOCK = {
    **BLOCK,
    "attention_output_norm": ("post_attention_layernorm",),
    "feed_forward_norm": ("pre_feedforward_layernorm",),
    "feed_forward_output_norm": ("post_feedforward_layernorm",),
}
_SIZES: dict[str, tuple[str, Json]] = {
    **SIZES,
    "num_key_value_heads": ("num_key_value_heads", 4),
    "head_dim": ("head_dim", 256),
    "tie_word_embeddings": ("tie_word_embeddings", True),
}
FAMILY = DecoderFolders(
    DecoderLayout(
        "gemma",
        "Gemma",
        sizes={
            **_SIZES,
            "num_key_value_heads": ("num_key_value_heads", 16),
            "max_position_embeddings": ("max_position_embeddings", 8192),
        },
        activation=("hidden_act", _TANH),
        reads=_read_1,
        writes=lambda config: {"attention_bias": config.attention_bias},
    ),
    DecoderLayout(
        "gemma2",
        "Gemma2",
        block=_BLOCK,
        sizes={**_SIZES, "max_position_embeddings": ("max_position_embeddings", 8192)},
        activation=("hidden_activation", _TANH),
        reads=_read_2,
        writes=lambda config: {**_write_common(config), "attn_logit_softcapping": config.score_cap or None},
    ),
    DecoderLayout(
        "gemma3_text",
        "Gemma3Text",
        language_class="Gemma3ForCausalLM",
        both_ways=_BOTH_WAYS,
        block=_BLOCK,
        sizes={**_SIZES, "max_position_embeddings": ("max_position_embeddings", 131072)},
        activation=("hidden_activation", _TANH),
        reads=_read_3,
        writes=_write_3,
    ),
)
