"""The contract of the tasks of `finetune` and `predict`: everything that differs between labels, tags and answers.

A task is a frozen dataclass. `from_options` makes it for training, `learn` adds what depends on the training data (the
labels), and `from_bundle` makes it from a model directory, ours or one of Hugging Face.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from torch import Tensor, nn

from nlptools import bundle
from nlptools.batches.encoder_rows import UNLIMITED, marks_of, marks_of_gpt
from nlptools.batches.features import Encoding, Features
from nlptools.batches.row_encodings import RowEncoding
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.layers import Layers, layers
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.table import GLUE, TASKS, check_options
from nlptools.errors import BundleError, UsageError, display
from nlptools.files.json_fields import built, child
from nlptools.formats.glue import glue_task
from nlptools.formats.layouts import task_of_files
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.json_types import JsonObject
from nlptools.metrics.criterion import Criterion
from nlptools.models import registry
from nlptools.models.contract import Layered
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.tasks.heads import LAYER_HEADS, TaskHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks import without_pretraining
from nlptools.tasks.labels import listed
from nlptools.text.chat_templates import own_template
from nlptools.text.text_boundaries import of_encoder

T = TypeVar("T")
E = TypeVar("E")
P = TypeVar("P")
R = TypeVar("R", bound=RowEncoding)
AUTO = "auto"
_PROBLEMS = {("sequence", "regression"): "regress"}  # tasks of heads with a problem_type of Hugging Face
_OUTPUTS = {"entities": ("tag",), "conllu": ("tag", "parse")}  # tasks, by the values of --to that some lack


@dataclass(frozen=True)
class TaskOf(ABC, Generic[E, P, R]):
    """A task with examples of type E, which an R turns into rows, and predictions of type P.

    Shapes: N rows, B rows of a batch, T length, K labels.

    Attributes:
        name: the task, as in `configs.tasks.table.TASKS`.
        options: how files are read.
        best: the measure to choose weights by, or auto.
        unit: the unit of the weights of a loss.
        reads_words: whether examples are already split into words.
        learns: the fields that `learn` sets.
        tuned: the measures that `config.json` keeps as settings of the task.
        bests: the measures that --best can name.
        in_common: the fields that the tasks of an ensemble must have in common, besides the name.
        window: how many examples `predict` reads together.
        not_remembered: the input options that a model of the task does not know from its training.
    """

    name: str
    options: Options
    best: str = AUTO

    unit: ClassVar[str] = "examples"
    reads_words: ClassVar[bool] = False
    learns: ClassVar[tuple[str, ...]] = ()
    tuned: ClassVar[tuple[str, ...]] = ()
    bests: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "f1")
    in_common: ClassVar[tuple[str, ...]] = ()
    window: ClassVar[int] = 8192
    not_remembered: ClassVar[tuple[str, ...]] = ("layout", "delimiter", "header", "text_column", "comments")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> TaskOf[E, P, R]:
        """The task to train. Raises UsageError."""
        return cls(settings.task, reading_options(files), check_best(settings, cls.bests))

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> TaskOf[E, P, R]:
        """The task of a model directory. Raises UsageError, BundleError."""
        (name,) = (name for name, entry in TASKS.items() if entry.implementation.endswith(f":{cls.__name__}"))
        return cls(name, replace(reading_options(files), labelled=False))

    @property
    def head(self) -> str:
        """One of `models.tasks.heads.TASK_HEADS`."""
        return TASKS[self.name].head

    @property
    def extra_heads(self) -> tuple[str, ...]:
        """Further heads that the model has for this task."""
        return ()

    @property
    def num_labels(self) -> int:
        """K, of the heads "sequence" and "tokens"; other heads have a fixed size, but for "arcs"."""
        return 2

    @property
    def num_relations(self) -> int:
        """How many relations the head "arcs" distinguishes."""
        return 0

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """The names of the numbers of `measure` that weights can be chosen by or that are recorded; the default choice last."""

    @property
    def criterion(self) -> Criterion:
        """The number of `measure` that decides which weights are best."""
        name = self.numbers[-1] if self.best == AUTO else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        """The numbers of `measure` in a training record, the criterion last."""
        chosen = self.criterion.name
        return (*(name for name in ("answers", *self.numbers) if name != chosen), chosen)

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterable[E]:
        """The examples of files. Raises DataError, InputError."""
        return cast(Iterable[E], read(self.name, names, replace(self.options, labelled=labelled), errors))

    @abstractmethod
    def learn(self, examples: Sequence[E]) -> TaskOf[E, P, R]:
        """This task with the fields `learns` set from the training data. Raises DataError where they teach nothing."""

    def count_labels(self, examples: Sequence[E]) -> Counter[str]:
        """How often each label occurs in labelled examples; empty for tasks without labels."""
        return Counter()

    def learned(self) -> JsonObject:
        """The fields that `learn` has set, as plain JSON."""
        values = {name: vars(self)[name] for name in self.learns}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def restored(self, learned: JsonObject) -> TaskOf[E, P, R]:
        """This task with the fields of `learned`, which may have been through JSON.

        Records of earlier versions have fields that the task does not learn any more; they have no effect.
        """
        values = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in learned.items()
            if name in self.learns
        }
        return built(partial(replace, self), values, "the task")

    def check(self, examples: Sequence[E]) -> None:
        """Raise DataError (file, line) for held-out examples that do not fit the training data."""

    @abstractmethod
    def features(self, examples: Sequence[E], encoding: R, labelled: bool) -> Features:
        """The examples as rows of tokens. `labelled`: with their targets, the weights last. `encoding`: of `encoding()`."""

    # -- training and prediction --------------------------------------------------------------------------------------

    def begin(self, model: nn.Module) -> None:
        """Change the weights of a new head, where there is a better start than random numbers."""

    def layers_of(self, model: TaskHeads) -> dict[str, nn.Module]:
        """Layers of the model besides its head, which `loss` and `decode` take by name."""
        return {}

    @abstractmethod
    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        """The sum of the weighted losses of a batch, from float32 logits and its `FeatureBatch.targets`; see `layers_of`."""

    @abstractmethod
    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[E]) -> list[P]:
        """One prediction per example, from the logits of each row: (K,), or (T, K) without padding; see `layers_of`."""

    def difference(self, other: Task) -> str:
        """Why models with the two tasks cannot form an ensemble; "" if they can."""
        if self.name != other.name or type(self) is not type(other):
            return f"the tasks are {self.name} and {other.name}"
        for name in self.in_common:
            mine, theirs = (vars(task)[name] for task in (self, other))
            if mine != theirs:
                mine, theirs = (listed(x) if isinstance(x, tuple) else x for x in (mine, theirs))
                return f"{name.replace('_', ' ')}: {mine}; {theirs}"
        return ""

    def ensemble(self, tasks: Sequence[TaskOf[E, P, R]]) -> Self:
        """The task of an ensemble of models with these tasks; this is the first of them."""
        return self

    def combined(self, predictions: Sequence[Sequence[P]]) -> list[P]:
        """The predictions of an ensemble, from what each of its models predicts for the same examples. Raises UsageError for a
        task without ensembles.
        """
        raise UsageError(f"several models of the task {self.name}: expected one")

    @abstractmethod
    def measure(self, predictions: Sequence[P], examples: Sequence[E]) -> dict[str, float]:
        """Measures of the predictions: "answers" and those in `numbers`.

        "answers" is the number of different predictions: a model with one answer to everything has learned nothing.
        """

    def lines(self, predictions: Sequence[P], examples: Sequence[E], settings: Predict, first: bool) -> list[str]:
        """The lines that `predict` writes for some examples. `first`: nothing is written yet, a header may be due."""
        if settings.objects:
            objects = (self.as_json(p, e, settings) for p, e in zip(predictions, examples, strict=True))
            return [json.dumps(value, ensure_ascii=False) for value in objects]
        return self.text_lines(predictions, examples, settings, first)

    def files(self, settings: Predict, force: bool) -> AbstractContextManager[Callable[[Sequence[P]], None]]:
        """The files that `predict` writes besides its lines: a function that adds predictions to them.

        `force`: replace existing files. Raises OutputError, StreamError.
        """
        return nullcontext(lambda predictions: None)

    def layout_written(self, example: E, settings: Predict) -> str:
        """The layout of `lines`, as in `files.layout_names.check_output`; `example` is the first one."""
        return "jsonl" if settings.objects else "text"

    @abstractmethod
    def text_lines(self, predictions: Sequence[P], examples: Sequence[E], settings: Predict, first: bool) -> list[str]:
        """See `lines`; without --to jsonl or entities."""

    @abstractmethod
    def as_json(self, prediction: P, example: E, settings: Predict) -> dict[str, object]:
        """The object that --to jsonl, or another format of objects, writes for an example."""

    def label_settings(self) -> JsonObject:
        """The fields of config.json that transformers reads: id2label and so on."""
        return {}

    def own_settings(self) -> JsonObject:
        """The settings that only nlptools reads, under "nlptools", "task" in config.json."""
        return {}


Task = TaskOf[object, object, RowEncoding]  # of examples that only the task itself looks into


def for_training(settings: Finetune, files: Files, names: Sequence[str] = ()) -> Task:
    """The task to train on the files `names`. Raises UsageError."""
    name, glue = task_of_files(settings.task, names, files.layout), settings.task.startswith(GLUE)
    name = glue_task(name.removeprefix(GLUE)).task if glue else name
    several = bool(TASKS[name].several) and "," in (files.label_column or "")
    return _class(name, several).from_options(settings, files)


def for_prediction(loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Task:
    """The task of a model directory. Raises BundleError when it has none, UsageError for options of other tasks."""
    saved = loaded.ours.get("task", {})
    task_of_head = {entry.head: name for name, entry in reversed(TASKS.items())}  # of several tasks the first
    heads = [head for head in loaded.heads if head in task_of_head]
    name = saved.get("name") if isinstance(saved, dict) else None
    if name is None and heads:
        problem = loaded.config.get("problem_type") or ("regression" if loaded.model.num_labels == 1 else None)
        name = _PROBLEMS.get((heads[0], str(problem)), task_of_head[heads[0]])
    if not heads or not isinstance(name, str) or name not in TASKS or not TASKS[name].head:
        raise BundleError(
            f"{display(str(loaded.path))}: not a model for a task",
            hint="predict takes the directories of finetune, BertForSequenceClassification, GPT2ForSequenceClassification"
            " and their like",
        )
    check_options(name, settings)
    if name not in _OUTPUTS.get(settings.to, TASKS):
        known = " or ".join(_OUTPUTS[settings.to])
        raise UsageError(f"--to {settings.to} requires a model of the task {known}, this one has the task {name}")
    several = bool(TASKS[name].several) and isinstance(saved, dict) and "annotates" in saved
    task = _class(name, several).from_bundle(loaded, settings, files)
    if task.head not in heads:
        raise BundleError(f"{display(str(loaded.path))}: the task is {name}, its head {task.head} is missing")
    return task


def check_best(settings: Finetune, names: Sequence[str]) -> str:
    """`settings.best`, if it is auto or one of `names`. Raises UsageError."""
    if settings.best not in (AUTO, *names):
        raise UsageError(f"--best {settings.best}: expected one of auto, {', '.join(names)}")
    return settings.best


def reading_options(files: Files) -> Options:
    """How files are read: the input options of the command."""
    return Options(**asdict(files))


def encoding(loaded: bundle.Bundle[object], max_length: int, threads: int) -> RowEncoding:
    """How texts become rows for the model of a directory. Raises BundleError, see `pretrained_encoding`."""
    if network := without_pretraining.family(loaded.family):
        return network.encoding(loaded, max_length, threads)
    return pretrained_encoding(loaded, max_length, threads)


def pretrained_encoding(
    loaded: bundle.Bundle[object], max_length: int, threads: int, training: bool = False
) -> Encoding:
    """How texts become rows for an encoder or a language model.

    `training`: rows of a GPT are in our format even if the directory is not ours.

    Raises:
        BundleError: the vocabulary of an encoder lacks a special token.
    """
    model = cast(Layered, loaded.model)
    longest = min(max_length or UNLIMITED, model.max_context or UNLIMITED)
    if not model.causal:
        # the tokenizers of some families have one type for both texts, even if the model has two
        types = cast(BertWithHeads, model).config.type_vocab_size if of_encoder(loaded.tokenizer).second else 1
        return Encoding(loaded.tokenizer, marks_of(loaded.tokenizer), longest, types, threads)
    ours = training or registry.names_heads(loaded.ours.get("arch"))
    marks = marks_of_gpt(loaded.tokenizer, loaded.eos, loaded.start if ours else loaded.bos, ours)
    return Encoding(loaded.tokenizer, marks, longest, 1, threads, own_template(str(loaded.path)))


def saved_setting(config: JsonObject, key: str, default: T) -> T:
    """A setting under "nlptools", "task" in config.json, of the type of `default`. Raises BundleError."""
    own = child(config, "nlptools", "config.json")
    value = child(own, "task", "config.json").get(key, default)
    if not isinstance(value, type(default)) or type(value) is not type(default):
        raise BundleError(f'config.json: "nlptools", "task": {key} is {value!r:.80}')
    return value


def seen_layers(loaded: bundle.Bundle[object]) -> Layers:
    """The layers that the head of a bundle sees. Raises BundleError if their weights are missing."""
    text = saved_setting(loaded.config, "layers", "last")
    try:
        which = layers(text)
    except UsageError as error:
        raise BundleError(f"{display(str(loaded.path))}: config.json: {error}") from None
    needed = f"layer_{which.kind}"
    if needed in LAYER_HEADS and needed not in loaded.heads:
        raise BundleError(
            f"{display(str(loaded.path))}: config.json has layers {text!r:.80}, their weights are missing"
        )
    return which


def _class(name: str, several: bool = False) -> type[Task]:
    entry = TASKS[name]
    module, attribute = (entry.several if several else entry.implementation).split(":")
    found: type[Task] = getattr(import_module(module), attribute)
    return found
