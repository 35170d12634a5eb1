"""A training run in steps, from its inputs to a bundle: `run_job` runs a `TrainingRun`.

This module has the part of the `lifecycle` that all tasks share: processes (the main one leads and writes, the others follow),
dry runs, the choice of the final weights, and reports. A `TrainingRun` defines the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar, cast

from torch import nn

from nlptools import bundle, messages
from nlptools.batches.source import BatchSource
from nlptools.compute.backend import Backend, RunsIn16Bits
from nlptools.configs import Compute, Training
from nlptools.errors import Stopped, display
from nlptools.files import artifacts, atomic
from nlptools.files.json_fields import child
from nlptools.json_types import Json, JsonObject
from nlptools.layers import lora
from nlptools.metrics.criterion import Criterion
from nlptools.training.engine import lifecycle, run_directory
from nlptools.training.engine.averaging import Average
from nlptools.training.engine.checkpoint import Checkpoints, Tensors
from nlptools.training.engine.lifecycle import Outcome
from nlptools.training.engine.log import Log, digits
from nlptools.training.engine.loop import Evaluate, RunResult, fit
from nlptools.training.engine.progress import RunProgress
from nlptools.training.engine.run_directory import RECORD, Record, RunSettings
from nlptools.training.engine.sharded import ShardedWeights
from nlptools.training.engine.steps import Fit, total_steps
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective


class TaskData(run_directory.RunData, Protocol):
    """The data of a task, readable by all processes."""

    def paths(self) -> list[str | None]:
        """The argument of `TrainingRun.open` in another process: plain JSON."""


D = TypeVar("D", bound=TaskData)
M = TypeVar("M", bound=RunsIn16Bits)


class TrainingRun(Protocol[D, M]):
    """A model (an `nn.Module`) and its data. `run_job` calls each method once per process, in this order where it matters."""

    @property
    def unit(self) -> str:
        """The name of a training target, for counts and speed: "tokens", "examples"."""

    @property
    def criterion(self) -> Criterion:
        """The validation metric that selects the best checkpoint."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The metrics of the best validation that are recorded; the last one is reported at the end."""

    def settings(self) -> Mapping[str, object]:
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

    def model(self) -> M:
        """The initial model, on the CPU in float32, with the same weights in every process."""

    def objective(self, model: M) -> Objective[M]:
        """The training objective of `model`."""

    def source(self, data: D, model: M, backend: Backend) -> BatchSource:
        """The training batches of this process; they may be sampled from the model being trained."""

    def evaluate(self, data: D, backend: Backend) -> Evaluate[M] | None:
        """The validation function, or None without held-out data."""

    def save(self, directory: Path, model: M, weights: Tensors, record: Record) -> None:
        """Write the bundle of `model` with these `weights`, and `record` as training.json."""

    def advice(self, name: str) -> str:
        """One or two commands that use the model in the directory `name`."""


@dataclass(frozen=True)
class Trained:
    """The result of a run."""

    directory: Path
    steps: int
    metrics: Mapping[str, object]  # the object "metrics" of training.json
    measures: Mapping[str, float]  # of the validation of the saved weights


@dataclass(frozen=True)
class _Ended(Outcome, Generic[M]):
    """The end of a run in steps, with all that is saved and reported."""

    model: M
    weights: Tensors  # the last ones
    checkpoints: Checkpoints
    progress: RunProgress
    average: Average | None
    measures: dict[str, float]  # validation of the weights that are saved

    @property
    def taken(self) -> Average | None:
        """The mean of checkpoints, if it is saved."""
        return self.average if self.average is not None and self.average.taken else None


