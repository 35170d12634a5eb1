"""Rewards of samples: by a reward model, or by a command."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nlptools.batches.features import Encoding
from nlptools.configs import Compute
from nlptools.configs.finetuning import Files, Predict
from nlptools.errors import DataError, UsageError, display, reason, shown
from nlptools.formats.examples import Place, Ranking, TextExample, Turn
from nlptools.inference.loading import load
from nlptools.inference.prediction import Predictor
from nlptools.text.chat_templates import after_answer

_LONGEST = 4096  # bytes of a line of a reward command that are read
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
    """A directory of `train-reward`, or of another model that gives a text, or a pair of texts, a number.

    Published reward models are of the latter kind: sequence classifiers with one label. An encoder reads the prompt and the
    response as a pair of texts; a decoder reads them as one text, with what its chat template writes after the
    response. A model of `finetune --task regress` reads them as the examples it has learned from, as one text or two.
    """

    def __init__(self, path: str, compute: Compute) -> None:
        pair = Files(text_column=("prompt", "completion"))  # of models that do not say how many texts they read
        loaded = load(path, settings=Predict(), files=pair, compute=compute)
        if not isinstance(loaded, Predictor) or loaded.task.name not in ("reward", "regress"):
            raise UsageError(
                f"--reward {display(path)}: not a model of train-reward, and not a sequence classifier with one label"
            )
        self.predictor = loaded
        self.texts = int(getattr(loaded.task, "texts", 0))  # of examples of a sequence classifier
        encoding = loaded.encoding
        self.encoding = encoding if isinstance(encoding, Encoding) else None
        chat = None if self.encoding is None else self.encoding.chat
        self.after = "" if chat is None else after_answer(chat)
        self.end = self.after.strip()  # which samples have at their end where the tokenizer has no token for it

    def __call__(self, samples: Sequence[Sample]) -> list[float]:
        """See `Reward`."""
        ranked = self.predictor.task.name == "reward"
        examples = list(map(self._ranking if ranked else self._texts, samples))
        found = [number for _, numbers in self.predictor.predictions(examples) for number in numbers]
        return [float(rewards[0]) for rewards in found] if ranked else list(map(float, found))

    def _ranking(self, sample: Sample) -> Ranking:
        """An example of `train-reward`, whose responses have no mark at their end."""
        text = sample.completion.removesuffix(self.end)
        return Ranking((Turn("", sample.prompt),), ((Turn("", text),),), (), Place("samples", 0))

    def _texts(self, sample: Sample) -> TextExample:
        """An example of a sequence classifier."""
        prompt = sample.prompt if self.encoding is None else self.encoding.without_start(sample.prompt)
        text = sample.completion.removesuffix(self.end) + (self.after if sample.ended else "")
        return TextExample((prompt + text,) if self.texts == 1 else (prompt, text), None, Place("samples", 0))


@dataclass(frozen=True)
class RewardCommand:
    """A command for the shell: it reads a JSON object a line and writes a number a line. It runs once for all samples of a
    rollout, so it need not flush its output.
    """

    command: str

    def __call__(self, samples: Sequence[Sample]) -> list[float]:
        """See `Reward`."""
        try:
            numbers, status, said = self._run(samples)
        except OSError as error:  # no room for what it reads, or no process for it
            raise self._refuse(f"cannot run: {reason(error)}") from None
        if len(numbers) > len(samples):
            raise self._refuse(f"wrote more lines than there are samples ({len(samples)})")
        if status:
            raise self._refuse(f"ended with status {status}" + (f": {shown(said)}" if said else ""))
        if len(numbers) < len(samples):
            raise self._refuse(f"wrote {len(numbers)} lines for {len(samples)} samples")
        return [self._number(line, text) for line, text in enumerate(numbers, 1)]

    def _run(self, samples: Sequence[Sample]) -> tuple[list[str], int, str]:
        """The lines that the command writes, at most one too many; its status, and its last line on standard error."""
        with tempfile.TemporaryFile() as judged, tempfile.TemporaryFile() as said:
            for sample in samples:
                judged.write(json.dumps(vars(sample), ensure_ascii=False).encode() + b"\n")
            judged.seek(0)
            with subprocess.Popen(
                self.command, shell=True, stdin=judged, stdout=subprocess.PIPE, stderr=said
            ) as process:
                assert process.stdout is not None
                # bounded: a command that never ends its output must not fill the memory
                lines = [line for _ in range(len(samples) + 1) if (line := process.stdout.readline(_LONGEST))]
            said.seek(max(0, said.seek(0, os.SEEK_END) - _LONGEST))
            last = said.read().decode("utf-8", "replace").strip().split("\n")[-1]
            return [line.decode("utf-8", "replace").rstrip("\n") for line in lines], process.returncode, last

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
