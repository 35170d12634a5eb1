"""Checks of configurations and weights in directories, for every family."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import torch
from torch import Tensor

from nlptools.errors import BundleError, shorten
from nlptools.json_types import JsonObject
from nlptools.layers.chains import LAYERS as CHAIN_LAYERS
from nlptools.layers.output import ROWS
from nlptools.models.tasks.heads import BESIDE_HEADS, TASK_HEADS

C = TypeVar("C")

ACTIVATIONS = {  # in configurations: here
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
}
_EMBEDDINGS = ("token_embedding.weight", "source_embedding.weight", "output_matrix.weight")
_LABELS = re.compile(r"(_orig_mod\.|module\.)*(score|classifier|classifier\.out_proj|sequence\.output|tokens)\.weight")
_PREFIXES = r"(_orig_mod\.|module\.)*(model\.|transformer\.)?"
OUR_HEADS = {  # unknown to transformers, which leaves them out when it opens the directory
    "yes_no": "nlptools.yes_no",
    "mentions.dense": "nlptools.mentions.dense",
    "mentions.output": "nlptools.mentions.output",
    **{name: f"nlptools.{name}" for name in ("chains", *(f"chains.{layer}" for layer in CHAIN_LAYERS))},
    "arcs": "nlptools.arcs",
    "arcs.dense": "nlptools.arcs.dense",
    "layer_mix": "nlptools.layer_mix",
    "layer_concat": "nlptools.layer_concat",
}
CRF = {  # as the package pytorch-crf names them; transformers ignores them
    "crf.follows": "crf.transitions",
    "crf.begins": "crf.start_transitions",
    "crf.ends": "crf.end_transitions",
}


def is_of_a_head(name: str) -> bool:
    """Whether a weight, by our name, belongs to a head of a task."""
    return name.split(".")[0] in (*TASK_HEADS, *BESIDE_HEADS)


def refuse_both_ways(data: JsonObject) -> None:
    """Raise BundleError for a decoder in whose layers positions see later ones."""
    if data.get("is_causal") is False:
        raise BundleError("config.json: is_causal false is not supported: each position would see later ones")


def given(data: JsonObject, name: str) -> int | None:
    """A size in a config.json that may leave it out, or have null: None then. Raises BundleError for 0, which some of our
    configurations have for a default.
    """
    value = data.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise BundleError(f"config.json: {name} is {value!r:.80}, expected a whole number from 1, or null")
    return value


def their_names(sizes: Mapping[str, tuple[str, object]]) -> dict[str, str]:
    """Our names of a layout's `sizes`, with the names in config.json."""
    return {ours: theirs for ours, (theirs, _) in sizes.items()}


def check_present(values: Mapping[str, object], names: Mapping[str, str]) -> None:
    """Raise BundleError for the first of the fields in `names` that has no value, by its name in config.json."""
    missing = [theirs for ours, theirs in names.items() if values.get(ours) is None]
    if missing:
        raise BundleError(f"config.json: no {missing[0]}")


def built(kind: Callable[..., C], values: Mapping[str, object], names: Mapping[str, str] = MappingProxyType({})) -> C:
    """The configuration of class `kind`.

    Args:
        names: what config.json calls the fields, where its names differ from ours.

    Raises:
        BundleError: sizes that are missing, or that no model has.
    """
    try:
        return kind(**values)
    except (TypeError, BundleError) as error:
        message = re.sub(r"^\w+", lambda field: names.get(field[0], field[0]), str(error))
        raise BundleError(f"config.json: {message}") from None


def architectures(data: JsonObject) -> list[str]:
    """The classes of transformers that a config.json names; no others."""
    names = data.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def activation(name: object) -> str:
    """Our name of the activation that a configuration names. Raises BundleError for one that is not supported."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise BundleError(f"config.json: activation {name!r:.80} is not supported")
    return ACTIVATIONS[name]


def check_number(least: int, weights: Mapping[str, Tensor]) -> None:
    """Raise BundleError for a configuration that asks for far more weights than there are, before the model is built."""
    held = sum(tensor.numel() for tensor in weights.values())
    if least > held:
        raise BundleError(
            f"config.json asks for at least {least:,} weights, model.safetensors holds {held:,}: they do not belong together"
        )


def plain(name: str, prefix: str) -> str:
    """A weight's name without the prefixes of wrappers and of its family."""
    return re.sub(r"^(_orig_mod\.|module\.)*(" + re.escape(prefix) + ")?", "", name)


