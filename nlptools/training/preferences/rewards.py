"""Rewards of samples: by a reward model, or by a command."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nlptools.batches.features import Encoding
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.configs.units import duration
from nlptools.errors import DataError, UsageError, display, reason, shown
from nlptools.files import atomic
from nlptools.formats.examples import Place, Ranking, TextExample, Turn
from nlptools.inference.loading import load
from nlptools.inference.prediction import Predictor
from nlptools.tasks.classify.regression import Regression
from nlptools.tasks.reward.task import RewardTask
from nlptools.text.chat_templates import after_answer
from nlptools.training.engine import stop

_LONGEST = 4096  # bytes of a line of a reward command that are read
_LOOK = 0.1  # seconds after which a reward command that writes nothing is looked at
_GRACE = 1.0  # seconds for a command to end after SIGTERM
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


def reward(where: str, compute: Compute, timeout: str | None = None) -> Reward:
    """The reward model in a directory, or the command `where`, which may take `timeout` for the samples of a rollout.

    Raises:
        BundleError, UsageError: a model without rewards, or with a time limit.
    """
    if not os.path.isdir(where):
        return RewardCommand(where, None if timeout is None else duration(timeout))
    if timeout is not None:
        raise UsageError(f"--reward-timeout is for a reward command; --reward {display(where)} is a directory")
    return RewardModel(where, compute)


def judged(reward: Reward, samples: Sequence[Sample], backend: Backend) -> np.ndarray:
    """The rewards (N,) that the main process computes, in every process. Raises Interrupted, and as `Reward`."""

    def judge() -> list[float] | None:
        with contextlib.suppress(stop.Interrupted):
            return [float(value) for value in reward(samples)]
        return None

    values = backend.first(judge)
    if values is None:
        raise stop.Interrupted
    return np.array(values, np.float64)


class RewardModel:
    """A directory of `train-reward`, or of another model that scores a text or a pair of texts.

    Published reward models are sequence classifiers with one label. An encoder reads the prompt and the response as a pair of
    texts; a decoder reads them as one text, followed by the end of turn of its chat template. A model of `finetune --task
    regress` reads one text or two, as in its training.
    """

    def __init__(self, path: str, compute: Compute) -> None:
        pair = Files(text_column=("prompt", "completion"))  # for models that do not record how many texts they read
        loaded = load(path, settings=Predict(), files=pair, compute=compute)
        if not isinstance(loaded, Predictor) or not isinstance(loaded.task, RewardTask | Regression):
            raise UsageError(
                f"--reward {display(path)}: not a model of train-reward, and not a sequence classifier with one label"
            )
        self.predictor, self.task = loaded, loaded.task
        encoding = loaded.members[0].encoding
        self.encoding = encoding if isinstance(encoding, Encoding) else None
        chat = None if self.encoding is None else self.encoding.chat
        self.after = "" if chat is None else after_answer(chat)
        self.end = self.after.strip()  # at the end of samples where the tokenizer has no token for it

    def __call__(self, samples: Sequence[Sample]) -> list[float]:
        """See `Reward`."""
        examples = list(map(self._example, samples))
        found = [prediction for _, some in self.predictor.predictions(examples) for prediction in some]
        return np.array(found, np.float64).reshape(len(samples)).tolist()

    def _example(self, sample: Sample) -> Ranking | TextExample:
        """A sample as an example of the task."""
        return self._texts(sample, self.task.texts) if isinstance(self.task, Regression) else self._ranking(sample)

    def _ranking(self, sample: Sample) -> Ranking:
        """An example of `train-reward`: responses have no mark at the end."""
        text = sample.completion.removesuffix(self.end)
        return Ranking((Turn("", sample.prompt),), ((Turn("", text),),), (), Place("samples", 0))

    def _texts(self, sample: Sample, texts: int) -> TextExample:
        """An example of a sequence classifier."""
        prompt = sample.prompt if self.encoding is None else self.encoding.without_start(sample.prompt)
        text = sample.completion.removesuffix(self.end) + (self.after if sample.ended else "")
        return TextExample((prompt + text,) if texts == 1 else (prompt, text), None, Place("samples", 0))


@dataclass(frozen=True)
class RewardCommand:
    """A shell command that reads a JSON object per line and writes a number per line. It runs once for all samples of a
    rollout, so it need not flush its output.

    It leads a process group, which ends when the run is asked to stop, or after `timeout` seconds.
    """

    command: str
    timeout: float | None = None

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
        most = len(samples) + 1
        with tempfile.TemporaryFile() as judged, tempfile.TemporaryFile() as said:
            for sample in samples:
                judged.write(json.dumps(vars(sample), ensure_ascii=False).encode() + b"\n")
            judged.seek(0)
            process = subprocess.Popen(
                self.command, shell=True, stdin=judged, stdout=subprocess.PIPE, stderr=said, start_new_session=True
            )
            with atomic.with_group(process.pid), process:
                try:
                    lines = self._lines(process, most)
                finally:
                    _end(process)
            said.seek(max(0, said.seek(0, os.SEEK_END) - _LONGEST))
            last = said.read().decode("utf-8", "replace").strip().split("\n")[-1]
            return lines[:most], process.returncode, last

    def _lines(self, process: subprocess.Popen[bytes], most: int) -> list[str]:
        """The lines of the process until it ends, or until it has written enough for `most` lines.

        Raises:
            Interrupted: the run is asked to stop.
            DataError: it takes too long.
        """
        assert process.stdout is not None
        until = math.inf if self.timeout is None else time.monotonic() + self.timeout
        written, open_output = bytearray(), True
        # bounded: a command that never ends its output must not fill the memory
        while written.count(b"\n") < most and len(written) < most * _LONGEST:
            ended = process.poll() is not None
            if open_output and select.select([process.stdout], [], [], 0 if ended else _LOOK)[0]:
                data = os.read(process.stdout.fileno(), 1 << 16)
                open_output = bool(data)
                written += data
                continue
            if ended:  # a process that it has left may still hold its output open
                break
            if not open_output:
                time.sleep(_LOOK)
            stop.check()
            if time.monotonic() > until:
                raise self._refuse(f"took longer than --reward-timeout {self.timeout:g}s")
        whole = written.decode("utf-8", "replace").removesuffix("\n").split("\n") if written else []
        return [line[start : start + _LONGEST] for line in whole for start in range(0, max(1, len(line)), _LONGEST)]

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


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the group of a process that has not ended by itself: with SIGTERM, then with SIGKILL."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
