"""Sizes and weights in GGUF files, the format of llama.cpp, from and to those in folders of Hugging Face.

A family is a `GGUFLayout`: tables of names. llama.cpp turns neighbouring numbers of a head in a LLaMA, where the folders have
pairs k and k + K/2: rows of queries and keys are permuted. GPT-2's linear maps are transposed. Encoders like BERT are all
written as BERT: a RoBERTa is one whose positions begin in a later row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nlptools.errors import BundleError, UsageError
from nlptools.files.gguf_file import GGUFFile, Value
from nlptools.json_types import Json, JsonObject
from nlptools.layers.rotary_scaling import rotary_rates
from nlptools.models.contract import Configuration
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface import directories

Metadata = dict[str, Value]
Weights = Mapping[str, Tensor]
POOLINGS = {"mean": 1, "cls": 2, "last": 3}  # names in `layers.pooling`: numbers in files
ROPE_FACTORS = "rope_freqs.weight"
_LLAMA3: JsonObject = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3_LENGTH = 8192  # before its context was extended
_POSITIONS = "encoder.position_embedding.weight"


@dataclass(frozen=True)
class GGUFLayout:
    """The files of one architecture of llama.cpp.

    Attributes:
        arch: in the file.
        model_types: in config.json; the first is read.
        sizes: keys in the file, after the architecture: fields of config.json.
        fixed: fields of config.json that have one value there, and these values; the first is read.
        layer: before the number of a layer, in the folder.
        top, block: names in the folder: names in the file.
        writes, reads: more of the metadata, and of config.json. Both raise BundleError for what is not supported.
        prepared: our configuration and weights, as the family of the first model type has them. Raises UsageError.
        permuted: whether rows of queries and keys are permuted.
        transposed: linear maps (in, out) in the folder.
    """

    arch: str
    model_types: tuple[str, ...]
    sizes: Mapping[str, str]
    layer: str
    top: Mapping[str, str]
    block: Mapping[str, str]
    fixed: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    writes: Callable[[JsonObject, GGUFLayout], Metadata] = lambda data, layout: {}
    reads: Callable[[GGUFFile, GGUFLayout], JsonObject] = lambda file, layout: {}
    prepared: Callable[[Any, Weights], tuple[Any, Weights]] = lambda config, weights: (config, weights)
    permuted: bool = False
    transposed: tuple[str, ...] = ()

    def key(self, name: str) -> str:
        """A key of the metadata."""
        return f"{self.arch}.{name}"

    def theirs(self, name: str) -> str | None:
        """The name in the file of a weight in the folder; None: there is none."""
        module, kind = re.sub(r"^(transformer|bert)\.", "", name).rsplit(".", 1)
        in_block = re.fullmatch(re.escape(self.layer) + r"(\d+)\.(.+)", module)
        if in_block is None:
            return f"{self.top[module]}.{kind}" if module in self.top else None
        number, part = in_block.groups()
        return f"blk.{number}.{self.block[part]}.{kind}" if part in self.block else None

    def ours(self, name: str) -> str | None:
        """The name in the folder of a weight in the file; None: there is none."""
        module, _, kind = name.rpartition(".")
        in_block = re.fullmatch(r"blk\.(\d+)\.(.+)", module)
        names, part = (self.top, module) if in_block is None else (self.block, in_block[2])
        found = next((ours for ours, theirs in names.items() if theirs == part), None)
        if found is None:
            return None
        return f"{'' if in_block is None else self.layer + in_block[1] + '.'}{found}.{kind}"


# -- rotary positions ----------------------------------------------------------------------------------------------------


def _rotary_to(data: JsonObject, layout: GGUFLayout) -> Metadata:
    if data.get("sliding_window"):
        raise BundleError("llama.cpp has no sliding windows in this family")
    head, scaling = int(str(data["head_dim"])), data.get("rope_scaling")
    out: Metadata = {layout.key(name): head for name in ("attention.key_length", "attention.value_length")}
    out[layout.key("rope.dimension_count")] = head
    kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
    if kind == "linear" and isinstance(scaling, dict):
        out |= {layout.key("rope.scaling.type"): "linear", layout.key("rope.scaling.factor"): _float(scaling["factor"])}
    elif kind is not None and (kind != "llama3" or not layout.permuted):
        raise BundleError(f"rotary positions scaled by {kind!r:.80} cannot be written to a GGUF file of {layout.arch}")
    return out


def _rotary_from(file: GGUFFile, layout: GGUFLayout) -> JsonObject:
    kind = file.text(layout.key("rope.scaling.type"), "none")
    if kind not in ("none", "linear"):
        raise file.bad(f"rotary positions scaled by {kind!r} are not supported")
    factor = file.metadata.get(layout.key("rope.scaling.factor"), 1.0)
    scaled = kind == "linear" and factor != 1.0
    if file.metadata.get(layout.key("attention.sliding_window")):
        raise file.bad("sliding windows are not supported")
    head = file.metadata.get(layout.key("attention.key_length"))
    return {
        "rope_scaling": {"rope_type": "linear", "factor": _float(factor)} if scaled else None,
        **({"head_dim": head} if isinstance(head, int) else {}),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        **_biases(file),
    }


def _biases(file: GGUFFile) -> JsonObject:
    return {"attention_bias": "blk.0.attn_q.bias" in file.tensors, "mlp_bias": "blk.0.ffn_up.bias" in file.tensors}


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BundleError(f"rotary positions scaled by {value!r:.80}, expected a number")
    return float(value)


def _rope_factors(data: JsonObject) -> Tensor:
    """(K/2,): what llama.cpp divides the angles of a head by."""
    head, theta, scaling = int(str(data["head_dim"])), _float(data["rope_theta"]), data["rope_scaling"]
    assert isinstance(scaling, dict)
    return rotary_rates(head, theta).near / rotary_rates(head, theta, scaling).near


def _scaling_of(factors: Tensor, data: JsonObject) -> JsonObject:
    """The scaling of LLaMA 3 with these factors. Raises BundleError for others."""
    scaling: JsonObject = {
        **_LLAMA3,
        "factor": float(factors.max()),
        "original_max_position_embeddings": _LLAMA3_LENGTH,
    }
    if not 1 <= float(factors.max()) < 1e9 or len(factors) * 2 != data.get("head_dim"):
        raise BundleError(f"{ROPE_FACTORS} does not have the sizes of the model")
    if not torch.allclose(_rope_factors({**data, "rope_scaling": scaling}), factors.float(), rtol=1e-3):
        raise BundleError(f"{ROPE_FACTORS}: another scaling of rotary positions than LLaMA 3's is not supported")
    return scaling


def _plain_encoder(config: EncoderConfig, weights: Weights) -> tuple[EncoderConfig, Weights]:
    """An encoder as a BERT, without heads. Raises UsageError for one with factored embeddings or shared layers."""
    if config.embedding_size != config.hidden_size or config.num_blocks != config.num_hidden_layers:
        raise UsageError(f"llama.cpp has no factored embeddings and no shared layers, as this {config.layout} has")
    first = config.first_position
    plain = replace(
        config,
        layout="bert",
        first_position=0,
        max_position_embeddings=config.max_position_embeddings - first,
        pad=0,
    )
    kept = {
        name: tensor[first:] if name == _POSITIONS else tensor
        for name, tensor in weights.items()
        if name.startswith("encoder.") and not name.startswith("encoder.pooler.")
    }
    return plain, kept


# -- the families --------------------------------------------------------------------------------------------------------

_DECODER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LLAMA = GGUFLayout(
    "llama",
    ("llama", "mistral"),
    {
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps",
        "rope.freq_base": "rope_theta",
    },
    "model.layers.",
    {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"},
    _DECODER,
    {"hidden_act": ("silu",)},
    _rotary_to,
    _rotary_from,
    permuted=True,
)
_GPT2 = GGUFLayout(
    "gpt2",
    ("gpt2",),
    {
        "context_length": "n_positions",
        "embedding_length": "n_embd",
        "block_count": "n_layer",
        "feed_forward_length": "n_inner",
        "attention.head_count": "n_head",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
    },
    "h.",
    {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"},
    {
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    },
    {"activation_function": ("gelu_new",)},
    reads=lambda file, layout: {"tie_word_embeddings": "output.weight" not in file.tensors},
    transposed=("attn_qkv.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight"),
)
_BERT = GGUFLayout(
    "bert",
    ("bert", "roberta", "xlm-roberta", "distilbert", "electra"),
    {
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.layer_norm_epsilon": "layer_norm_eps",
    },
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
    {"hidden_act": ("gelu", "gelu_new")},
    lambda data, layout: {
        layout.key("attention.causal"): False,
        "tokenizer.ggml.token_type_count": int(str(data["type_vocab_size"])) or 1,
    },
    lambda file, layout: {
        "type_vocab_size": file.tensors["token_types.weight"].shape[0] if "token_types.weight" in file.tensors else 0
    },
    _plain_encoder,
)
LAYOUTS = (
    _LLAMA,
    replace(_LLAMA, arch="qwen2", model_types=("qwen2",), permuted=False),
    replace(
        _LLAMA,
        arch="qwen3",
        model_types=("qwen3",),
        fixed={**_LLAMA.fixed, "attention_bias": (False,)},
        permuted=False,
    ),
    _GPT2,
    _BERT,
)


# -- writing -------------------------------------------------------------------------------------------------------------


def written(arch: str, config: Configuration, weights: Mapping[str, Tensor]) -> tuple[Metadata, dict[str, Tensor]]:
    """(metadata, tensors) of a GGUF file for a model of ours, without its heads.

    Raises:
        UsageError: llama.cpp has no such family.
        BundleError: it has the family, but not this variant.
    """
    data = directories.config_to_hf(arch, config)
    layout = next((each for each in LAYOUTS if data["model_type"] in each.model_types), None)
    if layout is None:
        known = ", ".join(each.arch for each in LAYOUTS)
        raise UsageError(f"GGUF files of a model {data['model_type']!r:.80} are not supported, expected {known}")
    config, weights = layout.prepared(config, weights)
    data = directories.config_to_hf(arch, config)
    for name, values in layout.fixed.items():
        if data.get(name) not in values:
            raise BundleError(f"llama.cpp has no {name} {data.get(name)!r:.80} in {layout.arch}, expected {values[0]}")
    out: Metadata = {"general.architecture": layout.arch, layout.key("vocab_size"): int(str(data["vocab_size"]))}
    for key, name in layout.sizes.items():
        value = data[name] if data[name] is not None else 4 * int(str(data["n_embd"]))  # n_inner of a GPT-2
        out[layout.key(key)] = float(str(value)) if key.endswith(("epsilon", "freq_base")) else int(str(value))
    out |= layout.writes(data, layout)
    tensors = _renamed(layout, directories.weights_to_hf(arch, weights, config), data)
    scaling = data.get("rope_scaling")
    if isinstance(scaling, dict) and "linear" not in scaling.values():
        tensors[ROPE_FACTORS] = _rope_factors(data)
    return out, tensors


def _renamed(layout: GGUFLayout, weights: Mapping[str, Tensor], data: JsonObject) -> dict[str, Tensor]:
    out = {}
    for name, tensor in weights.items():
        theirs = layout.theirs(name)
        if theirs is None:
            raise BundleError(f"llama.cpp has no weight {name:.80} in {layout.arch}")
        if theirs.endswith(layout.transposed or "\0"):
            tensor = tensor.t()
        if layout.permuted and (rows := _head_rows(theirs, data)):
            tensor = tensor.view(rows, 2, -1, *tensor.shape[1:]).transpose(1, 2).flatten(0, 2)
        out[theirs] = tensor.contiguous()
    return out


def _head_rows(name: str, data: JsonObject) -> int:
    """The number of heads of a matrix of queries or of keys; 0 for other weights."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(name.split(".")[-2], "")
    return int(str(data[heads])) if heads else 0


