"""What a kind of task is: everything that differs between labels, tags and answers. `KINDS` has them by name.

A kind is a frozen dataclass. `begin` makes it from the settings of a run, `learn` adds what the training data tell (the
labels), `opened` makes it from a model directory, ours or another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from nlptools import bundle
from nlptools.batches.encoder_rows import marks_of, marks_of_gpt
from nlptools.batches.features import Encoding, Features
from nlptools.configs.finetuning import Files, Finetune, Predict, changed
from nlptools.configs.layers import Layers, layers
from nlptools.errors import BundleError, UsageError, display
from nlptools.formats.reading_options import Options
from nlptools.metrics.criterion import Criterion
from nlptools.models.tasks.heads import LAYER_HEADS
from nlptools.tasks import classifiers

# the name of a task, as --task has it: its kind
KINDS = {
    "classify": "nlptools.tasks.classify.task:Texts",
    "pair": "nlptools.tasks.classify.task:Texts",
    "regress": "nlptools.tasks.classify.task:Texts",
    "tag": "nlptools.tasks.tag.task:Tags",
    "roles": "nlptools.tasks.tag.task:Tags",
    "answer": "nlptools.tasks.answer.task:Answers",
    "choice": "nlptools.tasks.choice.task:Choices",
    "coreference": "nlptools.tasks.coreference.task:Pronouns",
}
# the head of a directory that does not say what its task is: the task
_TASK_OF_HEAD = {
    "sequence": "classify",
    "tokens": "tag",
    "spans": "answer",
    "choice": "choice",
    "mentions": "coreference",
}
_SOME = 8  # labels named in a message
# which tasks have answers to which settings
_OPTIONS_OF = {
    ("answer",): ("predictions", "nbest", "null_odds", "candidates", "max_answer", "null_threshold"),
    ("answer", "choice", "coreference"): ("to",),
    ("classify", "pair", "regress", "tag", "roles"): ("columns", "pair"),
    ("classify", "pair", "regress", "tag", "roles", "choice"): ("probabilities", "top_k"),
    ("classify", "pair", "regress", "tag", "roles", "coreference"): ("submission",),
}


class Kind(Protocol):
    """Shapes: N rows, B rows of a batch, T length, K labels."""

    @property
    def name(self) -> str:
        """The task, as --task has it."""

    @property
    def head(self) -> str:
        """One of `models.tasks.heads.TASK_HEADS`."""

    @property
    def unit(self) -> str:
        """What the weights of a loss count: "examples", "words"."""

    @property
    def num_labels(self) -> int:
        """K, of the heads "sequence" and "tokens"."""

    @property
    def criterion(self) -> Criterion:
        """Which number of `measure` says how good a model is."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The numbers of `measure` that a training record takes, that of the criterion last."""

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterable[Any]:
        """The examples of files. Raises DataError, InputError."""

    def learn(self, examples: Sequence[Any]) -> Kind:
        """This kind, knowing what the training data tell. Raises DataError where nothing can be learnt from them."""

    def learned(self) -> dict[str, Any]:
        """The fields that `learn` has set, as plain JSON."""

    def restored(self, learned: Mapping[str, Any]) -> Kind:
        """This kind with what `learned` gave, perhaps by way of JSON."""

    def check(self, examples: Sequence[Any]) -> None:
        """Raise DataError (file, line) where held-out examples do not go with what was learnt."""

    def features(self, examples: Sequence[Any], encoding: Encoding, labelled: bool) -> Features:
        """Rows of the examples; `labelled`: with what is to be learnt, the weights last."""

    def begin(self, model: Any) -> None:
        """Change a new head where there is a better beginning than random numbers; most often nothing."""

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        """The sum of the weighted losses of a batch, from float32 logits and its `FeatureBatch.targets`; see `beside`."""

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any]) -> list[Any]:
        """One prediction per example, from the logits of each row: (K,), or (T, K) without padding; see `beside`."""

    def measure(self, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, float]:
        """How good predictions are, "loss" and that of `criterion` among the numbers.

        "answers" is how many different ones there are: a model with one answer to everything has learnt nothing.
        """

    def lines(self, predictions: Sequence[Any], examples: Sequence[Any], settings: Predict, first: bool) -> list[str]:
        """What `predict` writes for some examples; `first`: nothing was written before, a header may be due."""

    def config(self) -> dict[str, Any]:
        """What config.json says of the task: id2label and so on; under "nlptools" what only we read."""


def new(settings: Finetune, files: Files) -> Kind:
    """The kind of the task that is to be learnt. Raises UsageError."""
    name = "classify"
    if not settings.task.startswith("glue/"):
        name = settings.task
    made: Kind = _class(name).new(settings, files)
    return made


def chosen(settings: Finetune, names: Sequence[str]) -> str:
    """What --best says, of a task that has these `names` to choose by and no class weights. Raises UsageError."""
    if settings.class_weights != "none":
        raise UsageError(f"--class-weights does not go with --task {settings.task}")
    if settings.best not in ("auto", *names):
        raise UsageError(f"--best {settings.best}: expected one of auto, {', '.join(names)}")
    return settings.best


