"""Values of JSON objects with the types that they should have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nlptools.errors import BundleError
from nlptools.files import json_fields
from nlptools.json_types import JsonObject

DATA: JsonObject = {"n": 3, "x": 0.5, "t": "a", "l": ["a", "b"], "o": {"k": 1}, "os": [{}], "yes": True, "none": None}
READERS: dict[Callable[[JsonObject, str, str], object], set[str]] = {
    json_fields.whole: {"n"},
    json_fields.number: {"n", "x"},
    json_fields.text: {"t"},
    json_fields.texts: {"l", "none", "missing"},
    json_fields.child: {"o", "none", "missing"},
    json_fields.children: {"os"},
}


def test_a_value_of_another_type_is_refused_in_one_line() -> None:
    for read, fine in READERS.items():
        for key in (*DATA, "missing"):
            if key in fine:
                assert read(DATA, key, "a.json") == (DATA.get(key) or ([] if read is json_fields.texts else {}))
            else:
                with pytest.raises(BundleError, match=rf"a.json: {key} is .*, expected"):
                    read(DATA, key, "a.json")


def test_the_fields_of_a_dataclass_must_be_there() -> None:
    assert json_fields.built(complex, {"real": 1.0}, "a.json") == 1.0
    with pytest.raises(BundleError, match=r"a.json: .*unreal"):
        json_fields.built(complex, {"unreal": 1.0}, "a.json")
