"""Directories of LLaMA and its relatives: Mistral, Qwen2, Qwen3 (SmolLM and many others are LLaMA).

Queries, keys and values have separate matrices there, and one here; heads of tasks are stored alike. config.json is read
in both spellings, of transformers before version 5 (rope_theta, rope_scaling) and since (rope_parameters); it is written in
the earlier one, which both read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models import registry
from nlptools.models.huggingface import checks
from nlptools.models.language.modern import ModernConfig
from nlptools.models.tasks.heads import BESIDE_HEADS, TASK_HEADS

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
_CLASSES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
_BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "feed_forward_norm": "post_attention_layernorm",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.up": "mlp.up_proj",
    "feed_forward.down": "mlp.down_proj",
}
_PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_TOP = {"token_embedding": "model.embed_tokens", "norm": "model.norm", "output_matrix": "lm_head"}
_HEADS = {
    "sequence.output": "score",
    "tokens": "score",  # of the two, a model has one
    "spans": "qa_outputs",
    "choice.output": "nlptools.choice.output",
    **checks.OUR_HEADS,
}
_TASK_CLASSES = {
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "spans": "ForQuestionAnswering",
}
_OF_HEADS = ("score.", "qa_outputs.", "nlptools.", "crf.")  # beginnings of names
_IGNORED = re.compile(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq|(model\.)?rotary_emb\.inv_freq")
_SAME = (  # fields of one name here and there
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "initializer_range",
    "rms_norm_eps",
    "attention_dropout",
    "embedding_dropout",  # this and the next: unknown to transformers, which keeps and ignores them
    "hidden_dropout",
)
_DEFAULTS: dict[str, JsonObject] = {  # of transformers, where it leaves out of config.json what has its default
    "llama": {"max_position_embeddings": 2048, "rms_norm_eps": 1e-6},
    "mistral": {"max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "num_key_value_heads": 8},
    "qwen2": {"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "num_key_value_heads": 32},
    "qwen3": {"max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "num_key_value_heads": 32, "head_dim": 128},
}
_MISTRALS_WINDOW = 4096
_QWENS_WINDOW, _QWENS_WINDOW_LAYERS = 4096, 28


def architecture(data: JsonObject) -> str:
    """See `directories.FolderLayout`. Raises BundleError for a model with a head that is not known."""
    ours, names = data.get("nlptools"), data.get("architectures")
    has_task = isinstance(ours, dict) and registry.names_heads(ours.get("arch"))
    for name in names if isinstance(names, list) else ():
        has_task |= bool(_named([name]))
        if isinstance(name, str) and not name.endswith(("ForCausalLM", "Model", *_TASK_CLASSES.values())):
            known = ", ".join(f"...{end}" for end in ("ForCausalLM", *_TASK_CLASSES.values()))
            raise BundleError(f"config.json: {name:.80} is not supported, expected {known}")
    return "modern-tasks" if has_task else "modern"


def _named(architectures: Sequence[object]) -> list[str]:
    """The heads that "architectures" in a config.json names."""
    names = tuple(name for name in architectures if isinstance(name, str))
    return [head for head, end in _TASK_CLASSES.items() if any(name.endswith(end) for name in names)]


def heads_in(weights: Mapping[str, Tensor], config: ModernConfig, architectures: Sequence[str] = ()) -> tuple[str, ...]:
    """The heads that a directory's weights hold, or that its config.json names, in the order of TASK_HEADS."""
    names = {checks.plain(name, "") for name in weights}
    heads = {ours.split(".")[0] for ours, theirs in _HEADS.items() if f"{theirs}.weight" in names}
    heads -= {"sequence" if "score.bias" in names else "tokens"}  # both are stored as "score"
    heads |= set(_named(architectures))
    if "crf.transitions" in names:
        heads.add("crf")
    return tuple(name for name in (*TASK_HEADS, *BESIDE_HEADS) if name in heads)


# -- configurations -----------------------------------------------------------------------------------------------------


def can_express(config: ModernConfig) -> bool:
    """Whether one of the families has words for this configuration."""
    return _family(config) is not None


def tied(config: ModernConfig) -> tuple[str, str] | None:
    """See `directories.FolderLayout`."""
    return ("embed_tokens.weight", "lm_head.weight") if config.tie_word_embeddings else None


