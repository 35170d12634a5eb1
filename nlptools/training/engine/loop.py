"""The training loop: `fit`. It is independent of the model: the objective, the batches and the validation are arguments."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from nlptools import messages
from nlptools.batches.source import BatchSource
from nlptools.batches.windows import TextBatch
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.units import duration, interval
from nlptools.errors import Diverged, NlptoolsError
from nlptools.layers import lora
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine.averaging import Average, mean_weights
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.due import Due
from nlptools.training.engine.log import Log
from nlptools.training.engine.progress import RunProgress
from nlptools.training.engine.schedules import learning_rate
from nlptools.training.engine.stop import Interrupted, Stop
from nlptools.training.objective import Objective

Evaluate = Callable[[Any, Callable[[], bool]], "dict[str, float] | None"]
MOST_BAD_STEPS = 8  # consecutive skipped updates after which a run counts as diverged


@dataclass(frozen=True)
class RunResult:
    """The end of a run."""

    progress: RunProgress
    stopped: str | None  # the reason, if the run stopped early
    finished: bool
    average: Average | None = None  # of a finished run, if `run.average` asks for one


def total_steps(source: BatchSource, run: Training) -> int:
    """Optimizer steps of the whole run: `run.steps`, or the number of steps in `run.epochs`, which may be 0."""
    return run.steps or math.ceil(source.batches_per_epoch * run.epochs / run.accumulate)


class Fit:
    """The state of a run, and a single step. Use `fit` to train."""

    def __init__(
        self,
        objective: Objective,
        source: BatchSource,
        backend: Backend,
        run: Training,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.objective, self.source, self.backend, self.run = objective, source, backend, run
        self.checkpoints = checkpoints
        self.progress = RunProgress()
        self.optimizer = objective.optimizer(run, backend.dtype)
        self.masters = [p for p in objective.parameters() if p.requires_grad]
        self.working = backend.for_training(objective)
        self.copies = [p for p in self.working.parameters() if p.requires_grad]
        self.forward = backend.compiled(self.working) if run.compile else self.working
        self.batches: Iterator[TextBatch] = iter(source)
        self.total = total_steps(source, run)
        self.base = lora.frozen(objective.model)  # weights that are not in checkpoints

    def step(self) -> dict[str, float]:
        """One update with the gradient of the mean loss over all targets of all accumulated batches and all processes.

        The update is skipped if the loss or the gradient is not finite. Returns loss, lr, grad_norm and targets.
        """
        begin = time.perf_counter()
        epoch = self.source.epoch
        batches = self._next_batches()
        counts = self._counts(batches)
        total = dict.fromkeys(counts, 0.0)
        for batch in batches:
            arrays = self.working.arrays(batch)
            sums = self.forward(*(self.backend.put(a) for a in arrays))
            loss = sum(sums[kind] / max(1.0, counts[kind]) for kind in sums)
            loss.backward()
            self.backend.collect_gradients(self.masters, self.copies)
            for kind, value in sums.items():
                total[kind] += float(value.detach())
        self.backend.sum_gradients(self.masters)
        self.objective.adjust_gradients()
        losses = dict(zip(total, self.backend.sum(list(total.values())), strict=True))
        mean = sum(losses[kind] / max(1.0, counts[kind]) for kind in losses)
        norm = self._gradient_norm()
        rate = self.source.rate * learning_rate(
            self.progress.step, self.total, self.run, epoch=epoch, cuts=self.progress.cuts
        )
        if math.isfinite(mean) and math.isfinite(norm):
            clip = self.run.clip
            factors = self.objective.rates(self.source.epoch)
            self.optimizer.step(rate, clip / norm if 0 < clip < norm else 1.0, factors)
            self.backend.refresh(self.masters, self.copies)
            self.progress.bad_steps = 0
        else:
            self.progress.bad_steps += 1
        for parameter in self.masters:
            parameter.grad = None
        targets = sum(counts.values())
        self.progress.step += 1
        self.progress.tokens += int(targets)
        self.progress.seconds += time.perf_counter() - begin
        return {"loss": mean, "lr": rate, "grad_norm": norm, "targets": targets}

    def _next_batches(self) -> list[TextBatch]:
        """The batches of a step. If one of them cannot be had, the source is as before."""
        before = self.source.state() if self.run.accumulate > 1 else None
        try:
            return [next(self.batches) for _ in range(self.run.accumulate)]
        except (Interrupted, NlptoolsError):
            if before is not None:
                self.source.restore(before)
            raise

    def save(self) -> None:
        """Write a checkpoint (main process only)."""
        if self.checkpoints is None or not self.backend.is_main:
            return
        state = {f"random.{k}": v for k, v in self.backend.random_state().items()}
        state.update(self.working.carry())
        record = {"progress": vars(self.progress), "source": self.source.state(), "updates": self.optimizer.steps}
        with self.averages():
            state.update(self.optimizer.state())
            weights = {n: t for n, t in self.objective.model.state_dict().items() if n not in self.base}
            self.checkpoints.save(self.progress.step, weights, state, record, self.progress.held)

    @contextlib.contextmanager
    def averages(self) -> Iterator[None]:
        """Context in which the model has the weights that the optimizer has averaged, if it averages any."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        if self.optimizer.swap():
            self.backend.refresh(self.masters, self.copies)

    def restore(self, weights: dict[str, torch.Tensor], state: dict[str, torch.Tensor], record: dict[str, Any]) -> None:
        """Load a checkpoint. Every process does; those of rank > 0 get a new random state, derived from the checkpoint."""
        self.load_weights(weights)
        self.optimizer.restore(state, int(record["updates"]))
        self._swap()
        self.backend.set_random_state({k[7:]: v for k, v in state.items() if k.startswith("random.")})
        if self.backend.rank > 0:
            self.backend.seed(self.run_seed(record))
        carried = {k: v.to(self.backend.device) for k, v in state.items() if k.startswith("carried.")}
        self.working.restore_carry(carried)
        self.source.restore(record["source"])
        self.progress = RunProgress(**record["progress"])
        self._find_best()
        self.batches = iter(self.source)

    def _find_best(self) -> None:
        """Forget the best validation if somebody has removed its checkpoint."""
        progress, checkpoints = self.progress, self.checkpoints
        if checkpoints is None or progress.best is None or checkpoints.path(progress.best_step).is_dir():
            return
        messages.warn(
            f"checkpoint of step {progress.best_step}, the best so far, is missing: the next validation counts as the best"
        )
        progress.best, progress.best_step, progress.best_valid = None, 0, {}

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Load `weights`, of all parameters or of adapters, into the model, and into the copy that training computes with."""
        own = self.objective.model.state_dict()
        self.objective.model.load_state_dict({**{name: own[name] for name in self.base}, **weights})
        self.backend.refresh(list(self.objective.parameters()), list(self.working.parameters()))

    def run_seed(self, record: dict[str, Any]) -> int:
        """The seed of the other processes (dropout), whose random states are not in the checkpoint."""
        return int(record["progress"]["step"]) * 7919

    def _counts(self, batches: list[TextBatch]) -> dict[str, float]:
        counts: dict[str, float] = {}
        for batch in batches:
            for kind, count in self.objective.counts(batch).items():
                counts[kind] = counts.get(kind, 0.0) + count
        return dict(zip(counts, self.backend.sum(list(counts.values())), strict=True))

    def _gradient_norm(self) -> float:
        norms = torch._foreach_norm([p.grad for p in self.masters if p.grad is not None])
        return float(torch.linalg.vector_norm(torch.stack(norms)))


def fit(
    objective: Objective,
    source: BatchSource,
    backend: Backend,
    run: Training,
    *,
    evaluate: Evaluate | None = None,
    checkpoints: Checkpoints | None = None,
    log: Log | None = None,
    criterion: Criterion = LOSS,
) -> RunResult:
    """Minimize `objective` over the batches of `source` until `run` is complete or the process is asked to stop.

    `evaluate(model, stop)` returns the metrics of a validation, including "loss" and that of `criterion`, or None if
    `stop()` became true meanwhile. With `checkpoints`, the run continues from the newest one; `run.average` needs
    them too. At the end the model has its last weights, not the best ones.

    Raises:
        Diverged: loss or gradient was not finite in several consecutive steps, or in each step of the run; these updates
            were skipped.
    """
    state = Fit(objective, source, backend, run, checkpoints)
    checkpoint = checkpoints.load_last() if checkpoints is not None else None
    if checkpoint is not None:
        state.restore(*checkpoint)
    if log is not None:
        log.begin(state.progress.step)
    with Stop(None if run.max_time is None else duration(run.max_time)) as stop:
        return _Loop(state, evaluate, log, stop, criterion).run()


class _Loop:
    """The loop over steps, with reports, validations, checkpoints and stopping in between."""

    def __init__(
        self, state: Fit, evaluate: Evaluate | None, log: Log | None, stop: Stop, criterion: Criterion
    ) -> None:
        self.state, self.evaluate, self.log, self.stop, self.criterion = state, evaluate, log, stop, criterion
        run = state.run
        intervals = {"log": run.log_every, "valid": run.valid_every, "save": run.save_every}
        self.due = {name: Due(interval(text), state.progress, state.source) for name, text in intervals.items()}
        self.window = (time.monotonic(), state.progress.tokens)

    def run(self) -> RunResult:
        state, progress = self.state, self.state.progress
        state.objective.train()
        state.working.train()
        untrained = not state.total and progress.best is None and self.evaluate is not None
        if progress.valid_pending or untrained:
            self._validate()
        while progress.step < state.total and not self._is_over():
            if self._stop_everywhere():
                break
            row = self._step()
            if row is None:
                break
            last = progress.step >= state.total
            if self.log is not None:
                self.log.move(progress.step)
            self._check(row)
            if self.due["log"].now() or last or progress.step == 1:
                self._report(row)
            if self.evaluate is not None and (self.due["valid"].now() or last):
                self._validate()
            if self.due["save"].now() and not last:
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

        A batch that cannot be had ends the run with a checkpoint of the step before.
        """
        try:
            return self.state.step()
        except Interrupted:
            return None
        except NlptoolsError:
            self.state.save()
            raise

    def _is_over(self) -> bool:
        patience = self.state.run.patience
        return self.state.working.over or (patience > 0 and self.state.progress.since_best >= patience)

    def _stop_everywhere(self) -> bool:
        """Whether any process was asked to stop: all processes stop after the same step."""
        return self.state.backend.sum([float(self.stop.requested)])[0] > 0

    def _check(self, row: dict[str, float]) -> None:
        progress = self.state.progress
        if not progress.bad_steps:
            return
        if self.log is not None:
            self.log.event("skipped", step=progress.step, loss=str(row["loss"]), grad_norm=str(row["grad_norm"]))
        messages.warn(f"step {progress.step}: loss or gradient not finite, update skipped", kind="update skipped")
        if progress.bad_steps >= MOST_BAD_STEPS:
            self._refuse(f"{MOST_BAD_STEPS} consecutive steps")

    def _refuse(self, which: str) -> NoReturn:
        raise Diverged(
            f"loss or gradient not finite in {which}, up to step {self.state.progress.step}",
            hint="use a smaller --lr or a longer --warmup; the last checkpoint is older than these steps",
        )

    def _report(self, row: dict[str, float]) -> None:
        progress, now = self.state.progress, time.monotonic()
        begin, tokens = self.window
        self.window = (now, progress.tokens)
        if self.log is not None and math.isfinite(row["loss"]):
            unit = self.log.unit
            self.log.train(
                {
                    "step": progress.step,
                    "epoch": round(self.state.source.epoch, 4),
                    "loss": row["loss"],
                    "lr": row["lr"],
                    "grad_norm": row["grad_norm"],
                    unit: progress.tokens,
                    f"{unit}_per_second": (progress.tokens - tokens) / max(1e-9, now - begin),
                    "seconds": round(progress.seconds, 3),
                    **self.state.working.report(),
                }
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
            row = {"step": progress.step, "epoch": round(state.source.epoch, 4), **numbers}
            self.log.valid(row, self.criterion.name)
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
        self.state.working.eval()
        with self.state.averages(), torch.inference_mode():
            numbers = self.evaluate(self.state.working.model, lambda: self.stop.requested)
        self.state.working.train()  # here, not in every step: visiting all modules takes 5% of a step of a bag of words
        if numbers is None:
            return None
        # an infinite loss counts as the largest float: JSON has no infinity
        return {name: value if math.isfinite(value) else sys.float_info.max for name, value in numbers.items()}

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
        last = {name: tensor.to("cpu", copy=True) for name, tensor in state.objective.model.state_dict().items()}
        state.load_weights(weights)
        numbers = self._measure()
        state.load_weights(last)
        if numbers is None:
            progress.valid_pending = True  # not in the checkpoint: the continued run validates the mean again
            return None
        value, best = numbers[self.criterion.name], progress.best
        taken = best is None or value == best or self.criterion.better(value, best)
        return Average(steps, weights, numbers, taken)
