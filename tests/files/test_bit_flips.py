"""Every flipped bit in a directory of a model is found by the sums in its manifest, in the manifest itself too."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from conftest import Record, Run
from tiny_bundles import words_bundle

from nlptools.errors import BundleError
from nlptools.files import artifacts

Place = tuple[Path, int]  # a file, and the number of one of its bits


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a checkpoint."""
    directory = words_bundle(tmp_path_factory.mktemp("flips") / "lm")
    (directory / "checkpoints").mkdir()
    words_bundle(directory / "checkpoints" / "1")
    return directory


def files(model: Path) -> list[Path]:
    listed = [model / name for name in artifacts.verify_all(model)]
    return [*listed, *model.rglob(artifacts.MANIFEST)]


def flip(path: Path, bit: int) -> None:
    with open(path, "r+b") as stream:
        stream.seek(bit // 8)
        [byte] = stream.read(1)
        stream.seek(bit // 8)
        stream.write(bytes([byte ^ 1 << bit % 8]))


def draw(model: Path, count: int) -> list[Place]:
    """Bits of all files, small and large ones alike."""
    chosen = random.Random(7)
    found = files(model)
    return [(path, chosen.randrange(8 * path.stat().st_size)) for path in chosen.choices(found, k=count)]


def missed(model: Path, places: list[Place]) -> list[Place]:
    """The flips that `verify_all` does not find."""
    left = []
    for path, bit in places:
        flip(path, bit)
        try:
            artifacts.verify_all(model)
            left.append((path, bit))
        except BundleError:
            pass
        flip(path, bit)
    artifacts.verify_all(model)
    return left


def test_a_hundred_flips(model: Path) -> None:
    assert {path.name for path in files(model)} >= {"config.json", "model.safetensors", "manifest.json", "vocab.tsv"}
    assert missed(model, draw(model, 100)) == []


@pytest.mark.slow
def test_a_thousand_flips_and_all_of_the_manifest(model: Path, record_property: Record) -> None:
    manifest = model / artifacts.MANIFEST
    record_property("count", 1000 + 8 * manifest.stat().st_size)
    assert missed(model, draw(model, 1000)) == []
    assert missed(model, [(manifest, bit) for bit in range(8 * manifest.stat().st_size)]) == []


def test_the_command_says_what_is_damaged(call: Run, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "lm")
    done = call("describe", "--verify", "lm")
    assert done.code == 0 and "model.safetensors\tok" in done.lines and "checkpoints/1/config.json\tok" in done.lines
    for name in ("model.safetensors", "checkpoints/1/model.safetensors"):
        flip(tmp_path / "lm" / name, 12345)
        done = call("describe", "--verify", "lm")
        assert (done.code, done.out) == (78, b"") and f"lm/{name}: damaged: its SHA-256" in done.err
        flip(tmp_path / "lm" / name, 12345)
    (tmp_path / "lm" / "manifest.json").unlink()
    done = call("describe", "--verify", "lm")
    assert done.code == 78 and "lm: no manifest.json" in done.err
