"""One step of training: batches are collected, then the weights are updated."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nlptools import messages
from nlptools.batches.source import CHECKPOINT, BatchSource
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.errors import NlptoolsError
from nlptools.files.json_fields import built, child, whole
from nlptools.json_types import JsonObject
from nlptools.training.engine.checkpoint import Checkpoints, Tensors
from nlptools.training.engine.progress import RunProgress
from nlptools.training.engine.schedules import learning_rate
from nlptools.training.engine.stop import Interrupted
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import CARRIED, Objective

M = TypeVar("M")


def total_steps(source: BatchSource, run: Training) -> int:
    """Optimizer steps of the whole run: `run.steps`, or the number of steps in `run.epochs`, which may be 0."""
    return run.steps or math.ceil(source.batches_per_epoch * run.epochs / run.accumulate)


class Fit(Generic[M]):
    """The state of a run, and a single step. Use `fit` to train."""

    def __init__(
        self,
        objective: Objective[M],
        source: BatchSource,
        backend: Backend,
        run: Training,
        checkpoints: Checkpoints | None,
        weights: Callable[[Objective[M], Backend], Weights[M]] = Weights,
    ) -> None:
        self.objective, self.source, self.backend, self.run = objective, source, backend, run
        self.checkpoints = checkpoints
        self.progress = RunProgress()
        self.weights = weights(objective, backend)
        self.optimizer = objective.optimizer(run, self.weights)
        self.forward = backend.compiled(objective) if run.compile else objective
        self.batches: Iterator[Any] = iter(source)
        self.total = total_steps(source, run)
        # the state after the last batch of each part, see `Objective.continues`
        self.carried: list[tuple[Tensor, ...]] = [()] * source.share.parts
        self.facts: Mapping[str, float] = {}  # of the last batch
        self.finite = True  # whether the loss of this process was finite in the last step

    def step(self) -> dict[str, float]:
        """One update with the gradient of the mean loss over all targets of all accumulated batches and all processes.

        The update is skipped if the loss or the gradient is not finite. Returns loss, lr, grad_norm and targets.
        """
        begin = time.perf_counter()
        epoch = self.source.epoch
        with self.weights.computing():
            batches = self._collect()
            counts = self._counts(batches)
            sums = self._accumulate(batches, counts)
        if self.progress.bad_steps and self.backend.world_size > 1 and not self.weights.divided:
            self.finite = self.finite and math.isfinite(self.weights.norm())  # before the sum over all processes
        self.weights.reduce()
        self.optimizer.adjust_gradients()
        mean = sum(sums[name] / max(1.0, count) for name, count in counts.items())
        norm = self.weights.norm()
        rate = self.source.rate * learning_rate(
            self.progress.step, self.total, self.run, epoch=epoch, cuts=self.progress.cuts
        )
        if math.isfinite(mean) and math.isfinite(norm):
            clip = self.run.clip
            factors = self.objective.rates(self.source.epoch)
            self.optimizer.step(rate, clip / norm if 0 < clip < norm else 1.0, factors)
            self.weights.publish()
            self.progress.bad_steps = 0
        else:
            self.optimizer.skip()
            self.progress.bad_steps += 1
        self.weights.clear()
        targets = sum(counts.values())
        self.progress.step += 1
        self.progress.tokens += int(targets)
        self.progress.seconds += time.perf_counter() - begin
        return {"loss": mean, "lr": rate, "grad_norm": norm, "targets": targets}

    def _collect(self) -> list[Any]:
        """The batches of a step, for which the model may draw samples first. If this fails, the source is as before."""
        before = self.source.state() if self.run.accumulate > 1 else None
        batches = []
        try:
            for _ in range(self.run.accumulate):
                self.source.collect(self.objective.model)
                batches += [next(self.batches) for _ in range(self.source.share.parts)]
        except (Interrupted, NlptoolsError):
            if before is not None:
                self.source.restore(before)
            raise
        return batches

    def _accumulate(self, batches: list[Any], counts: Mapping[str, float]) -> dict[str, float]:
        """Add up the gradients of the batches. Returns the sums of their losses and measures over all processes."""
        total = dict.fromkeys(counts, 0.0)
        for number, batch in enumerate(batches):
            part = number % len(self.carried)
            carried = self.carried[part] if self.objective.continues(batch) else ()
            outputs = self.forward(*map(self.backend.put, self.objective.arrays(batch)), *carried)
            self.carried[part] = tuple(value for name, value in outputs.items() if name.startswith(CARRIED))
            loss = reduce(add, (outputs[name] / max(1.0, count) for name, count in counts.items()))
            loss.backward()
            self.weights.collect()
            for name, value in outputs.items():
                if not name.startswith(CARRIED):
                    total[name] = total.get(name, 0.0) + float(value.detach())
        self.facts = self.objective.facts(batches[-1])
        self.finite = all(map(math.isfinite, total.values()))
        sums = dict(zip(total, self.backend.sum(list(total.values())), strict=True))
        measured = self.progress.measured
        for name, value in sums.items():
            if name not in counts and math.isfinite(value):  # else no JSON holds the sum
                measured[name] = measured.get(name, 0.0) + value
        self.progress.measured_targets += sum(counts.values())
        return sums

    def not_finite(self) -> str:
        """Which processes had a loss that was not finite in the last step, for a message; all call this together."""
        own = [float(rank == self.backend.rank and not self.finite) for rank in range(self.backend.world_size)]
        ranks = [str(rank) for rank, bad in enumerate(self.backend.sum(own)) if bad]
        if not ranks or self.backend.world_size == 1:
            return ""
        return f" on rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}"

    def report(self) -> dict[str, float]:
        """The facts of the last batch, and the means of measures per target since the last report."""
        progress = self.progress
        means = {name: value / max(1.0, progress.measured_targets) for name, value in progress.measured.items()}
        progress.measured, progress.measured_targets = {}, 0.0
        return {**self.facts, **means}

    def save(self) -> None:
        """Write a checkpoint; all processes call this, and the main one writes, or each writes a part."""
        if self.checkpoints is None:
            return
        state, kept = self._memory(), self.weights
        record = {"progress": vars(self.progress), "source": self.source.state(), "updates": self.optimizer.steps}
        with self.averages():
            moments = self._own(kept.gathered(self.optimizer.state()))
            weights = self._own((name, tensor) for name, tensor in kept.tensors() if name not in kept.base)
            state = {**(state if self.backend.is_main else {}), **moments}
            where = self.progress.step, weights, state, record, self.progress.held
            if kept.divided:  # written here: the tensors share the memory of the averages
                self.checkpoints.save_part(self.backend, *where)
            elif self.backend.is_main:
                self.checkpoints.save(*where)

    def _own(self, tensors: Iterable[tuple[str, Tensor]]) -> Tensors:
        """The tensors that this process writes: all, or where checkpoints have parts, each n-th of n processes."""
        if not self.weights.divided:
            return dict(tensors)
        backend = self.backend
        numbered = enumerate(tensors)
        return {
            name: tensor.cpu() for number, (name, tensor) in numbered if number % backend.world_size == backend.rank
        }

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
            self.weights.publish()

    def _memory(self) -> Tensors:
        """The random states of all processes, and the model's state after the last batch, for all rows of joint batches."""
        share, own = self.source.share, {f"random.{k}": v for k, v in self.backend.random_state().items()}
        for part, carried in enumerate(self.carried):
            own.update({f"{CARRIED}{part}.{i}": tensor for i, tensor in enumerate(carried)})
        every = self.backend.gather(own)
        state = {}
        for rank, other in enumerate(every):
            drawn = {name: tensor for name, tensor in other.items() if name.startswith("random.")}
            state.update({f"{name}.{rank}" if rank else name: tensor for name, tensor in drawn.items()})
        count = len(self.carried[0])
        parts = [
            [every[rank][f"{CARRIED}{part}.{i}"] for i in range(count)]
            for part in range(share.parts)
            for rank in range(share.world_size)
        ]
        joint: Iterable[Tensor] = parts[0]
        if count and len(parts) > 1:  # row i is in part i modulo their number; parts without rows come last
            first, *others = map(self.objective.state, parts[: self.source.streams])
            order = [row for part in range(len(parts)) for row in range(part, self.source.streams, len(parts))]
            joint = first.join(others).select(torch.tensor(order).argsort())
        return state | {f"{CARRIED}{i}": tensor for i, tensor in enumerate(joint)}

    def restore(self, weights: Tensors, state: Tensors, record: JsonObject) -> None:
        """Load a checkpoint, in every process. A process that was not there when it was saved gets a new random state."""
        self.weights.load(weights)
        self.optimizer.restore(self.weights.scattered(state), whole(record, "updates", CHECKPOINT))
        self._swap()
        suffix = f".{self.backend.rank}" if self.backend.rank else ""
        own = {kind: f"random.{kind}{suffix}" for kind in self.backend.random_state()}
        if not set(own.values()) <= state.keys():
            self.backend.seed(self.run_seed(record))
        self.backend.set_random_state({kind: state[name] for kind, name in own.items() if name in state})
        count = sum(name.startswith(CARRIED) for name in state)
        joint = tuple(state[f"{CARRIED}{i}"].to(self.backend.device) for i in range(count))
        if joint:
            self.objective.state(joint)  # raises if one is missing
        self.carried = [self._rows_of(joint, part) for part in range(self.source.share.parts)]
        self.source.restore(child(record, "source", CHECKPOINT))
        self.progress = built(RunProgress, child(record, "progress", CHECKPOINT), CHECKPOINT)
        self._find_best()
        self.batches = iter(self.source)

    def _rows_of(self, joint: tuple[Tensor, ...], part: int) -> tuple[Tensor, ...]:
        """The state of the model for the rows of a part of this process."""
        share = self.source.share
        if not joint or share.all_parts == 1:
            return joint
        rows = range(self.source.streams)[share.rows(part)] or [0]
        return tuple(self.objective.state(joint).select(torch.tensor(rows, device=self.backend.device)))

    def _find_best(self) -> None:
        """Forget the best validation if its checkpoint has been removed."""
        progress, checkpoints = self.progress, self.checkpoints
        if checkpoints is None or progress.best is None or checkpoints.path(progress.best_step).is_dir():
            return
        messages.warn(
            f"checkpoint of step {progress.best_step}, the best so far, is missing: the next validation counts as the best"
        )
        progress.best, progress.best_step, progress.best_valid = None, 0, {}

    def run_seed(self, record: JsonObject) -> int:
        """The seed (of dropout) for a process without a random state in the checkpoint."""
        return whole(child(record, "progress", CHECKPOINT), "step", CHECKPOINT) * 7919

    def _counts(self, batches: list[Any]) -> dict[str, float]:
        counts: dict[str, float] = {}
        for batch in batches:
            for kind, count in self.objective.counts(batch).items():
                counts[kind] = counts.get(kind, 0.0) + count
        return dict(zip(counts, self.backend.sum(list(counts.values())), strict=True))
