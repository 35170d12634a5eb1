"""The options of each task with each reader of its texts: a pretrained model, words from scratch, or the features of an ELMo.

A variant is the name of a task, alone or with the option that chooses another reader: `tag`, `tag --scratch`, `tag --features`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from nlptools.configs import Compute, redefined
from nlptools.configs.finetuning import FinetuneTraining
from nlptools.configs.tasks.table import GLUE, TASKS, settings_class
from nlptools.configs.tasks.words import FeatureWords, TagScratch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


SCRATCH, FEATURES = "scratch", "features"
# The options of a pretrained model that other readers lack, and the value that they stand for.
_ENCODER: dict[str, object] = {
    "encoder_dropout": None,
    "layer_decay": 1.0,
    "unfreeze": 0.0,
    "lm_weight": 0.0,
    "both_orders": False,
    "lora": 0,
    "lora_alpha": 16.0,
    "lora_dropout": 0.0,
    "lora_targets": "all",
}
_ABSENT: dict[str, dict[str, object]] = {
    "": {"train_all": False},
    SCRATCH: {**_ENCODER, "model": None, "layers": "last", FEATURES: None, "train_all": False},
    FEATURES: {**_ENCODER, SCRATCH: None},
}


def variants() -> list[str]:
    """All variants, grouped by task."""
    found = []
    for name, entry in TASKS.items():
        known = {field.name for field in fields(settings_class(entry.options))}
        found += [name, *(f"{name} --{reader}" for reader in (SCRATCH, FEATURES) if reader in known)]
    return found


def variant(task: str, given: Callable[[str], str]) -> str:
    """The variant for a task, or a task of GLUE, and the texts of other options."""
    name = "pair" if task.startswith(GLUE) else task
    reader = next((f" --{reader}" for reader in (SCRATCH, FEATURES) if given(reader)), "")
    return name + reader if name + reader in variants() else name


@cache
def groups(variant: str) -> tuple[type, ...]:
    """The settings classes of a variant: of the task, of its files, of words, of training."""
    name, _, reader = variant.partition(" --")
    entry = TASKS[name]
    more = [settings_class(entry.files)] if entry.files else []
    if reader == SCRATCH:
        more.append(settings_class(entry.words))
    elif reader == FEATURES:
        more.append(TagScratch if name in ("tag", "roles", "parse") else FeatureWords)
    return (_options(settings_class(entry.options), reader), *more, FinetuneTraining, Compute)


def _options(whole: type[DataclassInstance], reader: str) -> type:
    """The options of a task without those that its reader lacks."""
    known = {field.name: field for field in fields(whole)}
    absent = {name: value for name, value in _ABSENT[reader].items() if name in known}
    attributes: dict[str, object] = dict(absent)
    annotations: dict[str, object] = dict.fromkeys(absent, ClassVar[object])
    if reader:  # rules about options that this reader lacks
        rules = [name for name in (reader, "lora") if name in known and name not in absent]
        attributes |= {name: redefined(whole, name, known[name].default, excludes=()) for name in rules}
        annotations |= {name: known[name].type for name in rules}
    attributes |= {"__annotations__": annotations, "__doc__": whole.__doc__, "__module__": whole.__module__}
    return dataclass(frozen=True)(type(whole.__name__, (whole,), attributes))
