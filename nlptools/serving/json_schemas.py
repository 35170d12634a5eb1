"""JSON schemas as regular expressions, for `--match`: each match is valid under the schema.

The subset: objects with "properties" (those that are not "required" may be left out; others are never written) or with
"additionalProperties" alone, arrays of "items", strings, numbers, integers in a range, booleans, null, "enum", "const",
"anyOf", "$ref" into the same schema without recursion. Anything else that restricts a value is refused by its name. A text has
one line, its properties in the order of the schema, and at most one space after a colon or a comma.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from nlptools.errors import UsageError, shown
from nlptools.formats.integer_ranges import integers
from nlptools.json_types import Json, JsonObject

_MOST = 20_000  # characters of an expression
_DEPTH = 3  # of objects and arrays inside an object without a schema
_CHARACTER = r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])'
_STRING = f'"{_CHARACTER}*"'
_INTEGER = "-?(?:0|[1-9][0-9]*)"
_NUMBER = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_COLON, _COMMA = ": ?", ", ?"
_DATE = "[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
}
# keywords that say something to people
_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly")
) | {"writeOnly", "$defs", "definitions", "$anchor", "discriminator"}


def response_pattern(response_format: Json) -> str | None:
    """The regular expression for the value of "response_format" in a request; None: any text.

    Raises:
        UsageError: another type than text, json_object and json_schema, or what `pattern` raises.
    """
    asked = response_format if isinstance(response_format, dict) else {}
    kind = asked.get("type")
    if response_format is None or kind == "text":
        return None
    if kind == "json_object":
        return _object_of_anything(_DEPTH)
    named = asked.get("json_schema") if kind == "json_schema" else None
    schema = named.get("schema") if isinstance(named, dict) else None
    if not isinstance(schema, dict):
        raise UsageError(
            'expected {"type": "json_schema", "json_schema": {"name": NAME, "schema": SCHEMA}} under "response_format",'
            ' or the type "json_object" or "text"'
        )
    try:
        return pattern(schema)
    except UsageError as error:
        raise UsageError(f'"response_format": {error}') from None


def pattern(schema: JsonObject) -> str:
    """A regular expression for texts that are valid under `schema`.

    Raises:
        UsageError: the schema is wrong, uses what is not supported, or is too large; the message names the place in it.
    """
    try:
        return _Writer(schema).value(schema, "#", ())
    except RecursionError:
        raise UsageError("the schema is nested too deep") from None


class _Writer:
    def __init__(self, root: JsonObject) -> None:
        self.root = root

    def value(self, schema: Json, place: str, inside: tuple[str, ...]) -> str:
        """The expression for a schema at a place, inside of some references."""
        if not isinstance(schema, dict) or not schema:
            raise UsageError(f"{place}: expected a schema that restricts its values, found {shown(str(schema))}")
        asked = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        written = self._written(asked, place, inside)
        if len(written) > _MOST:  # at each place: references can make it grow exponentially
            raise UsageError(f"{place}: the schema is too large for an automaton")
        return written

    def _written(self, asked: JsonObject, place: str, inside: tuple[str, ...]) -> str:
        for key, write in (("$ref", self._reference), ("anyOf", self._any), ("allOf", self._all)):
            if key in asked:
                _refuse_rest(asked, place, but=(key,))
                return write(asked[key], place, inside)
        for key in ("enum", "const"):
            if key in asked:
                _refuse_rest(asked, place, but=(key, "type"))
                return _literals(key, asked[key], asked, place)
        known = {kind: keys for kind, (keys, _) in self._kinds().items()}
        kinds = asked.pop("type", None)
        if kinds is None:  # the first one that has all the keywords
            _refuse_rest(asked, place, but=[key for keys in known.values() for key in keys])
            kinds = next((kind for kind, keys in known.items() if asked and all(key in keys for key in asked)), None)
        if not isinstance(kinds, list) or not kinds:
            return self._kind(kinds, asked, place, inside)
        _refuse_rest(asked, place, but=[key for kind in kinds for key in known.get(str(kind), ())])
        parts = [{key: asked[key] for key in asked if key in known.get(str(kind), ())} for kind in kinds]
        return _either(self._kind(kind, part, place, inside) for kind, part in zip(kinds, parts, strict=True))

    def _kind(self, kind: Json, asked: JsonObject, place: str, inside: tuple[str, ...]) -> str:
        """The expression for values of one type."""
        if not isinstance(kind, str) or kind not in self._kinds():
            raise UsageError(
                f'{place}: expected one of {", ".join(self._kinds())} under "type", found {shown(str(kind))}'
            )
        keys, write = self._kinds()[kind]
        _refuse_rest(asked, place, but=keys)
        return write(asked, place, inside)

    def _kinds(self) -> dict[str, tuple[Sequence[str], Callable[[JsonObject, str, tuple[str, ...]], str]]]:
        """Types: their keywords, and the method that writes their expression."""
        numbers = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        return {
            "object": (("properties", "required", "additionalProperties"), self._object),
            "array": (("items", "minItems", "maxItems"), self._array),
            "string": (("minLength", "maxLength", "format"), _string),
            "integer": (numbers, _integer),
            "number": ((), lambda *_: _NUMBER),
            "boolean": ((), lambda *_: "(?:true|false)"),
            "null": ((), lambda *_: "null"),
        }

    def _reference(self, name: Json, place: str, inside: tuple[str, ...]) -> str:
        if not isinstance(name, str) or not name.startswith("#"):
            raise UsageError(f'{place}: "$ref" {shown(str(name))} is not supported: it leads out of the schema')
        if name in inside:
            raise UsageError(f'{place}: "$ref" {shown(name)} is not supported: it leads to itself')
        found: Json = self.root
        for step in name.removeprefix("#").split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise UsageError(f'{place}: "$ref" {shown(name)} leads nowhere')
        return self.value(found, name, (*inside, name))

    def _any(self, parts: Json, place: str, inside: tuple[str, ...]) -> str:
        if not isinstance(parts, list) or not parts:
            raise UsageError(f'{place}: expected a list of schemas under "anyOf"')
        return _either(self.value(part, f"{place}/anyOf/{n}", inside) for n, part in enumerate(parts))

    def _all(self, parts: Json, place: str, inside: tuple[str, ...]) -> str:
        if not isinstance(parts, list) or len(parts) != 1:
            raise UsageError(f'{place}: "allOf" is supported for one schema only')
        return self.value(parts[0], f"{place}/allOf/0", inside)

    def _object(self, asked: JsonObject, place: str, inside: tuple[str, ...]) -> str:
        properties, required = asked.get("properties", {}), asked.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise UsageError(f'{place}: expected an object under "properties" and a list under "required"')
        if missing := [str(name) for name in required if name not in properties]:
            raise UsageError(f'{place}: {shown(missing[0])} is "required" and is not in "properties"')
        if not properties:
            others = asked.get("additionalProperties", True)
            if others is False:
                return r"\{\}"
            if others is True:
                return _object_of_anything(_DEPTH)
            return _listed(
                r"\{", f"{_STRING}{_COLON}{self.value(others, f'{place}/additionalProperties', inside)}", r"\}"
            )
        members = [
            (f"{_literal(name)}{_COLON}{self.value(each, f'{place}/properties/{name}', inside)}", name in required)
            for name, each in properties.items()
        ]
        return rf"\{{{_members(members)}\}}"

    def _array(self, asked: JsonObject, place: str, inside: tuple[str, ...]) -> str:
        if "items" not in asked:
            raise UsageError(f'{place}: expected a schema of the items under "items"')
        least, most = _count(asked, "minItems", place) or 0, _count(asked, "maxItems", place)
        item = self.value(asked["items"], f"{place}/items", inside)
        if most is not None and most < least:
            raise UsageError(f'{place}: "maxItems" is less than "minItems"')
        return _listed(r"\[", item, r"\]", least, most)


def _members(members: Sequence[tuple[str, bool]]) -> str:
    """Members of an object in their order, with commas between them; those that are not required may be left out."""
    first = next((n for n, (_, required) in enumerate(members) if required), None)
    if first is not None:
        before = "".join(f"(?:{member}{_COMMA})?" for member, _ in members[:first])
        return before + members[first][0] + _rest(members[first + 1 :])
    return f"(?:{'|'.join(member + _rest(members[n + 1 :]) for n, (member, _) in enumerate(members))})?"


def _rest(members: Sequence[tuple[str, bool]]) -> str:
    return "".join(f"{_COMMA}{member}" if required else f"(?:{_COMMA}{member})?" for member, required in members)


def _listed(begin: str, item: str, end: str, least: int = 0, most: int | None = None) -> str:
    """Items with commas between them."""
    if most == 0:
        return begin + end
    times = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
    inner = f"{item}(?:{_COMMA}{item}){times}"
    return f"{begin}{inner}{end}" if least else f"{begin}(?:{inner})?{end}"


def _object_of_anything(depth: int) -> str:
    """An object with any members, in which objects and arrays are nested `depth` deep at most."""
    value = f"(?:{_STRING}|{_NUMBER}|true|false|null)"
    for _ in range(depth - 1):
        inner = (_listed(r"\[", value, r"\]"), _listed(r"\{", f"{_STRING}{_COLON}{value}", r"\}"))
        value = f"(?:{_STRING}|{_NUMBER}|true|false|null|{'|'.join(inner)})"
    return _listed(r"\{", f"{_STRING}{_COLON}{value}", r"\}")


def _string(asked: JsonObject, place: str, inside: tuple[str, ...]) -> str:
    least, most = _count(asked, "minLength", place), _count(asked, "maxLength", place)
    form = asked.get("format")
    if form is not None:
        if form not in _FORMATS or least is not None or most is not None:
            raise UsageError(f'{place}: "format" is supported for {", ".join(_FORMATS)}, without a length')
        return f'"{_FORMATS[form]}"'
    if least is None and most is None:
        return _STRING
    if most is not None and most < (least or 0):
        raise UsageError(f'{place}: "maxLength" is less than "minLength"')
    return f'"{_CHARACTER}{{{least or 0},{"" if most is None else most}}}"'


def _integer(asked: JsonObject, place: str, inside: tuple[str, ...]) -> str:
    bounds: dict[str, int | None] = {}
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        value = asked.get(key)
        if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or value != int(value)):
            raise UsageError(f'{place}: expected a whole number under "{key}"')
        bounds[key] = None if value is None else int(value)
    low = _outer(max, bounds["minimum"], bounds["exclusiveMinimum"], 1)
    high = _outer(min, bounds["maximum"], bounds["exclusiveMaximum"], -1)
    if low is not None and high is not None and low > high:
        raise UsageError(f"{place}: no whole number is in its range")
    return integers(low, high)


def _outer(choose: Callable[..., int], bound: int | None, exclusive: int | None, step: int) -> int | None:
    """The tighter one of two bounds."""
    bounds = [*([] if bound is None else [bound]), *([] if exclusive is None else [exclusive + step])]
    return choose(bounds) if bounds else None


def _count(asked: Mapping[str, Json], key: str, place: str) -> int | None:
    value = asked.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise UsageError(f'{place}: expected a whole number that is not negative under "{key}"')
    return value


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _literals(key: str, value: Json, asked: Mapping[str, Json], place: str) -> str:
    """The values under "enum", or the one under "const", without values of another "type"."""
    values = value if key == "enum" else [value]
    kinds = asked.get("type")
    if isinstance(values, list) and kinds is not None:
        kinds = kinds if isinstance(kinds, list) else [kinds]
        types = tuple(each for kind in kinds for each in _TYPES.get(str(kind), ()))
        values = [v for v in values if isinstance(v, types) and (not isinstance(v, bool) or bool in types)]
    if not isinstance(values, list) or not values:
        raise UsageError(f'{place}: expected a list of values of its type under "{key}"')
    return _either(map(_literal, values))


def _literal(value: Json) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        text = json.dumps(value)
    except ValueError:
        raise UsageError(f"{shown(str(value))} is no JSON value") from None
    return re.escape(text)


def _either(parts: Iterable[str]) -> str:
    return f"(?:{'|'.join(parts)})"


def _refuse_rest(asked: Mapping[str, Json], place: str, but: Sequence[str]) -> None:
    for key in asked:
        if key not in but:
            raise UsageError(f"{place}: {shown(key)} is not supported here")
