"""Attention as a page of HTML to explore: all layers and heads, lines between words and heat maps."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from nlptools.errors import DataError
from nlptools.json_types import JsonObject
from nlptools.plots import pages
from nlptools.plots.attention_maps import AttentionMap

MOST_WEIGHTS = 1 << 25  # in a page: 90 MB


def checked(maps: Iterable[AttentionMap]) -> list[AttentionMap]:
    """The maps of lines with words. Raises DataError for none, or for more weights than a browser can take."""
    found: list[AttentionMap] = []
    for each in maps:
        found += [each] if each.queries else []
        if sum(drawn.weights.size for drawn in found) > MOST_WEIGHTS:
            raise DataError(
                f"more than {MOST_WEIGHTS:,} weights are too many for a page",
                hint="take fewer or shorter lines, or choose layers with --layer",
            )
    if not found:
        raise DataError("no text to show")
    return found


def page(maps: Sequence[AttentionMap]) -> str:
    """The page that shows the maps of lines."""
    return pages.page(Path(__file__).parent / "attention", "Attention", "", [_data(each) for each in maps], ["page.js"])


def _data(found: AttentionMap) -> JsonObject:
    """The data of a line. Weights are shares of 65,535 in two bytes each, the lower one first."""
    shares = np.rint(found.weights.clip(0, 1) * 65535).astype("<u2")
    return {
        "text": found.text,
        "part": found.part or "",
        "queries": list(found.queries),
        "keys": list(found.keys),
        "layers": [found.layers[0]] if found.mean else list(found.layers),
        "heads": [found.heads[0]] if found.mean else list(found.heads),
        "mean": found.mean,
        "weights": base64.b64encode(shares.tobytes()).decode(),
    }
