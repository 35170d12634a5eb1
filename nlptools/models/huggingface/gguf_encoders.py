"""The encoders in GGUF files: BERT and its kin, ModernBERT, NomicBERT, and the encoder of a T5.

Encoders like BERT are all written as BERT: a RoBERTa is one whose positions begin in a later row.
"""

from __future__ import annotations

from dataclasses import replace

from nlptools.errors import BundleError, UsageError
from nlptools.files.gguf_file import GGUFFile
from nlptools.json_types import JsonObject
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.gguf_names import GGUFLayout, Metadata, Weights
from nlptools.models.huggingface.gguf_rotary import base_of

POOLINGS = {"mean": 1, "cls": 2, "last": 3}  # names in `layers.pooling`: numbers in files
_POSITIONS = "encoder.position_embedding.weight"
_TYPES = "token_types.weight"
_WHOLE, _LOCAL = "full_attention", "sliding_attention"
_EVERY = 3  # of so many layers of a ModernBERT, the first has no window, where a file does not say another number


def _without_heads(config: EncoderConfig, weights: Weights) -> tuple[EncoderConfig, Weights]:
    return config, {
        name: tensor
        for name, tensor in weights.items()
        if name.startswith("encoder.") and not name.startswith("encoder.pooler.")
    }


# -- BERT ----------------------------------------------------------------------------------------------------------------


def _plain_encoder(config: EncoderConfig, weights: Weights) -> tuple[EncoderConfig, Weights]:
    """An encoder as a BERT, without heads. Raises UsageError for one with factored embeddings or shared layers."""
    if config.embedding_size != config.hidden_size or config.num_blocks != config.num_hidden_layers:
        raise UsageError(f"llama.cpp has no factored embeddings and no shared layers, as this {config.layout} has")
    config, kept = _without_heads(config, weights)
    first = config.first_position
    plain = replace(
        config,
        layout="bert",
        first_position=0,
        max_position_embeddings=config.max_position_embeddings - first,
        pad=0,
    )
    return plain, {name: tensor[first:] if name == _POSITIONS else tensor for name, tensor in kept.items()}


def _both_ways(data: JsonObject, layout: GGUFLayout) -> Metadata:
    """The metadata of encoders with segments."""
    return {
        layout.key("attention.causal"): False,
        "tokenizer.ggml.token_type_count": int(str(data["type_vocab_size"])) or 1,
    }


def _segments(file: GGUFFile, layout: GGUFLayout) -> JsonObject:
    return {"type_vocab_size": file.tensors[_TYPES].shape[0] if _TYPES in file.tensors else 0}


_SIZES = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.layer_norm_epsilon": "layer_norm_eps",
}
_BERT = GGUFLayout(
    "bert",
    ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra"),
    _SIZES,
    "encoder.layer.",
    {
        "embeddings.word_embeddings": "token_embd",
        "embeddings.position_embeddings": "position_embd",
        "embeddings.token_type_embeddings": "token_types",
        "embeddings.LayerNorm": "token_embd_norm",
    },
    {
        "attention.self.query": "attn_q",
        "attention.self.key": "attn_k",
        "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output",
        "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up",
        "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm",
    },
    prefix="bert.",
    fixed={"hidden_act": ("gelu", "gelu_new")},
    writes=_both_ways,
    reads=_segments,
    prepared=_plain_encoder,
    causal=False,
)


# -- rotary positions ----------------------------------------------------------------------------------------------------


def _refuse_scaling(rotary: object) -> None:
    if isinstance(rotary, dict) and rotary.get("rope_type", "default") != "default":
        raise BundleError(f"llama.cpp has no scaled rotary positions in this family, found {rotary['rope_type']!r:.80}")


def _nomic_to(data: JsonObject, layout: GGUFLayout) -> Metadata:
    rotary = data["rope_parameters"]
    assert isinstance(rotary, dict)
    _refuse_scaling(rotary)
    return {**_both_ways(data, layout), layout.key("rope.freq_base"): float(str(rotary["rope_theta"]))}


def _nomic_from(file: GGUFFile, layout: GGUFLayout) -> JsonObject:
    return {**_segments(file, layout), "rotary_emb_base": base_of(file, layout)}


_NOMIC = replace(
    _BERT,
    arch="nomic-bert",
    model_types=("nomic_bert",),
    prefix="nomic_bert.",
    layer="layers.",
    top={ours: theirs for ours, theirs in _BERT.top.items() if theirs != "position_embd"},
    block={
        "attn.Wqkv": "attn_qkv",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "attn_output_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "post_mlp_layernorm": "layer_output_norm",
    },
    also=("rope.freq_base",),
    fixed={"hidden_act": ("silu", "swish")},
    writes=_nomic_to,
    reads=_nomic_from,
    prepared=_without_heads,
    stacked=True,
)


def _kinds(layers: int, every: int) -> list[str]:
    return [_LOCAL if layer % every else _WHOLE for layer in range(layers)]


