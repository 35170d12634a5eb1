"""ALBERT directories.

Lan et al. 2020, "ALBERT" (arXiv:1909.11942): layers share one block, or a few, and embeddings are narrower than hidden states.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.bert import ENCODER
from nlptools.models.huggingface.encoder_folders import SIZES, EncoderFolders, EncoderLayout, plain_positions


def _reads(data: JsonObject) -> JsonObject:
    inner = data.get("inner_group_num", 1)
    if inner != 1:
        raise BundleError(f"config.json: inner_group_num {inner!r:.80} is not supported, expected 1")
    if data.get("embedding_size", 128) == data.get("hidden_size"):
        raise BundleError("config.json: an ALBERT with embeddings as wide as its hidden states is not supported")
    return plain_positions(data)


FAMILY = EncoderFolders(
    EncoderLayout[EncoderConfig](
        "albert",
        "Albert",
        "albert.",
        {
            **ENCODER,
            "embedding_projection": "encoder.embedding_hidden_mapping_in",
            "pooler.dense": "pooler",
        },
        {
            "attention.query_key_value": ("attention.query", "attention.key", "attention.value"),
            "attention.output": ("attention.dense",),
            "attention_norm": ("attention.LayerNorm",),
            "feed_forward.up": ("ffn",),
            "feed_forward.down": ("ffn_output",),
            "feed_forward_norm": ("full_layer_layer_norm",),
        },
        {
            "masked.transform": "predictions.dense",
            "masked.norm": "predictions.LayerNorm",
            "masked": "predictions",  # its bias
            "next_sentence": "sop_classifier.classifier",
            "sequence.output": "classifier",
            "choice.output": "classifier",
            "tokens": "classifier",
            "spans": "qa_outputs",
        },
        layer="encoder.albert_layer_groups.",
        inner="albert_layers.0.",
        pretraining={
            frozenset({"pooler", "masked", "next_sentence"}): "ForPreTraining",
            frozenset({"masked"}): "ForMaskedLM",
        },
        copies={
            "predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "predictions.decoder.bias": "predictions.bias",
        },
        sizes={
            **SIZES,
            "embedding_size": ("embedding_size", 128),
            "num_blocks": ("num_hidden_groups", 1),
            "hidden_dropout": ("hidden_dropout_prob", 0.0),
            "attention_dropout": ("attention_probs_dropout_prob", 0.0),
        },
        activation=("hidden_act", "gelu_new"),
        reads=_reads,
        writes=lambda config: {"position_embedding_type": "absolute", "inner_group_num": 1},
    ),
    sizes=EncoderConfig,
)
