"""Fine-tuning from examples to bundle: `finetune`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor

from nlptools import messages
from nlptools.batches.features import Features
from nlptools.batches.source import BatchSource, Share
from nlptools.compute.backend import Backend
from nlptools.configs import Compute
from nlptools.configs.combinations import check_combinations
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.layers import MIX_FILES, layers
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.table import TASKS, changed_values, check_options
from nlptools.configs.tasks.words import Scratch
from nlptools.errors import DataError
from nlptools.files import artifacts, streams
from nlptools.formats.examples import TaskExample
from nlptools.json_types import JsonObject
from nlptools.layers.heads import mix_in
from nlptools.metrics.criterion import Criterion
from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks import task as tasks
from nlptools.tasks.labels import listed_counts
from nlptools.tasks.task import Task
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.finetuning import pretrained, repeats
from nlptools.training.finetuning.reader import Reader
from nlptools.training.objective import Objective


def finetune(
    inputs: Sequence[str],
    settings: Finetune,
    run: FinetuneTraining,
    compute: Compute | None = None,
    files: Files | None = None,
    scratch: Scratch | None = None,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Trained:
    """Train an encoder or a GPT, or with `settings.scratch` a model without pretraining, on the examples of `inputs` (files;
    none or `-`: standard input) into `run.output`.

    With `settings.seeds` or `settings.folds` there are several runs, in subdirectories of `run.output`, which keeps the
    best model. The same call continues a stopped run. `invocation` goes into the training record.

    Raises:
        UsageError, InputError, DataError, BundleError, Unavailable: before any computation.
        OutputError: the directory has other contents, or is locked.
        Stopped: by a signal or `run.max_time`, after saving.
        Diverged: see `training.engine.loop.fit`.
    """
    settings.check()
    run.check()
    check_combinations(settings, run)
    compute = compute or Compute()
    trainer = _trainer(settings.task)
    if trainer is not None:
        check_options(settings.task, files or Files())
        return trainer(
            inputs,
            settings,
            run,
            compute,
            files or Files(),
            encoding_errors=encoding_errors,
            invocation=invocation,
        )
    names = streams.check_inputs(inputs, run.held_out)
    task = tasks.for_training(settings, files or Files(), names)
    reader = _reader(settings, scratch, encoding_errors)
    text = TaskExamples(task, tuple(names), run.valid, encoding_errors)
    criteria: list[Criterion] = []  # may depend on the training data

    def one(run: FinetuneTraining, compute: Compute, fold: tuple[int, int] | None = None) -> Trained:
        # one seed for the model, the order of the data and the folds
        job = _Finetuning(settings, run, compute.seed, text, reader, task, files or Files(), fold)
        trained = run_job(job, run, compute, invocation)
        criteria.append(job.criterion)
        return trained

    if settings.seeds > 1 or settings.folds:
        return repeats.several(one, settings, run, compute, lambda: criteria[-1])
    return one(run, compute)


@dataclass
class TaskExamples:
    """The examples, read once for all runs."""

    task: Task
    inputs: tuple[str, ...]
    held_out: str | None
    errors: str

    @cached_property
    def train(self) -> list[TaskExample]:
        """The examples to train on. Raises DataError when there are none."""
        return self._read(self.inputs, "train")

    @cached_property
    def valid(self) -> list[TaskExample]:
        """The held-out examples, none without a file of them. Raises DataError when the file has none."""
        return [] if self.held_out is None else self._read((self.held_out,), "evaluate")

    def _read(self, names: tuple[str, ...], purpose: str) -> list[TaskExample]:
        examples = list(cast(Iterable[TaskExample], self.task.read(names, True, self.errors)))
        if not examples:
            raise DataError(f"no examples to {purpose} on", path=names[0])
        return examples


@dataclass(frozen=True)
class _Examples:
    """Rows to train on, and examples and rows to evaluate on."""

    train: Features
    valid: Features | None
    examples: Sequence[TaskExample]  # of `valid`; only in the main process
    path: Path
    text: TaskExamples
    learned: JsonObject
    reader: Reader

    def digests(self) -> dict[str, str | None]:
        return {"train": self.train.digest, "valid": self.valid.digest if self.valid else None}

    def paths(self) -> list[str | None]:
        learned = json.dumps([self.learned, self.reader.learned()])
        return [str(self.path), None if self.valid is None else "", learned]

    def record(self) -> JsonObject:
        def described(part: Features, names: Sequence[str | None]) -> JsonObject:
            sizes = {"examples": part.num_examples, "tokens": len(part.rows.ids), "cut": part.cut}
            return {"inputs": list(names), "sha256": part.digest, **sizes}

        valid = described(self.valid, [self.text.held_out]) if self.valid else None
        return {"train": described(self.train, self.text.inputs), "valid": valid, **self.learned}


@dataclass
class _Finetuning:
    """The `TrainingRun` of a task on top of a model. `task` has learned from the training data once they are read."""

    options: Finetune
    run: FinetuneTraining
    seed: int
    text: TaskExamples
    reader: Reader
    task: Task
    files: Files
    fold: tuple[int, int] | None = None

    @property
    def unit(self) -> str:
        return self.task.unit

    @property
    def criterion(self) -> Criterion:
        return self.task.criterion

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of a validation, the criterion last."""
        return self.task.measures

    def settings(self) -> JsonObject:
        settings = {**asdict(self.options), **asdict(self.files), **self.reader.settings(), "fold": self.fold}
        del settings["seeds"]  # more seeds are more runs, and do not change each
        return settings

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> _Examples:
        train, valid = self._parts(held_out)
        self.task = self.text.task.learn(train)
        if counts := self.task.count_labels(train):
            messages.note(f"labels: {listed_counts(counts)}")
        encoding = self.reader.encoding(self.task, train, backend.threads)
        rows = self.task.features(train, encoding, True)
        rows.save(directory / "train")
        if not self.reader.learns_vocabulary:
            self._report_unknown(train, rows, encoding.tokenizer)
        held = None
        if valid:
            self.task.check(valid)
            held = self.task.features(valid, encoding, False)
        train_rows, learned = Features.open(directory / "train"), self.task.learned()
        return _Examples(train_rows, held, valid, directory, self.text, learned, self.reader)

    def _report_unknown(self, examples: Sequence[TaskExample], rows: Features, tokenizer: Tokenizer) -> None:
        """Raise DataError if most tokens are unknown."""
        assert tokenizer.vocab is not None
        ids = rows.rows.ids[~np.isin(rows.rows.ids, list(tokenizer.vocab.marks))]
        unknown = UnknownTokens(tokenizer, "the training data")
        unknown.count([" ".join(example.texts) for example in islice(examples, 1000)], ids)
        unknown.report(self.run.force)

    def _parts(self, held_out: bool) -> tuple[list[TaskExample], list[TaskExample]]:
        """Examples to train on, and to evaluate on."""
        train = self.text.train
        if self.fold is None:
            return train, self.text.valid if held_out else []
        number, count = self.fold
        if count > len(train):
            raise DataError(f"{len(train)} examples are too few for {count} folds", path=self.text.inputs[0])
        fold_of = np.random.default_rng([self.seed, count]).permutation(len(train)) % count
        return (
            [e for e, fold in zip(train, fold_of, strict=True) if fold != number],
            [e for e, fold in zip(train, fold_of, strict=True) if fold == number],
        )

    def open(self, paths: list[str | None]) -> _Examples:
        directory, valid, learned = paths
        assert directory is not None and learned is not None
        values, read = json.loads(learned)
        self.task = self.text.task.restored(values)
        self.reader.restore(read)
        train = Features.open(Path(directory) / "train")
        return _Examples(train, None if valid is None else train, [], Path(directory), self.text, values, self.reader)

    def announce(self, data: _Examples, seconds: float) -> None:
        def described(part: Features) -> str:
            cut = f", {part.cut:,} cut" if part.cut else ""
            return f"{messages.counted(part.num_examples, 'example')} of {messages.counted(len(part.rows.ids), 'token')}{cut}"

        valid = f"; validation: {described(data.valid)}" if data.valid else ""
        messages.note(f"text: {described(data.train)}{valid} ({seconds:.1f} s)")

    def model(self) -> TaskModel:
        return self.reader.model(self.task, self.seed)

    def objective(self, model: TaskModel) -> Objective[TaskModel]:
        return self.reader.objective(model, self.task)

    def source(self, data: _Examples, model: TaskModel, backend: Backend) -> BatchSource:
        size = self.run.batch_size or min(1024, max(32, len(data.train) // 32))
        joint, share = Share.of(size, self.run.global_batch, backend.rank, backend.world_size)
        return self.reader.source(data.train, joint, self.seed, share, backend)

    def evaluate(self, data: _Examples, backend: Backend) -> Evaluate[TaskModel] | None:
        """The measures of the task on the held-out examples, computed by the main process."""
        valid = data.valid
        if valid is None:
            return None
        single = backend.world_size == 1

        def measured(model: TaskModel, stop: Callable[[], bool]) -> dict[str, float] | None:
            logits = self.reader.logits(model, self.task, valid, backend, stop if single else None)
            if logits is None:
                return None
            predictions = self.task.decode(logits, valid, data.examples, **self.task.layers_of(cast(TaskHeads, model)))
            return self.task.measure(predictions, data.examples)

        def evaluate(model: TaskModel, stop: Callable[[], bool]) -> dict[str, float] | None:
            numbers = measured(model, stop) if backend.is_main else None
            shared: dict[str, float] | None = backend.broadcast(numbers)
            return shared

        return evaluate

    def save(
        self, directory: Path, model: TaskModel, weights: Mapping[str, Tensor], record: Mapping[str, object]
    ) -> None:
        metrics, which = record.get("metrics"), layers(self.options.layers)
        metrics = metrics if isinstance(metrics, Mapping) else {}
        tuned = {name: metrics[f"valid_{name}"] for name in self.task.tuned if f"valid_{name}" in metrics}
        task = {
            "name": self.task.name,
            **self.task.own_settings(),
            **tuned,
            "max_length": self.options.max_length,
        }
        if self.options.features is None:  # else the sizes of the model have them
            task["layers"] = "mix" if which.kind == "mix" else self.options.layers
        for name, file in MIX_FILES.items():
            mix = mix_in(weights, name)
            if mix is not None:
                artifacts.write_json(directory / file, mix.as_json())
                messages.note(f"{file}: {mix.described()}")
                if name == "layer_mix":
                    task["layer_weights"] = [round(weight, 6) for weight in mix.weights]
        self.reader.save(directory, model, weights, record, {**self.task.label_settings(), "nlptools": {"task": task}})

    def advice(self, name: str) -> str:
        files = replace(self.files, layout=self.task.options.layout)  # also the layout of glue/NAME
        given = changed_values(files, self.task.not_remembered)
        file = streams.regular_file([*self.text.inputs, self.text.held_out])
        return shlex.join(["nlptools", "predict", name, *given, file]) if file else f"nlptools describe {name}"


def _trainer(task: str) -> Callable[..., Trained] | None:
    """The function that trains a task without a head; None for other tasks."""
    place = TASKS[task].trainer if task in TASKS else ""
    if not place:
        return None
    module, name = place.split(":")
    trainer: Callable[..., Trained] = getattr(import_module(module), name)
    return trainer


def _reader(settings: Finetune, scratch: Scratch | None, errors: str) -> Reader:
    """The model to train. Raises UsageError, InputError, BundleError."""
    scratch = scratch or Scratch()
    check_combinations(settings, scratch)
    if settings.scratch is not None or settings.features is not None:
        from nlptools.training.finetuning import words

        return words.opened(settings, scratch, errors)
    return pretrained.opened(settings)
