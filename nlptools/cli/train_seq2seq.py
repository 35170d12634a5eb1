"""nlptools train-seq2seq: translation and summarization models from pairs of texts."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.cli.variants import architectures
from nlptools.configs import Common, Compute
from nlptools.configs.seq2seq import PRESETS, PairTraining, TrainSeq2Seq


@make_command(
    "train-seq2seq",
    TrainSeq2Seq,
    PairTraining,
    Compute,
    presets=PRESETS,
    variants=architectures("encoder-decoder"),
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78),
)
@inputs_argument
def command(
    inputs: tuple[str, ...], trainseq2seq: TrainSeq2Seq, pairtraining: PairTraining, compute: Compute, common: Common
) -> None:
    """Train a translation or summarization model on pairs of texts.

    A Transformer, an RNN with attention or a convolutional model learns to generate the target of a source. Pairs of
    similar length are batched together; held-out pairs are translated at each validation. If a run is stopped by a signal,
    a time limit or a crash, the same command continues it; the final weights are the same as without the interruption.
    """
    # report errors before torch is loaded
    trainseq2seq.check()
    pairtraining.check()
    from nlptools.training.translation import train_seq2seq

    record = invocation()
    train_seq2seq(
        inputs,
        trainseq2seq,
        pairtraining,
        compute,
        encoding_errors=common.encoding_errors,
        invocation=record,
    )
