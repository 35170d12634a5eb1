"""Checkpoints: whole or not at all; damaged ones are noticed and the one before is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nlptools import errors
from nlptools.files import atomic
from nlptools.training.engine.checkpoint import Checkpoints


def save(checkpoints: Checkpoints, step: int, held: tuple[int, ...] = ()) -> Path:
    return checkpoints.save(step, {"w": torch.full((50,), float(step))}, {"s": torch.zeros(3)}, {"step": step}, held)


def test_two_are_kept_and_those_that_are_held(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3, 4):
        save(checkpoints, step, held=(1,))
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-000001", "step-000003", "step-000004"]
    found = checkpoints.load_last()
    assert found is not None and found[2] == {"step": 4} and found[0]["w"][0] == 4


def test_every_damage_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    newest = save(checkpoints, 2)
    for name in ("weights.safetensors", "state.safetensors", "state.json", "manifest.json"):
        file = newest / name
        good = file.read_bytes()
        for bad in (good[:-3], good[: len(good) // 2], b"", bytes([*good[:-9], good[-9] ^ 4, *good[-8:]])):
            file.write_bytes(bad)
            found = checkpoints.load_last()
            assert found is not None and found[2] == {"step": 1}, (name, len(bad))
            assert "damaged" in capsys.readouterr().err
        file.unlink()
        found = checkpoints.load_last()
        assert found is not None and found[2] == {"step": 1}
        file.write_bytes(good)
    found = checkpoints.load_last()
    assert found is not None and found[2] == {"step": 2}


def test_what_is_held_is_kept_as_long_as_it_is(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 6):
        checkpoints.save(step, {"w": torch.zeros(1)}, {"s": torch.zeros(1)}, {}, held=[1, 2] if step < 5 else [2])
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-000002", "step-000004", "step-000005"]


def test_a_damaged_checkpoint_is_written_again(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path, keep=2), 1)
    newest = save(Checkpoints(tmp_path, keep=2), 2)
    (newest / "weights.safetensors").write_bytes(b"")
    save(Checkpoints(tmp_path, keep=2), 2)
    assert Checkpoints(tmp_path, keep=2).weights(2)["w"][0] == 2
    before = (newest / "state.json").stat().st_mtime_ns
    save(Checkpoints(tmp_path, keep=2), 2)
    assert (newest / "state.json").stat().st_mtime_ns == before, "an intact one stays as it is"


@pytest.mark.parametrize("call", range(1, 12))
def test_a_write_that_fails_leaves_what_was_there(call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the first, second, ... thing that is written or renamed."""
    import os

    checkpoints = Checkpoints(tmp_path, keep=2)
    save(checkpoints, 1)
    calls = 0

    def failing(real):  # type: ignore[no-untyped-def]
        def wrapper(*args, **kwargs):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            if calls == call:
                raise OSError(28, "No space left on device")
            return real(*args, **kwargs)

        return wrapper

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    try:
        save(checkpoints, 2)
        failed = False
    except errors.StreamError as error:
        failed = True
        assert "space" in str(error).lower()
    monkeypatch.undo()
    found = Checkpoints(tmp_path, keep=2).load_last()
    assert found is not None
    if failed:
        assert found[2]["step"] in (1, 2)  # renamed, but its directory not yet synced: whole either way
        assert not list((tmp_path / "checkpoints").glob(".tmp-*"))
    else:
        assert calls < call and found[2] == {"step": 2}


def test_write_whole_keeps_the_old_file_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    atomic.write_whole(tmp_path / "f", "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(errors.StreamError):
        atomic.write_whole(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["f"]
