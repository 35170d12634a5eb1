"""Directories of GPT-NeoX (Black et al. 2022, arXiv:2204.06745) and Pythia (Biderman et al. 2023, arXiv:2304.01373).

The joint matrix of queries, keys and values has the three of a head next to each other. Positions turn a quarter of each head.
"""

from __future__ import annotations

from torch import Tensor

from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import HEADS, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import positions, window
from nlptools.models.language.modern import ModernConfig

_SHARE = 0.25


def by_head(tensor: Tensor, config: ModernConfig) -> Tensor:
    """(3 H K, ...), ordered by query, key and value -> ordered by head."""
    parts = tensor.view(3, config.num_attention_heads, config.head_dim, *tensor.shape[1:])
    return parts.transpose(0, 1).reshape(tensor.shape)


def by_part(tensor: Tensor, config: ModernConfig) -> Tensor:
    """The way back."""
    parts = tensor.view(config.num_attention_heads, 3, config.head_dim, *tensor.shape[1:])
    return parts.transpose(0, 1).reshape(tensor.shape)


def _read(data: JsonObject) -> JsonObject:
    given = {
        "partial_rotary_factor": data.get("rotary_pct", _SHARE),
        "rope_theta": data.get("rotary_emb_base", 10000.0),
    }
    has_bias = data.get("attention_bias", True)
    return {
        "layout": "gpt_neox",
        **positions({**data, **given}),
        "norm": "layer",
        "parallel": data.get("use_parallel_residual", True),
        "feed_forward": "plain",
        "attention_bias": has_bias,
        "output_bias": has_bias,
        "feed_forward_bias": True,
        "embedding_dropout": data.get("hidden_dropout", 0.0),
        **window(data, 0, lambda layer: False),
    }


def _write(config: ModernConfig) -> JsonObject:
    return {
        "rotary_pct": config.rotary_share,
        "rotary_emb_base": config.rope_theta,
        "use_parallel_residual": config.parallel,
        "attention_bias": config.attention_bias,
    }


_UNKNOWN = ("num_key_value_heads", "head_dim", "embedding_dropout", "rms_norm_eps")
FAMILY = DecoderFolders(
    DecoderLayout(
        "gpt_neox",
        "GPTNeoX",
        prefix="gpt_neox.",
        reader_prefix="gpt_neox.",
        top={"token_embedding": "embed_in", "norm": "final_layer_norm"},
        block={
            "attention_norm": ("input_layernorm",),
            "attention.query_key_value": ("attention.query_key_value",),
            "attention.output": ("attention.dense",),
            "feed_forward_norm": ("post_attention_layernorm",),
            "feed_forward.up": ("mlp.dense_h_to_4h",),
            "feed_forward.down": ("mlp.dense_4h_to_h",),
        },
        heads={**HEADS, "tokens": "classifier"},
        output="embed_out",
        to_theirs=by_head,
        to_ours=by_part,
        sizes={
            **{ours: theirs for ours, theirs in SIZES.items() if ours not in _UNKNOWN},
            "rms_norm_eps": ("layer_norm_eps", 1e-5),
        },
        partial=True,
        activation=("hidden_act", "gelu"),
        reads=_read,
        writes=_write,
        renamed=((r"^lm_head\.", "embed_out."),),
        ignored=r"layers\.\d+\.attention\.(rotary_emb\.inv_freq|bias|masked_bias)",
    )
)
