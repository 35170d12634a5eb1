"""Directories of StarCoder (arXiv:2305.06161) and SantaCoder: a GPT-2 whose heads share one head of keys and values.

Without "multi_query", the joint matrix has queries, keys and values of a head next to each other, as in GPT-NeoX.
"""

from __future__ import annotations

from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface.decoder_folders import HEADS, SIZES, DecoderFolders, DecoderLayout
from nlptools.models.huggingface.gpt_neox import by_head, by_part
from nlptools.models.language.modern import ModernConfig

_UNKNOWN = ("num_key_value_heads", "head_dim")


def _to_theirs(tensor: Tensor, config: ModernConfig) -> Tensor:
    return tensor if config.num_key_value_heads == 1 else by_head(tensor, config)


def _to_ours(tensor: Tensor, config: ModernConfig) -> Tensor:
    return tensor if config.num_key_value_heads == 1 else by_part(tensor, config)


def _read(data: JsonObject) -> JsonObject:
    if data.get("add_cross_attention"):
        raise BundleError("config.json: add_cross_attention is not supported in a gpt_bigcode")
    D = data.get("n_embd")
    return {
        "layout": "gpt_bigcode",
        "positions": "learned",
        "norm": "layer",
        "feed_forward": "plain",
        "attention_bias": True,
        "output_bias": True,
        "feed_forward_bias": True,
        "score_size": 0 if data.get("scale_attn_weights", True) else 1,
        "num_key_value_heads": 1 if data.get("multi_query", True) else 0,
        "intermediate_size": data.get("n_inner") or (4 * D if type(D) is int else 0),
    }


def _write(config: ModernConfig) -> JsonObject:
    return {"multi_query": config.num_key_value_heads == 1, "scale_attn_weights": not config.score_size}


FAMILY = DecoderFolders(
    DecoderLayout(
        "gpt_bigcode",
        "GPTBigCode",
        prefix="transformer.",
        top={"token_embedding": "wte", "position_embedding": "wpe", "norm": "ln_f"},
        blocks="h",
        block={
            "attention_norm": ("ln_1",),
            "attention.query_key_value": ("attn.c_attn",),
            "attention.output": ("attn.c_proj",),
            "feed_forward_norm": ("ln_2",),
            "feed_forward.up": ("mlp.c_fc",),
            "feed_forward.down": ("mlp.c_proj",),
        },
        heads={**HEADS, "tokens": "classifier"},
        to_theirs=_to_theirs,
        to_ours=_to_ours,
        sizes={
            **{ours: theirs for ours, theirs in SIZES.items() if ours not in _UNKNOWN},
            "hidden_size": ("n_embd", None),
            "num_hidden_layers": ("n_layer", None),
            "num_attention_heads": ("n_head", None),
            "intermediate_size": ("n_inner", 0),
            "max_position_embeddings": ("n_positions", 1024),
            "rms_norm_eps": ("layer_norm_epsilon", 1e-5),
            "embedding_dropout": ("embd_pdrop", 0.1),
            "hidden_dropout": ("resid_pdrop", 0.1),
            "attention_dropout": ("attn_pdrop", 0.1),
            "tie_word_embeddings": ("tie_word_embeddings", True),
        },
        activation=("activation_function", "gelu_pytorch_tanh"),
        reads=_read,
        writes=_write,
        ignored=r"h\.\d+\.attn\.(bias|masked_bias)",
    )
)