def _family(config: ModernConfig) -> str | None:
    """The family of a configuration, LLaMA if possible; None: its variants do not go together in any."""
    biases = (config.attention_bias, config.output_bias)
    window = bool(config.sliding_window)
    if config.query_key_norm:
        return "qwen3" if biases[0] == biases[1] and not config.feed_forward_bias else None
    if biases == (True, False):
        return None if config.feed_forward_bias else "qwen2"
    if window:
        return "mistral" if not any((*biases, config.feed_forward_bias, config.max_window_layers)) else None
    return "llama" if biases[0] == biases[1] else None


def config_to_hf(config: ModernConfig, heads: tuple[str, ...] = ()) -> JsonObject:
    """The content of config.json: of a language model, or with the `heads` of tasks."""
    family = _family(config)
    assert family is not None
    named = [end for head, end in _TASK_CLASSES.items() if head in heads]
    out: JsonObject = {
        "model_type": family,
        "architectures": [_CLASSES[family] + (named[0] if named else "Model" if heads else "ForCausalLM")],
        **{name: vars(config)[name] for name in _SAME},
        "hidden_act": "silu" if config.activation == "swish" else config.activation,
        "rope_theta": config.rope_theta,
        "rope_scaling": config.rope_scaling,
        "tie_word_embeddings": config.tie_word_embeddings,
        "use_cache": True,
        "torch_dtype": "float32",
    }
    if family in ("llama", "qwen3"):
        out["attention_bias"] = config.attention_bias
    if family == "llama":
        out["mlp_bias"] = config.feed_forward_bias
    if family == "mistral":
        out["sliding_window"] = config.sliding_window
    if family in ("qwen2", "qwen3"):
        out["use_sliding_window"] = bool(config.sliding_window)
        if config.sliding_window:
            out |= {"sliding_window": config.sliding_window, "max_window_layers": config.max_window_layers}
    return out


def config_from_hf(data: JsonObject) -> ModernConfig:
    """The configuration in a config.json. Raises BundleError for a variant that is not supported."""
    family = str(data["model_type"])
    for name in ("num_key_value_heads", "head_dim", "intermediate_size", "sliding_window"):
        checks.given(data, name)
    given = {name: data[name] for name in _SAME if data.get(name) is not None}
    values: dict[str, object] = {**_DEFAULTS[family], **given}
    if "num_key_value_heads" in data and data["num_key_value_heads"] is None:
        values["num_key_value_heads"] = 0
    values["activation"] = checks.activation(data.get("hidden_act", "silu"))
    values["tie_word_embeddings"] = data.get("tie_word_embeddings", False)
    values |= _positions(data)
    values["query_key_norm"] = family == "qwen3"
    values["attention_bias"] = family == "qwen2" or (family != "mistral" and data.get("attention_bias", False))
    values["output_bias"] = family in ("llama", "qwen3") and data.get("attention_bias", False)
    values["feed_forward_bias"] = family == "llama" and data.get("mlp_bias", False)
    values |= _window(family, data)
    config: ModernConfig = checks.built(ModernConfig, values)
    return config


def _positions(data: JsonObject) -> dict[str, object]:
    """The base and the scaling of rotary positions, in either spelling."""
    scaling = data.get("rope_parameters") or data.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise BundleError(f"config.json: rope_scaling is {scaling!r:.80}, expected an object")
    scaling = dict(scaling)
    theta, partial = (
        _first(scaling.pop(name, None), data.get(name), default)
        for name, default in (("rope_theta", 10000.0), ("partial_rotary_factor", 1.0))
    )
    if partial != 1.0:
        raise BundleError(f"config.json: rotary positions in a part of each head ({partial!r:.20}) are not supported")
    if scaling.get("rope_type", scaling.get("type", "default")) == "default":
        scaling = {}
    return {"rope_theta": theta, "rope_scaling": scaling or None}


def _first(*values: object) -> object:
    """The first value that is not None."""
    return next(value for value in values if value is not None)


