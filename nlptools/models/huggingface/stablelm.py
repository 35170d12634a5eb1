"""Directories of StableLM (Bellagente et al. 2024, arXiv:2402.17834): a LLaMA with LayerNorm. A quarter of each head turns."""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import positions, window
from nlptools.models.language.modern import ModernConfig

_SHARE = 0.25
_VARIANTS = ("qk_layernorm", "use_parallel_residual")  # of the 12B model


def _read(data: JsonObject) -> JsonObject:
    for name in _VARIANTS:
        if data.get(name):
            raise BundleError(f"config.json: {name} is not supported in a stablelm")
    return {
        "layout": "stablelm",
        **positions({"partial_rotary_factor": _SHARE, **data}),
        "norm": "layer",
        "attention_bias": data.get("use_qkv_bias", False),
        **window(data, 0, lambda layer: False),
    }


def _write(config: ModernConfig) -> JsonObject:
    return {"partial_rotary_factor": config.rotary_share, "use_qkv_bias": config.attention_bias}


FAMILY = DecoderFolders(
    DecoderLayout(
        "stablelm",
        "StableLm",
        sizes={
            **{ours: theirs for ours, theirs in SIZES.items() if ours != "head_dim"},
            "max_position_embeddings": ("max_position_embeddings", 4096),
            "rms_norm_eps": ("layer_norm_eps", 1e-5),
        },
        partial=True,
        reads=_read,
        writes=_write,
    )
)
