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
    formats="""Input lines are `source TAB target`, tabs, line ends and backslashes inside a text written as \\t, \\n and \\\\;
or --source and --target name two files that are read side by side. Pairs with an empty side are left out, and with
--max-source-length and --max-target-length those with a longer side, or it is cut; both are counted. The output is a model
directory: a transformer opens in Hugging Face as MarianMT (--norm pre: Pegasus), with source.spm, target.spm and vocab.json
where the tokenizer is SentencePiece; besides training.json (how it was made), log.jsonl (one JSON object per report),
manifest.json (sizes and SHA-256 sums), checkpoints/ and data/ (token ids, to continue from). With --valid the weights are
the best by --best, or the mean of the last validations with --average where that is better; otherwise the last. Standard
output stays empty.""",
    examples=(
        (
            "A small Transformer, chosen by the BLEU of held-out pairs:",
            "paste train.en train.de | nlptools train-seq2seq -t pieces.model --preset multi30k --valid valid.tsv -o en-de/",
        ),
        (
            "An RNN with Bahdanau's attention, each side with its own tokenizer, from two files:",
            "nlptools train-seq2seq --arch rnn -t en.model --target-tokenizer de.model --source train.en --target train.de"
            " -o rnn/",
        ),
        (
            "Summaries: long sources, cut to 400 tokens:",
            "nlptools train-seq2seq -t pieces.model --max-source-length 400 --long cut -o subjects/ mails.tsv",
        ),
        (
            "Back-translation: a model the other way makes sources for text of the target language alone:",
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

    A Transformer, an RNN with attention or a convolutional model learns to say the target of a source. Pairs of like
    length are trained on together; held-out pairs are translated at each validation. A run that was stopped, by a signal, a
    time limit or a crash, is continued by the same command and ends with the weights it would have had anyway.
    """
    # what is wrong is said before torch is loaded
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
