"""nlptools train-lm: language models from text."""

from __future__ import annotations

import dataclasses

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute, Training
from nlptools.configs.lm import TrainLM
from nlptools.configs.lm_presets import PRESETS
from nlptools.errors import UsageError


@make_command(
    "train-lm",
    TrainLM,
    Training,
    Compute,
    presets=PRESETS,
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    trainlm: TrainLM,
    training: Training,
    compute: Compute,
    common: Common,
) -> None:
    """Train a language model on text.

    Encodes text from files or standard input into the output directory, then trains a neural model or counts n-grams.
    After a stop (signal, time limit, crash), the same command continues the run and ends with the same weights.
    """
    from nlptools.files import streams

    trainlm.check()
    if trainlm.arch == "ngram":
        refuse_other_options(trainlm, training)
        from nlptools.training.ngrams.train import train_ngrams

        errors = common.encoding_errors
        train_ngrams(inputs, trainlm, training, encoding_errors=errors, invocation=invocation())
        return
    # report errors before torch is loaded
    training.check()
    streams.check_inputs(inputs, training.held_out)
    from nlptools.training.language_model import train_lm

    record = invocation()
    train_lm(inputs, trainlm, training, compute, encoding_errors=common.encoding_errors, invocation=record)


_OF_NGRAMS = ("tokenizer", "arch", "vocab", "document", "output", "valid", "force", "seed", "threads")


def refuse_other_options(*settings: object) -> None:
    """Raise UsageError for options that do not apply to n-gram models, which are counted, not trained in steps."""
    for each in settings:
        for field in dataclasses.fields(each):  # type: ignore[arg-type]
            its_own = "ngram" in field.metadata["architectures"]
            if not its_own and field.name not in _OF_NGRAMS and getattr(each, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} does not go with --arch ngram")
