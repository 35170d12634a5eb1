"""The laws also hold for an architecture that these tests add to the registry: one row, and nothing else."""

from __future__ import annotations

import pytest
from tiny_models import TOY

from nlptools.models import registry


@pytest.fixture(autouse=True)
def toy_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.ARCHITECTURES, TOY.name, TOY)
