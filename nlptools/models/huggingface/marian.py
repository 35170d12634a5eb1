"""MarianMT directories (norm after each sublayer) and Pegasus ones (norm before each, and after the last).

Both families of Hugging Face are the Transformer of Vaswani et al. 2017 with computed positions. One matrix of ours is
three of theirs: queries, keys and values are stacked here. Copies of tied matrices are not written, and are checked when
read. Pegasus always shares its embeddings, and neither family notes its epsilon (see `can_express`).
Shapes: D hidden, V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.layers.positions import sinusoids
from nlptools.models.huggingface import checks
from nlptools.models.translation.transformer import TransformerConfig

_NORMS = {"marian": "post", "pegasus": "pre"}
MODEL_TYPES = tuple(_NORMS)
_CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
_NEVER = -1e4  # logit of a padding that has no probability here

_SIZES = {
    "source_vocab_size": "vocab_size",
    "pad": "pad_token_id",
    "hidden_size": "d_model",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "encoder_heads": "encoder_attention_heads",
    "decoder_heads": "decoder_attention_heads",
    "encoder_intermediate_size": "encoder_ffn_dim",
    "decoder_intermediate_size": "decoder_ffn_dim",
}
_DEFAULTS = {  # ours: theirs, and their default
    "max_position_embeddings": ("max_position_embeddings", 1024),
    "scale_embedding": ("scale_embedding", False),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("activation_dropout", 0.0),
}
_EPSILON = 1e-5

_BLOCK = {
    "attention_norm": ("self_attn_layer_norm",),
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "cross_attention_norm": ("encoder_attn_layer_norm",),
    "cross_attention.query": ("encoder_attn.q_proj",),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "feed_forward_norm": ("final_layer_norm",),
    "feed_forward.up": ("fc1",),
    "feed_forward.down": ("fc2",),
}
_TOP = {"encoder_norm": "encoder.layer_norm", "decoder_norm": "decoder.layer_norm"}
_BIAS = "final_logits_bias"
_ENCODER, _DECODER, _OUTPUT, _SHARED = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "lm_head.weight",
    "shared.weight",
)
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")


def architecture(data: JsonObject) -> str:
    """The same for both families."""
    return "seq2seq-transformer"


def tied(config: TransformerConfig) -> tuple[str, str] | None:
    """See `directories.FolderLayout`: another output matrix than the embedding is refused when the weights are read."""
    return None


def can_express(config: TransformerConfig) -> bool:
    """Whether one of the two families has words for this configuration."""
    known = config.layer_norm_eps == _EPSILON and config.activation in checks.ACTIVATIONS
    return known and (config.norm == "post" or config.share_embeddings)


def config_to_hf(config: TransformerConfig, heads: tuple[str, ...] = ()) -> JsonObject:
    """The content of config.json. There are no heads."""
    kind = next(kind for kind, norm in _NORMS.items() if norm == config.norm)
    pre_norm = config.norm == "pre"
    separate = {"decoder_vocab_size": config.target_vocab_size,
                "share_encoder_decoder_embeddings": config.share_embeddings}  # fmt: skip
    return {
        "model_type": kind,
        "architectures": [_CLASSES[kind]],
        **{theirs: vars(config)[ours] for ours, theirs in _SIZES.items()},
        **{theirs: vars(config)[ours] for ours, (theirs, _) in _DEFAULTS.items()},
        **({} if pre_norm else separate),
        "activation_function": config.activation,
        "eos_token_id": config.eos,
        "decoder_start_token_id": config.pad,
        "forced_eos_token_id": config.eos,
        "num_hidden_layers": config.encoder_layers,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "normalize_before": pre_norm,
        "add_final_layer_norm": pre_norm,
        "normalize_embedding": False,
        "static_position_embeddings": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "use_cache": True,
        "torch_dtype": "float32",
    }


def config_from_hf(data: JsonObject) -> TransformerConfig:
    """The configuration in a config.json of one of the two families. Raises BundleError for an unsupported variant."""
    if not data.get("static_position_embeddings", True):
        raise BundleError("config.json: learned positions (static_position_embeddings false) are not supported")
    values = {ours: data[theirs] for ours, theirs in _SIZES.items() if theirs in data}
    values |= {ours: data.get(theirs, default) for ours, (theirs, default) in _DEFAULTS.items()}
    values["norm"] = _NORMS[str(data["model_type"])]
    values["share_embeddings"] = data.get("share_encoder_decoder_embeddings", True)
    size = data.get("decoder_vocab_size") if values["norm"] == "post" else None
    values["target_vocab_size"] = values.get("source_vocab_size") if size is None else size
    eos = data.get("eos_token_id")
    values["eos"] = eos[0] if isinstance(eos, list) and len(eos) == 1 else eos
    values["activation"] = checks.activation(data.get("activation_function", "gelu"))
    config: TransformerConfig = checks.built(TransformerConfig, values)
    start = data.get("decoder_start_token_id", config.pad)
    if start != config.pad:
        raise BundleError(f"config.json: decoder_start_token_id is {start!r:.80}, expected the padding, {config.pad}")
    return config


def weights_to_hf(weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """The model's weights under the names of the two families, copies of tied matrices left out."""
    out = {}
    for name, tensor in weights.items():
        if name == "token_embedding.weight":
            theirs = _SHARED if config.share_embeddings else _DECODER
            out["model." + theirs] = tensor[: config.target_vocab_size].contiguous()
        elif name == "source_embedding.weight":
            out["model." + _ENCODER] = tensor[: config.source_vocab_size].contiguous()
        elif name == "output_bias":
            bias = tensor[: config.target_vocab_size].clone()
            bias[config.num_classes :] = _NEVER
            out[_BIAS] = bias[None]
        else:
            names = _names(name)
            chunks = tensor.chunk(len(names))
            out.update({"model." + part: chunk.contiguous() for part, chunk in zip(names, chunks, strict=True)})
    if config.norm == "pre":  # Pegasus warns when they are missing
        for stack in ("encoder", "decoder"):
            positions = sinusoids(config.max_position_embeddings, config.hidden_size)
            out[f"model.{stack}.embed_positions.weight"] = positions
    return out


