"""--force: the earlier run is there again unless the new one has saved something, also after a crash at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from pathlib import Path

import pytest
from conftest import Run
from faulty_command import SIGNALS
from toy_trainers import TRAINERS, data

from nlptools import bundle
from nlptools.errors import BundleError
from nlptools.files import artifacts, directory_lock, hub_cache, replaced_run, run_paths
from nlptools.files.input_parts import InputPart
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.run_state import RUNNING, STOPPED, run_state
from nlptools.vectors.files.formats import load as vectors

PROGRAM = Path(__file__).parents[2] / "faulty_command.py"
TRAIN = [*shlex.split(TRAINERS["train-lm"]), "-o", "lm"]
OTHER = [*TRAIN, "--force", "--seed", "2"]


class Crash(BaseException):
    """What no code catches."""


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def trained(tmp_path: Path, call: Run) -> dict[str, bytes]:
    """The files of a finished run in `tmp_path`/lm."""
    data(tmp_path)
    assert call(*TRAIN).code == 0
    return contents(tmp_path / "lm")


def run_of(directory: Path, text: str, saved: bool) -> dict[str, bytes]:
    """The files of a made-up run, with one in a folder."""
    for name in ("model.safetensors", "generator/config.json", "log.jsonl", "data/ids", "training.json"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text if name != "training.json" else '{"status": "running"}')
    if saved:
        (directory / "checkpoints/step-000002").mkdir(parents=True)
        (directory / "checkpoints/step-000002/state.json").write_text(text)
    artifacts.write_manifest(directory, ["model.safetensors", "generator/config.json", "training.json"])
    return contents(directory)


def crashes(patch: pytest.MonkeyPatch, after: int) -> None:
    """The process ends when it has moved or removed `after` more files."""
    left = [after]

    def counted(real):
        def action(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return real(*args, **kwargs)

        return action

    for name in ("rename", "unlink"):
        patch.setattr(Path, name, counted(getattr(Path, name)))


def test_no_crash_loses_a_run(tmp_path: Path) -> None:
    for after in range(40):
        place = tmp_path / str(after)
        old = run_of(place, "old", saved=True)
        with pytest.MonkeyPatch.context() as patch:
            crashes(patch, after)
            try:
                replaced_run.set_aside(place)
                run_of(place, "new", saved=False)
                replaced_run.settle(place)
            except Crash:
                pass
            else:
                break
        replaced_run.settle(place)
        assert contents(place) == old and not (place / replaced_run.REPLACED).exists(), after
    assert 15 < after < 39, "crashes at every move there and back, and at every removal"
    assert contents(place) == old


def test_readers_wait_for_no_one(tmp_path: Path) -> None:
    """While the new run is at work, they are told where the model is; after a crash they find it in its place."""
    old = run_of(tmp_path / "lm", "old", saved=True)
    replaced_run.set_aside(tmp_path / "lm")
    run_of(tmp_path / "lm", "new", saved=False)
    (tmp_path / "lm/manifest.json").unlink()
    with directory_lock.locked(tmp_path / "lm"):
        for read in (hub_cache.locate, bundle.load, vectors):
            with pytest.raises(BundleError, match="a run of training is replacing the model") as raised:
                read(str(tmp_path / "lm"))
            assert f"{tmp_path}/lm/.replaced has the model before" in str(raised.value.hint)
        assert run_state(str(tmp_path / "lm")) == RUNNING
    assert hub_cache.locate(tmp_path / "lm") == tmp_path / "lm" and contents(tmp_path / "lm") == old


def test_a_file_of_the_run_is_read_after_a_crash(tmp_path: Path, call: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any name, and by every command that opens a file; --force puts the model away, and the new run is killed."""
    files = {
        "tokenizer.json": b"",
        "words.txt": b"a b\n",
        "vocab.tsv": b"<unk>\t1\na\t2\n",
        "a.vec": b"1 2\na 1 2\n",
        "log.jsonl": b'{"kind": "train", "step": 1, "loss": 2.5}\n' * 2,
        "layers.json": b"[0.5, 0.5]\n",
        "checkpoints/step-000001/words.txt": b"a b\n",
    }
    run = tmp_path / "lm"
    (run / "checkpoints/step-000001").mkdir(parents=True)
    del files["tokenizer.json"]
    for name, content in files.items():
        (run / name).write_bytes(content)
    (run / "training.json").write_text('{"status": "finished"}')
    artifacts.write_manifest(run, [name for name in files if "/" not in name and name != "log.jsonl"])
    (tmp_path / "link").symlink_to("lm/words.txt")
    monkeypatch.chdir(tmp_path)
    for words in (
        "tokenize -t words lm/words.txt",
        "tokenize -t words link",
        "tokenize -t words lm/checkpoints/step-000001/words.txt",
        "tokenize -t lm/vocab.tsv text",
        "tokenize -t words --vocab lm/vocab.tsv text",
        "neighbors lm/a.vec -k 1 text",
        "convert lm/a.vec - --to word2vec",
        "describe lm/a.vec",
        "plot lm",
        "plot lm/log.jsonl",
        "plot --layers lm/layers.json -o layers.png --force",
    ):
        (tmp_path / "text").write_text("a\n")
        expected = call(*words.split())
        assert expected.code == 0, expected.err
        replaced_run.set_aside(run)
        artifacts.write_json(run / "training.json", {"status": "reading"})
        found = call(*words.split())
        assert (found.code, found.out) == (0, expected.out) and "the run that it replaced is back" in found.err, (
            words,
            found,
        )
    replaced_run.set_aside(run)
    artifacts.write_json(run / "training.json", {"status": "running"})
    (run / "log.jsonl").write_bytes(files["log.jsonl"])
    with directory_lock.locked(run):
        assert call("plot", "lm").code == 0, "the log of the run at work"
        assert "is replacing the model" in call("tokenize", "-t", "words", "lm/words.txt").err
        assert call("tokenize", "-t", "words", f"lm/{replaced_run.REPLACED}/words.txt").code == 0


