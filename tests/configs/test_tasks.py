"""The table of tasks: its options exist, its classes load, and options of other tasks are refused."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.table import TASKS, check_options, settings_class, task
from nlptools.configs.tasks.words import Scratch
from nlptools.errors import UsageError


def test_rows_name_what_exists() -> None:
    from nlptools.models.tasks.heads import TASK_HEADS
    from nlptools.tasks.task import TaskOf

    for name, entry in TASKS.items():
        for place, everything in ((entry.options, Finetune), (entry.files, Files), (entry.words, Scratch)):
            known = everything.__dataclass_fields__
            for field in fields(settings_class(place)) if place else ():
                # the classes of all tasks together have one default for each option, which records of runs rely on
                assert field.default == known[field.name].default, (name, field.name)
        assert set(entry.predicts) <= set(Predict.__dataclass_fields__), name
        if entry.implementation:
            module, attribute = entry.implementation.split(":")
            assert issubclass(getattr(import_module(module), attribute), TaskOf)
            assert entry.head in TASK_HEADS and entry.layouts
        assert (
            bool(entry.scratch)
            == bool(entry.words)
            == ("scratch" in settings_class(entry.options).__dataclass_fields__)
        )
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
        ("classify", Finetune("classify", crf=True), "--crf applies to --task tag, roles only"),
        ("glue/rte", Finetune("glue/rte", multi_label=True), "--multi-label applies to --task classify only"),
        ("glue/rte", Scratch(characters="cnn"), "--characters applies to --task tag only"),
        ("tag", Predict(top_k=2), "--top-k applies to --task classify, pair, regress, choice only"),
        ("answer", Predict(columns=True), "--columns applies to --task .* only"),
    ):
        with pytest.raises(UsageError, match=message):
            check_options(name, settings)
