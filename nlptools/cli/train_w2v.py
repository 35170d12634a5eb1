"""nlptools train-w2v: word vectors from sequences of tokens."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Devices
from nlptools.configs.embeddings import TrainW2V, VectorRun


@make_command(
    "train-w2v",
    TrainW2V,
    VectorRun,
    Devices,
    formats="""Input is sequences, one per line, of tokens separated by spaces: words, items that were bought together, walks
through a graph. A line of more than 1,000 tokens is cut. Windows do not reach from one line into the next.

With --model glove the co-occurrences are counted first, in files beside the run (16 bytes for each pair of words, 12 in
the end), and an epoch goes over them. Frequent words are not thinned out, and windows are not drawn: --sample,
--shrink-windows and --negative have no part in it. The vectors are the sums of those of words and of contexts, the loss is
the mean over pairs of f(X) (w.c + b + b' - log X)^2 / 2. GloVe's own tools have --window 15 and --epochs 25.""",
    examples=(
        (
            "From text to neighbors:",
            "zcat novels.gz | nlptools tokenize -t words --lowercase | nlptools train-w2v -o vectors.bin",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78, 130, 141, 143),
)
@inputs_argument
def command(
    inputs: tuple[str, ...], trainw2v: TrainW2V, vectorrun: VectorRun, devices: Devices, common: Common
) -> None:
    """Train word vectors.

    Reads sequences of tokens from files or standard input and writes vectors: skip-gram or CBOW with negative sampling,
    hierarchical or full softmax, with n-grams of characters if asked, or GloVe.
    """
    from nlptools import streams

    streams.check_inputs(inputs)
    from nlptools.embeddings.training import train_vectors

    record = invocation()
    train_vectors(inputs, trainw2v, vectorrun, devices, encoding_errors=common.encoding_errors, invocation=record)
