"""Rotary positions and their scaling in GGUF files."""

from __future__ import annotations

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.files.gguf_file import GGUFFile
from nlptools.json_types import JsonObject
from nlptools.layers.rotary_scaling import rotary_rates
from nlptools.models.huggingface.gguf_names import GGUFLayout, Metadata

ROPE_FACTORS = "rope_freqs.weight"
ROTARY = ("rope.scaling.type", "rope.scaling.factor", "rope.scale_linear", "attention.key_length")
_LLAMA3: JsonObject = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_BASE = 10000.0  # where a file says no other
_LLAMA3_LENGTH = 8192  # before its context was extended


def rotary_to(data: JsonObject, layout: GGUFLayout) -> Metadata:
    """The metadata of rotary positions. Raises BundleError for a variant that llama.cpp does not have."""
    if data.get("sliding_window") and not layout.windows:
        raise BundleError("llama.cpp has no sliding windows in this family")
    head, scaling = int(str(data["head_dim"])), data.get("rope_scaling")
    out: Metadata = {layout.key(name): head for name in ("attention.key_length", "attention.value_length")}
    out[layout.key("rope.dimension_count")] = head
    kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
    if kind == "linear" and isinstance(scaling, dict):
        out |= {layout.key("rope.scaling.type"): "linear", layout.key("rope.scaling.factor"): number(scaling["factor"])}
    elif kind is not None and (kind != "llama3" or not layout.permuted):
        raise BundleError(f"rotary positions scaled by {kind!r:.80} cannot be written to a GGUF file of {layout.arch}")
    return out


def rotary_from(file: GGUFFile, layout: GGUFLayout) -> JsonObject:
    """The fields of config.json for rotary positions, heads and biases. Raises BundleError for an unsupported variant."""
    kind = file.text(layout.key("rope.scaling.type"), "linear")
    if kind not in ("none", "linear"):
        raise file.bad(f"rotary positions scaled by {kind!r} are not supported")
    older = file.metadata.get(layout.key("rope.scale_linear"), 1.0)
    factor = file.metadata.get(layout.key("rope.scaling.factor"), older)
    scaled = kind == "linear" and factor not in (0.0, 1.0)
    if file.metadata.get(layout.key("attention.sliding_window")) and not layout.windows:
        raise file.bad("sliding windows are not supported")
    head = file.metadata.get(layout.key("attention.key_length"))
    return {
        "rope_scaling": {"rope_type": "linear", "factor": number(factor)} if scaled else None,
        **({"head_dim": head} if isinstance(head, int) else {}),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        **_biases(file),
    }


def base_of(file: GGUFFile, layout: GGUFLayout) -> float:
    """The base of rotary positions, as llama.cpp reads it. Raises BundleError."""
    return number(file.metadata.get(layout.key("rope.freq_base"), _BASE))


def _biases(file: GGUFFile) -> JsonObject:
    return {"attention_bias": "blk.0.attn_q.bias" in file.tensors, "mlp_bias": "blk.0.ffn_up.bias" in file.tensors}


def number(value: object) -> float:
    """A number of the settings. Raises BundleError for something else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BundleError(f"rotary positions scaled by {value!r:.80}, expected a number")
    return float(value)


def rope_factors(data: JsonObject) -> Tensor:
    """(K/2,): what llama.cpp divides the angles of a head by."""
    head, theta, scaling = int(str(data["head_dim"])), number(data["rope_theta"]), data["rope_scaling"]
    assert isinstance(scaling, dict)
    return rotary_rates(head, theta).near / rotary_rates(head, theta, scaling).near


def scaling_of(factors: Tensor, data: JsonObject) -> JsonObject:
    """The scaling of LLaMA 3 with these factors. Raises BundleError for others."""
    scaling: JsonObject = {
        **_LLAMA3,
        "factor": float(factors.max()),
        "original_max_position_embeddings": _LLAMA3_LENGTH,
    }
    if not 1 <= float(factors.max()) < 1e9 or len(factors) * 2 != data.get("head_dim"):
        raise BundleError(f"{ROPE_FACTORS} does not have the sizes of the model")
    if not torch.allclose(rope_factors({**data, "rope_scaling": scaling}), factors.float(), rtol=1e-3):
        raise BundleError(f"{ROPE_FACTORS}: another scaling of rotary positions than LLaMA 3's is not supported")
    return scaling
