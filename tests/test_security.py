"""SECURITY.md: each promise names a test that exists."""

from __future__ import annotations

import ast
import re

from conftest import ROOT


def test_each_promise_names_its_tests() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)
    promises = [
        (promise, re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)) for promise, tests in rows if "::" in tests
    ]
    assert len(promises) > 12
    for promise, tests in promises:
        assert tests, promise
        for path, name in tests:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert name in [each.name for each in tree.body if isinstance(each, ast.FunctionDef)], f"{path}::{name}"
