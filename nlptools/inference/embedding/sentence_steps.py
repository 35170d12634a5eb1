"""Sentence-transformers directories: the steps from the states of an encoder to one vector.

Reimers & Gurevych 2019 (arXiv:1908.10084). `modules.json` lists the steps: a transformer, a pooling, optional dense layers
and an optional normalization, each with its own folder. Old and new names of their settings are supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.errors import BundleError, display
from nlptools.files import artifacts, json_fields, json_text
from nlptools.layers.linear import ACTIVATIONS

MODULES = "modules.json"
_POOLINGS = {  # new name -> name in `layers.pooling`
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean-sqrt",
    "weightedmean": "weighted-mean",
    "lasttoken": "last",
}
_OLD_POOLINGS = {  # old name -> name in `layers.pooling`; several may be true, and are concatenated in this order
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean-sqrt",
    "pooling_mode_weightedmean_tokens": "weighted-mean",
    "pooling_mode_lasttoken": "last",
}
_MODULES = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "none": "torch.nn.modules.linear.Identity",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
}
_ACTIVATIONS = {module.rsplit(".", 1)[-1]: name for name, module in _MODULES.items()}
_FUNCTIONS = {**ACTIVATIONS, "tanh": torch.tanh}


@dataclass(frozen=True)
class Dense:
    """A linear layer after the pooling."""

    weight: Tensor  # (out, in)
    bias: Tensor | None
    activation: str  # a key of `_FUNCTIONS`

    def __call__(self, vectors: Tensor) -> Tensor:
        """(B, in) -> (B, out)."""
        weight, bias = (None if part is None else part.to(vectors) for part in (self.weight, self.bias))
        assert weight is not None
        return _FUNCTIONS[self.activation](F.linear(vectors, weight, bias))


@dataclass(frozen=True)
class SentenceSteps:
    """The steps from the hidden states of an encoder to a vector.

    Attributes:
        encoder: the folder of the transformer.
        pooling: names in `layers.pooling.POOLINGS`; their results are concatenated.
        include_prompt: whether the tokens of the prompt are pooled too.
        dense: linear layers, in order.
        normalize: whether the vector is scaled to length 1.
        max_length: maximum number of tokens, including special tokens; None: as many as the encoder supports.
        lowercase: whether text is lower-cased first.
        prompts: texts to put before each line, by name.
        default_prompt: the name of the prompt that is used by default.
    """

    encoder: Path
    pooling: tuple[str, ...]
    include_prompt: bool
    dense: tuple[Dense, ...]
    normalize: bool
    max_length: int | None
    lowercase: bool
    prompts: Mapping[str, str]
    default_prompt: str | None

    def prepared(self, text: str) -> str:
        """A text as the encoder reads it: after the default prompt, and lower-cased where it asks for that."""
        text = self.prompts[self.default_prompt] + text if self.default_prompt is not None else text
        return text.lower() if self.lowercase else text


def write(directory: Path, steps: SentenceSteps, width: int) -> list[str]:
    """Write the files of the steps next to an encoder with hidden states of this width. Returns their names.

    Raises:
        StreamError: disk full or another write error.
    """
    kinds = ["Transformer", "Pooling", *["Dense"] * len(steps.dense), *(["Normalize"] if steps.normalize else [])]
    folders = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], 1))]
    modules = [
        {"idx": number, "name": str(number), "path": folder, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, folder) in enumerate(zip(kinds, folders, strict=True))
    ]
    pooling = {old: kind in steps.pooling for old, kind in _OLD_POOLINGS.items()}
    files: dict[str, object] = {
        MODULES: modules,
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            **pooling,
            "include_prompt": steps.include_prompt,
        },
        "sentence_bert_config.json": {"max_seq_length": steps.max_length, "do_lower_case": steps.lowercase},
        "config_sentence_transformers.json": {
            "prompts": dict(steps.prompts),
            "default_prompt_name": steps.default_prompt,
            "similarity_fn_name": "cosine",
        },
    }
    for folder in folders[1:]:
        (directory / folder).mkdir(exist_ok=True)
    tensors = dict[str, dict[str, Tensor]]()
    for number, dense in enumerate(steps.dense, 2):
        files[f"{number}_Dense/config.json"] = {
            "in_features": dense.weight.shape[1],
            "out_features": dense.weight.shape[0],
            "bias": dense.bias is not None,
            "activation_function": _MODULES[dense.activation],
        }
        own = {"linear.weight": dense.weight, "linear.bias": dense.bias}
        tensors[f"{number}_Dense/model.safetensors"] = {k: tensor for k, tensor in own.items() if tensor is not None}
    for name, data in files.items():
        artifacts.write_json(directory / name, data)
    for name, each in tensors.items():
        artifacts.save_tensors(directory / name, each)
    return [*files, *tensors]


def read(directory: Path) -> SentenceSteps | None:
    """The steps of a sentence-transformers directory; None if `directory` is not one.

    Raises:
        BundleError: an unsupported kind of step, or invalid settings.
    """
    if not (directory / MODULES).is_file():
        return None
    kinds = [(kind, directory / path) for kind, path in _modules(directory / MODULES)]
    if not kinds or kinds[0][0] != "Transformer":
        raise BundleError(f"{display(str(directory / MODULES))}: the first step is not a transformer")
    pooling: tuple[str, ...] = ()
    include_prompt, normalize, dense = True, False, []
    for kind, folder in kinds[1:]:
        if kind == "Pooling" and not pooling:
            pooling, include_prompt = _pooling(folder / "config.json")
        elif kind == "Dense" and pooling and not normalize:
            dense.append(_dense(folder))
        elif kind == "Normalize" and pooling:
            normalize = True
        else:
            raise BundleError(
                f"{display(str(directory / MODULES))}: a step {kind!r:.80} at this position is not supported"
            )
    if not pooling:
        raise BundleError(f"{display(str(directory / MODULES))}: no pooling")
    encoder = kinds[0][1]
    prompts, default = _prompts(directory / "config_sentence_transformers.json")
    max_length, lowercase = _reading(encoder)
    return SentenceSteps(
        encoder, pooling, include_prompt, tuple(dense), normalize, max_length, lowercase, prompts, default
    )


def _modules(path: Path) -> list[tuple[str, str]]:
    """(kind, folder) of each step, in order."""
    try:
        rows: Any = json_text.parsed(path.read_bytes())
        steps = [(str(row["type"]).rsplit(".", 1)[-1], str(row["path"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BundleError(f"{display(str(path))}: expected a list of steps with type and path") from None
    for _, folder in steps:
        if folder and not artifacts.is_inside(folder):
            raise BundleError(f"{display(str(path))}: not a plain folder name: {folder!r:.80}")
    return steps


def _pooling(path: Path) -> tuple[tuple[str, ...], bool]:
    data = artifacts.read_json(path)
    include = data.get("include_prompt", True)
    if "pooling_mode" in data:
        modes = data["pooling_mode"]
        listed = modes if isinstance(modes, list) else [modes]
        kinds = [_POOLINGS.get(mode) if isinstance(mode, str) else None for mode in listed or [None]]
    else:
        kinds = [kind for name, kind in _OLD_POOLINGS.items() if data.get(name) is True]
    known = tuple(kind for kind in kinds if kind is not None)
    if not known or len(known) < len(kinds) or not isinstance(include, bool):
        raise BundleError(f"{display(str(path))}: expected a supported pooling mode")
    return known, include


def _dense(folder: Path) -> Dense:
    data = artifacts.read_json(folder / "config.json")
    name = str(data.get("activation_function", "torch.nn.modules.activation.Tanh")).rsplit(".", 1)[-1]
    if name not in _ACTIVATIONS:
        raise BundleError(f"{display(str(folder))}: activation {name!r:.80} is not supported")
    tensors = artifacts.load_weights(folder)
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    shape = (data.get("out_features"), data.get("in_features"))
    if weight is None or tuple(weight.shape) != shape or (bias is not None and tuple(bias.shape) != shape[:1]):
        raise BundleError(f"{display(str(folder))}: the weights do not have the sizes in config.json")
    return Dense(weight.float(), None if bias is None else bias.float(), _ACTIVATIONS[name])


def _reading(encoder: Path) -> tuple[int | None, bool]:
    """(maximum number of tokens, whether to lower-case) of the transformer step."""
    path = encoder / "sentence_bert_config.json"
    data = artifacts.read_json(path) if path.is_file() else {}
    length, lowercase = data.get("max_seq_length"), data.get("do_lower_case", False)
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 3):
        raise BundleError(f"{display(str(path))}: max_seq_length is {length!r:.80}")
    if not isinstance(lowercase, bool):
        raise BundleError(f"{display(str(path))}: do_lower_case is {lowercase!r:.80}")
    return length, lowercase


def _prompts(path: Path) -> tuple[dict[str, str], str | None]:
    data = artifacts.read_json(path) if path.is_file() else {}
    where = display(str(path))
    named, default = json_fields.child(data, "prompts", where), data.get("default_prompt_name")
    prompts = {name: json_fields.text(named, name, where) for name in named}
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise BundleError(f"{where}: no prompt named {default!r:.80}")
    return prompts, default
