"""GPT-2 directories. They keep linear maps as (in, out), so those are transposed; heads of tasks are not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models import registry
from nlptools.models.huggingface import checks
from nlptools.models.language.gpt import GPTConfig
from nlptools.models.tasks.heads import BESIDE_HEADS, TASK_HEADS

_BLOCK = {
    "attention_norm": "ln_1",
    "attention.query_key_value": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}
_TOP = {"token_embedding": "wte", "position_embedding": "wpe", "norm": "ln_f", "output_matrix": "lm_head"}
_EMBEDDINGS = ("token_embedding.weight", "output_matrix.weight")  # with a row for each token
_OUTPUT = "lm_head.weight"
_HEADS = {
    "sequence.output": "score",
    "tokens": "classifier",
    "spans": "qa_outputs",
    "choice.output": "nlptools.choice.output",
    **checks.OUR_HEADS,
}
_TASK_CLASSES = {
    "sequence": "GPT2ForSequenceClassification",
    "tokens": "GPT2ForTokenClassification",
    "spans": "GPT2ForQuestionAnswering",
}
MODEL_TYPES = ("gpt2",)
_IGNORED = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight")
_REQUIRED = {
    "vocab_size": "vocab_size",
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}
_SIZES = {
    **_REQUIRED,
    "activation": "activation_function",
    "layer_norm_eps": "layer_norm_epsilon",
    "initializer_range": "initializer_range",
    "embedding_dropout": "embd_pdrop",
    "hidden_dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
}


def config_to_hf(config: GPTConfig, heads: tuple[str, ...] = ()) -> JsonObject:
    """The content of config.json: of a language model, or with the `heads` of tasks."""
    named = [_TASK_CLASSES[head] for head in heads if head in _TASK_CLASSES]
    name = named[0] if named else "GPT2Model" if heads else "GPT2LMHeadModel"
    inner = config.intermediate_size
    return {
        "model_type": "gpt2",
        "architectures": [name],
        **{theirs: vars(config)[ours] for ours, theirs in _SIZES.items()},
        "n_ctx": config.max_position_embeddings,
        "n_inner": None if inner == 4 * config.hidden_size else inner,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "tie_word_embeddings": config.tie_word_embeddings,
        "use_cache": True,
        "torch_dtype": "float32",
    }


def config_from_hf(data: JsonObject, **more: bool) -> GPTConfig:
    """The configuration in a config.json, with `more` fields. Raises BundleError for a variant that is not GPT-2."""
    checks.refuse_both_ways(data)
    if data.get("scale_attn_by_inverse_layer_idx") or not data.get("scale_attn_weights", True):
        raise BundleError("config.json: attention scaled in another way than GPT-2's is not supported")
    values = {ours: data[theirs] for ours, theirs in _SIZES.items() if theirs in data}
    checks.check_present(values, _REQUIRED)
    values["intermediate_size"] = checks.given(data, "n_inner") or 0
    values["activation"] = checks.activation(values.get("activation", "gelu_new"))
    values["tie_word_embeddings"] = data.get("tie_word_embeddings", True)
    config: GPTConfig = checks.built(GPTConfig, {**values, **more}, _SIZES)
    return config


def prefix(model_type: str) -> str:
    """See `directories.TaskFamily`."""
    return "transformer."


def architecture(data: JsonObject) -> str:
    """A language model, or one with heads of tasks, ours or another's."""
    ours = data.get("nlptools")  # transformers keeps our note about a language model that it makes a classifier of
    has_task = (isinstance(ours, dict) and registry.names_heads(ours.get("arch"))) or bool(
        _named(data.get("architectures"))
    )
    return "transformer-tasks" if has_task else "transformer"


def tied(config: GPTConfig) -> tuple[str, str] | None:
    """See `directories.FolderLayout`."""
    return ("wte.weight", _OUTPUT) if config.tie_word_embeddings else None


def can_express(config: GPTConfig) -> bool:
    """Whether its positions and norms are GPT-2's."""
    return config.positions == "learned" and not config.post_norm


def _named(architectures: object) -> list[str]:
    """The heads that "architectures" in a config.json names."""
    names = architectures if isinstance(architectures, list) else []
    return [head for head, name in _TASK_CLASSES.items() if name in names]


def heads_in(weights: Mapping[str, Tensor], config: GPTConfig, architectures: Sequence[str] = ()) -> tuple[str, ...]:
    """The heads that a directory's weights hold, or that its config.json names, in the order of TASK_HEADS."""
    names = {checks.plain(name, "transformer.") for name in weights}
    heads = {ours.split(".")[0] for ours, theirs in _HEADS.items() if f"{theirs}.weight" in names}
    heads |= set(_named(architectures))
    if "crf.transitions" in names:
        heads.add("crf")
    return tuple(name for name in (*TASK_HEADS, *BESIDE_HEADS) if name in heads)


def weights_to_hf(weights: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """The model's weights under the names and in the layout of GPT-2."""
    out = {}
    for name, tensor in weights.items():
        if name.removeprefix("encoder.") in _EMBEDDINGS:
            tensor = tensor[: config.vocab_size]
        theirs, transposed = _name(name)
        prefix = "" if checks.is_of_a_head(name) or theirs == _OUTPUT else "transformer."
        out[prefix + theirs] = (tensor.t() if transposed else tensor).contiguous()
    return out


def weights_from_hf(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: GPTConfig
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`. Raises BundleError."""
    left = {checks.plain(name, "transformer."): tensor for name, tensor in weights.items()}
    out = {}
    for name, target in wanted.items():
        theirs, transposed = _name(name)
        tensor = checks.taken(left, theirs)
        if name.removeprefix("encoder.") in _EMBEDDINGS:
            checks.check_rows(theirs, tensor, target, config.vocab_size)
        out[name] = checks.fitted(name.removeprefix("encoder."), theirs, tensor.t() if transposed else tensor, target)
    checks.refuse_unknown([name for name in left if not _IGNORED.fullmatch(name)])
    return out


def _name(name: str) -> tuple[str, bool]:
    """(GPT-2's name of a weight of ours, whether it is stored transposed)."""
    if name in checks.CRF:
        return checks.CRF[name], False
    if checks.is_of_a_head(name):
        part, kind = name.rsplit(".", 1)
        return f"{_HEADS[part]}.{kind}", False
    name = name.removeprefix("encoder.")
    part, kind = name.rsplit(".", 1)
    in_block = re.fullmatch(r"blocks\.(\d+)\.(.+)", part)
    if in_block:
        layer, part = in_block.groups()
        return f"h.{layer}.{_BLOCK[part]}.{kind}", kind == "weight" and not part.endswith("norm")
    return f"{_TOP[part]}.{kind}", False
