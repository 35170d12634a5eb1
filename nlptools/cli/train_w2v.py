"""nlptools train-w2v: word vectors from sequences of tokens."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument, invocation
from nlptools.configs import Common, Devices
from nlptools.configs.vectors import FILES
from nlptools.configs.word_vectors import TrainW2V, VectorRun
from nlptools.errors import UsageError

FORMATS = f"""\
Input is one sequence per line, of tokens separated by spaces: the words of a sentence, items bought together, walks through a
graph. Windows do not cross line ends. A line of more than 1,000 tokens is cut into pieces of 1,000. Tokens are used as they
are; use nlptools-tokenize(1) to lowercase text and separate punctuation. Words are written by descending count.

The file name of -o or --to selects the format of the output: {FILES}; see nlptools-convert(1). Standard output
is word2vec. --to fasttext writes the .bin that fastText and gensim load. That format and directories store n-grams, which
give unknown words a vector, and output vectors, from which training can continue; all other formats store word vectors only.

--init starts from existing vectors. Words that they lack are added if they are frequent enough; their words that do not occur
in the text are kept. Options are not copied: --dim must be the same. N-grams are reused if --subwords and --buckets are the
same, otherwise they are initialized anew. --loss hs cannot reuse output vectors.

The state of a run is in the directory FILE.run beside the output FILE and is removed when FILE is written. A run that is
stopped by a signal or by --max-time saves everything and ends with status 75; the same command with the same text continues
it. A killed run continues from its last checkpoint (--save-every). --force starts anew; with --resume must it replaces only
the output. A run that writes to standard output cannot be continued. The command of a run that is finished ends with status 0
and says so: a record of each written file, by its SHA-256, is in the user's cache directory (~/.cache/nlptools/runs).

--run DIR, or a directory as output, is not removed: it stores the encoded text, checkpoints, log.jsonl (see nlptools-plot(1))
and training.json.

MODELS. Skip-gram and CBOW follow Mikolov et al. 2013 (arXiv 1301.3781), with negative sampling and subsampling of
frequent words as in Mikolov et al. 2013 (arXiv 1310.4546); hierarchical softmax (Morin and Bengio 2005) uses a Huffman tree;
n-grams follow Bojanowski et al. 2017 (arXiv 1607.04606) and are hashed as in fastText. CBOW gives each word of the mean its
share of the gradient (Irsoy et al. 2021, arXiv 2012.15332); with --cbow-gradient legacy it gives each word the whole gradient,
as word2vec does. --position-weights is section 2.2 of Mikolov et al. 2018 (arXiv 1712.09405).

Differences: 32 consecutive tokens share their sampled negatives, which are weighted as if each token had its own: --negative
for each word that it predicts. Several processes (--workers) update the same vectors without locks, so their results differ
slightly from run to run; --deterministic, or one worker, gives the same bytes every time on the same machine. The learning
rate decays linearly to zero over all words of all epochs. With corpus_file and several workers, gensim lowers it by the share
of each worker only, so its rate is higher on average. For that reason, and because a step here covers many words, the
rate starts at 0.045 instead of the usual 0.025.

PROGRESS on standard error: the loss in nats; with --verbose also the learning rate, and the speed in words per second: words of
the vocabulary, including those that subsampling drops. The loss is the mean over the pairs of the epoch: a word and a word of
its window, with its negatives (CBOW: a word and its window). Without any training it is 4.16 with 5 negatives; with --loss
softmax it is the logarithm of the number of words. --valid reports the same for a held-out text after each epoch. A rising
loss means that the learning rate is too high; if the loss is no longer finite, the run ends with status 3 and writes nothing.

With --model glove the co-occurrences are counted first, in files beside the run (16 bytes for each pair of words, 12 at the
end), and an epoch is a pass over them. There is no subsampling, and window sizes are not drawn: --sample, --shrink-windows and
--negative have no effect. The vectors are the sums of the word vectors and the context vectors; the loss is the mean over
pairs of f(X) (w.c + b + b' - log X)^2 / 2. GloVe's own tools use --window 15 and --epochs 25."""


@make_command(
    "train-w2v",
    TrainW2V,
    VectorRun,
    Devices,
    formats=FORMATS,
    examples=(
        (
            "Train vectors on the words of a text:",
            "zcat novels.gz | nlptools tokenize -t words --lowercase | nlptools train-w2v -o vectors.bin",
        ),
        (
            "Treat phrases as words:",
            "nlptools tokenize -t words novels.gz | nlptools phrases | nlptools train-w2v -o phrases.bin",
        ),
        (
            "Train vectors of the nodes of a graph, without subsampling: in a small graph every node is frequent:",
            "nlptools walks graph.tsv | nlptools train-w2v --no-shrink-windows --sample 0 --min-count 1 -o nodes.bin",
        ),
        (
            "Train with n-grams and write fastText's format:",
            "nlptools train-w2v --subwords 3-6 --to fasttext -o model.bin tokens.txt",
        ),
        (
            "Continue training on other text, and add its new words:",
            "nlptools train-w2v --init model.bin --subwords 3-6 --to fasttext -o more.bin new.txt",
        ),
        (
            "Train for at most an hour (status 75); the same command continues:",
            "nlptools train-w2v --max-time 1h -o vectors.bin tokens.txt",
        ),
        (
            "Write a directory, measure the loss on held-out text, and plot the curves:",
            "nlptools train-w2v --valid held-out.txt -o vectors/ tokens.txt && nlptools plot vectors/",
        ),
        (
            "Train GloVe vectors:",
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