def weights_from_hf(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: TransformerConfig
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`. Raises BundleError."""
    left = {checks.plain(name, "model."): tensor for name, tensor in weights.items()}
    out = {}
    for name, target in wanted.items():
        if name in ("token_embedding.weight", "source_embedding.weight"):
            out[name] = _embedding(left, name, target, config)
        elif name == "output_bias":
            bias = left.pop(_BIAS, torch.zeros(1, len(target)))
            out[name] = checks.fitted(name, _BIAS, bias[0] if bias.dim() == 2 and len(bias) == 1 else bias, target)
        else:
            names = _names(name)
            pieces = zip(names, target.chunk(len(names)), strict=True)
            out[name] = torch.cat([checks.fitted(part, part, checks.taken(left, part), like) for part, like in pieces])
    for name in [name for name in left if _POSITIONS.fullmatch(name)]:
        _check_positions(name, left.pop(name))
    checks.refuse_unknown(list(left))
    return out


def _embedding(left: dict[str, Tensor], name: str, target: Tensor, config: TransformerConfig) -> Tensor:
    """Take an embedding out of `left`, and its copies, which must be equal."""
    if config.share_embeddings:
        names, rows = [_SHARED, _ENCODER, _DECODER, _OUTPUT], config.target_vocab_size
    elif name == "source_embedding.weight":
        names, rows = [_ENCODER], config.source_vocab_size
    else:
        names, rows = [_DECODER, _OUTPUT], config.target_vocab_size
    first, *copies = [name for name in names if name in left] or names[:1]
    tensor = checks.taken(left, first)
    for copy in copies:
        if not torch.equal(left.pop(copy), tensor):
            raise BundleError(f"model.safetensors: {copy} is not {first}: untied matrices are not supported")
    checks.check_rows(first, tensor, target, rows)
    return checks.fitted(name, first, tensor, target)


def _check_positions(name: str, tensor: Tensor) -> None:
    """Raise BundleError for positions that our models do not compute."""
    if (
        tensor.dim() != 2
        or tensor.shape[1] % 2
        or not torch.allclose(tensor.float(), sinusoids(*tensor.shape), atol=0.01)
    ):
        raise BundleError(f"model.safetensors: {name}: learned positions are not supported")


def _names(name: str) -> list[str]:
    """Their names for a weight of ours, which may stack several of theirs."""
    in_layer = re.fullmatch(r"(encoder|decoder)\.(\d+)\.(.+)\.(weight|bias)", name)
    if in_layer:
        stack, layer, part, kind = in_layer.groups()
        return [f"{stack}.layers.{layer}.{theirs}.{kind}" for theirs in _BLOCK[part]]
    part, kind = name.rsplit(".", 1)
    return [f"{_TOP[part]}.{kind}"]
