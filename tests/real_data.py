"""Published corpora and tasks, for the tests that want them: they lie in the folder that NLPTOOLS_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def published(*parts: str) -> Path:
    """The file or folder of that name among the real data; without it the test that asks is skipped."""
    folder = os.environ.get("NLPTOOLS_DATA")
    if not folder:
        pytest.skip("NLPTOOLS_DATA names no folder")
    path = Path(folder, *parts)
    if not path.exists():
        pytest.skip(f"no {Path(*parts)} where NLPTOOLS_DATA points")
    return path
