"""Published corpora and tasks, for the tests that want them: they lie in the folder that NLPTOOLS_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def published(folder: str, *more: str) -> Path:
    """The file or folder of that name among the real data; without it the test that asks is skipped."""
    data = os.environ.get("NLPTOOLS_DATA")
    if not data:
        pytest.skip("NLPTOOLS_DATA names no folder")
    path = Path(data, folder, *more)
    if not path.exists():
        pytest.skip(f"no {Path(folder, *more)} where NLPTOOLS_DATA points")
    return path
