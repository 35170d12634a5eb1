"""Rotary positions and sliding windows in the config.json of decoders."""

from __future__ import annotations

from collections.abc import Callable

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models.language.modern import ModernConfig

WHOLE, LOCAL = "full_attention", "sliding_attention"  # kinds of layers
_SCALED = ("llama3", "yarn", "longrope")  # scalings that know the length of the first training


def positions(data: JsonObject) -> JsonObject:
    """The base, the scaling and the share of rotary positions, in either spelling. Raises BundleError."""
    scaling = data.get("rope_parameters") or data.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise BundleError(f"config.json: rope_scaling is {scaling!r:.80}, expected an object")
    scaling = dict(scaling)
    theta, share = (
        _first(scaling.pop(name, None), data.get(name), default)
        for name, default in (("rope_theta", 10000.0), ("partial_rotary_factor", 1.0))
    )
    name, trained = scaling.get("rope_type", scaling.get("type", "default")), "original_max_position_embeddings"
    if name == "default":
        scaling = {}
    elif name in _SCALED and data.get(trained) is not None:  # as transformers does, where both places have it
        scaling[trained] = data[trained]
    return {"rope_theta": theta, "rope_scaling": scaling or None, "rotary_share": share}


def positions_by_kind(data: JsonObject, base: float, local_base: float, local_key: str) -> JsonObject:
    """As `positions`, for families in which layers with a sliding window have their own positions, which are never scaled.

    Args:
        base, local_base: the defaults of layers without a window, and of those with one.
        local_key: the key of `local_base` in folders of transformers before version 5.
    """
    given = _object(data.get("rope_parameters"))
    if not {WHOLE, LOCAL} >= set(given):
        raise BundleError(
            f"config.json: rope_parameters of a {data['model_type']} has {WHOLE} and {LOCAL}, found others"
        )
    whole = {
        "rope_theta": data.get("rope_theta", base),
        **_object(given.get(WHOLE)),
        **_object(data.get("rope_scaling")),
    }
    local = {"rope_theta": data.get(local_key, local_base), **_object(given.get(LOCAL))}
    if local.get("rope_type", local.get("type", "default")) != "default":
        raise BundleError("config.json: scaled rotary positions in layers with a window are not supported")
    return {**positions({"rope_parameters": whole}), "local_rope_theta": local["rope_theta"]}


def rope_by_kind(config: ModernConfig) -> JsonObject:
    """The value of "rope_parameters" in these families."""
    plain: JsonObject = {"rope_type": "default"}
    return {
        WHOLE: {**plain, **(config.rope_scaling or {}), "rope_theta": config.rope_theta},
        LOCAL: {**plain, "rope_theta": config.local_rope_theta},
    }


def _object(value: Json) -> JsonObject:
    """The value, or an empty object in place of any other."""
    return value if isinstance(value, dict) else {}


def _first(*values: Json) -> Json:
    """The first value that is not None."""
    return next(value for value in values if value is not None)


def window(data: JsonObject, size: Json, has_window: Callable[[int], bool]) -> JsonObject:
    """The sliding window of `size`, 0 or None: none, and the layers without it: as "layer_types" says, or `has_window` where that
    is missing. Raises BundleError.
    """
    layers, kinds, known = data.get("num_hidden_layers"), data.get("layer_types"), (WHOLE, LOCAL)
    numbers = range(layers if type(layers) is int else 0)
    if kinds is None:
        whole = [layer for layer in numbers if not (size and has_window(layer))]
    elif isinstance(kinds, list) and len(kinds) == len(numbers) and all(kind in known for kind in kinds):
        whole = [layer for layer in numbers if kinds[layer] == WHOLE]
        if not size and len(whole) < len(numbers):
            raise BundleError("config.json: layer_types has layers with a window, sliding_window is not set")
    else:
        raise BundleError(f"config.json: layer_types is {kinds!r:.80}, expected {layers!r:.20} of {', '.join(known)}")
    if not size or len(whole) == len(numbers):
        return {"sliding_window": 0}
    return {"sliding_window": size, "whole_layers": [*whole]}


def window_everywhere(data: JsonObject, size: Json) -> JsonObject:
    """As `window`, for families in which all layers have it, or none. Raises BundleError."""
    out = window(data, size, lambda layer: True)
    if out.get("whole_layers"):
        raise BundleError(
            f"config.json: a {data['model_type']} has a window in all layers or in none, layer_types says otherwise"
        )
    return out


def layer_types(config: ModernConfig) -> list[str]:
    """The value of "layer_types"."""
    layers = range(config.num_hidden_layers)
    return [LOCAL if config.has_window(layer) else WHOLE for layer in layers]
