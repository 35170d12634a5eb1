"""The training loop: `fit`. It is independent of the model: the objective, the batches and the validation are arguments."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

import torch

from nlptools import messages
from nlptools.batches.source import CHECKPOINT, BatchSource
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.units import duration, interval
from nlptools.errors import Diverged, NlptoolsError, Stopped, reading
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine.averaging import Average, mean_weights
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.due import Due
from nlptools.training.engine.log import Log
from nlptools.training.engine.progress import RunProgress
from nlptools.training.engine.steps import Fit
from nlptools.training.engine.stop import REASONS, Interrupted, Stop
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective

M = TypeVar("M")
Evaluate = Callable[[M, Callable[[], bool]], "dict[str, float] | None"]
MOST_BAD_STEPS = 8  # consecutive skipped updates after which a run counts as diverged


@dataclass(frozen=True)
class RunResult:
    """The end of a run."""

    progress: RunProgress
    stopped: str | None  # the reason, if the run stopped early
    finished: bool
    average: Average | None = None  # of a finished run, if `run.average` asks for one


def fit(
    objective: Objective[M],
    source: BatchSource,
    backend: Backend,
    run: Training,
    *,
    evaluate: Evaluate[M] | None = None,
    checkpoints: Checkpoints | None = None,
    log: Log | None = None,
    criterion: Criterion = LOSS,
    weights: Callable[[Objective[M], Backend], Weights[M]] = Weights,
) -> RunResult:
    """Minimize `objective` over the batches of `source` until `run` is complete or the process is asked to stop.

    `evaluate(model, stop)` returns the metrics of a validation, including "loss" and the metric of `criterion`, or None
    if `stop()` became true meanwhile. With `checkpoints`, the run continues from the newest one; `run.average` needs
    them too. `weights` keeps the weights. At the end the model has its last weights in float32, not the best ones.

    Raises:
        BundleError: the checkpoint lacks a part of the state.
        Diverged: loss or gradient was not finite in several consecutive steps, or in each step of the run; these updates
            were skipped.
    """
    state = Fit(objective, source, backend, run, checkpoints, weights)
    checkpoint = checkpoints.load_last() if checkpoints is not None else None
    if checkpoint is not None:
        with reading(CHECKPOINT):
            state.restore(*checkpoint)
    if log is not None:
        log.begin(state.progress.step)
    with Stop(None if run.max_time is None else duration(run.max_time)) as stop:
        result = _Loop(state, evaluate, log, stop, criterion).run()
    state.weights.release()
    return result


class _Loop(Generic[M]):
    """The loop over steps, with reports, validations, checkpoints and stopping in between."""

    def __init__(
        self, state: Fit[M], evaluate: Evaluate[M] | None, log: Log | None, stop: Stop, criterion: Criterion
    ) -> None:
        self.state, self.evaluate, self.log, self.stop, self.criterion = state, evaluate, log, stop, criterion
        run = state.run
        intervals = {"log": run.log_every, "valid": run.valid_every, "save": run.save_every}
        self.due = {name: Due(interval(text), state.progress, state.source) for name, text in intervals.items()}
        self.elapsed = dict.fromkeys(self.due, False)  # see `Due`
        self.window = (time.monotonic(), state.progress.tokens)

    def run(self) -> RunResult:
        state, progress = self.state, self.state.progress
        state.objective.train()
        untrained = not state.total and progress.best is None and self.evaluate is not None
        if progress.valid_pending or untrained:
            self._validate()
        while progress.step < state.total and not self._is_over():
            if self._agree():
                break
            row = self._step()
            if row is None:
                break
            last = progress.step >= state.total
            if self.log is not None:
                self.log.move(progress.step)
            self._check(row)
            if self._is_due("log") or last or progress.step == 1:
                self._report(row)
            if self.evaluate is not None and (self._is_due("valid") or last):
                self._validate()
            if self._is_due("save") and not last:
                if self.evaluate is None:
                    self._hold()
                state.save()
        done = progress.step >= state.total or self._is_over()
        if done and 0 < progress.step == progress.bad_steps:
            self._refuse("each step")
        if done and self.evaluate is None:
            self._hold()
        state.save()
        average = self._average() if done else None
        finished = done and not progress.valid_pending
        return RunResult(progress, None if finished else self.stop.reason or "another process", finished, average)

    def _step(self) -> dict[str, float] | None:
        """A step, or None if the wait for its batches was interrupted.

        If a batch is not available, the run ends with a checkpoint of the step before.
        """
        try:
            return self.state.step()
        except Interrupted:
            return None
        except Stopped:  # in the middle of the step: the last checkpoint is whole
            raise
        except NlptoolsError:
            self.state.save()
            raise

    def _is_over(self) -> bool:
        patience = self.state.run.patience
        return self.state.source.ended or (patience > 0 and self.state.progress.since_best >= patience)

    def _agree(self) -> bool:
        """Whether any process was asked to stop, and which intervals of seconds have passed for the main one.

        All processes stop after the same step, and validate and save after the same steps.
        """
        backend, requested = self.state.backend, self.stop.requested
        flags = [requested, *(reason == self.stop.reason for reason in REASONS)]
        flags += [backend.is_main and due.elapsed for due in self.due.values()]
        stop, *agreed = (number > 0 for number in backend.sum([float(flag) for flag in flags]))
        self.elapsed = dict(zip(self.due, agreed[len(REASONS) :], strict=True))
        if stop and self.stop.reason is None:
            self.stop.reason = next((reason for reason, given in zip(REASONS, agreed, strict=False) if given), None)
        return stop

    def _is_due(self, name: str) -> bool:
        return self.due[name].now(self.elapsed[name])

    def _check(self, row: dict[str, float]) -> None:
        progress = self.state.progress
        if not progress.bad_steps:
            return
        if self.log is not None:
            self.log.event("skipped", step=progress.step, loss=str(row["loss"]), grad_norm=str(row["grad_norm"]))
        where = self.state.not_finite()
        messages.warn(
            f"step {progress.step}: loss or gradient not finite{where}, update skipped", kind="update skipped"
        )
        if progress.bad_steps >= MOST_BAD_STEPS:
            self._refuse(f"{MOST_BAD_STEPS} consecutive steps", where)

    def _refuse(self, which: str, where: str = "") -> NoReturn:
        raise Diverged(
            f"loss or gradient not finite{where} in {which}, up to step {self.state.progress.step}",
            hint="use a smaller --lr or a longer --warmup; the last checkpoint is older than these steps",
        )

    def _report(self, row: dict[str, float]) -> None:
        progress, now = self.state.progress, time.monotonic()
        begin, tokens = self.window
        self.window = (now, progress.tokens)
        if self.log is not None and math.isfinite(row["loss"]):
            unit = self.log.unit
            self.log.train(
                progress.step,
                {
                    "epoch": round(self.state.source.epoch, 4),
                    "loss": row["loss"],
                    "lr": row["lr"],
                    "grad_norm": row["grad_norm"],
                    unit: progress.tokens,
                    f"{unit}_per_second": (progress.tokens - tokens) / max(1e-9, now - begin),
                    "seconds": round(progress.seconds, 3),
                    **self.state.report(),
                },
            )

    def _validate(self) -> None:
        state, progress = self.state, self.state.progress
        assert self.evaluate is not None
        progress.valid_pending = True
        begin = time.monotonic()
        numbers = self._measure()
        if numbers is None:
            return
        progress.valid_pending = False
        self.window = (self.window[0] + time.monotonic() - begin, self.window[1])
        progress.last_valid = numbers
        if self.log is not None:
            row = {"epoch": round(state.source.epoch, 4), **numbers}
            self.log.valid(progress.step, row, self.criterion.name)
        value = numbers[self.criterion.name]
        better = progress.best is None or self.criterion.better(value, progress.best)
        if better:
            progress.best, progress.best_step, progress.since_best = value, progress.step, 0
            progress.best_valid = numbers
        else:
            progress.since_best += 1
            progress.cuts += state.run.schedule == "plateau"
        state.optimizer.validated(-value if self.criterion.higher_is_better else value)
        self._hold()
        if better or progress.averaged:
            state.save()

    def _measure(self) -> dict[str, float] | None:
        assert self.evaluate is not None
        self.state.objective.eval()
        with self.state.averages(), self.state.weights.whole() as model, torch.inference_mode():
            numbers = self.evaluate(model, lambda: self.stop.requested)
        self.state.objective.train()  # here, not in every step: visiting all modules takes 5% of a step of a bag of words
        if numbers is None:
            return None
        # a number that is not finite counts as the worst one: JSON has no infinity
        highest = {self.criterion.name} if self.criterion.higher_is_better else set()
        worst = {name: -sys.float_info.max if name in highest else sys.float_info.max for name in numbers}
        return {name: value if math.isfinite(value) else worst[name] for name, value in numbers.items()}

    def _hold(self) -> None:
        """Add this step to the steps to average, and drop the oldest beyond `run.average`."""
        progress, count = self.state.progress, self.state.run.average
        held = [*(step for step in progress.averaged if step != progress.step), progress.step]
        progress.averaged = held[-count:] if count > 1 else []

    def _average(self) -> Average | None:
        """The mean of the last checkpoints, validated; None if there is none, or if a signal interrupted the validation."""
        state, progress = self.state, self.state.progress
        if state.run.average == 1 or state.checkpoints is None or progress.valid_pending:
            return None
        state.backend.barrier()  # the main process may still be writing the last checkpoint
        weights, steps = mean_weights(state.checkpoints, progress.averaged[-state.run.average :])
        if len(steps) < 2:
            return None
        if self.evaluate is None:
            return Average(steps, weights, {}, True)
        last = {name: tensor.to("cpu", copy=True) for name, tensor in state.weights.state_dict().items()}
        state.weights.load(weights)
        numbers = self._measure()
        state.weights.load(last)
        if numbers is None:
            progress.valid_pending = True  # not in the checkpoint: the continued run validates the mean again
            return None
        value, best = numbers[self.criterion.name], progress.best
        taken = best is None or value == best or self.criterion.better(value, best)
        return Average(steps, weights, numbers, taken)
