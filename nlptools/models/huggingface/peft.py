"""Directories of low-rank adapters, as the package PEFT writes and reads them: adapter_config.json and adapter_model.safetensors.

The adapters belong to the linear maps of a model of Hugging Face, the base, whose directory or name is in
adapter_config.json; modules that are trained as a whole (heads) are saved beside them. Directories of ours also have the
config.json of the model that base and adapters are together, and its tokenizer. When a directory is opened, the adapters are
added to the weights of the base, in float32.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlptools.configs.lora import LoRA
from nlptools.errors import BundleError, display
from nlptools.files import artifacts, atomic, hub_cache
from nlptools.models import registry

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS = artifacts.ADAPTER, "adapter_model.safetensors"
_PREFIX = "base_model.model."
_TASKS = {"sequence": "SEQ_CLS", "tokens": "TOKEN_CLS", "spans": "QUESTION_ANS"}  # a head here: the type of task there
_GPTS = ("gpt2", "openai-gpt")  # their linear maps within layers are stored as (in, out)
_IN_LAYER = re.compile(r"(^|\.)h\.\d+\.")
_DRAWN = ("gaussian", "orthogonal", "eva")  # ways to initialize that leave the base as it is
_REFUSED = (
    *("use_dora", "use_qalora", "use_bdlora", "lora_bias", "alpha_pattern", "trainable_token_indices"),
    *("target_parameters", "layer_replication", "alora_invocation_tokens", "monteclora_config", "arrow_config"),
    "kasa_config",
)


@dataclass(frozen=True)
class Adapter:
    """Adapters that are trained.

    Attributes:
        base: the name or the absolute path of the model that they are for.
        digest: identifies the weights of the base.
    """

    settings: LoRA
    base: str
    digest: str


# -- layout -----------------------------------------------------------------------------------------------------------


def modules(arch: str, name: str, rows: int, config: Any) -> tuple[dict[str, int], bool]:
    """The modules of Hugging Face that the linear map `name` of an architecture stands for, with the rows of each, and whether
    they are stored transposed.
    """
    import torch

    from nlptools.models.huggingface import directories

    # a matrix without columns is split and transposed like any other
    parts = directories.weights_to_hf(arch, {f"{name}.weight": torch.empty(rows, 0)}, config)
    theirs = {part.removesuffix(".weight"): max(matrix.shape) for part, matrix in parts.items()}
    return theirs, any(len(matrix) == 0 for matrix in parts.values())


def is_whole(arch: str, name: str) -> bool:
    """Whether a weight, by our name, is trained and saved as a whole, as weights of heads and of the pooler before them are."""
    has_heads = registry.find(arch).family in (registry.ENCODER, registry.TASK_DECODER)
    return has_heads and (not name.startswith("encoder.") or name.startswith("encoder.pooler."))


# -- writing ------------------------------------------------------------------------------------------------------------


def save(
    directory: Path, adapter: Adapter, arch: str, weights: Mapping[str, Tensor], sizes: Any, config: Mapping[str, Any]
) -> list[str]:
    """Write the adapters and heads among `weights`, by our names; returns the names of the files. `config`: the config.json."""
    from nlptools.models.huggingface import directories

    low, inner, turned = _adapters(arch, weights, sizes)
    heads = {name: tensor for name, tensor in weights.items() if is_whole(arch, name)}
    whole = directories.weights_to_hf(arch, heads, sizes)
    architecture = str((config.get("architectures") or [""])[0])
    bare = architecture.endswith("Model") and not architecture.endswith("LMHeadModel")  # a class without heads
    prefix = _prefix(config) if bare else ""
    tensors = {_PREFIX + name.removeprefix(prefix): tensor for name, tensor in {**low, **whole}.items()}
    artifacts.save_tensors(directory / WEIGHTS, tensors)
    settings, alpha = adapter.settings, adapter.settings.lora_alpha
    kinds = [kind for head, kind in _TASKS.items() if any(name.startswith(head) for name in heads)]
    kinds += [] if heads else ["CAUSAL_LM"]
    data = {
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION" if bare else kinds[0] if kinds else None,
        "base_model_name_or_path": adapter.base,
        "r": settings.lora,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": settings.lora_dropout,
        "target_modules": inner,
        "fan_in_fan_out": turned,
        "bias": "none",
        "modules_to_save": _modules_to_save(whole, _prefix(config)) or None,
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "inference_mode": True,
    }
    atomic.write_whole(directory / CONFIG, json.dumps(data, indent=2) + "\n")
    return [CONFIG, WEIGHTS]


def _adapters(arch: str, weights: Mapping[str, Tensor], sizes: Any) -> tuple[dict[str, Tensor], list[str], bool]:
    """The matrices of all adapters under the names of PEFT, the modules that have them, as it selects them, and whether the
    base stores these transposed.
    """
    import torch

    out: dict[str, Tensor] = {}
    inner: dict[str, bool] = {}  # names of maps within a layer: whether they have adapters
    turned = False
    for name, weight in weights.items():
        if weight.dim() != 2 or not name.endswith(".weight") or ".blocks." not in f".{name}":
            continue
        name = name.removesuffix(".weight")
        theirs, transposed = modules(arch, name, len(weight), sizes)
        up, down = weights.get(f"{name}.lora_B"), weights.get(f"{name}.lora_A")
        inner |= {re.split(r"\.\d+\.", part, maxsplit=1)[-1]: up is not None for part in theirs}
        if up is None or down is None:
            continue
        turned |= transposed
        for part, a, b in zip(theirs, down.chunk(len(theirs)), torch.split(up, list(theirs.values())), strict=True):
            out[f"{part}.lora_A.weight"], out[f"{part}.lora_B.weight"] = a.contiguous(), b.contiguous()
    ends = {name: name.rsplit(".", 1)[-1] for name in inner}
    unique = {end for end, count in Counter(ends.values()).items() if count == 1}
    targets = sorted(ends[name] if ends[name] in unique else name for name, has in inner.items() if has)
    return out, targets, turned


def _modules_to_save(names: Iterable[str], prefix: str) -> list[str]:
    """The modules of transformers that weights belong to, without those that it does not know."""
    modules = dict.fromkeys(name.removeprefix(prefix).split(".")[0] for name in names)
    return [name for name in modules if name not in ("nlptools", "crf")]


def _prefix(config: Mapping[str, Any]) -> str:
    """What the names of the weights of an encoder begin with, beside the names of heads, in a model with this config.json."""
    kind = str(config.get("model_type"))
    if kind in _GPTS:
        return "transformer."
    if kind.startswith("nlptools-"):
        return "encoder."
    return f"{kind}." if kind in ("bert", "electra") else "model."


# -- reading ------------------------------------------------------------------------------------------------------------


def is_adapter(path: Path) -> bool:
    """Whether a directory holds adapters."""
    return (path / CONFIG).is_file()


def read(path: Path) -> dict[str, Any]:
    """The content of adapter_config.json. Raises BundleError for other adapters than LoRA, and for variants of it."""
    data = artifacts.read_json(path / CONFIG)
    where = display(str(path / CONFIG))
    if data.get("peft_type") != "LORA":
        raise BundleError(f"{where}: peft_type {data.get('peft_type')!r:.80} is not supported, expected LORA")
    for name in _REFUSED:
        if data.get(name):
            raise BundleError(f"{where}: {name} is not supported")
    drawn = data.get("init_lora_weights", True)
    if isinstance(drawn, str) and drawn not in _DRAWN:
        raise BundleError(f"{where}: init_lora_weights {drawn!r:.80} is not supported: it changes the base")
    alpha = data.get("lora_alpha", 8)
    if not isinstance(alpha, (int, float)) or isinstance(alpha, bool):
        raise BundleError(f"{where}: lora_alpha is {alpha!r:.80}, expected a number")
    return data


def base_of(path: Path) -> Path:
    """The directory of the model that adapters are for: relative to that of the adapters, or to the working directory, or a
    name in the local Hugging Face cache. Raises BundleError if there is none.
    """
    name = read(path).get("base_model_name_or_path")
    if not isinstance(name, str) or not name or "\0" in name:
        raise BundleError(f"{display(str(path / CONFIG))}: base_model_name_or_path is {name!r:.80}, expected a model")
    beside = path / name
    base = beside if beside.is_dir() else hub_cache.locate(name)
    if not (base / "config.json").is_file():
        raise BundleError(
            f"{display(str(path))}: adapters of {display(name)}, which is not a model directory here",
            hint=f'correct "base_model_name_or_path" in {CONFIG}',
        )
    if is_adapter(base):
        raise BundleError(f"{display(str(path))}: adapters of adapters ({display(name)}) are not supported")
    return base


def home(path: Path, names: Iterable[str]) -> Path:
    """The model directory that holds a file of one of these names: `path`; or the base, for adapters without such a file."""
    return path if not is_adapter(path) or any((path / name).is_file() for name in names) else base_of(path)


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a model directory; for adapters, that of the model with them. Raises BundleError."""
    place = home(path, ["config.json"])
    config = artifacts.read_json(place / "config.json")
    if place == path:
        return config
    for head in (head for head, kind in _TASKS.items() if kind == read(path).get("task_type")):
        from nlptools.models.huggingface import directories

        arch, sizes = directories.config_from_hf(config)
        named = directories.config_to_hf(registry.WITH_HEADS.get(arch, arch), sizes, (head,))
        config["architectures"] = named["architectures"]
    return config


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a model directory, by its names; adapters are added to the weights of their base. Raises BundleError."""
    if not is_adapter(path):
        return artifacts.load_weights(path)
    data, base = read(path), base_of(path)
    if artifacts.verify(base):
        _check_base(path, base)
    config = artifacts.read_json(base / "config.json")
    weights = _Weights(artifacts.load_weights(base), _prefix(config))
    if not (path / WEIGHTS).is_file():
        raise BundleError(f"{display(str(path))}: no {WEIGHTS}")
    pairs, whole = _split(path, artifacts.load_tensors(path / WEIGHTS))
    turned = config.get("model_type") in _GPTS
    for module, (down, up) in pairs.items():
        place = weights.place(f"{module}.weight")
        if place is None:
            raise BundleError(f"{display(str(path))}: adapters of {module}, which {display(str(base))} does not have")
        if down.dim() != 2 or up.dim() != 2 or len(down) != up.shape[1] or len(down) == 0:
            raise BundleError(f"{display(str(path / WEIGHTS))}: the matrices of {module} do not belong together")
        rank = len(down)
        scale = data.get("lora_alpha", 8) / (math.sqrt(rank) if data.get("use_rslora") else rank)
        product = scale * (up.float() @ down.float())
        product = product.t() if turned and _IN_LAYER.search(module) else product
        if product.shape != weights.tensors[place].shape:
            raise BundleError(
                f"{display(str(path))}: adapters of {module} for shape {tuple(product.shape)},"
                f" {display(str(base))} has {tuple(weights.tensors[place].shape)}"
            )
        weights.tensors[place] = weights.tensors[place].float() + product
    if "lm_head.weight" in whole and "lm_head.weight" not in weights.tensors:
        raise BundleError(f"{display(str(path))}: an output matrix of its own (lm_head), that of the base is tied")
    return weights.with_heads(whole)


def _check_base(path: Path, base: Path) -> None:
    """Raise BundleError if a base with a manifest has other weights than when the adapters were trained."""
    record = path / "training.json"
    marks = artifacts.read_json(record).get("fingerprint") if record.is_file() else None
    trained = marks.get("base") if isinstance(marks, dict) else None
    if trained is not None and trained != artifacts.weights_digest(base):
        raise BundleError(f"{display(str(path))}: adapters of other weights than {display(str(base))} has now")


def _split(path: Path, tensors: Mapping[str, Tensor]) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
    """The matrices A and B of each module, and the weights that stand for themselves. Raises BundleError."""
    low: dict[str, dict[str, Tensor]] = {}
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        name = name.removeprefix(_PREFIX).replace(".base_layer.", ".")
        if match := re.fullmatch(r"(.+)\.lora_([AB])\.weight", name):
            low.setdefault(match[1], {})[match[2]] = tensor
        elif ".lora_" in name:
            raise BundleError(f"{display(str(path / WEIGHTS))}: {name:.200} is not supported")
        else:
            whole[name] = tensor
    for module, pair in low.items():
        if len(pair) < 2:
            raise BundleError(f"{display(str(path / WEIGHTS))}: {module} has only one of its two matrices")
    return {module: (pair["A"], pair["B"]) for module, pair in low.items()}, whole


@dataclass(frozen=True)
class _Weights:
    """The weights of a base; the names in its encoder begin with `prefix`, or none does."""

    tensors: dict[str, Tensor]
    prefix: str

    def place(self, name: str) -> str | None:
        """The name here of a weight that may be called with or without the prefix."""
        for each in (name, self.prefix + name, name.removeprefix(self.prefix)):
            if each in self.tensors:
                return each
        return None

    def with_heads(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """These weights with those in `whole`. Heads among them replace all heads of the base."""
        placed = {self.place(name) or name: tensor for name, tensor in whole.items()}
        encoder = [name for name in self.tensors if name.startswith(self.prefix)] or list(self.tensors)
        kept = {**self.tensors, **placed}
        if placed.keys() <= set(encoder):
            return kept
        heads = {name: tensor for name, tensor in placed.items() if name not in encoder}
        return {self.prefix + name.removeprefix(self.prefix): kept[name] for name in encoder} | heads
