"""Sizes and weights in GGUF files, the format of llama.cpp, from and to those in folders of Hugging Face.

A family is a `GGUFLayout`: tables of names, see `gguf_decoders` and `gguf_encoders`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from nlptools.errors import BundleError, UsageError
from nlptools.files.gguf_file import GGUFFile
from nlptools.json_types import JsonObject
from nlptools.models.contract import Configuration
from nlptools.models.huggingface import directories
from nlptools.models.huggingface.gguf_decoders import DECODERS
from nlptools.models.huggingface.gguf_encoders import ENCODERS
from nlptools.models.huggingface.gguf_gemma import GEMMAS
from nlptools.models.huggingface.gguf_names import GGUFLayout, Metadata
from nlptools.models.huggingface.gguf_rotary import ROPE_FACTORS, rope_factors, scaling_of

LAYOUTS = (*DECODERS, *GEMMAS, *ENCODERS)
_NORM = "norm.weight"
_FRACTIONS = ("epsilon", "freq_base", "freq_base_swa")
_CAUSAL = "attention.causal"
_OMITTED = {"attention.head_count_kv": "attention.head_count", "rope.freq_base": 10000.0}  # or where else to look
_SAY_NOTHING = (  # of what is computed
    *("vocab_size", "pooling_type", "decoder_start_token_id", "decoder_block_count", "rope.scaling.finetuned"),
    "rope.scaling.original_context_length",  # of scalings that are refused
)
_OF_A_HEAD = tuple(
    name
    for part in ("attention.key_length", "attention.value_length", "rope.dimension_count")
    for name in (part, f"{part}_swa")
)
_OF_DENSE = ("_feat_in", "_feat_out")
_LACKS = {  # what llama.cpp does not have, by model_type
    "mpnet": "learned scores of distances in an encoder like BERT",
    "albert": "shared layers",
    "deberta-v2": "disentangled attention",
}


def _known() -> str:
    return ", ".join(dict.fromkeys(each.arch for each in LAYOUTS))


def arch_of(model_type: str) -> str:
    """The architecture of llama.cpp for a model_type of config.json; "": it has none. Variants may be refused, see `written`."""
    return next((each.arch for each in LAYOUTS if model_type in each.model_types), "")


def by_arch(arch: str) -> GGUFLayout:
    """A layout of an architecture of llama.cpp."""
    return next(each for each in LAYOUTS if each.arch == arch)


# -- writing -------------------------------------------------------------------------------------------------------------


def written(arch: str, config: Configuration, weights: Mapping[str, Tensor]) -> tuple[Metadata, dict[str, Tensor]]:
    """(metadata, tensors) of a GGUF file for a model of ours, without its heads.

    Raises:
        UsageError: llama.cpp has no such family.
        BundleError: it has the family, but not this variant.
    """
    data = directories.config_to_hf(arch, config)
    layout = next((each for each in LAYOUTS if each.has(data)), None)
    if layout is None:
        lacks = _LACKS.get(str(data["model_type"]))
        why = f"expected {_known()}" if lacks is None else f"since llama.cpp has no {lacks}"
        raise UsageError(f"GGUF files of a model {data['model_type']!r:.80} are not supported, {why}")
    config, weights = layout.prepared(config, weights)
    data = directories.config_to_hf(arch, config)
    for name, values in layout.fixed.items():
        if data.get(name) not in values:
            raise BundleError(f"llama.cpp has no {name} {data.get(name)!r:.80} in {layout.arch}, expected {values[0]}")
    out: Metadata = {"general.architecture": layout.arch, layout.key("vocab_size"): int(str(data["vocab_size"]))}
    for key, name in layout.sizes.items():
        value = data[name] if data[name] is not None else 4 * int(str(data["n_embd"]))  # n_inner of a GPT-2
        out[layout.key(key)] = float(str(value)) if key.endswith(_FRACTIONS) else int(str(value))
    out |= layout.writes(data, layout)
    tensors = _renamed(layout, directories.weights_to_hf(arch, weights, config), data)
    scaling = data.get("rope_scaling")
    if isinstance(scaling, dict) and "linear" not in scaling.values():
        tensors[ROPE_FACTORS] = rope_factors(data)
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
        if theirs.endswith(_NORM):
            tensor = tensor + layout.norm_offset
        out[theirs] = tensor.contiguous()
    if layout.stacked:
        for name in [name for name in out if name.endswith("attn_q.weight")]:
            parts = [out.pop(name.replace("attn_q.", f"attn_{part}.")) for part in "qkv"]
            out[name.replace("attn_q.", "attn_qkv.")] = torch.cat(parts)
    return out


def _head_rows(name: str, data: JsonObject) -> int:
    """The number of heads of a matrix of queries or of keys; 0 for other weights."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(name.split(".")[-2], "")
    return int(str(data[heads])) if heads else 0


