"""NomicBERT directories, with the names of transformers or of the published code, which is never run.

The published config.json has the names of a GPT-2.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.rotary import RotaryEncoderConfig
from nlptools.models.huggingface.bert import FAMILY as BERT
from nlptools.models.huggingface.encoder_folders import SIZES, EncoderFolders, EncoderLayout

_PUBLISHED = {  # names in the published config.json
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
}
_ONLY = {  # what other variants of the published code have, and the value that is supported
    "prenorm": False,
    "parallel_block": False,
    "use_rms_norm": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_scaling_factor": None,
    "qkv_proj_bias": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "causal": False,
    "num_experts": 0,
}
_BASE = 1000.0


def _prepared(data: JsonObject) -> JsonObject:
    """config.json in the names of transformers."""
    published = {ours: data[theirs] for theirs, ours in _PUBLISHED.items() if theirs in data}
    for name, value in _ONLY.items():
        if data.get(name, value) != value:
            raise BundleError(f"config.json: {name} {data[name]!r:.80} is not supported, expected {value}")
    activation = data.get("activation_function")
    if activation not in (None, "swiglu"):
        raise BundleError(f"config.json: activation {activation!r:.80} is not supported, expected 'swiglu'")
    return {"hidden_act": "silu", **published, **data}


def _reads(data: JsonObject) -> JsonObject:
    rotary = data.get("rope_parameters")
    rotary = rotary if isinstance(rotary, dict) else {}
    plain = rotary.get("rope_type", "default") == "default"
    base = rotary.get("rope_theta", data.get("rotary_emb_base", _BASE))
    return {"rope_theta": base, "rope_scaling": None if plain else rotary}


def _writes(config: RotaryEncoderConfig) -> JsonObject:
    scaling = dict(config.rope_scaling or {"rope_type": "default"})
    return {"rope_parameters": {**scaling, "rope_theta": config.rope_theta}}


_BERT = BERT.layouts["bert"]
FAMILY = EncoderFolders(
    EncoderLayout[RotaryEncoderConfig](
        "nomic_bert",
        "NomicBert",
        "nomic_bert.",
        {
            "token_embedding": "embeddings.word_embeddings",
            "type_embedding": "embeddings.token_type_embeddings",
            "embedding_norm": "embeddings.LayerNorm",
            "pooler.dense": "pooler.dense",
        },
        {
            "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "attention.output": ("self_attn.o_proj",),
            "attention_norm": ("post_attention_layernorm",),
            "feed_forward.gate": ("mlp.gate_proj",),
            "feed_forward.up": ("mlp.up_proj",),
            "feed_forward.down": ("mlp.down_proj",),
            "feed_forward_norm": ("post_mlp_layernorm",),
        },
        {
            **{name: theirs for name, theirs in _BERT.heads.items() if name != "next_sentence"},
            "masked.norm": "cls.predictions.transform.layer_norm",
        },
        layer="layers.",
        pretraining={frozenset({"masked"}): "ForMaskedLM"},
        copies=_BERT.copies,
        sizes={
            **SIZES,
            "max_position_embeddings": ("max_position_embeddings", 2048),
            "hidden_dropout": ("hidden_dropout_prob", 0.0),
            "attention_dropout": ("attention_probs_dropout_prob", 0.0),
        },
        fixed={"pre_norm": False, "norm_bias": True, "layer_before_heads": False},
        prepared=_prepared,
        reads=_reads,
        writes=_writes,
        renamed=(
            (r"^(bert\.)?emb_ln\.", "embeddings.LayerNorm."),
            (r"^(bert\.)?embeddings\.", "embeddings."),
            (r"^(bert\.)?encoder\.layers\.", "layers."),
            (r"\.attn\.out_proj\.", ".self_attn.o_proj."),
            (r"\.mlp\.fc11\.", ".mlp.up_proj."),
            (r"\.mlp\.fc12\.", ".mlp.gate_proj."),
            (r"\.mlp\.fc2\.", ".mlp.down_proj."),
            (r"\.norm1\.", ".post_attention_layernorm."),
            (r"\.norm2\.", ".post_mlp_layernorm."),
        ),
        stacked=("attn.Wqkv", "self_attn.{}_proj", ("q", "k", "v")),
    ),
    arch="rotary-encoder",
    sizes=RotaryEncoderConfig,
)
