"""Counts of parts add up to the counts of the whole."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nlptools.corpora.counts import Counts
from nlptools.corpora.documents import DocumentCounts
from nlptools.corpora.parallel import ParallelCounts
from nlptools.corpora.token_file import TextCounts


@dataclass(frozen=True)
class Two(Counts):
    first: int = 0
    second: int = 0


def test_counts_add_field_by_field() -> None:
    assert Two(1, 20) + Two(3, 40) == Two(4, 60)


@pytest.mark.parametrize("kind", [TextCounts, DocumentCounts, ParallelCounts])
def test_a_sum_has_the_class_of_its_parts(kind: type[Counts]) -> None:
    assert type(kind() + kind()) is kind and kind() + kind() == kind()