def _modern_to(data: JsonObject, layout: GGUFLayout) -> Metadata:
    layers, kinds, rotary = int(str(data["num_hidden_layers"])), data["layer_types"], data["rope_parameters"]
    assert isinstance(kinds, list) and isinstance(rotary, dict)
    _refuse_scaling(rotary[_WHOLE])
    gate = "gelu" if data["hidden_activation"] == "gelu" else "silu"
    out: Metadata = {layout.key("attention.causal"): False, layout.key("hidden_activation"): gate}
    if _LOCAL not in kinds:
        return out
    every = next((each for each in range(2, layers + 1) if kinds == _kinds(layers, each)), None)
    if every is None:
        raise BundleError(
            f"llama.cpp has one layer without a window, then some with one, in a {layout.arch}; found other layer_types"
        )
    out[layout.key("attention.sliding_window")] = int(str(data["local_attention"]))
    out[layout.key("attention.sliding_window_pattern")] = every
    return out


def _modern_from(file: GGUFFile, layout: GGUFLayout) -> JsonObject:
    layers, window = file.id(layout.key("block_count")), file.metadata.get(layout.key("attention.sliding_window"), 0)
    every = file.metadata.get(layout.key("attention.sliding_window_pattern"), _EVERY)
    if layers is None:
        raise file.bad("no block_count")
    if type(every) is not int or every < 1:
        raise file.bad(f"attention.sliding_window_pattern is {every!r:.80}, expected a whole number from 1")
    activation = file.text(layout.key("hidden_activation"), "gelu")
    if activation not in layout.fixed["hidden_activation"]:
        raise file.bad(f"the activation {activation!r:.80} is not supported")
    held = len(file.tensors)  # a list of kinds is not longer than the layers that the file can have
    kinds = _kinds(min(layers, held), every) if window else [_WHOLE] * min(layers, held)
    pad = file.id("tokenizer.ggml.padding_token_id") or 0
    windows: JsonObject = {"local_attention": window} if type(window) is int and window else {}
    return {"layer_types": [*kinds], "hidden_activation": activation, "pad_token_id": pad, **windows}


_MODERN = GGUFLayout(
    "modern-bert",
    ("modernbert",),
    {
        **{key: name for key, name in _SIZES.items() if not key.endswith("epsilon")},
        "attention.layer_norm_epsilon": "norm_eps",
        "rope.freq_base": "global_rope_theta",
        "rope.freq_base_swa": "local_rope_theta",
    },
    "layers.",
    {
        "embeddings.tok_embeddings": "token_embd",
        "embeddings.norm": "token_embd_norm",
        "final_norm": "output_norm",
    },
    {
        "attn_norm": "attn_norm",
        "attn.Wqkv": "attn_qkv",
        "attn.Wo": "attn_output",
        "mlp_norm": "ffn_norm",
        "mlp.Wi": "ffn_up",  # of the feed-forward network, its gate first
        "mlp.Wo": "ffn_down",
    },
    prefix="model.",
    also=("attention.sliding_window", "attention.sliding_window_pattern"),
    fixed={
        "hidden_activation": ("gelu", "silu", "swish"),
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), (False,)),
    },
    writes=_modern_to,
    reads=_modern_from,
    prepared=_without_heads,
    causal=False,
)


# -- T5 ------------------------------------------------------------------------------------------------------------------

_T5_BLOCK = {
    "layer.0.layer_norm": "attn_norm",
    "layer.0.SelfAttention.q": "attn_q",
    "layer.0.SelfAttention.k": "attn_k",
    "layer.0.SelfAttention.v": "attn_v",
    "layer.0.SelfAttention.o": "attn_o",
    "layer.0.SelfAttention.relative_attention_bias": "attn_rel_b",
    "layer.1.layer_norm": "ffn_norm",
    "layer.1.DenseReluDense.wo": "ffn_down",
}
_T5 = GGUFLayout(
    "t5encoder",
    ("t5", "mt5"),
    {
        "context_length": "n_positions",
        "embedding_length": "d_model",
        "block_count": "num_layers",
        "feed_forward_length": "d_ff",
        "attention.head_count": "num_heads",
        "attention.key_length": "d_kv",
        "attention.value_length": "d_kv",
        "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
        "attention.relative_buckets_count": "relative_attention_num_buckets",
    },
    "encoder.block.",
    {"shared": "token_embd", "encoder.final_layer_norm": "enc.output_norm"},
    {**_T5_BLOCK, "layer.1.DenseReluDense.wi": "ffn_up"},
    file_layer="enc.blk.",
    fixed={"feed_forward_proj": ("relu",), "relative_attention_max_distance": (128,)},
    writes=lambda data, layout: {layout.key("attention.causal"): False},
    reads=lambda file, layout: {"architectures": ["T5EncoderModel"], "is_encoder_decoder": False},
    prepared=_without_heads,
    causal=False,
)
_GATED_T5 = replace(
    _T5,
    block={**_T5_BLOCK, "layer.1.DenseReluDense.wi_0": "ffn_gate", "layer.1.DenseReluDense.wi_1": "ffn_up"},
    fixed={"relative_attention_max_distance": (128,)},
    marks={"feed_forward_proj": "gated-gelu"},
    marking="enc.blk.0.ffn_gate.weight",
)
ENCODERS = (_BERT, _MODERN, _NOMIC, _GATED_T5, _T5)
