"""One item ahead: order, errors in their place, and no more than one ahead."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from nlptools.files.prefetch import one_ahead


def test_items_come_in_order() -> None:
    assert list(one_ahead(range(100))) == list(range(100))
    assert list(one_ahead([])) == []


def test_an_error_comes_after_what_was_made_before_it() -> None:
    def make() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("three")

    found = []
    with pytest.raises(KeyError, match="three"):
        for item in one_ahead(make()):
            found.append(item)
    assert found == [1, 2]


def test_the_next_item_is_made_meanwhile_but_not_the_whole_rest() -> None:
    started = [threading.Event() for _ in range(10)]

    def make() -> Iterator[int]:
        for i, event in enumerate(started):
            event.set()
            yield i

    items = one_ahead(make())
    assert next(items) == 0
    assert started[1].wait(10)
    assert not started[5].is_set()


def test_a_thread_that_waits_for_room_ends_with_its_caller() -> None:
    before = set(threading.enumerate())
    items = one_ahead(itertools.count())
    assert next(items) == 0
    (thread,) = set(threading.enumerate()) - before
    items.close()
    thread.join(10)
    assert not thread.is_alive()
