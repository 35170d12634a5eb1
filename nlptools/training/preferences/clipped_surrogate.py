"""The loss of the updates of proximal policy optimization: `ClippedSurrogate` (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from nlptools.configs import Training
from nlptools.configs.ppo import TrainPPO
from nlptools.training.engine.optimizers import AdamW, Optimizer
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective
from nlptools.training.preferences.actor_critic import ActorCritic
from nlptools.training.preferences.losses import clipped_squares
from nlptools.training.preferences.policy import arrays
from nlptools.training.preferences.rollout import ADVANTAGE, OLD, REFERENCE, RETURN, VALUE, RolloutBatch

_EPSILON = 1e-5  # of Adam: rewards make small gradients


class ClippedSurrogate(Objective[ActorCritic]):
    """The clipped surrogate (Schulman et al. 2017, equation 7), the loss of values, and the loss of a text that is mixed in."""

    shown = ("reward", "kl", "length")

    def __init__(self, model: ActorCritic, settings: TrainPPO) -> None:
        super().__init__(model)
        self.settings = settings
        own = [name for name, _ in self.named_parameters() if not name.startswith("model.policy.")]
        self.value_rates = dict.fromkeys(own, settings.value_rate)

    def counts(self, batch: RolloutBatch) -> dict[str, float]:
        """The number of sampled tokens, and of tokens of the text that is mixed in."""
        mix = {} if batch.mix is None else {"mix": float(batch.mix.num_targets)}
        return {"loss": float(batch.samples.num_targets), **mix}

    def arrays(self, batch: RolloutBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        of_tokens = (batch.samples.of_tokens[name] for name in (OLD, VALUE, REFERENCE, ADVANTAGE, RETURN))
        weight = np.array(batch.weight, np.float32)
        return (*arrays(batch.samples), *of_tokens, weight, *(() if batch.mix is None else arrays(batch.mix)))

    def facts(self, batch: RolloutBatch) -> Mapping[str, float]:
        """Measures of the rollout: the mean reward, length and divergence of samples."""
        return batch.facts

    def forward(
        self,
        ids: Tensor,
        targets: Tensor,
        segments: Tensor,
        old: Tensor,
        value: Tensor,
        reference: Tensor,
        advantage: Tensor,
        returned: Tensor,
        weight: Tensor,
        *mix: Tensor,
    ) -> dict[str, Tensor]:
        """(R, T) each, the KL coefficient (), and ids, targets and segments of a text -> the sums of the losses, of the
        entropies, and of the ratios beyond --clip-range.
        """
        settings, real = self.settings, targets >= 0
        logs, entropy, now = self.model.read(ids, targets, segments)
        old, value, reference, advantage, returned = (
            each[real] for each in (old, value, reference, advantage, returned)
        )
        ratio = (logs - old).exp()
        low, high = 1 - settings.clip_ratio, 1 + settings.clip_ratio
        losses = -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
        if settings.algorithm == "ppo":
            losses = losses + settings.value_weight * clipped_squares(now, value, returned, settings.clip_values)
        if settings.algorithm == "grpo":
            losses = losses + weight * (torch.expm1(reference - logs) - (reference - logs))
        outside = ((ratio < low) | (ratio > high)).sum()
        sums = {"loss": losses.sum(), "entropy": entropy.detach().sum(), "clip_fraction": outside}
        if not mix:
            return sums
        hidden = self.model.policy.packed(mix[0], mix[2])
        text = self.model.policy.output.summed_loss(hidden.flatten(0, 1), mix[1].flatten())
        return {**sums, "mix": settings.mix_weight * text}

    def rates(self, epoch: float) -> Mapping[str, float]:
        """--critic-lr-factor for what computes the values alone: they start from nothing, and have to keep up with the policy."""
        return self.value_rates

    def optimizer(self, run: Training, weights: Weights[object]) -> Optimizer:
        """AdamW with a larger epsilon, unless another optimizer is chosen."""
        if run.optimizer != "adamw":
            return super().optimizer(run, weights)
        return AdamW(weights.parameters, run.beta2, run.weight_decay, eps=_EPSILON)
