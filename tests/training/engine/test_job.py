"""What all training commands share, on the smallest thing that can be trained: whether a number is above a half."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults import Fault, Killed

from nlptools import errors, messages
from nlptools.batches.source import BatchSource
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.files import artifacts, directory_lock
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine import job, run_directory
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.objective import Objective

ACCURACY = Criterion("accuracy", higher_is_better=True)
COMPUTE = Compute(device="cpu", precision="fp32", threads=1)


class Model(torch.nn.Module):
    runs_in_16_bits = False

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 2)


class Loss(Objective):
    def counts(self, batch: Any) -> dict[str, int]:
        return {"loss": len(batch[0])}

    def arrays(self, batch: Any) -> Any:
        return batch

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.cross_entropy(self.model.line(x), y, reduction="sum")}


class Points(BatchSource):
    """Batches without end, and what a task says of its data."""

    batches_per_epoch, rate = 2.5, 1.0

    def __init__(self, path: Path) -> None:
        self.path, self.position = path, 0
        x = np.load(path)
        self.x, self.y = x[:, None], (x > 0.5).astype("int64")

    @property
    def epoch(self) -> float:
        return self.position / self.batches_per_epoch

    def __iter__(self) -> Iterator[Any]:
        while True:
            self.position += 1
            chosen = np.random.default_rng(self.position).integers(len(self.x), size=8)
            yield self.x[chosen], self.y[chosen]

    def state(self) -> dict[str, Any]:
        return {"position": self.position}

    def restore(self, state: dict[str, Any]) -> None:
        self.position = state["position"]

    def digests(self) -> dict[str, str | None]:
        return {"points": artifacts.sha256(self.path)}

    def paths(self) -> list[str | None]:
        return [str(self.path)]

    def record(self) -> dict[str, Any]:
        return {"points": {"count": len(self.x)}}


@dataclass
class Halves:
    """A `Task` that counts examples and is judged by accuracy."""

    points: int = 20
    scale: float = 1.0
    unit: str = "examples"
    criterion: Criterion = ACCURACY
    measures: tuple[str, ...] = ("loss", "accuracy")

    def settings(self) -> dict[str, Any]:
        return {"scale": self.scale}

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> Points:
        np.save(directory / "points.npy", np.linspace(0, 1, self.points, dtype="float32"))
        return Points(directory / "points.npy")

    def open(self, paths: list[str | None]) -> Points:
        return Points(Path(str(paths[0])))

    def announce(self, data: Points, seconds: float) -> None:
        pass

    def model(self) -> Model:
        torch.manual_seed(3)
        return Model()

    def objective(self, model: Any) -> Loss:
        return Loss(model)

    def source(self, data: Points, model: Any, backend: Backend) -> Any:
        return data

    def evaluate(self, data: Points, backend: Backend) -> Any:
        def evaluate(model: Any, stop: Any) -> dict[str, float]:
            logits, y = model.line(torch.from_numpy(data.x)), torch.from_numpy(data.y)
            return {
                "loss": float(torch.nn.functional.cross_entropy(logits, y)),
                "accuracy": float((logits.argmax(1) == y).float().mean()),
            }

        return evaluate

    def save(self, directory: Path, model: Any, weights: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        artifacts.save_tensors(directory / "model.safetensors", weights)
        artifacts.write_json(directory / "training.json", record)
        artifacts.write_manifest(directory, ["model.safetensors", "training.json"])

    def advice(self, name: str) -> str:
        return f"halve {name}"


def training(place: Path, **changes: Any) -> Training:
    run = Training(output=str(place / "run"), lr=0.3, warmup=0, weight_decay=0.0, valid_every="10", steps=60)
    return replace(run, **changes)


def test_another_task_has_its_own_unit_criterion_and_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages.settings.verbose = True
    trained = run_job(Halves(), training(tmp_path), COMPUTE, {"argv": ["halve"]})
    record = json.loads((tmp_path / "run/training.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().split("\n") if line]
    best = max(row["accuracy"] for row in rows if row["kind"] == "valid")
    assert record["status"] == "finished" and record["metrics"] == trained.metrics
    assert trained.metrics["valid_accuracy"] == best > 0.8 and trained.metrics["examples"] == 480
    assert {"examples", "examples_per_second"} <= rows[0].keys() and "tokens" not in rows[0]
    assert record["fingerprint"]["scale"] == 1.0 and record["data"] == {"points": {"count": 20}}
    err = capsys.readouterr().err
    assert f"accuracy {best:.4f} (step " in err and "examples/s" in err and f"try: halve {tmp_path / 'run'}" in err


def test_steps_come_from_the_batches_of_an_epoch(tmp_path: Path) -> None:
    assert run_job(Halves(), training(tmp_path, steps=0, epochs=10), COMPUTE).steps == 25
    assert run_job(Halves(), training(tmp_path, steps=0, epochs=30), COMPUTE).steps == 75, "a longer run goes on"


def test_the_loss_and_the_metric_come_first_and_speed_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(Halves(), training(tmp_path, log_every="1", steps=12), COMPUTE)
    first, *_, last = [line for line in capsys.readouterr().err.split("\n") if re.match(r"step \d+/12 ", line)]
    assert re.fullmatch(r"step 1/12  loss \d\.\d{4}  0:00:\d\d left", first), "the first one knows what is left"
    assert re.fullmatch(r"step 12/12  loss \d\.\d{4}  valid accuracy \d\.\d{4}  0:00:00 left", last)
    messages.settings.verbose = True
    run_job(Halves(), training(tmp_path, force=True), COMPUTE)
    said = capsys.readouterr().err
    assert re.search(r"^step 1/60  loss \d\.\d{4}  lr 3\.00e-01  [\d,]+ examples/s  0:00:\d\d left$", said, re.M)


def test_the_bar_looks_like_those_of_other_commands_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nlptools.training.engine.log.BAR_SECONDS", 0.0)
    messages.settings.progress, messages.settings.command = "always", "halve"
    run_job(Halves(), training(tmp_path), COMPUTE)
    said = capsys.readouterr().err
    drawn = [part for part in re.findall(r"\r\x1b\[K([^\r\n]*)", said) if part.startswith("halve  [")]
    steps = [int(match[1]) for part in drawn if (match := re.search(r"step (\d+)/60", part))]
    assert sorted(set(steps)) == list(range(1, 61)), "it moves with each step, not with each report"
    assert any(part.startswith("halve  [==========          ]  50%  step 30/60  loss ") for part in drawn)
    screen: list[str] = [""]  # what a terminal shows in the end
    for part in re.split(r"(\r\x1b\[K|\n)", said):
        if part == "\n":
            screen.append("")
        else:
            screen[-1] = "" if part.startswith("\r") else screen[-1] + part
    assert not any("[=" in line or "left" in line for line in screen)
    assert sum(line.startswith("step ") and "validation loss" in line for line in screen) == 6


def test_no_epochs_are_no_steps(tmp_path: Path) -> None:
    """The initial weights are saved, and measured."""
    run = training(tmp_path, steps=0, epochs=0.0)
    trained = run_job(Halves(), run, COMPUTE)
    rows = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().split("\n") if line]
    assert [(row["kind"], row["step"]) for row in rows] == [("valid", 0)]
    assert trained.steps == 0 and trained.metrics["valid_accuracy"] == rows[0]["accuracy"]
    saved = artifacts.load_tensors(tmp_path / "run/model.safetensors")
    assert all(torch.equal(saved[name], weight) for name, weight in Halves().model().state_dict().items())
    assert run_job(Halves(), run, COMPUTE).metrics == trained.metrics, "a run that has ended"
    assert run_job(Halves(), replace(run, epochs=0.01), COMPUTE).steps == 1, "a part of an epoch is a step"


def test_a_run_that_is_finished_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = training(tmp_path, steps=5)
    trained = run_job(Halves(), run, COMPUTE)
    said = f"{tmp_path / 'run'}: the run is finished already; --force repeats it\n"
    assert said not in capsys.readouterr().err
    left = tmp_path / "run/.model.safetensors.0a1b2c3d"
    left.write_bytes(b"half of it")
    left.chmod(0o600)
    assert run_job(Halves(), run, COMPUTE).metrics == trained.metrics
    assert said in capsys.readouterr().err and not left.exists()
    run_job(Halves(), replace(run, steps=6), COMPUTE)
    assert said not in capsys.readouterr().err


def test_a_run_goes_on_with_the_same_settings_and_data_only(tmp_path: Path) -> None:
    run = training(tmp_path, steps=5)
    run_job(Halves(), run, COMPUTE)
    with pytest.raises(errors.OutputError, match=r"other settings \(scale\)"):
        run_job(Halves(scale=2.0), run, COMPUTE)
    with pytest.raises(errors.OutputError, match="other text"):
        run_job(Halves(points=21), run, COMPUTE)
    assert run_job(Halves(), replace(run, average=2, keep=3), COMPUTE).steps == 5
    path = tmp_path / "run/training.json"
    record = json.loads(path.read_text())
    off = next(key for key, value in record["fingerprint"].items() if value == 0)
    for forgotten, fits in ((off, True), ("scale", False)):  # as a run that was begun before there was this option
        kept = {key: value for key, value in record["fingerprint"].items() if key != forgotten}
        path.write_text(json.dumps({**record, "fingerprint": kept}))
        if fits:
            assert run_job(Halves(), run, COMPUTE).steps == 5
        else:
            with pytest.raises(errors.OutputError, match=r"other settings \(scale\)"):
                run_job(Halves(), run, COMPUTE)


def test_an_option_that_is_newer_than_a_run_counts_as_its_default(tmp_path: Path) -> None:
    marks = {"lr": 1.0, "optimizer": "adamw", "document": "line"}
    artifacts.write_json(tmp_path / "training.json", {"status": "stopped", "fingerprint": {"lr": 1.0}})

    def before(defaults: dict[str, object], **changed: object) -> object:
        settings = run_directory.RunSettings({**marks, **changed}, defaults=defaults)
        return run_directory.previous(tmp_path, "auto", False, settings)

    assert before({"optimizer": "adamw", "document": "line"}) is not None
    assert before({"optimizer": "adamw", "document": "line"}, document="") is not None, "off"
    with pytest.raises(errors.OutputError, match=r"other settings \(document\)"):
        before({"optimizer": "adamw"})
    with pytest.raises(errors.OutputError, match=r"other settings \(optimizer\)"):
        before({"optimizer": "adamw", "document": "line"}, optimizer="muon")
    with pytest.raises(errors.OutputError, match=r"other settings \(lr\)"):
        before({"lr": 2.0, "optimizer": "adamw", "document": "line"}, lr=2.0)


@pytest.mark.parametrize("taken", [True, False])
def test_the_bundle_holds_the_mean_or_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    calls = iter([0.1, 0.9, 0.2, 0.3, 0.95 if taken else 0.85])
    monkeypatch.setattr(Halves, "evaluate", lambda *_: lambda model, stop: {"loss": 1.0, "accuracy": next(calls)})
    trained = run_job(Halves(), training(tmp_path, steps=40, average=3), COMPUTE)
    kept = {step: artifacts.load_tensors(tmp_path / f"run/checkpoints/step-{step:06d}/weights.safetensors")
            for step in (20, 30, 40)}  # fmt: skip
    weights = artifacts.load_tensors(tmp_path / "run/model.safetensors")
    for name, tensor in weights.items():
        mean = torch.stack([part[name].double() for part in kept.values()]).mean(0).float()
        assert torch.equal(tensor, mean if taken else kept[20][name]), name
    value = 0.95 if taken else 0.85
    assert trained.metrics["average"] == {"steps": [20, 30, 40], "taken": taken, "loss": 1.0, "accuracy": value}
    assert trained.metrics["valid_accuracy"] == (0.95 if taken else 0.9)
    err = capsys.readouterr().err
    assert f"mean of the weights of steps 20, 30, 40: validation accuracy {value:.4f}" in err
    assert "best single step 20: 0.9000" in err and ("saved the mean" in err) == taken


def test_the_kept_step_is_named_and_a_long_warm_up_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([0.12345, 0.9, 0.2, 0.3, 0.5])
    monkeypatch.setattr(Halves, "evaluate", lambda *_: lambda model, stop: {"loss": 1.0, "accuracy": next(calls)})
    run_job(Halves(), training(tmp_path, steps=40, warmup=40.0), COMPUTE)
    err = capsys.readouterr().err
    assert "step 10: validation loss 1.0000, accuracy 0.1235" in err
    assert ", validation accuracy 0.9000 (step 20)" in err
    assert "--warmup 40 is longer than the run of 40 steps" in err
    run_job(Halves(), training(tmp_path, steps=2, force=True), COMPUTE)
    assert "--warmup" not in capsys.readouterr().err


SHORT = {"steps": 6, "valid_every": "2", "save_every": "3"}  # the loss falls: each validation is the best so far


def lowest(place: Path, **changes: Any) -> Trained:
    """A short run that ends with the weights of the lowest loss."""
    return run_job(Halves(criterion=LOSS), training(place, **SHORT, **changes), COMPUTE)


@pytest.mark.sampled(law="signals and failures")
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "EIO"])
def test_a_run_that_fails_at_any_rename_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    whole = lowest(tmp_path / "whole")
    expected = (tmp_path / "whole/run/model.safetensors").read_bytes()
    for at in range(1, 1000):
        place = tmp_path / str(at)
        with monkeypatch.context() as patch:
            fault = Fault(patch, at, kill=kill, names=("replace",))
            with contextlib.suppress(Killed, errors.NlptoolsError, OSError):
                lowest(place)
        if not fault.happened:
            assert at > 15, "training.json twice, four files and a name for each of three checkpoints, the bundle"
            break
        trained = lowest(place)
        assert (place / "run/model.safetensors").read_bytes() == expected, fault.where
        assert {**trained.metrics, "seconds": 0} == {**whole.metrics, "seconds": 0}, fault.where


@pytest.mark.sampled(law="signals and failures")
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "EIO"])
def test_a_run_that_fails_while_it_begins_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    """At any change of the file system until training begins; then with the record of what is there already."""
    for at in range(1, 1000):
        place = tmp_path / str(at)
        place.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(job, "fit", lambda *_, **__: pytest.fail("begins to train"))
            fault = Fault(patch, at, kill=kill)
            with contextlib.suppress(Killed, errors.NlptoolsError, OSError, pytest.fail.Exception):
                lowest(place)
        if not fault.happened:
            assert at > 8
            break
        assert lowest(place).steps == 6, fault.where
        assert not (place / "run/.lock").exists()


def test_a_run_without_text_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spool(task: Halves, directory: Path, backend: Backend, held_out: bool) -> Points:
        (directory / "half").write_text("x")
        raise errors.DataError("no training data")

    monkeypatch.setattr(Halves, "spool", spool)
    with pytest.raises(errors.DataError):
        lowest(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(errors.DataError):
        lowest(tmp_path / "new" / "place")
    assert not list(tmp_path.iterdir()), "nor its parents"
    (tmp_path / "run").mkdir()
    with pytest.raises(errors.DataError):
        lowest(tmp_path)
    assert not list((tmp_path / "run").iterdir()), "a directory that was there stays"


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_of_somebody_else_is_left_as_it_is(tmp_path: Path, force: bool) -> None:
    others = (
        "data/train.bin",
        "checkpoints/mine",
        "tensorboard/mine",
        ".training.json.notes",
        "log.jsonl",
        "training.json",
    )
    for name in (*others, ".lock"):
        directory = tmp_path / name.replace("/", "-") / "run"
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text('{"precious": 1}')
        if name == ".lock":
            (directory / "other").write_text("precious")
        before = {path for path in directory.rglob("*") if path.name != ".lock"}
        with pytest.raises(errors.OutputError, match="exists and holds no training run"):
            lowest(directory.parent, force=force)
        assert {path for path in directory.rglob("*") if path.name != ".lock"} == before


def test_a_lock_that_another_run_has_just_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    calls = []

    def flock(handle: Any, how: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / ".lock").unlink()
        real(handle, how)

    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with directory_lock.locked(tmp_path):
        assert len(calls) == 2 and (tmp_path / ".lock").read_text().startswith("host ")
        with pytest.raises(errors.OutputError, match=rf"locked by another run \(host .*, process {os.getpid()},"):
            with directory_lock.locked(tmp_path):
                pass
    assert not list(tmp_path.iterdir())


def test_an_average_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="--average needs --valid"):
        run_job(Halves(), training(tmp_path, average=2, save_every="never"), COMPUTE)
    assert not (tmp_path / "run").exists()


def test_batches_may_be_sampled_from_the_model_that_is_trained(tmp_path: Path) -> None:
    weights = []

    class Sampled(Points):
        model: Any

        def __iter__(self) -> Iterator[Any]:
            for batch in super().__iter__():
                weights.append(float(self.model.line.weight[0, 0].detach()))
                yield batch

    class Sampling(Halves):
        def source(self, data: Points, model: Any, backend: Backend) -> Any:
            sampled = Sampled(data.path)
            sampled.model = model
            return sampled

    run_job(Sampling(), training(tmp_path, steps=4), COMPUTE)
    assert len(set(weights)) == len(weights) == 4, "each batch sees the weights after the step before it"


def test_a_dry_run_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_job(Halves(), training(tmp_path, dry_run=True), COMPUTE)
    assert not (tmp_path / "run").exists() and "60 steps of 8 examples" in capsys.readouterr().err
