"""A map as a page of HTML."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nlptools.json_types import JsonObject
from nlptools.plots import pages
from nlptools.vectors.maps.points import MapPoints

NEAREST = 10
_COLORS = 8  # in page.css; the ninth is for words without a group


def page(drawn: MapPoints) -> str:
    """The page that shows a map, with the `NEAREST` nearest words of each by the cosine of their vectors."""
    title, scripts = drawn.title or "Map of words", ("scene.js", "page.js")
    return pages.page(Path(__file__).parent, title, drawn.note, _data(drawn), scripts)


def _data(drawn: MapPoints) -> JsonObject:
    """The data of the script. Coordinates are centered and scaled so that the longest side goes from -1 to 1."""
    low, high = drawn.coordinates.min(axis=0), drawn.coordinates.max(axis=0)
    middle, unit = (low + high) / 2, float((high - low).max()) / 2 or 1.0
    half = np.maximum((high - low) / 2 / unit, 1e-3)
    places, cosines = drawn.points.nearest(NEAREST)
    groups = list(dict.fromkeys(group for group in drawn.points.groups if group))
    number = {group: i for i, group in enumerate(groups)}
    which = [number.get(group, len(groups)) for group in drawn.points.groups]
    return {
        "words": drawn.words,
        "dims": drawn.coordinates.shape[1],
        "coordinates": np.round((drawn.coordinates - middle) / unit, 5).ravel().tolist(),
        "half": np.round(half, 5).tolist(),
        "origin": np.round(-middle / unit, 5).tolist(),
        "axes": drawn.axes,
        "groups": groups,
        "colorOf": which,
        "colors": [i if i < min(_COLORS, len(groups)) else _COLORS for i in which] or None,
        "arrows": [list(pair) for pair in drawn.points.arrows],
        "k": places.shape[1],
        "near": places.ravel().tolist(),
        "cosines": np.rint(cosines.astype(np.float64) * 10000).astype(int).ravel().tolist(),
    }