def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Kind:
    """The kind of the task of a model directory. Raises BundleError when it has none."""
    noted = found.config.get("nlptools", {}).get("task", {})
    model: Any = found.model
    head = [head for head in model.heads if head in _TASK_OF_HEAD] if found.has_task else []
    name = noted.get("name") if isinstance(noted, dict) else None
    if name is None and head:
        name = _TASK_OF_HEAD[head[0]]
    if not head or name not in KINDS:
        raise BundleError(
            f"{display(str(found.path))}: no model that `finetune` made, and none that judges texts",
            hint="predict takes the directories of finetune, BertForSequenceClassification, GPT2ForSequenceClassification"
            " and their like",
        )
    _check(name, settings)
    made: Kind = _class(name).opened(found, settings, files)
    return made


def _check(task: str, settings: Predict) -> None:
    """Raise UsageError for settings of other tasks."""
    for some, names in _OPTIONS_OF.items():
        given = changed(settings, names) if task not in some else ()
        if given:
            raise UsageError(f"{given[0]}: the model is one of the task {task}, not {' or '.join(some)}")


def options(files: Files, **changes: Any) -> Options:
    """How files are to be read."""
    given: dict[str, Any] = {
        "layout": files.layout,
        "header": files.header or None,
        "text_columns": tuple(files.text_column),
        "label_column": files.label_column,
        "id_column": files.id_column,
        "word_column": files.word_column,
        "move_answers": files.move_answers,
        "sentences": files.sentences,
        "comments": files.comments,
        "role_spans": files.role_spans,
        "fine": files.fine,
        "label_separator": files.label_separator,
        "skip_broken": files.skip_broken,
    }
    return Options(**{**given, **changes})


def more_heads(kind: Kind) -> tuple[str, ...]:
    """The heads that the task has beside `kind.head`, if it names any."""
    heads: tuple[str, ...] = getattr(kind, "more_heads", ())
    return heads


def tuned(kind: Kind) -> tuple[str, ...]:
    """Which numbers of `measure`, if any, belong to the weights that they were found with, and go into config.json."""
    names: tuple[str, ...] = getattr(kind, "tuned", ())
    return names


def encoding(found: bundle.Bundle, max_length: int, threads: int, training: bool = False) -> Any:
    """How texts become rows for the model of a directory: an `Encoding`, or a `TextEncoding` of a text classifier.

    `training`: rows of a GPT are as ours are, whoever made the directory.

    Raises:
        BundleError: the vocabulary of an encoder lacks a mark.
    """
    if found.is_text_classifier:
        return classifiers.encoding(found, max_length, threads)
    model: Any = found.model
    most = int(model.config.max_position_embeddings)
    longest = min(max_length or most, most)
    if found.is_encoder:
        types = int(model.config.type_vocab_size)
        return Encoding(found.tokenizer, marks_of(found.tokenizer), longest, types, threads)
    ours = found.config.get("nlptools", {}).get("arch") == found.arch
    marks = marks_of_gpt(found.tokenizer, found.eos, training or ours)
    return Encoding(found.tokenizer, marks, longest, 1, threads)


def noted(config: Mapping[str, Any], key: str, default: Any) -> Any:
    """What config.json has under "nlptools", "task", of the type that `default` has. Raises BundleError."""
    value = config.get("nlptools", {}).get("task", {}).get(key, default)
    if type(value) is not type(default):
        raise BundleError(f'config.json: "nlptools", "task": {key} is {value!r:.80}')
    return value


def seen_layers(found: bundle.Bundle) -> Layers:
    """The layers that the head of a bundle sees. Raises BundleError for a choice that it lacks the weights for."""
    said = noted(found.config, "layers", "last")
    which, model = layers(said), found.model
    needed = f"layer_{which.kind}"
    if needed in LAYER_HEADS and needed not in getattr(model, "heads", ()):
        raise BundleError(
            f"{display(str(found.path))}: config.json says layers {said!r:.80}, their weights are missing"
        )
    return which


def beside(kind: Kind, model: Any) -> dict[str, Any]:
    """What `loss` and `decode` are given by name: the conditional random field of a kind that has one."""
    return {"crf": model.crf} if "crf" in more_heads(kind) else {}


def labels_of(config: Any, count: int) -> tuple[str, ...]:
    """The labels of a config.json, or numbers. Raises BundleError for what names others than there are."""
    said = config.get("id2label")
    if said is None:
        return tuple(map(str, range(count)))
    try:
        labels = tuple(str(said[str(i)]) for i in range(count))
    except (KeyError, TypeError, AttributeError):
        labels = ()
    if len(labels) != len(said) or len(set(labels)) != count:
        raise BundleError(f"config.json: id2label names {len(said)} labels, the model has {count}")
    return labels


def some(labels: Sequence[str]) -> str:
    """Some labels, for a message."""
    return ", ".join(map(repr, labels[:_SOME])) + (f" and {len(labels) - _SOME} more" if len(labels) > _SOME else "")


def _class(name: str) -> Any:
    module, attribute = KINDS[name].split(":")
    return getattr(import_module(module), attribute)
