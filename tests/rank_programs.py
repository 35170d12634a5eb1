"""Programs of several processes, for tests: `rank_programs.py NAME` runs the function NAME in each of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
from tiny_models import tiny

from nlptools.batches.windows import ShuffledWindows, TextBatch
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.training.engine import due
from nlptools.training.engine.loop import fit
from nlptools.training.objectives import CausalLM


def backend() -> Backend:
    return Backend.detect(Compute(device="cpu", precision="fp32", threads=1))


def corpus(tokens: int = 400) -> Corpus:
    ids = np.random.default_rng(0).integers(2, 50, tokens).astype("uint16")
    return Corpus("", ids, TextCounts(tokens=tokens - 1), "")  # type: ignore[arg-type]


def clocks() -> None:
    """Train with a validation every minute, and print after which steps this process validates.

    By the clock of rank 0 a minute passes every 3 steps, by the clock of rank 1 in every step.
    """
    here, steps = backend(), [0]
    run = Training(output="", steps=8, valid_every="1m", save_every="1m", log_every="1m", warmup=0)

    class Windows(ShuffledWindows):
        def _batch(self, plan: np.ndarray, position: int) -> TextBatch:
            steps.append(steps[-1] + 1)
            return super()._batch(plan, position)

    def clock() -> float:
        return 61.0 * (steps[-1] if here.rank else steps[-1] // 3)

    due.time = SimpleNamespace(monotonic=clock)  # type: ignore[assignment]
    source = Windows(corpus(), 8, 2, seed=1, rank=here.rank, world_size=here.world_size)
    validated = []

    def evaluate(model: object, stop: object) -> dict[str, float]:
        validated.append(steps[-1])
        return {"loss": here.sum([1.0])[0]}  # waits for the other process

    fit(CausalLM(tiny("modern")), source, here, run, evaluate=evaluate)
    here.close()
    print(*validated)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
