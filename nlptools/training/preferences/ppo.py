"""Training a language model by rewards: `train_ppo`.

Ouyang et al. 2022 (arXiv:2203.02155), step 3: proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347) of rewards
minus the divergence from the reference, with a mix of text (PPO-ptx). `Rollouts` collects: it samples, judges and scores with
the model that trains. `clipped_surrogate` has the loss of the updates, which use each sample in several passes.
GRPO and RLOO need no values, see `advantages`; departure: their losses are means over tokens, with clipped ratios. Dropout is
off.
Shapes: R rows of a batch, T length, N samples, P targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor

from nlptools import messages
from nlptools.batches.completions import NEXT, PackedBatches, packed_batch
from nlptools.batches.features import Features
from nlptools.batches.source import CHECKPOINT, BatchSource, Share
from nlptools.batches.windows import NO_TARGET
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.generation import Generate
from nlptools.configs.ppo import PPOTraining, TrainPPO
from nlptools.errors import UsageError
from nlptools.files import streams
from nlptools.files.json_fields import built, child, number, whole
from nlptools.inference.generation import decoding
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.generated import continuation_text
from nlptools.json_types import JsonObject
from nlptools.layers import lora
from nlptools.layers.linear import frozen
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine import stop
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.spooled import Spooled, SpooledTask
from nlptools.training.preferences import advantages, prompts, rewards
from nlptools.training.preferences.actor_critic import ActorCritic
from nlptools.training.preferences.advantages import Scale
from nlptools.training.preferences.clipped_surrogate import ClippedSurrogate
from nlptools.training.preferences.policy import Policy, sums, token_log_probabilities, token_numbers
from nlptools.training.preferences.prompts import EncodedPrompts, PromptCounts
from nlptools.training.preferences.rewards import Reward, Sample
from nlptools.training.preferences.rollout import (
    ADVANTAGE,
    OF_TOKENS,
    OLD,
    REFERENCE,
    RETURN,
    VALUE,
    Drawn,
    Rollout,
    RolloutBatch,
    chosen_prompts,
    drawn,
    from_all,
    sequences,
    together,
)


def train_ppo(
    inputs: Sequence[str],
    settings: TrainPPO,
    run: PPOTraining,
    compute: Compute | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
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

    def settings(self) -> JsonObject:
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
        return ActorCritic(self.policy.trained(0.0, self.seed), values, critic, self.policy.forbidden)

    def objective(self, model: ActorCritic) -> ClippedSurrogate:
        return ClippedSurrogate(model, self.options)

    def source(self, data: Spooled[EncodedPrompts], model: ActorCritic, backend: Backend) -> Rollouts:
        how = self.options, self.run.batch_size, self.seed, self.reward
        return Rollouts(self.policy, data.train, *how, backend)

    def evaluate(self, data: Spooled[EncodedPrompts], backend: Backend) -> None:
        """Nothing: the log has rewards and divergences of each rollout."""

    def save(
        self, directory: Path, model: ActorCritic, weights: Mapping[str, Tensor], record: Mapping[str, object]
    ) -> None:
        """Write the policy alone."""
        own = {name.removeprefix("policy."): tensor for name, tensor in weights.items() if name.startswith("policy.")}
        self.policy.save(directory, model.policy, own, record)

    def advice(self, name: str) -> str:
        return f"echo 'A prompt' | nlptools generate {name}"


class Rollouts(BatchSource):
    """Batches of samples of the model that trains.

    A rollout has some prompts with samples of each, drawn at temperature 1 from the whole distribution: a truncated one differs
    from the model, and makes its divergence from the reference look negative (trl issues 417 and 1098). Tokens that `generate`
    does not write have probability 0 in the samples, the policy and the reference: otherwise a policy could earn rewards for
    unknown words, or seem close to the reference by moving probability to them.
    Log-probabilities and values come from the forward pass of training, so that the first ratio is exactly 1. Rewards are on
    the scale of the first rollout, which the reference samples: the KL coefficient, the clip range and the loss of values
    then do not depend on the units of the reward (Ziegler et al. 2019, arXiv:1909.08593, section 2; Huang et al. 2024,
    arXiv:2403.17031).
    The samples are part of the state, because the model that drew them no longer exists.
    """

    def __init__(
        self,
        policy: Policy,
        prompts: EncodedPrompts,
        settings: TrainPPO,
        batch_size: int,
        seed: int,
        reward: Reward,
        backend: Backend,
    ) -> None:
        """The reference is the model of `policy`, or the model that trains without its adapters, if it has any."""
        self.policy, self.prompts, self.settings, self.reward = policy, prompts, settings, reward
        self.batch_size, self.seed, self.backend = batch_size, seed, backend
        self.reference = None if policy.adapter else backend.for_inference(policy.base.model)
        self.share = Share(backend.rank, backend.world_size)
        size = min(settings.rollouts, len(prompts.ids)) * settings.group
        self.batches_per_rollout = settings.passes * -(-size // batch_size)
        self.batches_per_epoch = len(prompts.ids) * settings.group / size * self.batches_per_rollout
        self.mix = None if prompts.mix is None else PackedBatches(prompts.mix, batch_size, seed=seed, share=self.share)
        self.number, self.position, self.weight = 0, 0, settings.kl_weight
        self.scale: Scale | None = None  # of rewards; known after the first rollout
        self.rollout: Rollout | None = None

    @property
    def epoch(self) -> float:
        """Passes over the prompts, with their fraction."""
        return (self.number * self.batches_per_rollout + self.position) / self.batches_per_epoch

    @property
    def ended(self) -> bool:
        """Whether the samples diverge beyond --kl-limit."""
        return self.rollout is not None and 0 < self.settings.kl_limit < self.rollout.facts["kl"]

    def collect(self, model: object) -> None:
        """Where all samples are used, draw new ones, judge and score them. Raises Interrupted, and as `Reward`."""
        model = cast(ActorCritic, model)
        if self.rollout is not None and self.position == self.batches_per_rollout:
            if self.settings.kl_target:
                self.weight = advantages.adapted(self.weight, self.rollout.facts["kl"], self.settings.kl_target)
            self.number, self.position, self.rollout = self.number + 1, 0, None
        if self.rollout is None:
            chosen = chosen_prompts(self.seed, self.number, self.settings.rollouts, len(self.prompts.ids))
            pairs = [(prompt, tokens) for prompt, some in zip(chosen, self._sample(model, chosen)) for tokens in some]
            rewards = self._judge(pairs)
            features = sequences([(self.prompts.ids[prompt], tokens.ids) for prompt, tokens in pairs])
            self.rollout = self._score(model, features, rewards, np.array([tokens.ended for _, tokens in pairs]))

    def _sample(self, model: ActorCritic, chosen: Sequence[int]) -> list[list[Drawn]]:
        """New samples of each of the chosen prompts, in every process. Each process draws its part. Raises Interrupted."""
        settings, loaded, backend = self.settings, self.policy.base, self.backend
        begin, end = (len(chosen) * number // backend.world_size for number in (backend.rank, backend.rank + 1))
        rows = together(settings, max(len(self.prompts.ids[i]) for i in chosen))
        samples: list[list[Continuation]] = []
        interrupted = False

        def watch(_: int, new: Continuation) -> bool:
            # not `ends`, which adds up the probabilities of all end tokens: training has the one that was drawn
            stop.check()
            return new.ids[-1] in loaded.ends

        # in float32, products of packed weights differ from products in training in the last bits
        with nullcontext() if backend.precision == "fp32" else frozen(model), suppress(stop.Interrupted):
            interrupted = True
            samples = decoding.generate(
                model.policy,
                [self.prompts.ids[i] for i in chosen[begin:end]],
                Generate(max_new_tokens=settings.max_new_tokens, num_samples=settings.group, batch_size=rows),
                backend,
                eos=loaded.eos,
                seed=self.seed,
                first=self.number * len(chosen) + begin,
                forbidden=self.policy.forbidden,
                watch=watch,
            )
            interrupted = False
        if backend.sum([float(interrupted)])[0] > 0:
            raise stop.Interrupted
        return from_all([drawn(sample, loaded.eos) for some in samples for sample in some], settings.group, backend)

    def _judge(self, pairs: Sequence[tuple[int, Drawn]]) -> np.ndarray:
        """The rewards (N,) of the samples of prompts, which the main process computes. Raises as `Reward`."""
        ids, texts, loaded = self.prompts.ids, self.prompts.texts, self.policy.base
        samples = [
            Sample(texts[prompt], continuation_text(loaded, ids[prompt], tokens.text), tokens.ended)
            for prompt, tokens in pairs
        ]
        return rewards.judged(self.reward, samples, self.backend)

    def _score(self, model: ActorCritic, features: Features, rewards_N: np.ndarray, ended_N: np.ndarray) -> Rollout:
        """The samples with log-probabilities by the model and by the reference, values, advantages and returns."""
        if self.scale is None:
            self.scale = Scale.of(rewards_N) if self.settings.normalize else Scale(0.0, 1.0)
        penalized = self.scale(rewards_N) - self.settings.missing_end * ~ended_N
        numbers = token_numbers(model.read, features, self.backend, shared=True)
        with lora.switched_off(model):
            reference = token_log_probabilities(
                self.reference or model.policy, features, self.backend, forbidden=model.forbidden, shared=True
            )
        assert numbers is not None and reference is not None
        old, _, value = numbers
        real = features.targets[NEXT] != NO_TARGET
        divergence, length = sums(features, old - reference, real).T
        how = self.settings, features, penalized, old - reference, value, self.weight
        advantage, returns = advantages.of_tokens(*how)
        facts = {
            "reward": float(rewards_N.mean()),
            "kl": float(divergence.mean()),
            "kl_weight": self.weight,
            "length": float(length.mean()),
        }
        if self.settings.algorithm == "ppo":
            facts["explained_variance"] = advantages.explained_variance(value[real], returns[real])
        arrays = {OLD: old, VALUE: value, REFERENCE: reference, ADVANTAGE: advantage, RETURN: returns}
        targets = {NEXT: features.targets[NEXT], **{name: array.astype(np.float32) for name, array in arrays.items()}}
        return Rollout(replace(features, targets=targets, per_token=OF_TOKENS), facts)

    # -- batches of the samples ---------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[RolloutBatch]:
        mix = None if self.mix is None else iter(self.mix)
        while True:
            assert self.rollout is not None
            features = self.rollout.features
            mine = self._samples(len(features))
            self.position += 1
            texts = None if mix is None else next(mix)
            samples = packed_batch(features, mine, len(mine) > 0)
            yield RolloutBatch(samples, texts, self.rollout.facts, self.weight)

    def _samples(self, count: int) -> np.ndarray:
        """The numbers of this process's samples of the next batch, of all `count`: each pass has its own order."""
        number, place = divmod(self.position, self.batches_per_rollout // self.settings.passes)
        order = np.random.default_rng([self.seed, self.number, number]).permutation(count)
        return order[place * self.batch_size : (place + 1) * self.batch_size][self.share.rows(0)]

    def state(self) -> JsonObject:
        """See `BatchSource`."""
        rollout = None if self.rollout is None else self.rollout.state()
        mix = None if self.mix is None else self.mix.state()
        scale = None if self.scale is None else vars(self.scale)
        counts = {"number": self.number, "position": self.position, "weight": self.weight}
        return {**counts, "scale": scale, "rollout": rollout, "mix": mix}

    def restore(self, state: JsonObject) -> None:
        """See `BatchSource`."""
        self.number, self.position = whole(state, "number", CHECKPOINT), whole(state, "position", CHECKPOINT)
        self.weight = float(number(state, "weight", CHECKPOINT))
        scale, rollout = child(state, "scale", CHECKPOINT), child(state, "rollout", CHECKPOINT)
        self.scale = built(Scale, scale, CHECKPOINT) if scale else None
        self.rollout = Rollout.restored(rollout) if rollout else None
        if self.mix is not None:
            self.mix.restore(child(state, "mix", CHECKPOINT))
