"""nlptools finetune: encoders and GPTs for a task, from examples."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.finetuning import Files, Finetune, FinetuneTraining
from nlptools.configs.tasks.table import check_options
from nlptools.configs.tasks.words import Scratch
from nlptools.configs.text_classifiers import PRESETS
from nlptools.configs.word_taggers import FEATURES_PRESETS
from nlptools.configs.word_taggers import PRESETS as TAG_PRESETS


@make_command(
    "finetune",
    Finetune,
    Scratch,
    Files,
    FinetuneTraining,
    Compute,
    presets={**PRESETS, **TAG_PRESETS, **FEATURES_PRESETS},
    preset_options=("task", "scratch", "features"),
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    finetune: Finetune,
    scratch: Scratch,
    files: Files,
    finetunetraining: FinetuneTraining,
    compute: Compute,
    common: Common,
) -> None:
    """Train a model for a task: labels, tags, answers, choices, instructions, rewards, preferences.

    Adds a head for the task to a BERT, an ELECTRA or a language model, and trains both. --scratch trains without a
    pretrained model, and some tasks train a language model or an encoder-decoder. --task NAME --help shows the options
    of a task. After a stop (signal, time limit, crash), the same command continues the run and ends with the same
    weights.
    """
    # report wrong options before torch is loaded
    finetune.check()
    if finetune.scratch is not None:
        scratch.check(finetune.scratch)
        check_options(finetune.task, scratch)
    finetunetraining.check()
    from nlptools.training.finetuning.finetune import finetune as train

    record = invocation()
    train(
        inputs,
        finetune,
        finetunetraining,
        compute,
        files,
        scratch,
        encoding_errors=common.encoding_errors,
        invocation=record,
    )
