"""The table of tasks: its options exist, its classes load, and options of other tasks are refused."""

from __future__ import annotations

from importlib import import_module

import pytest

from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks import SCRATCH_TASKS, TASKS, check_options, task
from nlptools.configs.text_classifiers import Scratch
from nlptools.errors import UsageError


def test_rows_name_what_exists() -> None:
    from nlptools.models.tasks.heads import TASK_HEADS
    from nlptools.tasks.task import Task

    options = {*Finetune.__dataclass_fields__, *Predict.__dataclass_fields__, *Scratch.__dataclass_fields__}
    for name, entry in TASKS.items():
        assert set(entry.options) <= options, name
        if entry.implementation:
            module, attribute = entry.implementation.split(":")
            assert issubclass(getattr(import_module(module), attribute), Task)
            assert entry.head in TASK_HEADS and entry.layouts
        assert bool(entry.scratch) == bool(entry.architectures) == (name in SCRATCH_TASKS)
        if entry.scratch:
            module, attribute = entry.scratch.split(":")
            assert callable(getattr(import_module(module), attribute))


def test_names() -> None:
    assert [task(name) for name in (*TASKS, "glue/rte")] == [*TASKS, "glue/rte"]
    with pytest.raises(UsageError, match="no such task: 'ner', expected classify, pair"):
        task("ner")


def test_options_of_other_tasks_are_refused() -> None:
    check_options("tag", Finetune("tag", crf=True))
    check_options("glue/rte", Finetune("glue/rte", class_weights="balanced"))
    check_options("choice", Predict(to="jsonl"))
    for name, settings, message in (
        ("classify", Finetune("classify", crf=True), "--crf goes with the task tag or roles, not classify"),
        ("glue/rte", Finetune("glue/rte", multi_label=True), "--multi-label goes with the task classify, not glue/rte"),
        ("glue/rte", Scratch(characters="cnn"), "--characters goes with the task tag, not glue/rte"),
        ("tag", Predict(top_k=2), "--top-k goes with the task classify or pair or regress or choice, not tag"),
        ("answer", Predict(columns=True), "--columns goes with the task .*, not answer"),
    ):
        with pytest.raises(UsageError, match=message):
            check_options(name, settings)