def run_job(
    task: TrainingRun[D, M],
    run: Training,
    compute: Compute | None = None,
    invocation: Mapping[str, object] | None = None,
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
    steps = _Steps(task, run, compute, backend)
    try:
        if run.dry_run:
            return steps.dry_run()
        if not backend.is_main:
            ended = steps.follow()
        else:
            ended = lifecycle.run(steps, steps.directory, resume=run.resume, force=run.force, invocation=invocation)
        return Trained(steps.directory, ended.steps, ended.metrics, ended.measures)
    finally:
        backend.close()


@dataclass(frozen=True)
class _Steps(Generic[D, M]):
    """One process of a training run in steps. Implements `lifecycle.RunTrainer` in the main process."""

    task: TrainingRun[D, M]
    run: Training
    compute: Compute
    backend: Backend
    in_one_pass: bool = False

    @property
    def directory(self) -> Path:
        return Path(self.run.output)

    def settings(self) -> RunSettings:
        chosen = RunSettings.of(self.run, self.compute)
        values = {**self.task.settings(), **chosen.values}
        if not self.run.global_batch:  # else the run is the same in any number of processes
            values["processes"] = self.backend.world_size
        return replace(chosen, values=values)

    def read(self, place: Path, held_out: bool = True) -> D:
        began = time.monotonic()
        data = self.task.spool(place, self.backend, held_out)
        self.task.announce(data, time.monotonic() - began)
        return data

    def continuing(self, before: JsonObject) -> Self:
        """In the precision of the run that continues."""
        return replace(self, backend=self.backend.continuing(child(before, "backend", RECORD)))

    def describe(self) -> Record:
        return {"seed": self.compute.seed, "backend": self.backend.describe()}

    def train(self, data: D, record: Record) -> _Ended[M]:
        self.backend.broadcast((data.paths(), record["backend"]))
        return self._train(data, record)

    def follow(self) -> _Ended[M]:
        """The other processes: open the data that the main process has read, and train."""
        lead: tuple[list[str | None], Json] = self.backend.broadcast(None)
        paths, backend = lead
        ended = self.continuing({"backend": backend})._train(self.task.open(paths), {})
        if ended.stopped is not None:
            raise Stopped("", exit_code=run_directory.stopped_status())  # the main process alone reports it
        return ended

    def dry_run(self) -> Trained:
        """Build everything, take two steps, and report size and speed; no file is kept."""
        with atomic.scratch_directory("nlptools-dry-") as scratch:
            data = self.read(scratch, held_out=False)
            model, objective, backend = self._model()
            state = Fit(objective, self.task.source(data, model, backend), backend, self.run, None)
            state.objective.train()
            state.step()
            begin = time.perf_counter()
            row = state.step()
            seconds = time.perf_counter() - begin
            unit = self.task.unit
            messages.note(
                f"dry run: {_num_weights(objective)}, {state.total} steps of {row['targets']:.0f} {unit},"
                f" {row['targets'] / seconds:,.0f} {unit}/s, about {messages.clock(seconds * state.total)} in all,"
                f" peak memory {backend.peak_memory() / 2**30:.1f} GiB on {backend.device} ({backend.precision})"
            )
        return Trained(self.directory, 0, {"loss": row["loss"]}, {})

    def _train(self, data: D, record: Record) -> _Ended[M]:
        model, objective, backend = self._model()
        if record and record["backend"] != backend.describe():  # the model is not computed in 16 bits
            record["backend"] = backend.describe()
            artifacts.write_json(self.directory / run_directory.RECORD, record)
        checkpoints = Checkpoints(self.directory, self.run.keep)
        source = self.task.source(data, model, backend)
        processes = backend.processes
        if backend.is_main:
            checkpoints.clean()
            messages.note(
                f"model: {_num_weights(objective)} on {backend.device} in {backend.precision}{processes},"
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
                weights=ShardedWeights if self.run.shard_model and backend.world_size > 1 else Weights,
            )
        finally:
            log.close()
        return self._ended(model, objective.get_submodule("model").state_dict(), checkpoints, result)

    def _model(self) -> tuple[M, Objective[M], Backend]:
        """The model on the device, its objective, and the backend with the precision that it trains in."""
        model, backend = self.task.model(), self.backend
        backend.seed(self.compute.seed)
        cast(nn.Module, model).to(backend.device)
        objective = self.task.objective(model)
        if objective.trains_in_16_bits:
            backend = backend.for_model(model)
        else:
            backend = replace(backend, precision="fp32", precision_by="model")
        return model, objective, backend

    def _ended(self, model: M, weights: Tensors, checkpoints: Checkpoints, result: RunResult) -> _Ended[M]:
        progress, average = result.progress, result.average
        numbers = average.numbers if average is not None and average.taken else progress.best_valid
        measures = {name: numbers[name] for name in self.task.measures if name in numbers}
        metrics: Record = {"steps": progress.step, self.task.unit: progress.tokens, "seconds": progress.seconds}
        metrics.update({f"valid_{name}": value for name, value in measures.items()})
        if average is not None:
            metrics["average"] = {"steps": list(average.steps), "taken": average.taken, **average.numbers}
        ends = progress.step, metrics, result.stopped
        return _Ended(*ends, model, weights, checkpoints, progress, average, measures)

    def save(self, outcome: _Ended[M], record: Record) -> None:
        """Save the bundle with the mean of checkpoints if it is better, else the best validated weights, else the last."""
        progress, taken = outcome.progress, outcome.taken
        weights = outcome.weights
        record[bundle.WEIGHTS_OF] = [progress.step]
        if taken is not None:
            weights = {**weights, **taken.weights}
            record[bundle.WEIGHTS_OF] = [*taken.steps]
        elif progress.best is not None:
            weights = {**weights, **outcome.checkpoints.weights(progress.best_step)}
            record[bundle.WEIGHTS_OF] = [progress.best_step]
        self.task.save(self.directory, outcome.model, weights, record)

    def report(self, outcome: _Ended[M]) -> None:
        progress, taken, name = outcome.progress, outcome.taken, display(str(self.directory))
        if outcome.average is not None:
            messages.note(_describe_average(outcome.average, progress, self.task.criterion.name))
        last = "".join([f", validation {measure} {digits(value)}" for measure, value in outcome.measures.items()][-1:])
        if last:
            last += f" (step {progress.best_step})" if taken is None else f" (mean of {len(taken.steps)} steps)"
        messages.note(f"{name}: {messages.counted(progress.step, 'step')} in {messages.clock(progress.seconds)}{last}")
        messages.note(f"try: {self.task.advice(name)}")


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


def _num_weights(objective: Objective[object]) -> str:
    """The number of weights of the model and, with adapters, how many of them are trained, for a message."""
    model = objective.get_submodule("model")
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    total = sum(sizes.values())
    still = sum(sizes[name] for name in lora.frozen(model))
    return f"{total:,} weights" + (f", {total - still:,} of them trained," if still else "")
