"""How much better a sampled token is than expected, from the rewards of samples.

Generalized advantage estimation: Schulman et al. 2016 (arXiv:1506.02438), equation 16. Groups of samples of a prompt: GRPO, Shao
et al. 2024 (arXiv:2402.03300), section 4.1.2; RLOO, Ahmadian et al. 2024 (arXiv:2402.14740), equation 8. The KL
coefficient adapts as in Ziegler et al. 2019 (arXiv:1909.08593), section 2.2; section 2 has the scale of rewards.
Shapes: N samples, T tokens of a sample, P tokens of all samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nlptools.batches.completions import NEXT
from nlptools.batches.features import Features
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.ppo import TrainPPO

_GAIN = 0.1  # of the control of the KL coefficient, per rollout
_LEAST = 1e-8  # deviation that is divided by


@dataclass(frozen=True)
class Scale:
    """The mean and the standard deviation of the rewards of samples of the reference."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, rewards_N: np.ndarray) -> Scale:
        """The scale of these rewards. Equal rewards have deviation 1: they do not show the scale of others."""
        deviation = float(rewards_N.std())
        return cls(float(rewards_N.mean()), deviation if deviation > _LEAST else 1.0)

    def __call__(self, rewards_N: np.ndarray) -> np.ndarray:
        """(N,) rewards, less the mean, in units of the deviation."""
        standardized: np.ndarray = (rewards_N - self.mean) / self.deviation
        return standardized


def of_tokens(
    settings: TrainPPO,
    features: Features,
    rewards_N: np.ndarray,
    divergence_P: np.ndarray,
    value_P: np.ndarray,
    weight: float,
) -> tuple[np.ndarray, np.ndarray]:
    """(P,) advantages and returns of the tokens of `features`, 0 at tokens of prompts; `weight`: the KL coefficient."""
    advantage_P, return_P = np.zeros(len(value_P)), np.zeros(len(value_P))
    real, bounds = features.targets[NEXT] != NO_TARGET, features.rows.bounds
    if settings.algorithm != "ppo":
        if settings.algorithm == "rloo":
            divergence_N = np.add.reduceat(divergence_P.astype(np.float64), bounds[:-1])
            of_samples = rloo(rewards_N - weight * divergence_N, settings.group)
        else:
            of_samples = grpo(rewards_N, settings.group)
        advantage_P[real] = np.repeat(of_samples, features.lengths)[real]
        return advantage_P, return_P
    for number, (start, end) in enumerate(pairwise(bounds)):
        places = start + np.flatnonzero(real[start:end])
        each = -weight * divergence_P[places].astype(np.float64)
        each[-1] += rewards_N[number]
        advantage_P[places] = generalized(each, value_P[places], settings.discount, settings.trace)
    return_P[real] = advantage_P[real] + value_P[real]
    advantage_P[real] = whitened(advantage_P[real])
    return advantage_P, return_P


def generalized(rewards_T: np.ndarray, values_T: np.ndarray, discount: float, trace: float) -> np.ndarray:
    """(T,) advantages of the tokens of a sample; nothing follows its last token."""
    advantages = np.zeros_like(rewards_T)
    following, after = 0.0, 0.0
    for t in reversed(range(len(rewards_T))):
        surprise = rewards_T[t] + discount * following - values_T[t]
        after = surprise + discount * trace * after
        advantages[t], following = after, values_T[t]
    return advantages


def grpo(rewards_N: np.ndarray, group: int) -> np.ndarray:
    """(N,) rewards, standardized within groups of `group` consecutive samples."""
    groups = rewards_N.reshape(-1, group)
    centered = groups - groups.mean(1, keepdims=True)
    standardized: np.ndarray = centered / (groups.std(1, ddof=1, keepdims=True) + 1e-4)
    return standardized.reshape(-1)


def rloo(rewards_N: np.ndarray, group: int) -> np.ndarray:
    """(N,) rewards, each less the mean of the others of its group of `group` consecutive samples."""
    groups = rewards_N.reshape(-1, group)
    others = (groups.sum(1, keepdims=True) - groups) / (group - 1)
    compared: np.ndarray = groups - others
    return compared.reshape(-1)


def whitened(values_P: np.ndarray) -> np.ndarray:
    """The values with mean 0 and standard deviation 1."""
    scaled: np.ndarray = (values_P - values_P.mean()) / max(float(values_P.std()), _LEAST)
    return scaled


def explained_variance(values_P: np.ndarray, returns_P: np.ndarray) -> float:
    """The share of the variance of returns that values predict: 1 for exact values, 0 for the mean of returns."""
    variance = float(returns_P.var())
    return 1 - float((returns_P - values_P).var()) / variance if variance > _LEAST else 0.0


def adapted(weight: float, divergence: float, target: float) -> float:
    """The KL coefficient after a rollout with a mean divergence of `divergence` nats.

    It changes with the relative error: it falls by at most 2 %, as in the paper, but rises by up to 10 %, because a policy that
    learns late, when the coefficient has become small, diverges fast.
    """
    error = min(max(divergence / target - 1, -0.2), 1.0)
    return weight * (1 + _GAIN * error)
