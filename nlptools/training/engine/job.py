"""A training run from its inputs to a bundle: `run_job` runs a `TrainingRun`.

This module has everything that the training commands share: the lock on the output directory and the check whether its run
may continue, the processes (the main one leads and writes, the others follow), dry runs, reports, the choice of the final
weights, the record in training.json and the final messages. Everything else is behind the `TrainingRun` protocol.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import nn

from nlptools import bundle, messages
from nlptools.batches.source import BatchSource
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.combinations import free_options
from nlptools.errors import Stopped, display
from nlptools.files import artifacts, atomic
from nlptools.layers import lora
from nlptools.metrics.criterion import Criterion
from nlptools.training.engine import run_directory
from nlptools.training.engine.averaging import Average
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.log import Log, digits
from nlptools.training.engine.loop import Evaluate, Fit, RunResult, fit, total_steps
from nlptools.training.engine.progress import RunProgress
from nlptools.training.objective import Objective


class TaskData(run_directory.RunData, Protocol):
    """The data of a task, readable by all processes."""

    def paths(self) -> list[str | None]:
        """The argument of `TrainingRun.open` in another process: plain JSON."""


D = TypeVar("D", bound=TaskData)


class TrainingRun(Protocol[D]):
    """A model and its data. `run_job` calls each method once per process, in this order where it matters."""

    @property
    def unit(self) -> str:
        """The name of a training target, for counts and speed: "tokens", "examples"."""

    @property
    def criterion(self) -> Criterion:
        """The validation metric that selects the best checkpoint."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The metrics of the best validation that are recorded; the last one is reported at the end."""

    def settings(self) -> dict[str, Any]:
        """All settings besides `Training` and `Compute`; they must be the same when a run continues."""

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> D:
        """Read and encode the inputs into files of `directory`; without `held_out`, only the training data.

        Raises:
            InputError, DataError: the training data are empty or malformed.
            StreamError: disk full or another write error.
        """

    def open(self, paths: list[str | None]) -> D:
        """Open the data that `spool` has written in another process."""

    def announce(self, data: D, seconds: float) -> None:
        """Report the size of the data and the seconds that reading took."""

    def model(self) -> Any:
        """The initial model, on the CPU in float32, with the same weights in every process."""

    def objective(self, model: Any) -> Objective:
        """The training objective of `model`."""

    def source(self, data: D, model: Any, backend: Backend) -> BatchSource:
        """The training batches of this process; they may be sampled from the model being trained."""

    def evaluate(self, data: D, backend: Backend) -> Evaluate | None:
        """The validation function, or None without held-out data."""

    def save(self, directory: Path, model: Any, weights: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Write the bundle of `model` with these `weights`, and `record` as training.json."""

    def advice(self, name: str) -> str:
        """One or two commands that use the model in the directory `name`."""


@dataclass(frozen=True)
class Trained:
    """The result of a run."""

    directory: Path
    steps: int
    metrics: dict[str, Any]  # the object "metrics" of training.json


def run_job(
    task: TrainingRun[D], run: Training, compute: Compute | None = None, invocation: Mapping[str, Any] | None = None
) -> Trained:
    """Train into `run.output`, or continue the run that was stopped there. `invocation` goes into the training record.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before anything is computed.
        OutputError: the directory holds something else, or is locked.
        Stopped: by a signal or `run.max_time`, with everything saved.
        Diverged: see `training.engine.loop.fit`.
    """
    run.check()
    compute = compute or Compute()
    backend = Backend.detect(compute)
    job = _Job(task, run, compute, backend, invocation or {})
    try:
        if run.dry_run:
            return job.dry_run()
        if not backend.is_main:
            return job.follow()
        with run_directory.locked(job.directory):
            return job.lead()
    finally:
        backend.close()


@dataclass(frozen=True)
class _Job:
    """One process of a training run."""

    task: TrainingRun[Any]
    run: Training
    compute: Compute
    backend: Backend
    invocation: Mapping[str, Any]
    ended: int | None = None  # the steps of the run that is given again, if it is finished

    @property
    def directory(self) -> Path:
        return Path(self.run.output)

    def lead(self) -> Trained:
        """The main process: spool the data, keep the record, train, save the bundle."""
        marks = self._fingerprint()
        defaults = {field.name: field.default for field in fields(self.run)}
        data, before = run_directory.begin(
            self.directory, self.run.resume, self.run.force, marks, lambda place: self._spool(place, True), defaults
        )
        job = self._continuing((before or {}).get("backend", {}))
        if before is not None and before["status"] == "finished":
            job = replace(job, ended=before["metrics"]["steps"])
        record = job._record(data, marks, before)
        artifacts.write_json(self.directory / run_directory.RECORD, record)
        self.backend.broadcast({"paths": data.paths(), "backend": record["backend"]})
        return job._train(data, record)

    def _spool(self, place: Path, held_out: bool) -> Any:
        began = time.monotonic()
        data = self.task.spool(place, self.backend, held_out)
        self.task.announce(data, time.monotonic() - began)
        return data

    def follow(self) -> Trained:
        """The other processes: open the data that the main process has spooled, and train."""
        lead = self.backend.broadcast(None)
        return self._continuing(lead["backend"])._train(self.task.open(lead["paths"]), {})

    def _continuing(self, before: Mapping[str, Any]) -> _Job:
        """This run in the precision of `before`, the backend in the record of the run."""
        return replace(self, backend=self.backend.continuing(before))

    def dry_run(self) -> Trained:
        """Build everything, take two steps, and report size and speed; no file is kept."""
        with atomic.scratch_directory("nlptools-dry-") as scratch:
            data = self._spool(scratch, False)
            model, objective, backend = self._model()
            state = Fit(objective, self.task.source(data, model, backend), backend, self.run, None)
            state.objective.train()
            state.working.train()
            state.step()
            begin = time.perf_counter()
            row = state.step()
            seconds = time.perf_counter() - begin
            unit = self.task.unit
            messages.note(
                f"dry run: {_num_weights(model)}, {state.total} steps of {row['targets']:.0f} {unit},"
                f" {row['targets'] / seconds:,.0f} {unit}/s, about {messages.clock(seconds * state.total)} in all,"
                f" peak memory {backend.peak_memory() / 2**30:.1f} GiB on {backend.device} ({backend.precision})"
            )
        return Trained(self.directory, 0, {"loss": row["loss"]})

    def _train(self, data: Any, record: dict[str, Any]) -> Trained:
        model, objective, backend = self._model()
        if record and record["backend"] != backend.describe():  # the model is not computed in 16 bits
            record["backend"] = backend.describe()
            artifacts.write_json(self.directory / run_directory.RECORD, record)
        checkpoints = Checkpoints(self.directory, self.run.keep)
        source = self.task.source(data, model, backend)
        if backend.is_main:
            checkpoints.clean()
            messages.note(
                f"model: {_num_weights(model)} on {backend.device} in {backend.precision},"
                f" {messages.counted(round(source.batches_per_epoch), 'batch', 'batches')} per epoch"
            )
            if self.run.warmup >= max(2, total_steps(source, self.run)):
                messages.warn(
                    f"--warmup {self.run.warmup:g} is longer than the run of {total_steps(source, self.run):,} steps:"
                    " the learning rate does not reach --lr"
                )
        where = self.directory if backend.is_main else None
        total, shown = total_steps(source, self.run), objective.shown
        log = Log(where, total, track=self.run.track, unit=self.task.unit, shown=shown)
        try:
            result = fit(
                objective,
                source,
                backend,
                self.run,
                evaluate=self.task.evaluate(data, backend),
                checkpoints=checkpoints,
                log=log,
                criterion=self.task.criterion,
            )
        finally:
            log.close()
        return self._finish(model, checkpoints, result, record)

    def _model(self) -> tuple[Any, Objective, Backend]:
        """The model on the device, its objective, and the backend with the precision that it trains in."""
        model, backend = self.task.model(), self.backend
        backend.seed(self.compute.seed)
        objective = self.task.objective(model.to(backend.device))
        if objective.trains_in_16_bits:
            backend = backend.for_model(model)
        else:
            backend = replace(backend, precision="fp32", precision_by="model")
        return model, objective, backend

    def _finish(self, model: nn.Module, checkpoints: Checkpoints, result: RunResult, record: dict[str, Any]) -> Trained:
        """Save the bundle with the mean of checkpoints if it is better, else the best validated weights, else the last."""
        progress, average, main = result.progress, result.average, self.backend.is_main
        taken = average if average is not None and average.taken else None
        numbers = progress.best_valid if taken is None else taken.numbers
        measures = {name: numbers[name] for name in self.task.measures if name in numbers}
        metrics: dict[str, Any] = {"steps": progress.step, self.task.unit: progress.tokens, "seconds": progress.seconds}
        metrics.update({f"valid_{name}": value for name, value in measures.items()})
        if average is not None:
            metrics["average"] = {"steps": list(average.steps), "taken": average.taken, **average.numbers}
        trained = Trained(self.directory, progress.step, metrics)
        if main:
            weights = model.state_dict()
            if taken is not None:
                weights = {**weights, **taken.weights}
            elif progress.best is not None:
                weights = {**weights, **checkpoints.weights(progress.best_step)}
            kept = [progress.step if progress.best is None else progress.best_step] if taken is None else [*taken.steps]
            status = "finished" if result.finished else "stopped"
            record.update({"status": status, "metrics": metrics, bundle.WEIGHTS_OF: kept})
            self.task.save(self.directory, model, weights, record)
        if result.stopped is not None:
            if main:  # only the main process prints how to continue
                raise run_directory.stopped(self.directory, result.stopped, progress.step, self.run.force)
            raise Stopped(f"stopped ({result.stopped})")
        if main:
            if average is not None:
                messages.note(_describe_average(average, progress, self.task.criterion.name))
            name = display(str(self.directory))
            if progress.step == self.ended:
                messages.note(run_directory.FINISHED.format(name))
            last = "".join([f", validation {kind} {digits(value)}" for kind, value in measures.items()][-1:])
            if last:
                last += f" (step {progress.best_step})" if taken is None else f" (mean of {len(taken.steps)} steps)"
            messages.note(
                f"{name}: {messages.counted(progress.step, 'step')} in {messages.clock(progress.seconds)}{last}"
            )
            messages.note(f"try: {self.task.advice(name)}")
        return trained

    def _settings(self) -> dict[str, Any]:
        return {**self.task.settings(), **asdict(self.run), **asdict(self.compute)}

    def _fingerprint(self) -> dict[str, Any]:
        free = free_options(self.run, self.compute)
        kept = {key: value for key, value in self._settings().items() if key not in free}
        return run_directory.fingerprint(kept, processes=self.backend.world_size)

    def _record(self, data: TaskData, marks: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
        return run_directory.record(
            before,
            data,
            marks,
            invocation=dict(self.invocation),
            settings=self._settings(),
            seed=self.compute.seed,
            backend=self.backend.describe(),
        )


def _describe_average(average: Average, progress: RunProgress, criterion: str) -> str:
    """The message that compares the mean of the last weights with the best single checkpoint."""
    steps = ", ".join(map(str, average.steps))
    if not average.numbers or progress.best is None:
        return f"saved the mean of the weights of steps {steps}"
    return (
        f"mean of the weights of steps {steps}: validation {criterion} {average.numbers[criterion]:.4f};"
        f" best single step {progress.best_step}: {progress.best:.4f};"
        f" saved the {'mean' if average.taken else 'best single step'}"
    )


def _num_weights(model: nn.Module) -> str:
    """How many weights a model has, and of one with adapters how many are trained, for a message."""
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    total = sum(sizes.values())
    still = sum(sizes[name] for name in lora.frozen(model))
    return f"{total:,} weights" + (f", {total - still:,} of them trained," if still else "")