# -- reading -------------------------------------------------------------------------------------------------------------


def layout_of(file: GGUFFile) -> GGUFLayout:
    """The layout of a file. Raises BundleError for an architecture that is not supported."""
    arch = file.text("general.architecture")
    layout = next((each for each in LAYOUTS if each.arch == arch), None)
    if layout is None:
        known = ", ".join(each.arch for each in LAYOUTS)
        raise file.bad(f"models of the architecture {arch!r} are not supported, expected {known}")
    return layout


def config_of(file: GGUFFile) -> JsonObject:
    """The config.json of the model in a file. Raises BundleError for a variant that is not supported, or sizes missing."""
    layout = layout_of(file)
    data: JsonObject = {"model_type": layout.model_types[0], **{key: values[0] for key, values in layout.fixed.items()}}
    for key, name in layout.sizes.items():
        value = file.metadata.get(layout.key(key))
        if isinstance(value, (int, float)):
            data[name] = value
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise file.bad("no tensor token_embd.weight")
    data["vocab_size"] = embedding.shape[0]
    return data | layout.reads(file, layout)


def with_scaling(data: JsonObject, tensors: dict[str, Tensor]) -> JsonObject:
    """The config.json with the scaling of rotary positions that is stored as a tensor, which is taken out of `tensors`.
    Raises BundleError.
    """
    factors = tensors.pop(ROPE_FACTORS, None)
    if factors is None:
        return data
    if data.get("head_dim") is None:
        data = {**data, "head_dim": int(str(data["hidden_size"])) // int(str(data["num_attention_heads"]))}
    return {**data, "rope_scaling": _scaling_of(factors, data)}


def weights_of(file: GGUFFile, tensors: Mapping[str, Tensor], data: JsonObject) -> dict[str, Tensor]:
    """The weights of a file under the names of the folder. Raises BundleError for unknown ones."""
    layout = layout_of(file)
    out = {}
    for name, tensor in tensors.items():
        ours = layout.ours(name)
        if ours is None:
            raise file.bad(f"unknown tensor {name}")
        rows = _head_rows(name, data) if layout.permuted else 0
        if rows:
            if len(tensor) % (2 * rows):
                raise file.bad(f"{name} has {len(tensor)} rows for {rows} heads")
            tensor = tensor.view(rows, -1, 2, *tensor.shape[1:]).transpose(1, 2).flatten(0, 2)
        out[ours] = tensor.t() if name.endswith(layout.transposed or "\0") else tensor
    return out
