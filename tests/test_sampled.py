"""Tests of which some run each month: all of them have their turn."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import conftest
import pytest
from conftest import LAWS, ROOT, this_month


class Case(SimpleNamespace):
    """A collected test with its marks."""

    nodeid: str
    marks: dict[str, Any]

    def get_closest_marker(self, name: str) -> Any:
        return self.marks.get(name)

    __hash__ = object.__hash__


def cases(name: str, count: int, *args: int, **kwargs: object) -> list[Case]:
    mark = pytest.mark.sampled(*args, **kwargs).mark
    return [Case(nodeid=f"test_a.py::{name}[{i}]", marks={"sampled": mark}) for i in range(count)]


def chosen(items: list[Case], *words: str) -> set[str]:
    """What is left, by name."""
    left, gone = list(items), []
    config = SimpleNamespace(args=words, hook=SimpleNamespace(pytest_deselected=lambda items: gone.extend(items)))
    conftest.pytest_collection_modifyitems(config, left)  # type: ignore[arg-type]
    assert {*left} | {*gone} == {*items} and len(left) + len(gone) == len(items)
    return {item.nodeid.removeprefix("test_a.py::") for item in left}


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(conftest, "ALL", False)
    return monkeypatch


def test_every_item_has_its_turn(sampling: pytest.MonkeyPatch) -> None:
    for total, count in ((1, 1), (7, 2), (12, 4), (59, 15), (3, 5)):
        found = set()
        for month in range(-(-total // count)):
            sampling.setattr(conftest, "MONTH", 24_311 + month)
            chosen = this_month(range(total), count, turn=5)
            assert chosen == sorted({*chosen}) and len(chosen) == min(count, total)
            found |= {*chosen}
        assert found == {*range(total)}


def test_cases_of_a_function_and_of_a_law(sampling: pytest.MonkeyPatch) -> None:
    sampling.setitem(LAWS, "a law", 3)
    few, pinned = cases("few", 7, 2), cases("pinned", 5, 1, always=["3"])
    law = cases("one", 4, law="a law") + cases("another", 1, law="a law")
    slow, plain = cases("slow", 2, 1), [Case(nodeid="test_a.py::plain", marks={})]
    for item in slow:
        item.marks["slow"] = pytest.mark.slow.mark
    items = few + pinned + law + slow + plain
    left = chosen(items, "tests")
    counts = {name: sum(re.split(r"\[", case)[0] == name for case in left) for name in ("few", "slow", "plain")}
    assert counts == {"few": 2, "slow": 2, "plain": 1}
    assert "pinned[3]" in left and sum(case.startswith("pinned") for case in left) == 2
    assert sum(case.startswith(("one", "another")) for case in left) == 3
    assert len(chosen(items, "tests/a.py::test_few")) == len(chosen(items, "tests/a.py")) == len(items)
    sampling.setattr(conftest, "ALL", True)
    assert len(chosen(items)) == len(items)


def test_laws_are_those_that_tests_name() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    named = {law for text in texts for law in re.findall(r'^@pytest\.mark\.sampled\(law="(.*)"\)$', text, re.MULTILINE)}
    assert named == {*LAWS}
