"""Pages of HTML that need no network: each contains its style, script and data.

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
from collections.abc import Sequence
from pathlib import Path


def page(folder: Path, title: str, note: str, data: object, scripts: Sequence[str]) -> str:
    """The page of `page.html` and `page.css` in `folder`, with these scripts from there, one after another."""
    script = "".join(_file(folder, name) for name in scripts)
    style = _file(folder, "page.css")
    policy = f"default-src 'none'; script-src '{_sum(script)}'; style-src '{_sum(style)}'; base-uri 'none'; form-action 'none'"
    parts = {
        "title": html.escape(_plain(title)),
        "note": html.escape(_plain(note)),
        "policy": html.escape(policy, quote=False),
        "style": style,
        "script": script,
        "data": escaped(data),
    }
    return re.sub(r"\{\{([a-z]+)\}\}", lambda match: parts[match.group(1)], _file(folder, "page.html"))


def escaped(data: object) -> str:
    """JSON for a script element of HTML, whatever its strings contain."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text)


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _file(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def _sum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
