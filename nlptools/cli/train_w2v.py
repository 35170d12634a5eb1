"""nlptools train-w2v: word vectors from sequences of tokens."""

from __future__ import annotations

from itertools import islice

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Devices
from nlptools.configs.combinations import check_combinations
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
    if vectorrun.show_pairs:
        _show_pairs(inputs, trainw2v, vectorrun, devices.seed, common.encoding_errors)
        return
    from nlptools.training.word_vectors.train import train_vectors

    record = invocation()
    train_vectors(inputs, trainw2v, vectorrun, devices, encoding_errors=common.encoding_errors, invocation=record)


def _show_pairs(inputs: tuple[str, ...], settings: TrainW2V, run: VectorRun, seed: int, errors: str) -> None:
    """Write the table of --show-pairs."""
    check_combinations(settings, run)
    from nlptools.files.streams import LineWriter
    from nlptools.training.word_vectors.shown_pairs import pair_lines

    with LineWriter() as out:
        lines = pair_lines(inputs, settings, run.show_pairs, seed, errors)
        while some := list(islice(lines, 1024)):
            out.write_lines(some)
