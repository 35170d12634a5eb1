"""Gemma, Gemma 2 and 3, and EmbeddingGemma, in GGUF files.

The weights of norms have 1 added there. llama.cpp computes some settings from others: which layers have a window, and what scores
are divided by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nlptools import messages
from nlptools.errors import BundleError
from nlptools.files.gguf_file import GGUFFile
from nlptools.json_types import Json, JsonObject
from nlptools.models.huggingface.gguf_decoders import BLOCK, LLAMA
from nlptools.models.huggingface.gguf_names import GGUFLayout, Metadata
from nlptools.models.huggingface.gguf_rotary import ROTARY, number, rotary_from, rotary_to

_LOCAL_BASE = 10000.0  # of rotary positions in layers with a window
_LOCAL_KEY = "rope.freq_base_swa"
_WHOLE, _LOCAL = "full_attention", "sliding_attention"
_BOTH_WAYS = "use_bidirectional_attention"
_TANH = "gelu_pytorch_tanh"


@dataclass(frozen=True)
class _Version:
    """What llama.cpp knows of a version.

    Attributes:
        period: of so many layers, the last has no window.
        large: the number of layers of the model whose scores are divided by another number.
        caps: the caps in config.json, which are the same in the file, with the values that a file leaves out.
        needs: whether there are always layers with a window, and caps.
    """

    period: int
    large: int
    caps: dict[str, Json]
    needs: bool

    def kinds(self, layers: int) -> list[str]:
        """The kind of each layer."""
        return [_LOCAL if (layer + 1) % self.period else _WHOLE for layer in range(layers)]

    def score_size(self, data: JsonObject) -> int:
        """The number whose root scores are divided by."""
        if data["num_hidden_layers"] == self.large:
            return int(str(data["hidden_size"])) // int(str(data["num_attention_heads"]))
        return int(str(data["head_dim"]))


def _writes(version: _Version, data: JsonObject, layout: GGUFLayout) -> Metadata:
    size, layers = version.score_size(data), int(str(data["num_hidden_layers"]))
    if data["query_pre_attn_scalar"] != size:
        raise BundleError(
            f"llama.cpp has no query_pre_attn_scalar {data['query_pre_attn_scalar']} in a {layout.arch} of these sizes,"
            f" expected {size}"
        )
    out, windowed = rotary_to(data, layout), data["layer_types"] != [_WHOLE] * layers
    if data.get("rope_local_base_freq", _LOCAL_BASE) != _LOCAL_BASE:
        out[layout.key(_LOCAL_KEY)] = number(data["rope_local_base_freq"])
    if (windowed or version.needs) and data["layer_types"] != version.kinds(layers):
        windows = messages.counted(version.period - 1, "layer")
        raise BundleError(
            f"llama.cpp has {windows} with a sliding window, then one without, in a {layout.arch}; found other layer_types"
        )
    if windowed:
        out[layout.key("attention.sliding_window")] = int(str(data["sliding_window"]))
    for name in version.caps:
        if data.get(name) is not None:
            out[layout.key(name)] = number(data[name])
        elif version.needs:
            raise BundleError(f"llama.cpp always has {name} in a {layout.arch}, found none")
    return out


def _reads(version: _Version, file: GGUFFile, layout: GGUFLayout) -> JsonObject:
    sizes: JsonObject = {}
    for key in ("num_hidden_layers", "hidden_size", "num_attention_heads"):
        value = file.metadata.get(layout.key(next(theirs for theirs, ours in layout.sizes.items() if ours == key)))
        if type(value) is not int or value < 1:
            raise file.bad(f"{key} is {value!r:.80}, expected a whole number from 1")
        sizes[key] = value
    sizes["head_dim"] = int(str(sizes["hidden_size"])) // int(str(sizes["num_attention_heads"]))
    sizes |= rotary_from(file, layout)
    window, layers = file.metadata.get(layout.key("attention.sliding_window"), 0), int(str(sizes["num_hidden_layers"]))
    pattern = file.metadata.get(layout.key("attention.sliding_window_pattern"), version.period)
    if pattern != version.period:
        raise file.bad(f"attention.sliding_window_pattern {pattern!r:.80} is not supported, expected {version.period}")
    if not window and version.needs:
        raise file.bad("no attention.sliding_window")
    base = file.metadata.get(layout.key(_LOCAL_KEY), _LOCAL_BASE)
    out: JsonObject = {
        **sizes,
        "query_pre_attn_scalar": version.score_size(sizes),
        "layer_types": [*version.kinds(layers)] if window else [_WHOLE] * layers,
        "rope_local_base_freq": number(base),
        **({"sliding_window": window} if type(window) is int and window else {}),
    }
    for name, default in version.caps.items():
        cap = file.metadata.get(layout.key(name), default)
        out[name] = None if cap is None else number(cap)
    return out


def _layout(arch: str, model_type: str, version: _Version, tied: bool, **more: Any) -> GGUFLayout:
    local = (_LOCAL_KEY,) * (model_type == "gemma3_text")
    return replace(
        LLAMA,
        arch=arch,
        model_types=(model_type,),
        block={
            **BLOCK,
            "post_attention_layernorm": "post_attention_norm",
            "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm",
        },
        also=(*ROTARY, *version.caps, "attention.sliding_window", "attention.sliding_window_pattern", *local),
        fixed={
            "hidden_activation": (_TANH,),
            "attention_bias": (False,),
            **({"tie_word_embeddings": (True,)} if tied else {}),
        },
        writes=partial(_writes, version),
        reads=partial(_reads, version),
        windows=True,
        norm_offset=1.0,
        permuted=False,
        **more,
    )


GEMMAS = (
    replace(
        LLAMA,
        arch="gemma",
        model_types=("gemma",),
        fixed={"hidden_act": (_TANH,), "attention_bias": (False,), "tie_word_embeddings": (True,)},
        norm_offset=1.0,
        permuted=False,
    ),
    _layout(
        "gemma2",
        "gemma2",
        _Version(2, 46, {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}, needs=True),
        tied=True,
    ),
    _layout(
        "gemma3",
        "gemma3_text",
        _Version(6, 62, {"final_logit_softcapping": None}, needs=False),
        tied=False,
        marks={_BOTH_WAYS: None},
    ),
    _layout(
        "gemma-embedding",
        "gemma3_text",
        _Version(6, 0, {}, needs=True),
        tied=True,
        marks={_BOTH_WAYS: True},
        causal=False,
        dense=("dense_2", "dense_3"),
    ),
)