# -- reading -------------------------------------------------------------------------------------------------------------


def layout_of(file: GGUFFile) -> GGUFLayout:
    """The layout of a file. Raises BundleError for an architecture that is not supported."""
    arch = file.text("general.architecture")
    layouts = (each for each in LAYOUTS if each.arch == arch and (not each.marking or each.marking in file.tensors))
    layout = next(layouts, None)
    if layout is None:
        raise file.bad(f"models of the architecture {arch!r} are not supported, expected {_known()}")
    return layout


def config_of(file: GGUFFile) -> JsonObject:
    """The config.json of the model in a file. Raises BundleError for a variant that is not supported, or sizes missing."""
    layout = layout_of(file)
    data: JsonObject = {"model_type": layout.model_types[0], **layout.marks}
    data |= {key: values[0] for key, values in layout.fixed.items()}
    for key, name in layout.sizes.items():
        value = file.metadata.get(layout.key(key), _OMITTED.get(key))
        if isinstance(value, str):
            value = file.metadata.get(layout.key(value))
        if isinstance(value, (int, float)):
            data[name] = value
        elif key.endswith("epsilon"):
            raise file.bad(f"no {layout.key(key)}")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise file.bad("no tensor token_embd.weight")
    data["vocab_size"] = embedding.shape[0]
    data |= layout.reads(file, layout)
    _check_keys(file, layout, data)
    return data


def _check_keys(file: GGUFFile, layout: GGUFLayout, data: JsonObject) -> None:
    """Raise BundleError for a number of the model in the file that would change what is computed, and is not read."""
    if file.flag(layout.key(_CAUSAL), layout.causal) != layout.causal:
        raise file.bad(f"{layout.key(_CAUSAL)} {str(not layout.causal).lower()} is not supported")
    heads = file.id(layout.key("attention.head_count")) or 1
    head = data.get("head_dim") or data.get("d_kv") or int(str(data.get("hidden_size", 0))) // heads
    usual = {**dict.fromkeys(_OF_A_HEAD, head), "attention.head_count_kv": heads}
    known = (_CAUSAL, *_SAY_NOTHING, *layout.also, *(name for name in layout.sizes if name not in _OF_A_HEAD))
    for key, value in file.metadata.items():
        name = key.removeprefix(f"{layout.arch}.")
        if name == key or name in known or isinstance(value, str) or (layout.dense and name.endswith(_OF_DENSE)):
            continue
        nothing = (usual[name],) if name in usual else (0, 1) if name.endswith(("scale", "factor")) else (0, [])
        if value not in nothing:
            raise file.bad(f"{key} {value!r:.80} is not supported")


def with_scaling(data: JsonObject, tensors: dict[str, Tensor]) -> JsonObject:
    """The config.json with the scaling of rotary positions that is stored as a tensor, which is taken out of `tensors`.
    Raises BundleError.
    """
    factors = tensors.pop(ROPE_FACTORS, None)
    if factors is None:
        return data
    if data.get("head_dim") is None:
        data = {**data, "head_dim": int(str(data["hidden_size"])) // int(str(data["num_attention_heads"]))}
    return {**data, "rope_scaling": scaling_of(factors, data)}


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
        if name.endswith(_NORM):
            tensor = tensor - layout.norm_offset
        out[ours] = tensor.t() if name.endswith(layout.transposed or "\0") else tensor
    return out
