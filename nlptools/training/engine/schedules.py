"""Learning-rate schedules."""

from __future__ import annotations

import math

from nlptools.configs import Training


def learning_rate(step: int, total: int, run: Training, *, epoch: float = 0.0, cuts: int = 0) -> float:
    """The learning rate of optimizer step `step` (from 0) of `total`: linear warm-up, then `run.schedule`.

    `run.warmup` below 1 is a share of all steps. cosine and linear decay to `run.min_lr` times the peak; trapezoid holds
    the peak and decays to it over the last fifth (Hägele et al. 2024, arXiv:2405.18392). inverse-sqrt (Vaswani et al.
    2017, arXiv:1706.03762, section 5.3) decays with the square root of the step, independently of `total`. epoch-decay
    divides by `run.decay` at the beginning of each epoch after the first `run.decay_after` ones (Zaremba et al. 2014,
    arXiv:1409.2329); plateau divides by it after each validation without a better score.

    Args:
        epoch: epochs done before this step.
        cuts: number of validations without a better score.
    """
    warmup = math.ceil(run.warmup * total) if run.warmup < 1 else int(run.warmup)
    if step < warmup:
        return run.lr * (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    if run.schedule == "inverse-sqrt":
        return run.lr * math.sqrt(max(1, warmup) / (step + 1))
    if run.schedule == "plateau":
        return run.lr / run.decay**cuts
    if run.schedule == "epoch-decay":
        return run.lr / run.decay ** max(0, math.floor(epoch) + 1 - run.decay_after)
    if run.schedule == "constant":
        share = 1.0
    elif run.schedule == "linear":
        share = 1 - done
    elif run.schedule == "cosine":
        share = 0.5 * (1 + math.cos(math.pi * done))
    else:
        share = min(1.0, (1 - done) / 0.2)
    return run.lr * (run.min_lr + (1 - run.min_lr) * share)
