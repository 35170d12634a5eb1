"""nlptools finetune: encoders and GPTs for a task, from examples."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.cli.task_variants import TaskVariants
from nlptools.configs import Common, Compute
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.tasks import readers
from nlptools.configs.tasks.files import ExampleFiles, Files
from nlptools.configs.tasks.shared import TaskOptions
from nlptools.configs.tasks.words import Scratch, WordOptions
from nlptools.configs.text_classifiers import PRESETS
from nlptools.configs.word_taggers import FEATURES_PRESETS
from nlptools.configs.word_taggers import PRESETS as TAG_PRESETS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Whole = TypeVar("Whole")


@make_command(
    "finetune",
    TaskOptions,
    FinetuneTraining,
    Compute,
    presets={**PRESETS, **TAG_PRESETS, **FEATURES_PRESETS},
    preset_options=("task", "scratch", "features"),
    variants=TaskVariants("task", "Tasks", lambda: dict.fromkeys(readers.variants(), "")),
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    options: TaskOptions,
    training: FinetuneTraining,
    compute: Compute,
    common: Common,
    files: ExampleFiles | None = None,
    words: WordOptions | None = None,
) -> None:
    """Train a model for a task: labels, tags, trees, answers, choices, instructions, rewards, preferences.

    Adds a head for the task to an encoder (BERT, RoBERTa and so on) or a language model, and trains both. --scratch
    trains without a pretrained model, and some tasks train a language model or an encoder-decoder. --task NAME --help
    shows the options of a task. After a stop (signal, time limit, crash), the same command continues the run and ends
    with the same weights.
    """
    # report wrong options before torch is loaded
    settings, scratch = _whole(Finetune, options), _whole(Scratch, words)
    settings.check()
    if settings.scratch is not None:
        scratch.check(settings.scratch)
    training.check()
    from nlptools.training.finetuning.finetune import finetune

    errors, record = common.encoding_errors, invocation()
    finetune(
        inputs, settings, training, compute, _whole(Files, files), scratch, encoding_errors=errors, invocation=record
    )


def _whole(whole: type[Whole], part: DataclassInstance | None) -> Whole:
    """The settings of all tasks, with the values of those that a task has; None: none."""
    return whole(**{field.name: vars(part)[field.name] for field in fields(part)} if part is not None else {})
