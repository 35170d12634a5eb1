"""T5 directories (Raffel et al. 2020, arXiv:1910.10683), version 1.1 and Flan-T5 among them, and mT5 (Xue et al. 2021,
arXiv:2010.11934).

Distances of tokens are in buckets, each with a number for each head, in a table that the first block of a stack has. Products of
queries and keys are not scaled. In T5 the output matrix is the embedding, and the decoder's states are scaled before it; later
versions have a separate matrix, or share it without scaling.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.t5 import T5EncoderConfig
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.encoder_decoder_folders import (
    Blocks,
    EncoderDecoderFolders,
    EncoderDecoderLayout,
)
from nlptools.models.translation.transformer_config import TransformerConfig

_SIZES = {
    "source_vocab_size": ("vocab_size", None),
    "pad": ("pad_token_id", 0),
    "hidden_size": ("d_model", None),
    "encoder_layers": ("num_layers", None),
    "encoder_heads": ("num_heads", None),
    "decoder_heads": ("num_heads", None),
    "encoder_intermediate_size": ("d_ff", None),
    "decoder_intermediate_size": ("d_ff", None),
    "head_size": ("d_kv", 64),
    "relative_buckets": ("relative_attention_num_buckets", 32),
    "farthest_distance": ("relative_attention_max_distance", 128),
    "layer_norm_eps": ("layer_norm_epsilon", 1e-6),
    "dropout": ("dropout_rate", 0.1),
}
_FIXED = {
    "norm": "pre",
    "norm_class": "rms",
    "positions": "relative",
    "scale_embedding": False,
    "bias": False,
    "scale_attention": False,
    "dropout_at_end": True,
}
_STACK = {
    "norm": "final_layer_norm",
    "buckets": "block.0.layer.0.SelfAttention.relative_attention_bias",
}
SELF_ATTENTION = {
    "attention_norm": ("layer.0.layer_norm",),
    "attention.query_key_value": tuple(f"layer.0.SelfAttention.{part}" for part in "qkv"),
    "attention.output": ("layer.0.SelfAttention.o",),
}
_CROSS = {
    "cross_attention_norm": ("layer.1.layer_norm",),
    "cross_attention.query": ("layer.1.EncDecAttention.q",),
    "cross_attention.key_value": ("layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v"),
    "cross_attention.output": ("layer.1.EncDecAttention.o",),
}


def _blocks(config: TransformerConfig) -> Blocks:
    gated = config.feed_forward == "gated"
    return {
        "encoder": {**SELF_ATTENTION, **feed_forward(1, gated)},
        "decoder": {**SELF_ATTENTION, **_CROSS, **feed_forward(2, gated)},
    }


def feed_forward(number: int, gated: bool) -> dict[str, tuple[str, ...]]:
    """Ours: theirs, of the feed-forward network in a block; `number`: its layer in the block."""
    layer = f"layer.{number}"
    return {
        "feed_forward_norm": (f"{layer}.layer_norm",),
        "feed_forward.gate": (f"{layer}.DenseReluDense.wi_0",),
        "feed_forward.up": (f"{layer}.DenseReluDense.{'wi_1' if gated else 'wi'}",),
        "feed_forward.down": (f"{layer}.DenseReluDense.wo",),
    }


def read_feed_forward(data: JsonObject) -> JsonObject:
    """Fields of ours for the feed-forward network. Raises BundleError for one that is not supported."""
    projection = data.get("feed_forward_proj", "relu")
    gated, _, name = str(projection).rpartition("-")
    if not isinstance(projection, str) or gated not in ("", "gated"):
        raise BundleError(f"config.json: feed_forward_proj {projection!r:.80} is not supported")
    return {
        "activation": "gelu_new" if projection == "gated-gelu" else checks.activation(name),
        "feed_forward": "gated" if gated else "plain",
    }


def _reads(data: JsonObject) -> JsonObject:
    layers, rate = data.get("num_decoder_layers"), data.get("dropout_rate", 0.1)
    scaled = data.get("scale_decoder_outputs", data.get("tie_word_embeddings", True) is not False)
    return {
        **read_feed_forward(data),
        "decoder_layers": data.get("num_layers") if layers is None else layers,
        "attention_dropout": rate,
        "activation_dropout": rate,
        "scale_output": scaled,
        "tie_word_embeddings": True,  # unless the weights have another matrix, whatever the setting says
    }


def written_feed_forward(config: TransformerConfig | T5EncoderConfig) -> JsonObject:
    """The field of config.json for the feed-forward network."""
    name = {"swish": "silu"}.get(config.activation, config.activation)
    gated = config.feed_forward == "gated"
    return {"feed_forward_proj": f"gated-{name.removesuffix('_new')}" if gated else name}


def _writes(config: TransformerConfig) -> JsonObject:
    return {
        **written_feed_forward(config),
        "num_decoder_layers": config.decoder_layers,
        # tells other programs whether the states are scaled, too
        "tie_word_embeddings": config.scale_output,
    }


def _later(data: JsonObject) -> JsonObject:
    """As `_reads`, of an mT5, which never scales the states."""
    gated = data.get("feed_forward_proj", "gated-gelu")
    return {**_reads({**data, "feed_forward_proj": gated}), "scale_output": False}


def _layout(model_type: str, class_name: str) -> EncoderDecoderLayout:
    return EncoderDecoderLayout(
        model_type,
        class_name,
        _FIXED,
        prefix="",
        blocks=_blocks,
        layer="block.",
        stack=_STACK,
        sizes=_SIZES,
        activation=None,
        reads=_later if model_type == "mt5" else _reads,
        writes=_writes,
        has_bias=False,
        written_output=lambda config: not config.scale_output,
        spans=True,
        ignored=r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    )


FAMILY = EncoderDecoderFolders(
    _layout("t5", "T5ForConditionalGeneration"),
    _layout("mt5", "MT5ForConditionalGeneration"),
    encoder="t5-encoder",
)
