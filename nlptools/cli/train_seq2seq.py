"""nlptools train-seq2seq: translation and summarization models from pairs of texts."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Compute
from nlptools.configs.seq2seq import PRESETS, PairTraining, TrainSeq2Seq


@make_command(
    "train-seq2seq",
    TrainSeq2Seq,
    PairTraining,
    Compute,
    presets=PRESETS,
    opens_models=True,
    formats="""Input lines are `source TAB target`, where tabs, newlines and backslashes inside a text are written as \\t, \\n and
\\\\; or --source and --target name two parallel files. Pairs with an empty side are skipped. Sides longer than
--max-source-length or --max-target-length are cut, or their pairs skipped (see --long). All of these are counted and reported.
The output is a model directory: a transformer opens in Hugging Face as MarianMT (--norm pre: Pegasus), with source.spm,
target.spm and vocab.json if the tokenizer is SentencePiece. The directory also has training.json (the training record),
log.jsonl (one JSON object per report), manifest.json (sizes and SHA-256 sums), checkpoints/ and data/ (token ids, to continue
from). With --valid the saved weights are the best by --best, or with --average the mean of those of the last validations if
that is better; otherwise the last ones. Nothing is written to standard output.""",
    examples=(
        (
            "Train a small Transformer and keep the weights with the best BLEU on held-out pairs:",
            "paste train.en train.de | nlptools train-seq2seq -t pieces.model --preset multi30k --valid valid.tsv -o en-de/",
        ),
        (
            "Train an RNN with Bahdanau's attention from two files, each side with its own tokenizer:",
            "nlptools train-seq2seq --arch rnn -t en.model --target-tokenizer de.model --source train.en --target train.de"
            " -o rnn/",
        ),
        (
            "Train a summarizer on long sources, cut to 400 tokens:",
            "nlptools train-seq2seq -t pieces.model --max-source-length 400 --long cut -o subjects/ mails.tsv",
        ),
        (
            "Back-translate monolingual target text with a model of the reverse direction, and train on it too:",
            "nlptools generate de-en/ --beam 0 < mono.de | paste - mono.de | cat - train.tsv |"
            " nlptools train-seq2seq -t pieces.model --valid valid.tsv -o better/",
        ),
    ),
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
