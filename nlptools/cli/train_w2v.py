"""nlptools train-w2v: word vectors from sequences of tokens."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Devices
from nlptools.configs.vectors import FILES
from nlptools.configs.word_vectors import TrainW2V, VectorRun
from nlptools.errors import UsageError

FORMATS = f"""\
Input is sequences, one per line, of tokens separated by spaces: words, items that were bought together, walks through a
graph. Windows do not reach from one line into the next. A line of more than 1,000 tokens is cut into pieces of 1,000.
Tokens are taken as they are: nlptools-tokenize(1) lowercases and separates punctuation. Words come out by falling count.

The name of -o or --format determines the format of the output: {FILES}; see nlptools-convert(1). Standard output is
word2vec. --format fasttext writes the .bin that fastText and gensim load. That and directories keep n-grams, which give
vectors to unseen words, and output vectors, with which training can continue; all others have only the vectors of words.

--init begins with vectors made before. Words that they lack and that are frequent enough are added; words that the text
lacks stay. Options are not taken over: --dim must be the same, and n-grams are used with the same --subwords and --buckets,
otherwise they begin anew. --loss hs has no output vectors to begin with.

--run DIR, or a directory as output, keeps the text as numbers, checkpoints, log.jsonl (see nlptools-plot(1)) and
training.json. A run that is stopped, by a signal or by --max-time, saves all and ends with status 75; the same command, with
the same text, continues. One that was killed continues from its last checkpoint (--save-every). --force begins anew.

MODELS. Skip-gram and CBOW are those of Mikolov et al. 2013 (arXiv 1301.3781), with negative sampling and thinning out of
frequent words as in Mikolov et al. 2013 (arXiv 1310.4546); hierarchical softmax (Morin and Bengio 2005) has the tree of
Huffman; n-grams are those of Bojanowski et al. 2017 (arXiv 1607.04606), with fastText's numbers for them; CBOW gives each
word of the mean its share of the gradient (Irsoy et al. 2021, arXiv 2012.15332), with --cbow-gradient legacy the whole, as
word2vec; --position-weights is section 2.2 of Mikolov et al. 2018 (arXiv 1712.09405).

What differs: 32 tokens that stand together share the negatives that are drawn, which are weighted as though each token had
its own, --negative for each word that it predicts. Several processes (--workers) change the same vectors without locks, so
their results differ a little from run to run; --deterministic, or one worker, gives the same bytes again on the same
machine. The learning rate falls in a line to zero over all words of all epochs. With corpus_file and several workers gensim
lowers it only by the share of each worker, so that its rate is higher on average; for that reason, and because
the steps here hold many words, the rate begins at 0.045 where others begin at 0.025.

PROGRESS on standard error: the loss, in nats, the rate, and words per second of training. These are words of the
vocabulary, those that were thinned out too. The loss is the mean over the pairs of the epoch: of a word and a word of its
window, with its negatives (CBOW: of a word and its window); without any learning it is 4.16 with 5 negatives, with --loss
softmax the logarithm of the number of words. --valid gives the same for another text after each epoch. A loss that rises
tells of too high a rate; if it is no number any more, the run ends with status 3 and writes nothing.

With --model glove the co-occurrences are counted first, in files beside the run (16 bytes for each pair of words, 12 in
the end), and an epoch goes over them. Frequent words are not thinned out, and windows are not drawn: --sample,
--shrink-windows and --negative have no part in it. The vectors are the sums of those of words and of contexts, the loss is
the mean over pairs of f(X) (w.c + b + b' - log X)^2 / 2. GloVe's own tools have --window 15 and --epochs 25."""


@make_command(
    "train-w2v",
    TrainW2V,
    VectorRun,
    Devices,
    formats=FORMATS,
    examples=(
        (
            "From text to vectors:",
            "zcat novels.gz | nlptools tokenize -t words --lowercase | nlptools train-w2v -o vectors.bin",
        ),
        (
            "With phrases as words:",
            "nlptools tokenize -t words novels.gz | nlptools phrases | nlptools train-w2v -o phrases.bin",
        ),
        (
            "Vectors of the nodes of a graph; in a small one every node is frequent, so none is thinned out:",
            "nlptools walks graph.tsv | nlptools train-w2v --no-shrink-windows --sample 0 --min-count 1 -o nodes.bin",
        ),
        (
            "With n-grams, in fastText's format:",
            "nlptools train-w2v --subwords 3-6 --format fasttext -o model.bin tokens.txt",
        ),
        (
            "Going on with other text, new words included:",
            "nlptools train-w2v --init model.bin --subwords 3-6 --format fasttext -o more.bin new.txt",
        ),
        (
            "For an hour at most; the same command again goes on (status 75):",
            "nlptools train-w2v --run run/ --max-time 1h -o vectors.bin tokens.txt",
        ),
        (
            "A directory, with held-out text to measure on, and its curves:",
            "nlptools train-w2v --valid held-out.txt -o vectors/ tokens.txt && nlptools plot vectors/",
        ),
        (
            "GloVe:",
            "nlptools train-w2v --model glove --window 15 --epochs 25 -o glove.novels.txt tokens.txt",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 75, 78, 130, 141, 143),
)
@inputs_argument
def command(
    inputs: tuple[str, ...], trainw2v: TrainW2V, vectorrun: VectorRun, devices: Devices, common: Common
) -> None:
    """Train word vectors on sequences of tokens.

    Reads sequences of tokens from files or standard input and writes vectors: skip-gram or CBOW with negative sampling,
    hierarchical or full softmax, with n-grams of characters if asked, or GloVe.
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
