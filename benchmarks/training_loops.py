"""Training steps of nlptools and plain PyTorch, timed in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import side_by_side
import torch
from torch import nn

Step = Callable[[], object]
# (shape, side, precision, whether to compile) -> a round of that side; precision is fp32, bf16, or a name that the script knows
Side = Callable[[str, str, str, bool], side_by_side.Measure]


class RandomBatches(side_by_side.Endless):
    """A source of random tokens."""

    def __init__(self, vocab: int, batch: int, context: int) -> None:
        self.shape, self.vocab, self.rng = (batch, context), vocab, np.random.default_rng(0)

    def __iter__(self) -> Any:
        from nlptools.batches.windows import TextBatch

        while True:
            yield TextBatch(*(self.rng.integers(0, self.vocab, self.shape) for _ in range(2)))


class Streams(RandomBatches):
    """Random tokens as streams: the state is carried from batch to batch."""

    def __iter__(self) -> Any:
        for number, batch in enumerate(super().__iter__()):
            yield replace(batch, continues=number > 0)


def our_step(model: Any, source: Any, precision: str, *, objective: Any = None, **options: Any) -> Step:
    """The step that `train-lm` takes with this model; `options` are fields of `Training`.

    Args:
        objective: its class; None: `CausalLM`.
    """
    # imported here: the other side must not get what this does to the process
    from nlptools.compute.backend import Backend
    from nlptools.configs import Compute, Training
    from nlptools.training.engine.steps import Fit
    from nlptools.training.objectives import CausalLM

    backend = Backend.detect(Compute(precision=precision))
    model.initialize()
    model.to(backend.device)
    run = Training(output="", steps=10**6, warmup=0, **options)
    state: Any = Fit((objective or CausalLM)(model), source, backend, run, None)
    state.objective.train()
    return state.step


def plain_step(model: nn.Module, vocab: int, batch: int, context: int, bf16: bool) -> Step:
    """The step of a loop as one writes it by hand, for a model that returns its loss for ids and targets."""
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def step() -> None:
        x, y = (torch.randint(vocab, (batch, context), device=device) for _ in range(2))
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step


def speed(step: Step, steps: int, tokens: int) -> side_by_side.Measure:
    """Tokens per second of `steps` steps, each of `tokens` tokens."""

    def measure() -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return steps * tokens / (time.perf_counter() - begin)

    return measure


def compare(
    script: str,
    description: str | None,
    titles: Mapping[str, str],
    sides: Mapping[str, tuple[str, str]],
    measure: Side,
    *,
    default: tuple[str, ...] = (),
    warm_up: int = 3,
) -> None:
    """Time the sides in turns, for the shapes that the command line names.

    Args:
        script: the calling file, which is started again for each side.
        titles: of the tables, by shape.
        sides: side and precision by name of the row; rows in bf16 only where the processor has it.
        default: shapes to take without arguments; (): all.
        warm_up: rounds that do not count, as memory that is touched for the first time is slow.
    """
    arguments = side_by_side.options(description, "shapes*", rounds=5, compile=False)
    if arguments.worker:
        torch.set_num_threads(side_by_side.CORES)
        rounds = measure(*arguments.worker, arguments.compile)
        for _ in range(warm_up):
            rounds()
        side_by_side.serve(rounds)
        return
    print(side_by_side.machine())
    compiled = ["--compile"] if arguments.compile else []
    bf16 = "bf16" in side_by_side.precisions()
    chosen = {name: side for name, side in sides.items() if bf16 or side[1] == "fp32"}
    for shape in arguments.shapes or default or titles:
        workers = {name: side_by_side.Worker(script, shape, *side, *compiled) for name, side in chosen.items()}
        side_by_side.compare(titles[shape], "tokens/s", workers, arguments.rounds)
