"""What the expression of a schema matches is valid JSON and valid under the schema; what is not supported is refused by name."""

from __future__ import annotations

import datetime
import json
import re
import uuid
from typing import Any

import numpy as np
import pytest

from nlptools.errors import UsageError
from nlptools.formats.integer_ranges import integers
from nlptools.inference.generation.automaton import DEAD, TextAutomaton
from nlptools.serving.json_schemas import pattern, response_pattern

PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {
        "nickname": {"type": "string", "maxLength": 6},
        "name": {"$ref": "#/$defs/Name"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "born": {"type": ["string", "null"], "format": "date"},
        "tags": {"type": "array", "items": {"enum": ['a"b', "ü", 1, None]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
    "$defs": {"Name": {"allOf": [{"type": "string", "minLength": 1, "description": "a name"}]}},
}


def written(expression: str, count: int, seed: int = 1) -> list[str]:
    """Texts that an expression matches: random bytes, until a text may end and chance ends it."""
    automaton, random, out = TextAutomaton(expression), np.random.default_rng(seed), []
    every = np.arange(256)
    while len(out) < count:
        state, data = automaton.start, bytearray()
        while not (automaton.accepts(state) and random.random() < 0.3):
            after = automaton.steps(np.full(256, state), every)
            possible = np.flatnonzero(after != DEAD)
            if not len(possible):
                break
            if len(data) > 60:  # the shortest way to the end
                needs = automaton.needs(after[possible])
                possible = possible[needs == needs.min()]
            value = int(random.choice(possible))
            data.append(value)
            state = int(after[value])
        out.append(data.decode())
    return out


def is_person(value: Any) -> bool:
    assert isinstance(value, dict) and set(value) <= set(PERSON["properties"]) and {"name", "tags"} <= set(value)
    assert isinstance(value["name"], str) and value["name"] and len(value.get("nickname", "")) <= 6
    assert type(value.get("age", 0)) is int and 0 <= value.get("age", 0) < 150
    assert value.get("born") is None or datetime.date.fromisoformat(value["born"])
    return 1 <= len(value["tags"]) <= 3 and all(tag in ('a"b', "ü", 1, None) for tag in value["tags"])


def is_date_time(value: Any) -> bool:
    return bool(datetime.datetime.fromisoformat(value.replace("Z", "+00:00")))


SCHEMAS: list[tuple[dict[str, Any], Any]] = [
    (PERSON, is_person),
    ({"type": "object", "properties": {"a": {"type": "null"}, "b": {"const": {"x": [1.5, "é"]}}}},
     lambda v: set(v) <= {"a", "b"} and v.get("a") is None and v.get("b", {"x": [1.5, "é"]}) == {"x": [1.5, "é"]}),
    ({"type": "object", "additionalProperties": {"type": "boolean"}},
     lambda v: isinstance(v, dict) and all(type(each) is bool for each in v.values())),
    ({"type": "object"}, lambda v: isinstance(v, dict)),
    ({"type": "object", "additionalProperties": False}, lambda v: v == {}),
    ({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}]},
     lambda v: isinstance(v, int | float) or all(isinstance(s, str) for row in v for s in row)),
    ({"properties": {"n": {"type": "integer", "maximum": -5}}, "required": ["n"]}, lambda v: v["n"] <= -5),
    ({"type": "string", "format": "uuid"}, uuid.UUID),
    ({"type": "string", "minLength": 2, "maxLength": 3}, lambda v: 2 <= len(v) <= 3),
    ({"type": "integer", "enum": [1, True, "x", 22]}, lambda v: v in (1, 22) and type(v) is int),
    ({"enum": ["a.c", "[", "\ud800"]}, lambda v: v in ("a.c", "[", "\ud800")),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "valid"), SCHEMAS)
def test_what_is_written_is_valid(schema: dict[str, Any], valid: Any) -> None:
    expression = pattern(schema)
    texts = written(expression, 25)
    for text in texts:
        assert valid(json.loads(text)) and "\n" not in text
        assert re.fullmatch(expression, text)
    assert len(set(texts)) > 1 or schema.get("additionalProperties") is False


