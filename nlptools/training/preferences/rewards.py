"""Rewards of samples: by a model of `train-reward`, or by a command."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nlptools.batches.features import Encoding
from nlptools.configs import Compute
from nlptools.configs.finetuning import Predict
from nlptools.errors import DataError, UsageError, display, shown
from nlptools.formats.examples import Place, Ranking, Turn
from nlptools.inference.loading import load
from nlptools.inference.prediction import Predictor
from nlptools.text.chat_templates import end_of_turn

_HINT = "a checkpoint is saved: the same command continues"


@dataclass(frozen=True)
class Sample:
    """A response to a prompt, as text. `ended`: it ends with the end-of-text token, not at the limit of its length."""

    prompt: str
    completion: str
    ended: bool


class Reward(Protocol):
    """What judges samples."""

    def __call__(self, samples: Sequence[Sample]) -> list[float]:
        """The reward of each sample, finite numbers. Raises DataError."""


def reward(where: str, compute: Compute) -> Reward:
    """The reward model in a directory, or the command `where`. Raises BundleError, UsageError for a model without rewards."""
    if os.path.isdir(where):
        return RewardModel(where, compute)
    return RewardCommand(where)


class RewardModel:
    """A directory of `train-reward`."""

    def __init__(self, path: str, compute: Compute) -> None:
        loaded = load(path, settings=Predict(), compute=compute)
        if not isinstance(loaded, Predictor) or loaded.task.name != "reward":
            raise UsageError(f"--reward {display(path)}: not a model of train-reward")
        self.predictor = loaded
        chat = loaded.encoding.chat if isinstance(loaded.encoding, Encoding) else None
        self.end = "" if chat is None else end_of_turn(chat)  # which is text where the tokenizer has no token for it

    def __call__(self, samples: Sequence[Sample]) -> list[float]:
        """See `Reward`."""
        place = Place("samples", 0)
        texts = [(s.prompt, s.completion.removesuffix(self.end)) for s in samples]
        examples = [Ranking((Turn("", prompt),), ((Turn("", text),),), (), place) for prompt, text in texts]
        return [float(reward[0]) for _, rewards in self.predictor.predictions(examples) for reward in rewards]


@dataclass(frozen=True)
class RewardCommand:
    """A command for the shell: it reads a JSON object a line and writes a number a line. It runs once for all samples of a
    rollout, so it need not flush its output.
    """

    command: str

    def __call__(self, samples: Sequence[Sample]) -> list[float]:
        """See `Reward`."""
        lines = "".join(json.dumps(vars(sample), ensure_ascii=False) + "\n" for sample in samples)
        done = subprocess.run(self.command, shell=True, input=lines.encode(), capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise self._refuse(f"ended with status {done.returncode}" + (f": {shown(said)}" if said else ""))
        numbers = done.stdout.decode("utf-8", "replace").split("\n")
        if numbers[-1] == "":
            numbers.pop()
        if len(numbers) != len(samples):
            raise self._refuse(f"wrote {len(numbers)} lines for {len(samples)} samples")
        return [self._number(line, text) for line, text in enumerate(numbers, 1)]

    def _number(self, line: int, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._refuse(f"line {line} is {shown(text)}, expected a finite number")
        return value

    def _refuse(self, message: str) -> DataError:
        return DataError(f"the reward command {message}", hint=_HINT)
