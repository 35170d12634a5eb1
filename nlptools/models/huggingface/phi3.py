"""Directories of Phi-3, Phi-3.5 and Phi-4-mini (Abdin et al. 2024, arXiv:2404.14219).

Queries, keys and values are one matrix, and so are a gate and what it multiplies. All layers have a sliding window, or none has.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import BLOCK, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import positions, window_everywhere
from nlptools.models.language.modern import ModernConfig

_TRAINED = 4096
_LONG = ("longrope", "su", "yarn")  # names of one scaling, in folders of different ages


def _read(data: JsonObject) -> JsonObject:
    data = {"original_max_position_embeddings": _TRAINED, **data}
    scaling = data.get("rope_parameters") or data.get("rope_scaling")
    if isinstance(scaling, dict):
        name = scaling.get("rope_type", scaling.get("type", "default"))
        if name not in ("default", *_LONG):
            raise BundleError(f"config.json: scaling of rotary positions {name!r:.80} is not one of a phi3")
        if name in _LONG:
            kept = {key: value for key, value in scaling.items() if key != "type"}
            data |= {"rope_parameters": {**kept, "rope_type": "longrope"}}
    return {
        "layout": "phi3",
        **positions(data),
        **window_everywhere(data, data.get("sliding_window")),
    }


def _write(config: ModernConfig) -> JsonObject:
    trained = (config.rope_scaling or {}).get("original_max_position_embeddings", _TRAINED)
    return {
        "original_max_position_embeddings": trained,
        "partial_rotary_factor": config.rotary_share,
        "sliding_window": config.sliding_window or None,
    }


FAMILY = DecoderFolders(
    DecoderLayout(
        "phi3",
        "Phi3",
        block={
            **BLOCK,
            "attention.query_key_value": ("self_attn.qkv_proj",),
            "feed_forward.gate": ("mlp.gate_up_proj:0",),
            "feed_forward.up": ("mlp.gate_up_proj:1",),
        },
        sizes={
            **SIZES,
            "max_position_embeddings": ("max_position_embeddings", 4096),
            "rms_norm_eps": ("rms_norm_eps", 1e-5),
            "embedding_dropout": ("embd_pdrop", 0.0),
            "hidden_dropout": ("resid_pdrop", 0.0),
        },
        partial=True,
        reads=_read,
        writes=_write,
    )
)