def test_dates_and_times_exist() -> None:
    for text in written(pattern({"type": "string", "format": "date-time"}), 60):
        assert is_date_time(re.sub(r"(\.\d{1,5})(?=[Z+-])", lambda match: match[1].ljust(7, "0"), json.loads(text)))


def test_usual_texts_are_possible() -> None:
    for value in (
        {"name": "Ada", "tags": ["ü"]},
        {"nickname": "ada", "name": 'A "b" \\ \n 🦁', "age": 36, "born": "1815-12-10", "tags": ["ü", 1, None]},
        {"name": "x", "born": None, "tags": [1]},
    ):
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(value, ensure_ascii=False, separators=separators)
            assert re.fullmatch(pattern(PERSON), text), text
    assert re.fullmatch(pattern({"type": "number"}), "-1.5e-3") and re.fullmatch(pattern({"type": "number"}), "0")
    anything = response_pattern({"type": "json_object"}) or ""
    assert re.fullmatch(anything, '{"a": [1, {"b": "c"}], "d": {"e": {}, "f": null}, "g": -2.5}')
    assert not re.fullmatch(anything, '{"a": [{"b": [1]}]}') and not re.fullmatch(anything, "[1]")


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"oneOf": [{"type": "null"}]}, "#: 'oneOf'"),
        ({"type": "string", "pattern": "a"}, "#: 'pattern'"),
        ({"type": "number", "minimum": 1}, "#: 'minimum'"),
        ({"type": "array"}, '"items"'),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "'uniqueItems'"),
        ({"type": "object", "properties": {"a": {"type": "date"}}}, "#/properties/a: expected one of object"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "#/properties/a: 'not'"),
        ({"type": "object", "patternProperties": {}}, "'patternProperties'"),
        ({"type": "object", "required": ["a"]}, "'a' is \"required\""),
        ({"type": "object", "properties": {"a": {}}}, "#/properties/a: expected a schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "leads to itself"),
        ({"$ref": "#/$defs/no"}, "leads nowhere"),
        ({"$ref": "http://example.org/x"}, "out of the schema"),
        ({"allOf": [{"type": "null"}, {"type": "null"}]}, "one schema only"),
        ({"type": "string", "format": "email"}, '"format" is supported for date'),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no whole number"),
        ({"type": "integer", "minimum": 2.5}, '"minimum"'),
        ({"type": "string", "maxLength": -1}, '"maxLength"'),
        ({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2}, '"maxItems" is less'),
        ({"enum": []}, '"enum"'),
        ({"const": float("nan")}, "no JSON value"),
        ({"anyOf": []}, '"anyOf"'),
        (True, '"response_format"'),
        (None, '"response_format"'),
    ],
)
def test_what_is_not_supported_is_named(schema: Any, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        response_pattern({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    assert named in str(raised.value) and "\n" not in str(raised.value)


def test_a_schema_that_grows_or_nests_without_end_is_refused() -> None:
    bomb = {f"d{n}": {"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(60)}
    deep: dict[str, Any] = {"type": "null"}
    for _ in range(5000):
        deep = {"anyOf": [deep]}
    for schema in ({"$ref": "#/$defs/d0", "$defs": {**bomb, "d60": {"type": "null"}}}, deep):
        with pytest.raises(UsageError, match=r"too large|too deep"):
            pattern(schema)


def test_whole_numbers_in_a_range() -> None:
    random = np.random.default_rng(1)
    for _ in range(400):
        low, high = sorted(random.integers(-1200, 1200, 2).tolist())
        for least, most in ((low, high), (None, high), (low, None)):
            expression = re.compile(integers(least, most))
            for x in (*random.integers(-15000, 15000, 5).tolist(), low - 1, low, low + 1, high - 1, high, high + 1, 0):
                inside = (least is None or x >= least) and (most is None or x <= most)
                assert bool(expression.fullmatch(str(x))) == inside, (least, most, x)
    assert not re.fullmatch(integers(None, None), "-0") and not re.fullmatch(integers(0, None), "007")
