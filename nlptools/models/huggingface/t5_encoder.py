"""Directories of T5 and mT5 without a decoder (T5EncoderModel), such as Sentence-T5. See `t5` for whole models.

transformers has no classes for most heads of tasks on such an encoder: their weights have the names that a RoBERTa has.
"""

from __future__ import annotations

from nlptools.json_types import JsonObject
from nlptools.models.encoders.t5 import T5EncoderConfig
from nlptools.models.huggingface import t5
from nlptools.models.huggingface.encoder_folders import EncoderFolders, EncoderLayout
from nlptools.models.huggingface.roberta import HEADS

_BLOCK = {  # with a plain feed-forward network
    **t5.SELF_ATTENTION,
    **{ours: theirs for ours, theirs in t5.feed_forward(1, gated=False).items() if not ours.endswith(".gate")},
}


def _reads(data: JsonObject) -> JsonObject:
    return {**t5.read_feed_forward(data), "attention_dropout": data.get("dropout_rate", 0.1)}


def _layout(model_type: str, classes: str, feed_forward: str) -> EncoderLayout[T5EncoderConfig]:
    return EncoderLayout[T5EncoderConfig](
        model_type,
        classes,
        "",
        {
            "token_embedding": "shared",
            "final_norm": "encoder.final_layer_norm",
            "distance_scores": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
        },
        _BLOCK,
        {ours: theirs for ours, theirs in HEADS.items() if not ours.startswith("masked")},
        layer="encoder.block.",
        sizes={
            "vocab_size": ("vocab_size", None),
            "hidden_size": ("d_model", None),
            "num_hidden_layers": ("num_layers", None),
            "num_attention_heads": ("num_heads", None),
            "intermediate_size": ("d_ff", None),
            "max_position_embeddings": ("n_positions", 512),
            "head_size": ("d_kv", 64),
            "distance_buckets": ("relative_attention_num_buckets", 32),
            "farthest_distance": ("relative_attention_max_distance", 128),
            "layer_norm_eps": ("layer_norm_epsilon", 1e-6),
            "hidden_dropout": ("dropout_rate", 0.1),
            "pad": ("pad_token_id", 0),
        },
        activation=("dense_act_fn", "gelu"),
        fixed={"type_vocab_size": 0, "sequence_activation": "tanh", "choice_activation": "tanh"},
        reads=lambda data: _reads({"feed_forward_proj": feed_forward, **data}),
        writes=lambda config: {**t5.written_feed_forward(config), "is_encoder_decoder": False, "use_cache": False},
        variant=lambda config: t5.feed_forward(1, gated=True) if config.feed_forward == "gated" else {},
        renamed=((r"^encoder\.embed_tokens\.", "shared."),),
    )


FAMILY = EncoderFolders(
    _layout("t5", "T5Encoder", "relu"),
    _layout("mt5", "MT5Encoder", "gated-gelu"),
    arch="t5-encoder",
    sizes=T5EncoderConfig,
)
