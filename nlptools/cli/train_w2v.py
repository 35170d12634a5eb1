"""nlptools train-w2v: word vectors from sequences of tokens."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Devices
from nlptools.configs.word_vectors import TrainW2V, VectorRun
from nlptools.errors import UsageError


@make_command(
    "train-w2v",
    TrainW2V,
    VectorRun,
    Devices,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78, 130, 141, 143),
)
@inputs_argument
def command(
    inputs: tuple[str, ...], trainw2v: TrainW2V, vectorrun: VectorRun, devices: Devices, common: Common
) -> None:
    """Train word vectors on sequences of tokens.

    Reads sequences of tokens from files or standard input and writes vectors: skip-gram or CBOW with negative sampling,
    hierarchical or full softmax, optionally with character n-grams, or GloVe.
    """
    from nlptools.files import streams

    if vectorrun.valid == "-" and (not inputs or "-" in inputs):
        raise UsageError("the text and --valid cannot both come from standard input")
    if vectorrun.format == "bundle" and vectorrun.output == "-":
        raise UsageError("a directory cannot go to standard output", hint="-o DIR")
    streams.check_inputs(inputs)
    from nlptools.training.word_vectors.train import train_vectors

    record = invocation()
    train_vectors(inputs, trainw2v, vectorrun, devices, encoding_errors=common.encoding_errors, invocation=record)