def _window(family: str, data: JsonObject) -> JsonObject:
    """The sliding window, and the first layer that has it."""
    layers = data.get("num_hidden_layers")
    window: Json = 0
    first: Json = 0
    if family == "mistral":
        window = data.get("sliding_window", _MISTRALS_WINDOW) or 0
    if family in ("qwen2", "qwen3") and data.get("use_sliding_window"):
        window = data.get("sliding_window", _QWENS_WINDOW) or 0
        first = data.get("max_window_layers", _QWENS_WINDOW_LAYERS)
    kinds = data.get("layer_types")
    if isinstance(kinds, list) and type(layers) is int and type(first) is int:
        expected = ["sliding_attention" if window and i >= first else "full_attention" for i in range(layers)]
        if kinds != expected:
            raise BundleError(
                "config.json: layer_types with windows in other layers than those from max_window_layers on are not supported"
            )
    return {"sliding_window": window, "max_window_layers": first if window else 0}


# -- weights --------------------------------------------------------------------------------------------------------------


def weights_to_hf(weights: Mapping[str, Tensor], config: ModernConfig) -> dict[str, Tensor]:
    """The model's weights under the names and in the layout of LLaMA."""
    out: dict[str, Tensor] = {}
    spans = any(name.startswith("spans.") for name in weights)
    base = (
        "transformer." if spans and _family(config) != "mistral" else "model."
    )  # their class of readers has another name
    for name, tensor in weights.items():
        if name.removeprefix("encoder.") in ("token_embedding.weight", "output_matrix.weight"):
            tensor = tensor[: config.vocab_size]
        names = [re.sub(r"^model\.", base, theirs) for theirs in _names(name)]
        parts = torch.split(tensor, _rows(config)) if len(names) > 1 else [tensor]
        out |= {theirs: part.contiguous() for theirs, part in zip(names, parts, strict=True)}
    return out


def weights_from_hf(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: ModernConfig
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`. Raises BundleError."""
    left = {_with_prefix(checks.plain(name, "")): tensor for name, tensor in weights.items()}
    if config.tie_word_embeddings:
        left.pop("lm_head.weight", None)  # stored by some all the same
    out = {}
    for name, target in wanted.items():
        names = _names(name)
        tensors = [checks.taken(left, theirs) for theirs in names]
        ours = name.removeprefix("encoder.")
        if ours in ("token_embedding.weight", "output_matrix.weight"):
            checks.check_rows(names[0], tensors[0], target, config.vocab_size)
        if len(names) > 1:
            for theirs, tensor, rows in zip(names, tensors, _rows(config), strict=True):
                if tensor.shape != (rows, *target.shape[1:]):
                    raise BundleError(
                        f"model.safetensors: {theirs} has shape {tuple(tensor.shape)},"
                        f" config.json says {(rows, *target.shape[1:])}"
                    )
        tensor = tensors[0] if len(names) == 1 else torch.cat(tensors)
        out[name] = checks.fitted(ours, names[0], tensor, target)
    checks.refuse_unknown([name for name in left if not _IGNORED.fullmatch(name)])
    return out


def _with_prefix(name: str) -> str:
    """A weight's name with the prefix that a model saved without any head lacks, and a reader has as "transformer."."""
    name = re.sub(r"^transformer\.", "model.", name)
    return name if name.startswith(("model.", "lm_head.", *_OF_HEADS)) else f"model.{name}"


def _rows(config: ModernConfig) -> list[int]:
    """The rows of queries, keys and values in the joint matrix."""
    K = config.head_dim
    return [config.num_attention_heads * K, config.num_key_value_heads * K, config.num_key_value_heads * K]


def _names(name: str) -> list[str]:
    """The names in LLaMA of a weight of ours: three of them for the joint matrix."""
    if name in checks.CRF:
        return [checks.CRF[name]]
    part, kind = name.removeprefix("encoder.").rsplit(".", 1)
    if checks.is_of_a_head(name):
        return [f"{_HEADS[part]}.{kind}"]
    in_block = re.fullmatch(r"blocks\.(\d+)\.(.+)", part)
    if not in_block:
        return [f"{_TOP[part]}.{kind}"]
    layer, part = in_block.groups()
    parts = _PROJECTIONS if part == "attention.query_key_value" else (_BLOCK[part],)
    return [f"model.layers.{layer}.{each}.{kind}" for each in parts]
