"""The tasks of `finetune` and `predict`: one row each, and a module with the options of each."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from nlptools.configs.combinations import flag_of
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


GLUE = "glue/"  # before the name of a task of GLUE, which is one of classify, pair and regress


@dataclass(frozen=True)
class TaskEntry:
    """A task, before its code is loaded.

    Attributes:
        options: "module:Class" in this package: its options of `finetune`, a `shared.TaskOptions`.
        files: "module:Class" in this package: how its files are read; "": lines of pairs.
        implementation: "module:Class", a `nlptools.tasks.task.Task`; "" for tasks without a head, which `trainer` trains.
        head: the name of its head, one of `models.tasks.heads.TASK_HEADS`.
        layouts: the layouts of its files, besides auto.
        predicts: the options of `predict` that this task has and some others lack.
        scratch: "module:Class" of what `finetune --scratch` trains, a `training.finetuning.words.WordNetwork`; "" for tasks
            that need a pretrained model.
        words: "module:Class" in this package: the options of --scratch.
        trainer: "module:function" that `finetune` hands a task without a head over to.
        by_layout: "layout:task", the task that files of this layout are for instead; "": none.
        several: "module:Class" as `implementation`, for several label columns at once; "": the task has one.
    """

    options: str
    files: str = ""
    implementation: str = ""
    head: str = ""
    layouts: tuple[str, ...] = ()
    predicts: tuple[str, ...] = ()
    scratch: str = ""
    words: str = ""
    trainer: str = ""
    by_layout: str = ""
    several: str = ""


_TEXTS = "nlptools.tasks.classify.task:Classification"
_OBJECTS = ("jsonl", "parquet")
_TABLES = ("table", "csv", "jsonl", "parquet")
_LINES = ("columns", "probabilities", "top_k", "submission")
_TAGS = ("columns", "decoding")
_OF_TEXTS: dict[str, str] = {
    "scratch": "nlptools.training.finetuning.scratch:TextNetwork",
    "words": "words:TextScratch",
}
_OF_WORDS: dict[str, str] = {
    "scratch": "nlptools.training.finetuning.tagger:TagNetwork",
    "words": "words:TagScratch",
}
_PREFERENCES = "nlptools.training.preferences"

TASKS = {
    "classify": TaskEntry(
        "classify:ClassifyOptions",
        "files:LabelFiles",
        _TEXTS,
        "sequence",
        (*_TABLES, "rte", "trec", "trec-fine"),
        _LINES,
        **{**_OF_TEXTS, "words": "words:ClassifyScratch"},
    ),
    "pair": TaskEntry(
        "classify:PairOptions", "files:TableFiles", _TEXTS, "sequence", (*_TABLES, "rte"), _LINES, **_OF_TEXTS
    ),
    "regress": TaskEntry(
        "classify:RegressOptions",
        "files:TableFiles",
        "nlptools.tasks.classify.regression:Regression",
        "sequence",
        (*_TABLES, "rte"),
        _LINES,
        **_OF_TEXTS,
    ),
    "rank": TaskEntry(
        "rank:RankOptions",
        "files:TableFiles",
        "nlptools.tasks.rank.task:PairRanking",
        "sequence",
        (*_TABLES, "rte"),
        ("columns",),
    ),
    "similarity": TaskEntry(
        "similarity:SimilarityOptions",
        "files:TableFiles",
        layouts=_TABLES,
        trainer="nlptools.training.similarity.run:finetune",
    ),
    "tag": TaskEntry(
        "tag:TagOptions",
        "files:TagFiles",
        "nlptools.tasks.tag.task:Tagging",
        "tokens",
        ("conll", "conllu", "lines"),
        (*_TAGS, "split"),
        several="nlptools.tasks.tag.columns:ColumnTags",
        **_OF_WORDS,
    ),
    "parse": TaskEntry(
        "parse:ParseOptions",
        "files:UniversalFiles",
        "nlptools.tasks.parse.task:Parsing",
        "arcs",
        ("conllu", "conll", "lines"),
        ("split",),
    ),
    "roles": TaskEntry(
        "tag:RolesOptions", "files:TagFiles", "nlptools.tasks.tag.roles:Roles", "tokens", ("conllu",), _TAGS
    ),
    "answer": TaskEntry(
        "answer:AnswerOptions",
        "files:TableFiles",
        "nlptools.tasks.answer.task:QuestionAnswering",
        "spans",
        ("squad", *_TABLES, "qamr"),
        ("predictions", "nbest", "null_odds", "null_threshold"),
    ),
    "choice": TaskEntry(
        "choice:ChoiceOptions",
        "files:TableFiles",
        "nlptools.tasks.choice.task:MultipleChoice",
        "choice",
        ("csv", "tsv", "jsonl", "parquet"),
        ("probabilities", "top_k"),
    ),
    "coreference": TaskEntry(
        "coreference:CoreferenceOptions",
        "files:TableFiles",
        "nlptools.tasks.coreference.task:PronounResolution",
        "mentions",
        ("gap", "conll"),
        ("submission",),
        by_layout="conll:chains",
    ),
    "chains": TaskEntry(
        "coreference:ChainOptions",
        "files:ChainFiles",
        "nlptools.tasks.coreference.chains:CoreferenceChains",
        "chains",
        ("conll",),
    ),
    "reward": TaskEntry(
        "reward:RewardOptions",
        "files:TableFiles",
        "nlptools.tasks.reward.task:RewardTask",
        "sequence",
        _OBJECTS,
    ),
    "seq2seq": TaskEntry(
        "seq2seq:Seq2SeqOptions", predicts=("columns",), trainer="nlptools.training.finetuning.seq2seq:finetune"
    ),
    "instruct": TaskEntry(
        "instruct:InstructOptions", "files:ExampleFiles", layouts=_OBJECTS, trainer=f"{_PREFERENCES}.instruct:finetune"
    ),
    "preference": TaskEntry(
        "preference:PreferenceOptions",
        "files:ExampleFiles",
        layouts=_OBJECTS,
        trainer=f"{_PREFERENCES}.direct:finetune",
    ),
}


def task(text: str) -> str:
    """The name of a task. Raises UsageError."""
    if text not in TASKS and not text.startswith(GLUE):
        raise UsageError(f"no such task: {text!r}, expected {', '.join(TASKS)} or glue/NAME")
    return text


def task_entry(task: str) -> TaskEntry:
    """The row of a task; a task of GLUE has the row of a pair, as one of them is or may be."""
    return TASKS["pair" if task.startswith(GLUE) else task]


def settings_class(place: str) -> type[DataclassInstance]:
    """The class at "module:Class" in this package."""
    found: type[DataclassInstance] = pkgutil.resolve_name(f"nlptools.configs.tasks.{place}")
    return found


def changed(settings: DataclassInstance, names: Iterable[str]) -> list[str]:
    """The flags of the options that differ from their defaults."""
    known = settings.__dataclass_fields__
    return [flag_of(known[name]) for name in names if getattr(settings, name) != known[name].default]


def changed_values(settings: DataclassInstance, names: Iterable[str]) -> list[str]:
    """As `changed`, with the values: the arguments that set these options again."""
    arguments: list[str] = []
    for name in names:
        flags, value = changed(settings, [name]), getattr(settings, name)
        for each in value if isinstance(value, tuple) else [value]:
            arguments += flags if value is True else [*flags, str(each)] if flags else []
    return arguments


def check_options(task: str, settings: DataclassInstance) -> None:
    """Raise UsageError for an option in the dataclass `settings` that `task` lacks and another task has."""
    own, known = _names(task_entry(task)), {name: _names(entry) for name, entry in TASKS.items()}
    some = set().union(*known.values())
    for each in fields(settings):
        if each.name in some and each.name not in own and getattr(settings, each.name) != each.default:
            having = ", ".join(name for name, names in known.items() if each.name in names)
            raise UsageError(f"{flag_of(each)} applies to --task {having} only")


def refuse_other_options(settings: DataclassInstance, task: str, known: Iterable[str]) -> None:
    """Raise UsageError for an option in the dataclass `settings` other than `known`."""
    given = changed(settings, [field.name for field in fields(settings) if field.name not in known])
    if given:
        raise UsageError(f"{given[0]} does not apply to --task {task}", hint="generate has more options")


def _names(entry: TaskEntry) -> set[str]:
    """The options that a task has and some others lack."""
    places = (entry.options, entry.files, entry.words)
    return {*entry.predicts, *(field.name for place in places if place for field in fields(settings_class(place)))}
