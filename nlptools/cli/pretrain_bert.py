"""nlptools pretrain-bert: BERT and ELECTRA from text."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.pretraining import PRESETS, Pretraining, TrainBert


@make_command(
    "pretrain-bert",
    TrainBert,
    Pretraining,
    Compute,
    presets=PRESETS,
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...], trainbert: TrainBert, pretraining: Pretraining, compute: Compute, common: Common
) -> None:
    """Train a BERT or an ELECTRA on text.

    Text from files or standard input is encoded once into the output directory, then an encoder is trained to predict
    masked tokens and next sentences (BERT), or to detect tokens that a small generator has replaced (ELECTRA). If a run is
    stopped by a signal, a time limit or a crash, the same command continues it; the final weights are the same as without
    the interruption.
    """
    from nlptools.files import streams

    # report errors before torch is loaded
    trainbert.check()
    pretraining.check()
    streams.check_inputs(inputs, pretraining.held_out)
    from nlptools.training.pretraining.encoder import train_bert

    record = invocation()
    train_bert(inputs, trainbert, pretraining, compute, encoding_errors=common.encoding_errors, invocation=record)
