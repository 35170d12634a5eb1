"""JSON files of models have each key once, and finite numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from nlptools.errors import BundleError
from nlptools.files import artifacts, json_text
from nlptools.text import huggingface


def test_a_value_of_each_key() -> None:
    assert json_text.parsed('{"a": [1, {"a": 2.5}], "b": null}') == {"a": [1, {"a": 2.5}], "b": None}
    for text, words in {
        '{"a": 1, "b": 2, "b": 1, "a": 1}': "two values have the key 'b'",
        '[{"a": {"": 1, "\\u0000": 2, "\\u0000": 2}}]': r"two values have the key '\\x00'",
        '{"a": -Infinity}': "-Infinity is not a number",
        '{"a": 1e999}': "1e999 is too large",
    }.items():
        with pytest.raises(ValueError, match=words):
            json_text.parsed(text)


def test_files_of_models(tmp_path: Path) -> None:
    path = tmp_path / "adapter_config.json"
    path.write_text('{"r": 4, "r": 8}')
    for read in (artifacts.read_json, huggingface.read_object):
        with pytest.raises(BundleError, match=r"adapter_config\.json: not valid JSON: two values have the key 'r'"):
            read(path)
