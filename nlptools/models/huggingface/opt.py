"""Directories of OPT (Zhang et al. 2022, arXiv:2205.01068): learned positions from the third row of their table on, ReLU."""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models.huggingface.decoder_folders import BLOCK, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.language.modern import ModernConfig

_FIXED: JsonObject = {  # variants of other models, of which OPT-350M is the known one
    "do_layer_norm_before": True,
    "_remove_final_layer_norm": False,
    "layer_norm_elementwise_affine": True,
}
_UNKNOWN = ("num_key_value_heads", "head_dim", "embedding_dropout", "rms_norm_eps")


def _read(data: JsonObject) -> JsonObject:
    fixed: dict[str, Json] = {**_FIXED, "word_embed_proj_dim": data.get("hidden_size")}
    for name, value in fixed.items():
        found = value if data.get(name) is None else data[name]
        if found != value:
            raise BundleError(f"config.json: {name} {found!r:.20} is not supported in an opt")
    has_bias = data.get("enable_bias", True)
    return {
        "layout": "opt",
        "positions": "learned",
        "norm": "layer",
        "feed_forward": "plain",
        "attention_bias": has_bias,
        "output_bias": has_bias,
        "feed_forward_bias": has_bias,
    }


def _write(config: ModernConfig) -> JsonObject:
    return {**_FIXED, "word_embed_proj_dim": config.hidden_size, "enable_bias": config.attention_bias}


FAMILY = DecoderFolders(
    DecoderLayout(
        "opt",
        "OPT",
        prefix="model.decoder.",
        reader_prefix="model.decoder.",
        top={"token_embedding": "embed_tokens", "position_embedding": "embed_positions", "norm": "final_layer_norm"},
        block={
            "attention_norm": ("self_attn_layer_norm",),
            "attention.query_key_value": BLOCK["attention.query_key_value"],
            "attention.output": ("self_attn.out_proj",),
            "feed_forward_norm": ("final_layer_norm",),
            "feed_forward.up": ("fc1",),
            "feed_forward.down": ("fc2",),
        },
        first_position=2,
        sizes={
            **{ours: theirs for ours, theirs in SIZES.items() if ours not in _UNKNOWN},
            "intermediate_size": ("ffn_dim", 3072),
            "initializer_range": ("init_std", 0.02),
            "hidden_dropout": ("dropout", 0.1),
            "tie_word_embeddings": ("tie_word_embeddings", True),
        },
        activation=("activation_function", "relu"),
        reads=_read,
        writes=_write,
        renamed=((r"^decoder\.", "model.decoder."),),
    )
)
