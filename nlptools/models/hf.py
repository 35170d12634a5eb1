"""Doors to and from Hugging Face directories: configurations and names of weights.

Inside the house there is one naming; a table per family says what each name is called outside. GPT-2 keeps its linear
maps as (in, out), so those are transposed. Unknown weights are an error, buffers of old uploads are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor

from nlptools.configs.lm import GPTConfig, LSTMConfig
from nlptools.errors import BundleError

_GPT2_BLOCK = {
    "attention_norm": "ln_1",
    "attention.query_key_value": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}
_GPT2_TOP = {"token_embedding": "wte", "position_embedding": "wpe", "norm": "ln_f"}
_GPT2_IGNORED = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight")
_GPT2_SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "activation": "activation_function",
    "layer_norm_eps": "layer_norm_epsilon",
    "initializer_range": "initializer_range",
    "embedding_dropout": "embd_pdrop",
    "hidden_dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
}
_GPT2_ACTIVATIONS = {"gelu_new": "gelu_new", "gelu_pytorch_tanh": "gelu_new", "gelu": "gelu", "relu": "relu"}


def config_to_hf(config: GPTConfig | LSTMConfig) -> dict[str, Any]:
    """The content of config.json for a model of ours."""
    if isinstance(config, LSTMConfig):
        return {"model_type": "nlptools-lstm", "architectures": ["LSTM"], **asdict(config)}
    inner = config.intermediate_size
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        **{theirs: getattr(config, ours) for ours, theirs in _GPT2_SIZES.items()},
        "n_ctx": config.max_position_embeddings,
        "n_inner": None if inner == 4 * config.hidden_size else inner,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "tie_word_embeddings": True,
        "use_cache": True,
        "torch_dtype": "float32",
    }


def config_from_hf(data: Mapping[str, Any]) -> tuple[str, GPTConfig | LSTMConfig]:
    """(architecture, configuration) that a config.json describes.

    Raises:
        BundleError: not a family of ours, sizes missing or out of bounds, or a variant that is not GPT-2.
    """
    kind = data.get("model_type")
    if kind == "nlptools-lstm":
        known = {field.name for field in fields(LSTMConfig)}
        return "lstm", _built(LSTMConfig, {k: v for k, v in data.items() if k in known})
    if kind != "gpt2":
        raise BundleError(f"config.json: model_type {kind!r} is not a language model of ours, expected 'gpt2'")
    if data.get("scale_attn_by_inverse_layer_idx") or not data.get("scale_attn_weights", True):
        raise BundleError("config.json: attention scaled in another way than GPT-2's is not supported")
    if not data.get("tie_word_embeddings", True):
        raise BundleError("config.json: an output matrix of its own (tie_word_embeddings false) is not supported")
    values = {ours: data[theirs] for ours, theirs in _GPT2_SIZES.items() if theirs in data}
    values["intermediate_size"] = data.get("n_inner") or 0
    activation = values.get("activation", "gelu_new")
    if not isinstance(activation, str) or activation not in _GPT2_ACTIVATIONS:
        raise BundleError(f"config.json: activation {activation!r} is not supported")
    values["activation"] = _GPT2_ACTIVATIONS[activation]
    return "transformer", _built(GPTConfig, values)


def _built(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except TypeError as error:
        raise BundleError(f"config.json: {error}") from None
    except BundleError as error:
        raise BundleError(f"config.json: {error}") from None


def weights_to_hf(arch: str, weights: Mapping[str, Tensor], vocab_size: int) -> dict[str, Tensor]:
    """The model's weights under the names, in the layout and with the number of rows that the field expects."""
    if arch != "transformer":
        return {name: tensor.contiguous() for name, tensor in weights.items()}
    out = {}
    for name, tensor in weights.items():
        if name == "token_embedding.weight":
            tensor = tensor[:vocab_size]
        theirs, transposed = _gpt2_name(name)
        out["transformer." + theirs] = (tensor.t() if transposed else tensor).contiguous()
    return out


def weights_from_hf(
    arch: str, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], vocab_size: int | None = None
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`.

    Raises:
        BundleError: a weight is missing, unknown, or has another shape than the configuration says.
    """
    ours = {_plain(name): tensor for name, tensor in weights.items()}
    out = {}
    for name, target in wanted.items():
        theirs, transposed = _gpt2_name(name) if arch == "transformer" else (name, False)
        tensor = ours.pop(theirs, None)
        if tensor is None:
            raise BundleError(f"model.safetensors: no weight {theirs}")
        known = vocab_size is not None and name == "token_embedding.weight" and tensor.dim() == 2
        if known and len(tensor) not in (vocab_size, len(target)):
            raise BundleError(f"model.safetensors: {theirs} has {len(tensor)} rows, config.json says {vocab_size}")
        out[name] = _fitted(name, theirs, tensor.t() if transposed else tensor, target)
    unknown = [name for name in ours if not (arch == "transformer" and _GPT2_IGNORED.fullmatch(name))]
    if unknown:
        raise BundleError(f"model.safetensors: unknown weight {unknown[0]} (and {len(unknown) - 1} more)")
    return out


def _fitted(name: str, theirs: str, tensor: Tensor, target: Tensor) -> Tensor:
    """`tensor` in float32 with the shape of `target`; an embedding gets its rows of padding."""
    missing = target.shape[0] - tensor.shape[0] if name == "token_embedding.weight" and tensor.dim() == 2 else 0
    if 0 < missing < 64 and tensor.shape[1:] == target.shape[1:]:
        return torch.cat([tensor.float(), tensor.new_zeros(missing, tensor.shape[1], dtype=torch.float32)])
    if tensor.shape != target.shape:
        raise BundleError(
            f"model.safetensors: {theirs} has shape {tuple(tensor.shape)}, config.json says {tuple(target.shape)}"
        )
    return tensor.float().contiguous()


def _gpt2_name(name: str) -> tuple[str, bool]:
    """(GPT-2's name of a weight of ours, whether it is stored transposed)."""
    found = re.fullmatch(r"blocks\.(\d+)\.(.+)\.(weight|bias)", name)
    if found:
        layer, part, kind = found.groups()
        linear = kind == "weight" and not part.endswith("norm")
        return f"h.{layer}.{_GPT2_BLOCK[part]}.{kind}", linear
    part, kind = name.rsplit(".", 1)
    return f"{_GPT2_TOP[part]}.{kind}", False


def _plain(name: str) -> str:
    """A weight's name without the prefixes that wrappers leave."""
    return re.sub(r"^(_orig_mod\.|module\.)*(transformer\.)?", "", name)
