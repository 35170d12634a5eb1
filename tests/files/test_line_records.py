"""line_records.py: what is escaped comes back, JSON that is no object is refused with its place."""

from __future__ import annotations

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError
from nlptools.files import line_records


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.text(st.sampled_from("ab\\\t\n\rtnr ü")), min_size=1))
def test_escaped_fields_come_back(fields):
    line = "\t".join(map(line_records.escape, fields))
    assert "\n" not in line and "\r" not in line
    assert line_records.fields(line) == fields


def test_unescape_of_what_nobody_escaped():
    assert line_records.unescape("a\\x\\") == "a\\x\\"
    assert line_records.unescape("C:\\\\new") == "C:\\new"


def test_json_objects():
    assert line_records.parse_json_object('{"b": "\\u00fc"}', "g", 2) == {"b": "ü"}
    for bad, said in (("[1]", "found list"), ("", "not valid JSON"), ("{", "not valid JSON"), ("[" * 9999, "JSON")):
        with pytest.raises(DataError, match=rf"g:2: .*{said}"):
            line_records.parse_json_object(bad, "g", 2)
