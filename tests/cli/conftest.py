"""What the tests of several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are slower on several threads."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer of words, with a context of 24 tokens. Tests read it and leave it as it is."""
    return words_bundle(tmp_path_factory.mktemp("words") / "lm")


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of words with the heads of pretraining, which sees 12 tokens. Tests read it and leave it as it is."""
    return encoder_bundle(tmp_path_factory.mktemp("bert") / "bert", heads=("pooler", "masked", "next_sentence"))
