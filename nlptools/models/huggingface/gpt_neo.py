"""Directories of GPT-Neo (Black et al. 2021, doi:10.5281/zenodo.5297715).

Learned positions, scores that nothing divides, and a sliding window in every other layer.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models.huggingface.decoder_folders import HEADS, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.decoder_positions import LOCAL, WHOLE, layer_types, window
from nlptools.models.language.modern import ModernConfig

_WINDOW = 256
_KINDS = {"global": WHOLE, "local": LOCAL}
_UNKNOWN = ("num_key_value_heads", "head_dim")


def _kinds(data: JsonObject) -> list[Json]:
    """The kind of each layer: "attention_layers", or each list of "attention_types" as often as the number after it says."""
    layers, groups = data.get("attention_layers"), data.get("attention_types", [[["global", "local"], 12]])
    if isinstance(layers, list):
        return layers
    out: list[Json] = []
    for group in groups if isinstance(groups, list) else ():
        match group:
            case [list(names), int(times)] if len(names) * times < 1 << 16:
                out += names * times
            case _:
                raise BundleError(
                    f"config.json: attention_types has {group!r:.80}, expected kinds of layers and a number"
                )
    return out


def _read(data: JsonObject) -> JsonObject:
    size, D = data.get("window_size", _WINDOW), data.get("hidden_size")
    named = [kind if isinstance(kind, str) else "" for kind in _kinds(data)]
    kinds: list[Json] = [_KINDS.get(kind, kind) for kind in named]
    return {
        "layout": "gpt_neo",
        "positions": "learned",
        "norm": "layer",
        "feed_forward": "plain",
        "output_bias": True,
        "feed_forward_bias": True,
        "score_size": 1,
        "intermediate_size": data.get("intermediate_size") or (4 * D if type(D) is int else 0),
        **window({"num_hidden_layers": data.get("num_layers"), "layer_types": kinds}, size, lambda layer: True),
    }


def _write(config: ModernConfig) -> JsonObject:
    names = {theirs: name for name, theirs in _KINDS.items()}
    kinds: list[Json] = [names[kind] for kind in layer_types(config)]
    return {
        "window_size": config.sliding_window or _WINDOW,
        "attention_types": [[kinds, 1]],
        "attention_layers": kinds,
    }


FAMILY = DecoderFolders(
    DecoderLayout(
        "gpt_neo",
        "GPTNeo",
        prefix="transformer.",
        top={"token_embedding": "wte", "position_embedding": "wpe", "norm": "ln_f"},
        blocks="h",
        block={
            "attention_norm": ("ln_1",),
            "attention.query_key_value": (
                "attn.attention.q_proj",
                "attn.attention.k_proj",
                "attn.attention.v_proj",
            ),
            "attention.output": ("attn.attention.out_proj",),
            "feed_forward_norm": ("ln_2",),
            "feed_forward.up": ("mlp.c_fc",),
            "feed_forward.down": ("mlp.c_proj",),
        },
        heads={**HEADS, "tokens": "classifier"},
        sizes={
            **{ours: theirs for ours, theirs in SIZES.items() if ours not in _UNKNOWN},
            "num_hidden_layers": ("num_layers", None),
            "num_attention_heads": ("num_heads", None),
            "intermediate_size": ("intermediate_size", 0),
            "rms_norm_eps": ("layer_norm_epsilon", 1e-5),
            "embedding_dropout": ("embed_dropout", 0.0),
            "hidden_dropout": ("resid_dropout", 0.0),
            "tie_word_embeddings": ("tie_word_embeddings", True),
        },
        activation=("activation_function", "gelu_new"),
        reads=_read,
        writes=_write,
        ignored=r"h\.\d+\.attn\.attention\.(bias|masked_bias)",
    )
)
