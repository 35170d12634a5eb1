"""A map as one page of HTML that needs no network: it contains its style, script and data.

Words are untrusted, and a page runs scripts. The data is JSON in which `<`, `>` and `&` are escaped, so that it cannot end
its element; the script inserts words only as text; and the page's policy allows only this script, by its SHA-256, and no
loading.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np

from nlptools.json_types import JsonObject
from nlptools.vectors.maps.points import MapPoints

NEAREST = 10
_COLORS = 8  # in page.css; the ninth is for words without a group


def page(drawn: MapPoints) -> str:
    """The page that shows a map, with the `NEAREST` nearest words of each by the cosine of their vectors."""
    script = _file("scene.js") + _file("page.js")
    style = _file("page.css")
    policy = f"default-src 'none'; script-src '{_sum(script)}'; style-src '{_sum(style)}'; base-uri 'none'; form-action 'none'"
    parts = {
        "title": html.escape(_plain(drawn.title or "Map of words")),
        "note": html.escape(_plain(drawn.note)),
        "policy": html.escape(policy, quote=False),
        "style": style,
        "script": script,
        "data": escaped(_data(drawn)),
    }
    return re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match.group(1)], _file("page.html"))


def escaped(data: object) -> str:
    """JSON for a script element of HTML, whatever its strings contain."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _sum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
