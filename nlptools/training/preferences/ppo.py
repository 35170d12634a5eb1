"""Training a language model by rewards: `train_ppo`.

Ouyang et al. 2022 (arXiv:2203.02155), step 3: proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347) of rewards
less the divergence from the reference, with a mix of text (PPO-ptx). GRPO and RLOO need no values, see `advantages`; departure:
their losses are means over tokens, with clipped ratios. Dropout is off.
Shapes: R rows of a batch, T length, P targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nlptools import messages
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.ppo import PPOTraining, TrainPPO
from nlptools.errors import UsageError
from nlptools.files import streams
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.optimizers import AdamW, Optimizer
from nlptools.training.engine.spooled import Spooled, SpooledTask
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective
from nlptools.training.preferences import prompts, rewards
from nlptools.training.preferences.actor_critic import ActorCritic
from nlptools.training.preferences.policy import Policy, arrays
from nlptools.training.preferences.prompts import EncodedPrompts, PromptCounts
from nlptools.training.preferences.rewards import Reward
from nlptools.training.preferences.rollouts import ADVANTAGE, OLD, REFERENCE, RETURN, VALUE, RolloutBatch, Rollouts

_EPSILON = 1e-5  # of Adam: rewards make small gradients


def train_ppo(
    inputs: Sequence[str],
    settings: TrainPPO,
    run: PPOTraining,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> Trained:
    """Train the language model in `settings.policy` on its own responses to the prompts of `inputs`, into `run.output`.

    Raises:
        UsageError: options that do not go together, or no room for prompts.
        BundleError: the policy is not a language model, or the reward not a reward model.
        DataError: the reward command fails; a checkpoint is saved. And the errors of `run_job`.
    """
    settings.check()
    run.check()
    compute = compute or Compute()
    names = streams.check_inputs(inputs)
    policy = Policy.open(settings.policy, settings)
    context = policy.context
    if context is not None and settings.max_new_tokens >= context:
        raise UsageError(f"--max-new-tokens {settings.max_new_tokens}: the context of the model has {context} tokens")
    reward = rewards.reward(settings.reward, compute, run.reward_timeout)
    return run_job(_PPO(settings, run, names, compute.seed, policy, reward, encoding_errors), run, compute, invocation)


@dataclass(frozen=True)
class _PPO(SpooledTask[EncodedPrompts]):
    """Training by rewards, as `training.engine.job.TrainingRun`."""

    options: TrainPPO
    run: Training
    inputs: Sequence[str]
    seed: int
    policy: Policy
    reward: Reward
    encoding_errors: str
    unit: str = "tokens"
    criterion: Criterion = LOSS
    measures: tuple[str, ...] = ()
    several_processes: ClassVar[bool] = False

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self.policy.settings()}

    def encode(self, path: Path, backend: Backend, held_out: bool) -> EncodedPrompts:
        context = self.policy.context
        longest = 0 if context is None else context - self.options.max_new_tokens
        encoding = self.policy.encoding(longest, backend.threads)
        return prompts.spool(path, self.inputs, self.options.mix, encoding, self.encoding_errors)

    def reopen(self, path: Path) -> EncodedPrompts:
        return prompts.reopen(path)

    def describe(self, counts: PromptCounts) -> str:
        cut = f", {counts.cut:,} cut" if counts.cut else ""
        return f"{messages.counted(counts.prompts, 'prompt')} of {messages.counted(counts.tokens, 'token')}{cut}"

    def model(self) -> ActorCritic:
        values = self.options.algorithm == "ppo"
        critic = self.policy.trained(0.0, self.seed) if values and self.options.critic == "separate" else None
        return ActorCritic(self.policy.trained(0.0, self.seed), values, critic, self.policy.never)

    def objective(self, model: ActorCritic) -> ClippedSurrogate:
        return ClippedSurrogate(model, self.options)

    def source(self, data: Spooled[EncodedPrompts], model: ActorCritic, backend: Backend) -> Rollouts:
        how = self.options, self.run.batch_size, self.seed, self.reward
        return Rollouts(self.policy, data.train, *how, backend)

    def evaluate(self, data: Spooled[EncodedPrompts], backend: Backend) -> Evaluate | None:
        return None

    def save(self, directory: Path, model: ActorCritic, weights: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Write the policy alone."""
        own = {name.removeprefix("policy."): tensor for name, tensor in weights.items() if name.startswith("policy.")}
        self.policy.save(directory, model.policy, own, record)

    def advice(self, name: str) -> str:
        return f"echo 'A prompt' | nlptools generate {name}"


class ClippedSurrogate(Objective):
    """The clipped surrogate (Schulman et al. 2017, equation 7), the loss of values, and that of a text that is mixed in."""

    shown = ("reward", "kl", "length")

    def __init__(self, model: ActorCritic, settings: TrainPPO) -> None:
        super().__init__(model)
        self.settings = settings
        own = [name for name, _ in self.named_parameters() if not name.startswith("model.policy.")]
        self.value_rates = dict.fromkeys(own, settings.value_rate)

    def counts(self, batch: RolloutBatch) -> dict[str, float]:
        """The number of sampled tokens, and of those of the text that is mixed in."""
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
        entropies, and of the ratios beyond --clip-ratio.
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
        """--value-rate for what computes the values alone: they start from nothing, and have to keep up with the policy."""
        return self.value_rates

    def optimizer(self, run: Training, weights: Weights) -> Optimizer:
        """AdamW with a larger epsilon, unless another optimizer is chosen."""
        if run.optimizer != "adamw":
            return super().optimizer(run, weights)
        return AdamW(weights.parameters, run.beta2, run.weight_decay, eps=_EPSILON)


def clipped_squares(value_P: Tensor, old_P: Tensor, returned_P: Tensor, clip: float) -> Tensor:
    """(P,) half the squared errors of values, or of the values clipped to `clip` around old ones, whichever is larger; 0: no
    clipping.
    """
    if clip == 0:
        return 0.5 * (value_P - returned_P).square()
    clipped = old_P + (value_P - old_P).clamp(-clip, clip)
    return 0.5 * torch.maximum((value_P - returned_P).square(), (clipped - returned_P).square())
