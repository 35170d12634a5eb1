"""Private names of PyTorch: where they may stand, and that the installed version has them."""

from __future__ import annotations

import re
from functools import reduce

import pytest
import torch
from conftest import ROOT

PACKAGE = ROOT / "nlptools"
NAME = re.compile(r"\btorch\.(?:\w+\.)*_(?!_)\w+(?:\.\w+)*|\btorch\.ops\.\w+\.\w+(?:\.\w+)?")
USES = sorted(
    {
        (name, path.relative_to(PACKAGE).as_posix())
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").split("\n")
        for name in NAME.findall(line.split("#")[0])
        if "`" not in line and "getLogger" not in line
    }
)


def test_this_version_of_pytorch_has_every_private_name():
    assert len(USES) > 10
    missing = []
    for name, place in USES:
        try:
            reduce(getattr, name.split(".")[1:], torch)
        except AttributeError:
            missing.append(f"PyTorch {torch.__version__} has no {name}, which {place} uses: look for its successor")
    if missing:
        pytest.fail("\n".join(missing))


def test_private_names_stand_in_kernels_and_optimizers():
    places = ("compute/kernels/", "training/engine/")
    assert not [(name, place) for name, place in USES if not place.startswith(places)]
