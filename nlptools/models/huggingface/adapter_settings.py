"""The settings in an adapter_config.json: ranks of matrices, their scaling, and the modules that have them.

The file is foreign: numbers are checked, and its settings must match the file of weights. Patterns in it are tried
only where no pattern could take long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nlptools.errors import BundleError, shorten
from nlptools.files import json_fields
from nlptools.json_types import JsonObject

_DRAWN = ("gaussian", "orthogonal", "eva")  # ways to initialize that leave the base unchanged
_REFUSED = (
    *("use_dora", "use_qalora", "use_bdlora", "lora_bias", "alpha_pattern", "trainable_token_indices"),
    *("target_parameters", "layer_replication", "alora_invocation_tokens", "monteclora_config", "arrow_config"),
    "kasa_config",
)
_BIASES = ("none", "all", "lora_only")
_RANK, _ALPHA = 8, 8  # defaults of PEFT
_MOST_RANK, _MOST_ALPHA = 1 << 16, 1e6
_LONGEST, _MOST_REPEATS = 1000, 4  # of a pattern
_LAYER = re.compile(r"(?:.*\.)?(\d+)\.")


def check(data: JsonObject) -> None:
    """Raise BundleError for other adapters than LoRA, for variants of it, and for numbers that no adapters have."""
    if data.get("peft_type") != "LORA":
        raise BundleError(f"peft_type {data.get('peft_type')!r:.80} is not supported, expected LORA")
    for name in _REFUSED:
        if data.get(name):
            raise BundleError(f"{name} is not supported")
    drawn = data.get("init_lora_weights", True)
    if isinstance(drawn, str) and drawn not in _DRAWN:
        raise BundleError(f"init_lora_weights {drawn!r:.80} is not supported: it changes the base")
    alpha = data.get("lora_alpha", _ALPHA)
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 < alpha <= _MOST_ALPHA:
        raise BundleError(f"lora_alpha is {alpha!r:.80}, expected a number above 0, up to {_MOST_ALPHA:g}")
    pattern = data.get("rank_pattern") or {}
    if not isinstance(pattern, dict):
        raise BundleError(f"rank_pattern is {pattern!r:.80}, expected an object of module: rank")
    for name, rank in {"r": data.get("r", _RANK), **pattern}.items():
        if type(rank) is not int or not 1 <= rank <= _MOST_RANK:
            raise BundleError(f"the rank {shorten(name, 80)} is {rank!r:.80}, expected a whole number from 1")
    if type(data.get("use_rslora") or False) is not bool:
        raise BundleError(f"use_rslora is {data['use_rslora']!r:.80}, expected true or false")
    if (data.get("bias") or "none") not in _BIASES:
        raise BundleError(f"bias is {data['bias']!r:.80}, expected one of {', '.join(_BIASES)}")
    for name in ("target_modules", "exclude_modules", "modules_to_save"):
        _check_names(name, data.get(name))
    layers = data.get("layers_to_transform")
    if not all(type(layer) is int for layer in (layers if isinstance(layers, list) else [layers or 0])):
        raise BundleError(f"layers_to_transform is {layers!r:.80}, expected numbers of layers")


def _check_names(name: str, value: object) -> None:
    texts = value if isinstance(value, list) else [value or "x"]
    if not all(isinstance(text, str) and text for text in texts) or (name == "target_modules" and value in ([], "")):
        raise BundleError(f"{name} is {value!r:.80}, expected names of modules")


@dataclass(frozen=True)
class AdapterSettings:
    """The settings of a checked adapter_config.json.

    Attributes:
        data: its content.
    """

    data: JsonObject

    def scale(self, module: str, rank: int) -> float:
        """The factor of the product of the matrices of a module. Raises BundleError for a rank that no module has."""
        ranks = [
            self.data.get("r", _RANK),
            *json_fields.child(self.data, "rank_pattern", "adapter_config.json").values(),
        ]
        if rank not in ranks:
            expected = " or ".join(map(str, dict.fromkeys(ranks)))
            raise BundleError(f"the matrices of {shorten(module, 200)} have rank {rank}, expected {expected}")
        alpha = json_fields.number({"lora_alpha": _ALPHA, **self.data}, "lora_alpha", "adapter_config.json")
        return alpha / (math.sqrt(rank) if self.data.get("use_rslora") else rank)

    def saves(self, module: str) -> bool:
        """Whether a module is trained as a whole, apart from any other that had the same weights in the base."""
        named = self.data.get("modules_to_save") or []
        names = named if isinstance(named, list) else [named]
        is_named = module.rsplit(".", 1)[-1] in names or module in names
        return is_named and not self.data.get("ensure_weight_tying")

    def check_targets(self, modules: Iterable[str], base: Iterable[str]) -> None:
        """Check that the modules with matrices are those that the settings name.

        Args:
            modules: those with matrices, and `base` the modules of the base with a matrix, by its names.

        Raises:
            BundleError: a module has matrices and is not named, or is named and has none.
        """
        targets, have = self.data.get("target_modules"), set(modules)
        chosen = _chooser(targets)
        if chosen is None:
            return
        for module in sorted(have):
            if not chosen(module) and not self.data.get("ensure_weight_tying"):
                raise BundleError(f"target_modules does not name {shorten(module, 200)}, which has matrices")
        for target in targets if isinstance(targets, list) else ():
            named = _chooser([target])
            if named is not None and not any(map(named, have)):
                raise BundleError(f"target_modules names {shorten(str(target), 200)}, which has no matrices")
        missing = [each for each in base if each not in have and chosen(each) and not self._is_left_out(each)]
        if missing:
            raise BundleError(
                f"target_modules names {missing[0]} (and {len(missing) - 1} more), which have no matrices"
            )

    def _is_left_out(self, module: str) -> bool:
        """Whether a module that `target_modules` names may lack matrices; also where that is unknown."""
        layer, layers = _LAYER.match(module), self.data.get("layers_to_transform")
        excluded = _chooser(self.data.get("exclude_modules") or [])
        unknown = layer is None or excluded is None or bool(self.data.get("layers_pattern"))
        if layer is None or excluded is None or unknown or excluded(module):
            return True
        wanted = layers if isinstance(layers, list) else [layers]
        return layers is not None and int(layer[1]) not in wanted


def _chooser(targets: object) -> Callable[[str], bool] | None:
    """Whether names of modules, or a pattern, choose a module, as in PEFT; None: that is not decided here."""
    if isinstance(targets, list):
        return lambda module: any(f".{module}".endswith(f".{target}") for target in targets)
    if not isinstance(targets, str) or targets == "all-linear" or not _is_quick(targets):
        return None
    try:
        pattern = re.compile(targets)
    except (re.error, OverflowError, RecursionError) as error:
        raise BundleError(f"target_modules or exclude_modules is not a pattern: {error}") from None
    return lambda module: pattern.fullmatch(module) is not None


def _is_quick(pattern: str) -> bool:
    """Whether a pattern surely takes no long time on a short name: it repeats no groups, and little else."""
    repeats = len(re.findall(r"[*+{]", pattern))
    return len(pattern) <= _LONGEST and repeats <= _MOST_REPEATS and re.search(r"\)[*+?{]", pattern) is None


def modules_to_save(names: Iterable[str], prefix: str) -> list[str]:
    """The modules of transformers that weights belong to, without those that it does not know."""
    modules = dict.fromkeys(name.removeprefix(prefix).split(".")[0] for name in names)
    return [name for name in modules if name not in ("nlptools", "crf")]