def name_in(weights: Mapping[str, Tensor], name: str) -> str | None:
    """The name among `weights` of the one that is called `name` without the prefixes of wrappers and families; None: none is."""
    return next((each for each in weights if re.fullmatch(_PREFIXES + re.escape(name), each)), None)


def are_equal(tensor: Tensor, other: Tensor) -> bool:
    """Whether two weights have the same shape and the same numbers, in whatever type."""
    return tensor.shape == other.shape and torch.equal(tensor.float(), other.float())


def taken(weights: dict[str, Tensor], name: str) -> Tensor:
    """Take a weight out of `weights`. Raises BundleError when it is missing."""
    tensor = weights.pop(name, None)
    if tensor is None:
        raise BundleError(f"model.safetensors: no weight {name}")
    return tensor


def joined_name(module: str, kind: str) -> str:
    """The name of a weight of a module, or of a half of it: "mlp.Wi:0" -> "mlp.Wi.weight:0"."""
    name, colon, half = module.partition(":")
    return f"{name}.{kind}{colon}{half}"


def taken_part(left: dict[str, Tensor], name: str) -> Tensor:
    """Take a weight, or a half of one ("...:0" or "...:1"), out of `left`. Raises BundleError when it is missing."""
    whole, colon, _ = name.partition(":")
    if colon and name not in left:
        halves = taken(left, whole).chunk(2)
        left |= {f"{whole}:{number}": half for number, half in enumerate(halves)}
    return taken(left, name)


def whole_matrices(halves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices by their names, given their halves, "...:0" and "...:1"."""
    out: dict[str, Tensor] = {}
    for name in sorted(halves):  # the first half first
        whole = name.partition(":")[0]
        out[whole] = torch.cat([out[whole], halves[name]]) if whole in out else halves[name]
    return out


def check_rows(theirs: str, tensor: Tensor, target: Tensor, rows: int) -> None:
    """Raise BundleError unless an embedding has as many rows as the configuration says, or as `target`."""
    if tensor.dim() == 2 and len(tensor) not in (rows, len(target)):
        raise BundleError(f"model.safetensors: {theirs} has {len(tensor)} rows, config.json says {rows}")


def fitted(name: str, theirs: str, tensor: Tensor, target: Tensor) -> Tensor:
    """`tensor` in the type and shape of `target`; an embedding gets its rows of padding. Raises BundleError."""
    missing = target.shape[0] - tensor.shape[0] if name in _EMBEDDINGS and tensor.dim() == 2 else 0
    if 0 < missing < ROWS and tensor.shape[1:] == target.shape[1:]:
        return torch.cat([tensor.float(), tensor.new_zeros(missing, tensor.shape[1], dtype=torch.float32)])
    if tensor.shape != target.shape:
        raise BundleError(
            f"model.safetensors: {theirs} has shape {tuple(tensor.shape)}, config.json says {tuple(target.shape)}"
        )
    return tensor.to(target.dtype).contiguous()


def refuse_unknown(names: list[str]) -> None:
    """Raise BundleError for weights that are left over."""
    if names:
        raise BundleError(f"model.safetensors: unknown weight {shorten(names[0], 200)} (and {len(names) - 1} more)")


def labels_in(weights: Mapping[str, Tensor]) -> int:
    """The number of labels of the head of a directory; 2 without one."""
    for name, tensor in weights.items():
        if _LABELS.fullmatch(name) and tensor.dim() == 2:
            return len(tensor)
    return 2


def our_heads_in(weights: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The heads that weights under our names belong to."""
    parts = {plain(name, "").split(".")[0] for name in weights}
    return tuple(head for head in (*TASK_HEADS, *BESIDE_HEADS) if head in parts)


def concatenated_in(weights: Mapping[str, Tensor]) -> int:
    """How many layers the head "layer_concat" of a directory takes; 1 without one."""
    ours = "layer_concat.weight"
    weight = weights.get(f"nlptools.{ours}", weights.get(ours))
    return 1 if weight is None or weight.dim() != 2 else max(1, weight.shape[1] // max(1, weight.shape[0]))


def relations_in(weights: Mapping[str, Tensor]) -> int:
    """How many relations the head "arcs" of a directory knows; 0 without one."""
    ours = "arcs.relation_weight"
    weight = weights.get(f"nlptools.{ours}", weights.get(ours))
    return 0 if weight is None else len(weight)
