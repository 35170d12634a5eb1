"""nlptools train-lm: language models from text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.cli.variants import architectures
from nlptools.configs import Common, Compute, Training
from nlptools.configs.lm import TrainLM
from nlptools.configs.lm_presets import PRESETS
from nlptools.configs.shares import Shares

if TYPE_CHECKING:
    from nlptools.configs import RunDirectory, Threads
    from nlptools.configs.architectures.ngram import NGramOptions


@make_command(
    "train-lm",
    TrainLM,
    Training,
    Compute,
    presets=PRESETS,
    variants=architectures("language", "bidirectional", "n-gram"),
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...],
    options: TrainLM | NGramOptions,
    training: Training | RunDirectory,
    compute: Compute | Threads,
    common: Common,
) -> None:
    """Train a language model on text.

    Encodes text from files or standard input into the output directory, then trains a neural model or counts n-grams.
    After a stop (signal, time limit, crash), the same command continues the run and ends with the same weights.
    """
    from nlptools.files import streams

    options.check()
    errors, record = common.encoding_errors, invocation()
    if not isinstance(options, TrainLM):
        from nlptools.cli.input_shares import refuse_tables, shard_of
        from nlptools.training.ngrams.train import train_ngrams

        share = Shares(options.shard)
        refuse_tables(share, inputs)
        inputs = tuple(shard_of(inputs, share)) if options.shard else inputs
        train_ngrams(inputs, options, training, compute, encoding_errors=errors, invocation=record)
        return
    assert isinstance(training, Training) and isinstance(compute, Compute)
    # report errors before torch is loaded
    training.check()
    streams.check_inputs(inputs, training.held_out)
    from nlptools.training.language_model import train_lm

    train_lm(inputs, options, training, compute, encoding_errors=errors, invocation=record)
