"""Options of the task choice."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs.tasks.shared import PretrainedOptions


@dataclass(frozen=True)
class ChoiceOptions(PretrainedOptions):
    """The right one of several endings of a context"""
