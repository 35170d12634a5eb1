"""Samples of the model that is being trained, with rewards and advantages, as a source of batches.

A rollout is a set of prompts with samples of each, drawn at temperature 1 from the whole distribution: a truncated one would
diverge from the model, and make its divergence from the reference look negative (trl issues 417 and 1098). Tokens that
`generate` never writes have probability 0 in the samples, the policy and the reference alike: else a policy could earn rewards
for unknown words, or seem close to the reference by moving probability to them.
Log-probabilities and values come from the forward pass of training, so that the first ratio is exactly 1. The samples of a
rollout are the batches of several passes; then new ones are drawn. Rewards are put on the scale of those of the first
rollout, which the reference draws: the weight of the divergence, the range that values are clipped to and their loss would
else depend on the units of the reward (Ziegler et al. 2019, arXiv:1909.08593, section 2; Huang et al. 2024,
arXiv:2403.17031).
Shapes: N samples, P tokens of all samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from nlptools.batches.completions import NEXT, PackedBatch, PackedBatches, packed_batch
from nlptools.batches.encoder_rows import EncoderRows, bounds_of
from nlptools.batches.features import Features
from nlptools.batches.source import BatchSource
from nlptools.batches.windows import NO_TARGET
from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.configs.ppo import TrainPPO
from nlptools.inference.generation import decoding
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.generated import continuation_text
from nlptools.layers import lora
from nlptools.layers.linear import frozen
from nlptools.training.engine import stop
from nlptools.training.preferences import advantages
from nlptools.training.preferences.actor_critic import ActorCritic
from nlptools.training.preferences.advantages import Scale
from nlptools.training.preferences.policy import Policy, sums, token_log_probabilities, token_numbers
from nlptools.training.preferences.prompts import EncodedPrompts
from nlptools.training.preferences.rewards import Reward, Sample

# Targets of tokens: of the model that drew them the log-probability and the value, the log-probability under the reference
OLD, VALUE, REFERENCE, ADVANTAGE, RETURN = "old", "value", "reference", "advantage", "return"
OF_TOKENS = (NEXT, OLD, VALUE, REFERENCE, ADVANTAGE, RETURN)
# Samples that are drawn together: the more the faster, as long as their keys and values have room
_FEWEST_ROWS, _MOST_ROWS, _MOST_TOKENS = 32, 256, 1 << 15


@dataclass(frozen=True)
class RolloutBatch:
    """Some samples, and texts to train on beside them.

    Attributes:
        facts: measures of the rollout, for the log.
        weight: of the divergence, where it is part of the loss.
    """

    samples: PackedBatch
    mix: PackedBatch | None
    facts: Mapping[str, float]
    weight: float


@dataclass(frozen=True)
class Rollout:
    """Samples with targets for each token, and their measures."""

    features: Features
    facts: dict[str, float]

    def state(self) -> dict[str, Any]:
        """All of it as plain numbers."""
        arrays = {"ids": self.features.rows.ids, "bounds": self.features.rows.bounds, **self.features.targets}
        return {"facts": self.facts, "arrays": {name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Rollout:
        """The rollout of a `state()`."""
        lists = dict(state["arrays"])
        ids, bounds = np.array(lists.pop("ids"), np.int32), np.array(lists.pop("bounds"), np.int64)
        targets = {name: np.array(values, np.int32 if name == NEXT else np.float32) for name, values in lists.items()}
        features = Features(EncoderRows(ids, np.zeros(len(ids), np.uint8), bounds), targets, OF_TOKENS)
        return cls(features, dict(state["facts"]))


class Rollouts(BatchSource):
    """See the module's docstring. The samples are part of its state: the model that drew them no longer exists."""

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
        self.policy, self.prompts, self.settings, self.batch_size, self.seed = (
            policy,
            prompts,
            settings,
            batch_size,
            seed,
        )
        self.reward, self.backend = reward, backend
        # not one more copy of the weights
        self.reference = None if policy.adapter else backend.for_inference(policy.base.model)
        size = min(settings.rollouts, len(prompts.ids)) * settings.group
        self.batches_per_rollout = settings.passes * -(-size // batch_size)
        self.batches_per_epoch = len(prompts.ids) * settings.group / size * self.batches_per_rollout
        self.mix = None if prompts.mix is None else PackedBatches(prompts.mix, batch_size, seed=seed)
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

    def collect(self, model: ActorCritic) -> None:
        """Draw the samples of a new rollout where those of the last one are used. Raises Interrupted, and as `Reward`."""
        if self.rollout is not None and self.position == self.batches_per_rollout:
            if self.settings.kl_target:
                self.weight = advantages.adapted(self.weight, self.rollout.facts["kl"], self.settings.kl_target)
            self.number, self.position, self.rollout = self.number + 1, 0, None
        if self.rollout is None:
            self.rollout = self._draw(model)

    def __iter__(self) -> Iterator[RolloutBatch]:
        mix = None if self.mix is None else iter(self.mix)
        while True:
            assert self.rollout is not None
            features = self.rollout.features
            samples = self._samples(len(features))
            self.position += 1
            texts = None if mix is None else next(mix)
            yield RolloutBatch(packed_batch(features, samples), texts, self.rollout.facts, self.weight)

    def state(self) -> dict[str, Any]:
        """See `BatchSource`."""
        rollout = None if self.rollout is None else self.rollout.state()
        mix = None if self.mix is None else self.mix.state()
        scale = None if self.scale is None else vars(self.scale)
        counts = {"number": self.number, "position": self.position, "weight": self.weight}
        return {**counts, "scale": scale, "rollout": rollout, "mix": mix}

    def restore(self, state: dict[str, Any]) -> None:
        """See `BatchSource`."""
        self.number, self.position, self.weight = int(state["number"]), int(state["position"]), float(state["weight"])
        self.scale = None if state["scale"] is None else Scale(**state["scale"])
        self.rollout = None if state["rollout"] is None else Rollout.restored(state["rollout"])
        if self.mix is not None:
            self.mix.restore(state["mix"])

    def _samples(self, count: int) -> np.ndarray:
        """The numbers of the samples of the next batch, of all `count`: each pass has its own order."""
        number, place = divmod(self.position, self.batches_per_rollout // self.settings.passes)
        order = np.random.default_rng([self.seed, self.number, number]).permutation(count)
        return order[place * self.batch_size : (place + 1) * self.batch_size]

    def _chosen(self) -> list[int]:
        """The prompts of this rollout, in random order of an epoch."""
        total = len(self.prompts.ids)
        size = min(self.settings.rollouts, total)
        places = range(self.number * size, (self.number + 1) * size)
        orders = {
            epoch: np.random.default_rng([self.seed, epoch]).permutation(total)
            for epoch in {p // total for p in places}
        }
        return [int(orders[place // total][place % total]) for place in places]

    def _together(self, longest: int) -> int:
        """How many prompts of up to `longest` tokens are sampled at a time."""
        rows = _MOST_TOKENS // (longest + self.settings.max_new_tokens)
        return max(1, min(_MOST_ROWS, max(_FEWEST_ROWS, rows)) // self.settings.group)

    def _draw(self, model: ActorCritic) -> Rollout:
        """New samples, judged. Raises as `Reward`."""
        loaded = self.policy.base
        chosen = self._chosen()
        done = self._sampled(model, chosen)
        pairs = [(i, _drawn(sample, loaded.eos)) for i, samples in zip(chosen, done, strict=True) for sample in samples]
        samples = [
            Sample(
                self.prompts.texts[i],
                continuation_text(loaded, self.prompts.ids[i], drawn.text),
                drawn.ended,
            )
            for i, drawn in pairs
        ]
        rewards = np.array(self.reward(samples), np.float64)
        features = _sequences([(self.prompts.ids[i], drawn.ids) for i, drawn in pairs])
        return self._judged(model, features, rewards, np.array([sample.ended for sample in samples]))

    def _sampled(self, model: ActorCritic, chosen: Sequence[int]) -> list[list[Continuation]]:
        """New samples of the chosen prompts. Raises Interrupted."""
        settings, loaded = self.settings, self.policy.base

        def watch(_: int, new: Continuation) -> bool:
            # not `ends`, which takes the probabilities of all of them together: training has that of the one that was drawn
            stop.check()
            return new.ids[-1] in loaded.ends

        # in float32, products of packed weights differ from those of training in the last bits
        with nullcontext() if self.backend.precision == "fp32" else frozen(model):
            return decoding.generate(
                model.policy,
                [self.prompts.ids[i] for i in chosen],
                Generate(
                    max_new_tokens=settings.max_new_tokens,
                    num_samples=settings.group,
                    batch_size=self._together(max(len(self.prompts.ids[i]) for i in chosen)),
                ),
                self.backend,
                eos=loaded.eos,
                seed=self.seed,
                first=self.number * len(chosen),
                forbidden=self.policy.never,
                watch=watch,
            )

    def _judged(self, model: ActorCritic, features: Features, rewards: np.ndarray, ended: np.ndarray) -> Rollout:
        """The samples of a model with log-probabilities, values, advantages and returns."""
        if self.scale is None:
            self.scale = Scale.of(rewards) if self.settings.normalize else Scale(0.0, 1.0)
        penalized = self.scale(rewards) - self.settings.missing_end * ~ended
        numbers = token_numbers(model.read, features, self.backend)
        with lora.switched_off(model):
            reference = token_log_probabilities(
                self.reference or model.policy, features, self.backend, never=model.never
            )
        assert numbers is not None and reference is not None
        old, _, value = numbers
        real = features.targets[NEXT] != NO_TARGET
        divergence, length = sums(features, old - reference, real).T
        advantage, returns = self._advantages(features, penalized, old - reference, value)
        facts = {
            "reward": float(rewards.mean()),
            "kl": float(divergence.mean()),
            "kl_weight": self.weight,
            "length": float(length.mean()),
        }
        if self.settings.algorithm == "ppo":
            facts["explained_variance"] = advantages.explained_variance(value[real], returns[real])
        arrays = {OLD: old, VALUE: value, REFERENCE: reference, ADVANTAGE: advantage, RETURN: returns}
        targets = {NEXT: features.targets[NEXT], **{name: array.astype(np.float32) for name, array in arrays.items()}}
        return Rollout(replace(features, targets=targets, per_token=OF_TOKENS), facts)

    def _advantages(
        self, features: Features, rewards: np.ndarray, divergence: np.ndarray, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(P,) advantages and returns of tokens, from the rewards (N,) of samples."""
        settings = self.settings
        advantage, returns = np.zeros(len(value)), np.zeros(len(value))
        real = features.targets[NEXT] != NO_TARGET
        if settings.algorithm != "ppo":
            if settings.algorithm == "rloo":
                of_samples = advantages.rloo(rewards - self.weight * sums(features, divergence)[:, 0], settings.group)
            else:
                of_samples = advantages.grpo(rewards, settings.group)
            advantage[real] = np.repeat(of_samples, features.lengths)[real]
            return advantage, returns
        for number, (start, end) in enumerate(zip(features.rows.bounds, features.rows.bounds[1:])):
            places = start + np.flatnonzero(real[start:end])
            each = -self.weight * divergence[places].astype(np.float64)
            each[-1] += rewards[number]
            advantage[places] = advantages.generalized(each, value[places], settings.discount, settings.trace)
        returns[real] = advantage[real] + value[real]
        advantage[real] = advantages.whitened(advantage[real])
        return advantage, returns


class _Drawn(NamedTuple):
    """The tokens of a sample, with the one that ends it if there is one, and whether there is."""

    ids: list[int]
    ended: bool

    @property
    def text(self) -> list[int]:
        """The tokens without the end."""
        return self.ids[:-1] if self.ended else self.ids


def _drawn(sample: Continuation, eos: int) -> _Drawn:
    if sample.finish == "eos":
        return _Drawn([*sample.ids, eos], True)
    return _Drawn(sample.ids, sample.finish == "stop")


def _sequences(pairs: Sequence[tuple[list[int], list[int]]]) -> Features:
    """Prompts and what was sampled after them, with the next token of each as target, where it was sampled."""
    ids: list[int] = []
    targets: list[int] = []
    lengths = []
    for prompt, new in pairs:
        ids += [*prompt, *new[:-1]]
        targets += [*[NO_TARGET] * (len(prompt) - 1), *new]
        lengths.append(len(prompt) + len(new) - 1)
    rows = EncoderRows(np.array(ids, np.int32), np.zeros(len(ids), np.uint8), bounds_of(np.array(lengths, np.int64)))
    return Features(rows, {NEXT: np.array(targets, np.int32)}, (NEXT,))
