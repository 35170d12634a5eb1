"""Fine-tuning a model from examples to bundle: `finetune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlptools import messages
from nlptools.batches.features import Features
from nlptools.batches.windows import Source
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.finetuning import Files, Finetune, FinetuneTraining
from nlptools.configs.layers import layers
from nlptools.configs.text_classifiers import Scratch
from nlptools.errors import DataError, UsageError
from nlptools.files import streams
from nlptools.metrics.criterion import Criterion
from nlptools.tasks import outputs
from nlptools.tasks import task as kinds
from nlptools.tasks.task import Kind
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.finetuning import pretrained, repeats
from nlptools.training.finetuning.reader import Reader


def finetune(
    inputs: Sequence[str],
    settings: Finetune,
    run: FinetuneTraining,
    compute: Compute | None = None,
    files: Files | None = None,
    scratch: Scratch | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, Any] | None = None,
) -> Trained:
    """Train an encoder or a GPT, or with `settings.scratch` a text classifier, on the examples of `inputs` (files; none or `-`:
    standard input) into `run.output`.

    With `settings.seeds` or `settings.folds` it is trained several times, in directories within `run.output`, and the
    best is kept there. The same call continues a run that was stopped. `invocation` goes into the training record.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before anything is computed.
        OutputError: the directory holds something else, or is locked.
        Stopped: by a signal or `run.max_time`, with everything saved.
        Diverged: see `training.engine.loop.fit`.
    """
    settings.check()
    run.check()
    compute = compute or Compute()
    if settings.task == "seq2seq":
        from nlptools.training.finetuning import seq2seq

        told: dict[str, Any] = {"encoding_errors": encoding_errors, "invocation": invocation}
        return seq2seq.finetune(inputs, settings, run, compute, files or Files(), **told)
    kind = kinds.new(settings, files or Files())
    names = streams.check_inputs(inputs, run.held_out)
    reader = _reader(settings, scratch, encoding_errors)
    text = Text(kind, tuple(names), run.valid, encoding_errors)
    learnt: list[Kind] = []  # how good a model is may depend on what the data tell

    def one(run: FinetuneTraining, compute: Compute, fold: tuple[int, int] | None = None) -> Trained:
        # a seed of the model and of the order of the data; folds are cut by the same seed
        task = _Finetuning(settings, run, compute.seed, text, reader, kind, files or Files(), fold)
        done = run_job(task, run, compute, invocation)
        learnt.append(task.kind)
        return done

    if settings.seeds > 1 or settings.folds:
        return repeats.several(one, settings, run, compute, lambda: learnt[-1].criterion)
    return one(run, compute)


@dataclass
class Text:
    """The examples, read once however often they are trained on."""

    kind: Kind
    inputs: tuple[str, ...]
    held_out: str | None
    errors: str
    _train: list[Any] | None = None
    _valid: list[Any] | None = None

    def train(self) -> list[Any]:
        """The examples to train on. Raises DataError when there are none."""
        if self._train is None:
            self._train = list(self.kind.read(self.inputs, True, self.errors))
            if not self._train:
                raise DataError("no examples to train on", path=self.inputs[0])
        return self._train

    def valid(self) -> list[Any]:
        """The held-out examples. Raises DataError when there are none."""
        if self._valid is None:
            assert self.held_out is not None
            self._valid = list(self.kind.read([self.held_out], True, self.errors))
            if not self._valid:
                raise DataError("no examples to measure on", path=self.held_out)
        return self._valid


@dataclass(frozen=True)
class _Examples:
    """Rows to train on, and examples and rows to measure on."""

    train: Features
    valid: Features | None
    examples: Sequence[Any]  # of `valid`; only the main process has them
    path: Path
    text: Text
    learned: dict[str, Any]

    def digests(self) -> dict[str, str | None]:
        return {"train": self.train.digest, "valid": self.valid.digest if self.valid else None}

    def paths(self) -> list[str | None]:
        import json

        return [str(self.path), None if self.valid is None else "", json.dumps(self.learned)]

    def record(self) -> dict[str, Any]:
        def told(part: Features, names: Sequence[str | None]) -> dict[str, Any]:
            sizes = {"examples": part.num_examples, "tokens": len(part.rows.ids), "cut": part.cut}
            return {"inputs": list(names), "sha256": part.digest, **sizes}

        valid = told(self.valid, [self.text.held_out]) if self.valid else None
        return {"train": told(self.train, self.text.inputs), "valid": valid, **self.learned}


@dataclass
class _Finetuning:
    """A task on top of a model, as `training.engine.job.Task`. `kind` knows what the data tell when they are read."""

    options: Finetune
    run: FinetuneTraining
    seed: int
    text: Text
    reader: Reader
    kind: Kind
    files: Files
    fold: tuple[int, int] | None = None

    @property
    def unit(self) -> str:
        return self.kind.unit

    @property
    def criterion(self) -> Criterion:
        return self.kind.criterion

    @property
    def measures(self) -> tuple[str, ...]:
        """All numbers of a validation, that of the criterion last."""
        return self.kind.measures

    def settings(self) -> dict[str, Any]:
        settings = {**asdict(self.options), **asdict(self.files), **self.reader.settings(), "fold": self.fold}
        del settings["seeds"]  # more of them are more runs, not other ones
        return settings

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> _Examples:
        train, valid = self._parts(held_out)
        self.kind = self.text.kind.learn(train)
        encoding = self.reader.encoding(train, backend.threads)
        rows = self.kind.features(train, encoding, True)
        rows.save(directory / "train")
        held = None
        if valid:
            self.kind.check(valid)
            held = self.kind.features(valid, encoding, False)
        return _Examples(Features.open(directory / "train"), held, valid, directory, self.text, self.kind.learned())

    def _parts(self, held_out: bool) -> tuple[list[Any], list[Any]]:
        """Examples to train on, and to measure on."""
        train = self.text.train()
        if self.fold is None:
            return train, self.text.valid() if held_out and self.run.held_out else []
        number, count = self.fold
        if count > len(train):
            raise DataError(f"{len(train)} examples make no {count} folds", path=self.text.inputs[0])
        fold_of = np.random.default_rng([self.seed, count]).permutation(len(train)) % count
        return (
            [e for e, fold in zip(train, fold_of, strict=True) if fold != number],
            [e for e, fold in zip(train, fold_of, strict=True) if fold == number],
        )

    def open(self, paths: list[str | None]) -> _Examples:
        import json

        directory, valid, learned = paths
        assert directory is not None and learned is not None
        self.kind = self.text.kind.restored(json.loads(learned))
        train = Features.open(Path(directory) / "train")
        return _Examples(train, None if valid is None else train, [], Path(directory), self.text, json.loads(learned))

    def announce(self, data: _Examples, seconds: float) -> None:
        def told(part: Features) -> str:
            cut = f", {part.cut:,} cut" if part.cut else ""
            return f"{messages.counted(part.num_examples, 'example')} of {messages.counted(len(part.rows.ids), 'token')}{cut}"

        valid = f"; validation: {told(data.valid)}" if data.valid else ""
        messages.note(f"text: {told(data.train)}{valid} ({seconds:.1f} s)")

    def model(self) -> Any:
        return self.reader.model(self.kind, self.seed)

    def objective(self, model: Any) -> Any:
        return self.reader.objective(model, self.kind)

    def source(self, data: _Examples, backend: Backend) -> Source:
        size = self.run.batch_size or min(1024, max(32, len(data.train) // 32))
        return self.reader.source(data.train, size, self.seed, backend)

    def evaluate(self, data: _Examples, backend: Backend) -> Evaluate | None:
        """The measures of the task on the held-out examples, computed by the main process."""
        valid = data.valid
        if valid is None:
            return None
        single, which = backend.world_size == 1, layers(self.options.layers)

        def measured(model: Any, stop: Callable[[], bool]) -> dict[str, float] | None:
            stop_here = stop if single else None
            found = outputs.logits(model, self.kind.head, valid, backend, which, stop=stop_here)
            if found is None:
                return None
            said = self.kind.decode(found, valid, data.examples, **kinds.beside(self.kind, model))
            return self.kind.measure(said, data.examples)

        def evaluate(model: Any, stop: Callable[[], bool]) -> dict[str, float] | None:
            numbers = measured(model, stop) if backend.is_main else None
            shared: dict[str, float] | None = backend.broadcast(numbers)
            return shared

        return evaluate

    def save(self, directory: Path, model: Any, weights: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        more, metrics, which = self.kind.config(), record.get("metrics", {}), layers(self.options.layers)
        tuned = {name: metrics[f"valid_{name}"] for name in kinds.tuned(self.kind) if f"valid_{name}" in metrics}
        task = {
            **more.pop("nlptools", {}).get("task", {}),
            **tuned,
            "max_length": self.options.max_length,
            "layers": "mix" if which.kind == "mix" else self.options.layers,
        }
        if "layer_mix.weight" in weights:  # as `embed --layers mix:FILE` takes them
            task["layer_weights"] = [round(float(w), 6) for w in weights["layer_mix.weight"]]
        self.reader.save(directory, model, weights, record, {**more, "nlptools": {"task": task}})

    def advice(self, name: str) -> str:
        return f"nlptools predict {name} FILE"


def _reader(settings: Finetune, scratch: Scratch | None, errors: str) -> Reader:
    """What reads the texts. Raises UsageError, InputError, BundleError."""
    if settings.scratch is not None:
        from nlptools.training.finetuning.scratch import FromScratch

        return FromScratch(settings, scratch or Scratch(), errors)
    if scratch is not None and scratch.vectors is not None:
        raise UsageError("--vectors goes with --scratch", hint="--scratch mean")
    return pretrained.opened(settings)
