"""The tasks of `finetune` and `predict`: one row each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nlptools.configs import text_classifiers, word_taggers
from nlptools.errors import UsageError

GLUE = "glue/"  # before the name of a task of GLUE, which is one of classify, pair and regress


@dataclass(frozen=True)
class TaskEntry:
    """What is known of a task before its code is loaded.

    Attributes:
        implementation: "module:Class", a `nlptools.tasks.task.Task`; "" for tasks without a head, which `trainer` trains.
        head: the name of its head, one of `models.tasks.heads.TASK_HEADS`.
        layouts: the layouts of its files, besides auto.
        options: the options of `finetune` and `predict` that this task has and some others lack.
        scratch: "module:Class" of what `finetune --scratch` trains, used as a `training.finetuning.pretrained.Pretrained`; ""
            for tasks that need a pretrained model.
        architectures: the values of --scratch.
        trainer: "module:function" that `finetune` hands a task without a head over to.
    """

    implementation: str = ""
    head: str = ""
    layouts: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    scratch: str = ""
    architectures: tuple[str, ...] = ()
    trainer: str = ""


_TEXTS = "nlptools.tasks.classify.task:Classification"
_WORDS = "nlptools.tasks.tag.task:Tagging"
_OBJECTS = ("jsonl", "parquet")
_TABLES = ("table", "csv", "jsonl", "parquet")
_LINES = ("columns", "probabilities", "top_k", "submission")
_TAGS = ("columns", "crf", "decoding")
_OF_TEXTS = ("nlptools.training.finetuning.scratch:FromScratch", text_classifiers.ARCHITECTURES)
_OF_WORDS = ("nlptools.training.finetuning.tagger:TaggerFromScratch", word_taggers.ARCHITECTURES)
_TEXT_OPTIONS = ("tokenizer", "word_ngrams", "char_ngrams")  # of --scratch
_WORD_OPTIONS = ("characters", "char_dim", "max_vectors")
_ANSWERS = ("stride", "predictions", "nbest", "null_odds", "null_threshold")

TASKS = {
    "classify": TaskEntry(
        _TEXTS,
        "sequence",
        (*_TABLES, "rte", "trec", "trec-fine"),
        (*_LINES, *_TEXT_OPTIONS, "multi_label", "class_weights"),
        *_OF_TEXTS,
    ),
    "pair": TaskEntry(_TEXTS, "sequence", (*_TABLES, "rte"), (*_LINES, *_TEXT_OPTIONS, "class_weights"), *_OF_TEXTS),
    "regress": TaskEntry(_TEXTS, "sequence", (*_TABLES, "rte"), (*_LINES, *_TEXT_OPTIONS), *_OF_TEXTS),
    "tag": TaskEntry(_WORDS, "tokens", ("conll", "conllu", "lines"), (*_TAGS, "split", *_WORD_OPTIONS), *_OF_WORDS),
    "roles": TaskEntry(_WORDS, "tokens", ("conllu",), (*_TAGS, "role_spans")),
    "answer": TaskEntry(
        "nlptools.tasks.answer.task:QuestionAnswering",
        "spans",
        ("squad", *_TABLES, "qamr"),
        _ANSWERS,
    ),
    "choice": TaskEntry(
        "nlptools.tasks.choice.task:MultipleChoice",
        "choice",
        ("csv", "tsv", "jsonl", "parquet"),
        ("probabilities", "top_k"),
    ),
    "coreference": TaskEntry(
        "nlptools.tasks.coreference.task:PronounResolution", "mentions", ("gap",), ("submission",)
    ),
    "reward": TaskEntry("nlptools.tasks.reward.task:RewardTask", "sequence", _OBJECTS, ("chat",)),
    "seq2seq": TaskEntry(options=("columns",), trainer="nlptools.training.finetuning.seq2seq:finetune"),
    "instruct": TaskEntry(
        layouts=_OBJECTS, options=("chat",), trainer="nlptools.training.preferences.instruct:finetune"
    ),
    "preference": TaskEntry(
        layouts=_OBJECTS, options=("chat", "loss", "beta"), trainer="nlptools.training.preferences.direct:finetune"
    ),
}
SCRATCH_TASKS = tuple(name for name, entry in TASKS.items() if entry.scratch)
_OF_SOME_TASKS = {option for entry in TASKS.values() for option in entry.options}


def task(text: str) -> str:
    """The name of a task. Raises UsageError."""
    if text not in TASKS and not text.startswith(GLUE):
        raise UsageError(f"no such task: {text!r}, expected {', '.join(TASKS)} or glue/NAME")
    return text


def scratch_entry(task: str) -> TaskEntry:
    """The row of the task whose models without pretraining `task` has."""
    return TASKS["classify" if task.startswith(GLUE) else task]


def changed(settings: Any, names: Iterable[str]) -> list[str]:
    """The flags of those options whose values are not the defaults."""
    known = settings.__dataclass_fields__
    given = [name for name in names if getattr(settings, name) != known[name].default]
    return ["--" + (known[name].metadata["flag"] or name.replace("_", "-")) for name in given]


def changed_values(settings: Any, names: Iterable[str]) -> list[str]:
    """As `changed`, with the values: the arguments that set these options again."""
    arguments: list[str] = []
    for name in names:
        flags, value = changed(settings, [name]), getattr(settings, name)
        for each in value if isinstance(value, tuple) else [value]:
            arguments += flags if value is True else [*flags, str(each)] if flags else []
    return arguments


def check_options(task: str, settings: Any) -> None:
    """Raise UsageError for an option in the dataclass `settings` that `task` lacks and another task has."""
    own = ("class_weights", *_TEXT_OPTIONS) if task.startswith(GLUE) else TASKS[task].options
    others = [name for name in settings.__dataclass_fields__ if name in _OF_SOME_TASKS and name not in own]
    for name in others:
        if flags := changed(settings, [name]):
            having = " or ".join(known for known, entry in TASKS.items() if name in entry.options)
            raise UsageError(f"{flags[0]} goes with the task {having}, not {task}")