def test_a_folder_of_this_name_that_is_no_run_stays(tmp_path: Path) -> None:
    (tmp_path / ".replaced/folder").mkdir(parents=True)
    (tmp_path / ".replaced/file").write_text("kept")
    (tmp_path / "text").write_text("a\n")
    for path in ("text", "folder/text", "."):
        run_paths.restore(tmp_path / path)
    run_paths.restore(InputPart("text", 0))  # Path takes no name that is a subclass of str
    replaced_run.settle(tmp_path)
    replaced_run.drop(tmp_path)
    assert {*contents(tmp_path)} == {".replaced/file", "text"}


def test_links_of_a_directory_from_elsewhere_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    run_of(outside, "outside", saved=False)
    (outside / "sub/inner").mkdir(parents=True)
    (outside / "sub/inner/file").write_text("kept")
    before = contents(outside)
    for number, linked in enumerate((".replaced", "linked", ".replaced/linked")):
        directory = tmp_path / f"lm{number}"
        for place in (directory, directory / ".replaced") if number else (directory,):
            run_of(place, "inside", saved=False)
            manifest = json.loads((place / "manifest.json").read_text())
            for name in ("linked/sub", "linked/log.jsonl", "linked/data"):
                manifest["files"][name] = {"bytes": 1, "sha256": "0" * 64}
            (place / "manifest.json").write_text(json.dumps(manifest))
        (directory / linked).symlink_to(outside)
        if number:
            other = directory / ("linked" if linked != "linked" else ".replaced/linked")
            (other / "sub").mkdir(parents=True)
            (other / "new").write_text("moved?")
        replaced_run.restore(directory)
        replaced_run.clear(directory)
        assert contents(outside) == before, linked


def test_a_run_that_has_saved_something_stays(tmp_path: Path) -> None:
    run_of(tmp_path, "old", saved=False)
    replaced_run.set_aside(tmp_path)
    run_of(tmp_path, "new", saved=True)
    replaced_run.settle(tmp_path)
    assert {*contents(tmp_path).values()} & {b"old", b"new"} == {b"new"} and not (
        tmp_path / replaced_run.REPLACED
    ).exists()


def test_a_crash_while_the_old_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files do not come back into the new run."""
    for after in range(20):
        place = tmp_path / str(after)
        run_of(place, "old", saved=True)
        (place / "checkpoints/step-000009").mkdir()
        replaced_run.set_aside(place)
        new, left = {name: data for name, data in run_of(place, "new", saved=True).items() if name[0] != "."}, [after]

        def unlink(*args, real=os.unlink, left=left, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise Crash
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", unlink)
            patch.setattr(Path, "unlink", lambda path, missing_ok=False: unlink(path))
            with contextlib.suppress(Crash):
                replaced_run.drop(place)
        run_paths.restore(place)
        replaced_run.settle(place)
        assert contents(place) == new and not (place / "checkpoints/step-000009").exists(), after
        if left[0] >= 0:
            break
    assert 5 < after < 19


def test_errors_before_the_first_checkpoint(
    tmp_path: Path, call: Run, trained: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad").write_bytes((tmp_path / "text").read_bytes() + b"\xff\n")
    assert call(*OTHER, "bad").code == 65
    assert contents(tmp_path / "lm") == trained
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", lambda *args: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert call(*OTHER).code == 74
    assert contents(tmp_path / "lm") == trained
    assert call(*OTHER).code == 0
    after = contents(tmp_path / "lm")
    assert after != trained and not any(replaced_run.REPLACED in name for name in after)


@pytest.mark.sampled(law="signals and failures")
def test_signals_and_crashes_of_a_process(tmp_path: Path, fork: Run, trained: dict[str, bytes]) -> None:
    for fault in ("TERM", "KILL"):
        done = fork(PROGRAM, fault, "spool", tmp_path / fault, *OTHER)
        assert done.code == -SIGNALS[fault], (fault, done.err)
        if fault == "KILL":  # nothing can be done before the next command
            refused = fork(*TRAIN, "--seed", "3")
            assert refused.code == 73 and "holds a run with other settings (seed)" in refused.err
            assert fork(PROGRAM, fault, "spool", tmp_path / "again", *OTHER).code == -SIGNALS[fault]
            shown = fork("describe", "lm")
            assert shown.code == 0 and "the run that it replaced is back" in shown.err, shown.err
        assert contents(tmp_path / "lm") == trained, fault
    assert (
        fork(PROGRAM, "KILL", "save", tmp_path / "saved", *OTHER).code == -SIGNALS["KILL"]
    )  # after the first checkpoint
    with pytest.raises(BundleError, match="no model: its run of training was killed"):
        bundle.load(tmp_path / "lm")
    assert hub_cache.locate(tmp_path / "lm" / replaced_run.REPLACED) and run_state(str(tmp_path / "lm")) == STOPPED
    assert fork(*OTHER, "--resume", "must").code == 0
    assert contents(tmp_path / "lm") != trained and not (tmp_path / "lm" / replaced_run.REPLACED).exists()
