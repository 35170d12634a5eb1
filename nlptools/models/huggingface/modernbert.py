"""ModernBERT directories. config.json is read in both spellings, of transformers before version 5 and since."""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.rotary import RotaryEncoderConfig
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.encoder_folders import SIZES, EncoderFolders, EncoderLayout

_KINDS = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
_BASES = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}
_UNUSED = ("type_vocab_size", "hidden_dropout")


def _reads(data: JsonObject) -> JsonObject:
    if data.get("decoder_bias", True) is not True:
        raise BundleError("config.json: decoder_bias false is not supported")
    layers, every = data.get("num_hidden_layers"), data.get("global_attn_every_n_layers", 3)
    kinds = data.get("layer_types")
    if kinds is None and type(layers) is int and type(every) is int and every > 0:
        kinds = ["sliding_attention" if layer % every else "full_attention" for layer in range(layers)]
    if not isinstance(kinds, list) or not {*map(str, kinds)} <= {*_KINDS} or len(kinds) != layers:
        raise BundleError(f"config.json: layer_types {kinds!r:.80} is not supported, expected {' and '.join(_KINDS)}")
    window = data.get("local_attention", 128)
    if type(window) is not int or window < 2:
        raise BundleError(f"config.json: local_attention is {window!r:.80}, expected a whole number from 2")
    thetas, scaling = _rotary(data)
    return {
        "classifier_activation": checks.activation(data.get("classifier_activation", "gelu")),
        "local_window": window // 2,
        "whole_layers": [number for number, kind in enumerate(kinds) if kind == "full_attention"],
        "rope_theta": thetas["full_attention"],
        "local_rope_theta": thetas["sliding_attention"],
        "rope_scaling": scaling,
    }


def _rotary(data: JsonObject) -> tuple[JsonObject, JsonObject | None]:
    """The base of each kind of layer, and the scaling of both."""
    given = data.get("rope_parameters")
    given = given if isinstance(given, dict) else {}
    old = data.get("rope_scaling")
    bases: JsonObject = {}
    scalings: list[JsonObject] = []
    for kind, name in _KINDS.items():
        own = given.get(kind)
        own = own if isinstance(own, dict) else {}
        bases[kind] = own.get("rope_theta", data.get(name, _BASES[kind]))
        scaling = {key: value for key, value in own.items() if key != "rope_theta"}
        scalings.append(scaling or (old if isinstance(old, dict) else {}))
    if scalings[0] != scalings[1]:
        raise BundleError("config.json: rope_parameters that scale the kinds of layers differently are not supported")
    plain = scalings[0].get("rope_type", scalings[0].get("type", "default")) == "default"
    return bases, None if plain else scalings[0]


def _writes(config: RotaryEncoderConfig) -> JsonObject:
    layers = range(config.num_hidden_layers)
    whole = {*config.whole_layers}
    scaling = dict(config.rope_scaling or {"rope_type": "default"})
    bases = (config.rope_theta, config.local_rope_theta)
    return {
        "classifier_activation": config.classifier_activation,
        "local_attention": 2 * config.local_window,
        "layer_types": ["full_attention" if layer in whole else "sliding_attention" for layer in layers],
        "rope_parameters": {kind: {**scaling, "rope_theta": base} for kind, base in zip(_KINDS, bases, strict=True)},
        "global_rope_theta": bases[0],
        "local_rope_theta": bases[1],
        "decoder_bias": True,
    }


FAMILY = EncoderFolders(
    EncoderLayout[RotaryEncoderConfig](
        "modernbert",
        "ModernBert",
        "model.",
        {
            "token_embedding": "embeddings.tok_embeddings",
            "embedding_norm": "embeddings.norm",
            "final_norm": "final_norm",
        },
        {
            "attention_norm": ("attn_norm",),
            "attention.query_key_value": ("attn.Wqkv",),
            "attention.output": ("attn.Wo",),
            "feed_forward_norm": ("mlp_norm",),
            "feed_forward.gate": ("mlp.Wi:0",),
            "feed_forward.up": ("mlp.Wi:1",),
            "feed_forward.down": ("mlp.Wo",),
        },
        {
            "masked.transform": "head.dense",
            "masked.norm": "head.norm",
            "masked": "decoder",  # its bias
            "prediction.dense": "head.dense",
            "prediction.norm": "head.norm",
            "sequence.output": "classifier",
            "choice.output": "classifier",
            "tokens": "classifier",
            "spans": "classifier",
        },
        layer="layers.",
        pretraining={frozenset({"masked"}): "ForMaskedLM"},
        copies={"decoder.weight": "embeddings.tok_embeddings.weight"},
        sizes={
            **{name: theirs for name, theirs in SIZES.items() if name not in _UNUSED},
            "max_position_embeddings": ("max_position_embeddings", 8192),
            "layer_norm_eps": ("norm_eps", 1e-5),
            "hidden_dropout": ("classifier_dropout", 0.0),
            "attention_dropout": ("attention_dropout", 0.0),
            "pad": ("pad_token_id", 50283),
            "attention_bias": ("attention_bias", False),
            "feed_forward_bias": ("mlp_bias", False),
            "norm_bias": ("norm_bias", False),
            "classifier_bias": ("classifier_bias", False),
            "classifier_pooling": ("classifier_pooling", "cls"),
        },
        activation=("hidden_activation", "gelu"),
        fixed={"type_vocab_size": 0},
        reads=_reads,
        writes=_writes,
    ),
    arch="rotary-encoder",
    sizes=RotaryEncoderConfig,
)
