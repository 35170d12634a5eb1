"""DeBERTa directories, versions 2 and 3 (model_type deberta-v2). The head for masked tokens has two names; both are read."""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.deberta import DebertaConfig
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.bert import BLOCK, ENCODER
from nlptools.models.huggingface.encoder_folders import SIZES, EncoderFolders, EncoderLayout

_HEADS = {
    "masked.transform": "cls.predictions.transform.dense",
    "masked.norm": "cls.predictions.transform.LayerNorm",
    "masked": "cls.predictions",  # its bias
    "sequence.dense": "pooler.dense",
    "sequence.output": "classifier",
    "choice.dense": "pooler.dense",
    "choice.output": "classifier",
    "tokens": "classifier",
    "spans": "qa_outputs",
}


def _reads(data: JsonObject) -> JsonObject:
    if data.get("conv_kernel_size", 0):
        raise BundleError("config.json: a DeBERTa with a convolution (conv_kernel_size) is not supported")
    hidden = data.get("hidden_size")
    for name in ("pooler_hidden_size", "attention_head_size"):
        expected = hidden
        if name == "attention_head_size":
            heads = data.get("num_attention_heads")
            expected = hidden // heads if type(hidden) is int and type(heads) is int and heads > 0 else None
        if data.get(name, expected) != expected:
            raise BundleError(f"config.json: {name} {data[name]!r:.80} is not supported, expected {expected}")
    given = data.get("pos_att_type") or []
    kinds = [*given.lower().split("|")] if isinstance(given, str) else given
    norms = str(data.get("norm_rel_ebd", "none")).lower().split("|")
    if not isinstance(kinds, list) or not {norm.strip() for norm in norms} <= {"none", "layer_norm"}:
        raise BundleError(f"config.json: pos_att_type {kinds!r:.80} with norm_rel_ebd {norms!r:.80} is not supported")
    farthest, buckets = data.get("max_relative_positions", -1), data.get("position_buckets", -1)
    whole = type(farthest) is int and farthest > 0
    activation = checks.activation(data.get("pooler_hidden_act", "gelu"))
    return {
        "attention_kinds": tuple(str(kind).strip() for kind in kinds),  # type: ignore[dict-item]
        "relative": bool(data.get("relative_attention", False)),
        "farthest": farthest if whole else data.get("max_position_embeddings", 512),
        "position_buckets": max(0, buckets) if type(buckets) is int else buckets,
        "shares_maps": bool(data.get("share_att_key", False)),
        "normed_distances": "layer_norm" in {norm.strip() for norm in norms},
        "position_biased_input": bool(data.get("position_biased_input", True)),
        "embedding_size": data.get("embedding_size") or 0,
        "sequence_activation": activation,
        "choice_activation": activation,
    }


def _writes(config: DebertaConfig) -> JsonObject:
    more: JsonObject = {} if config.embedding_size == config.hidden_size else {"embedding_size": config.embedding_size}
    return {
        **more,
        "pos_att_type": list(config.attention_kinds),
        "relative_attention": config.relative,
        "max_relative_positions": config.farthest,
        "position_buckets": config.position_buckets or -1,
        "share_att_key": config.shares_maps,
        "norm_rel_ebd": "layer_norm" if config.normed_distances else "none",
        "position_biased_input": config.position_biased_input,
        "pooler_hidden_act": config.sequence_activation,
        "pooler_hidden_size": config.hidden_size,
        "legacy": True,  # the names that the head for masked tokens has here
    }


_SELF = "attention.self."
FAMILY = EncoderFolders(
    EncoderLayout[DebertaConfig](
        "deberta-v2",
        "DebertaV2",
        "deberta.",
        {
            **{ours: theirs for ours, theirs in ENCODER.items() if ours != "pooler.dense"},
            "embedding_projection": "embeddings.embed_proj",
            "distance_embedding": "encoder.rel_embeddings",
            "distance_norm": "encoder.LayerNorm",
        },
        {
            **BLOCK,
            "attention.query_key_value": (f"{_SELF}query_proj", f"{_SELF}key_proj", f"{_SELF}value_proj"),
            "attention.distance_key": (f"{_SELF}pos_key_proj",),
            "attention.distance_query": (f"{_SELF}pos_query_proj",),
        },
        _HEADS,
        pretraining={frozenset({"masked"}): "ForMaskedLM"},
        copies={
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        sizes={
            **SIZES,
            "type_vocab_size": ("type_vocab_size", 0),
            "layer_norm_eps": ("layer_norm_eps", 1e-7),
        },
        reads=_reads,
        writes=_writes,
        renamed=(
            (r"lm_predictions\.lm_head\.(dense|LayerNorm)", r"cls.predictions.transform.\1"),
            (r"lm_predictions\.lm_head\.", "cls.predictions."),
        ),
        ignored=r"embeddings\.position_ids|mask_predictions\..*",
    ),
    arch="deberta",
    sizes=DebertaConfig,
)
