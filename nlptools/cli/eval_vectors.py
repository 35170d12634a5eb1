"""nlptools eval-vectors: word vectors on analogies and word similarity."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.eval_vectors import EvalVectors
from nlptools.configs.vectors import FILES
from nlptools.errors import UsageError

FORMATS = f"""\
ANALOGIES (--analogies) have the format of word2vec's questions-words.txt: four words on a line, a b c expected (a is to
b as c is to expected), in sections between lines that begin with a colon and a space; or that of MSR's analogies: three
words on a line of NAME.questions, with category and expected word in NAME.answers, or four words and the category on a
line of any file. A question is solved if, of all words but a, b and c, the expected one has the highest score: with
--method add, 3CosAdd, the cosine to b - a + c (Mikolov et al. 2013, arXiv 1301.3781); with mul, 3CosMul (Levy and
Goldberg 2014, W14-1618). Accuracy is given by section, for all questions, and, if the names of some sections but not of
all begin with gram, for these (syntactic) and the others (semantic).

PAIRS (--pairs) have the format of WordSim-353: two words and their human score, separated by commas in .csv files, else
by tabs, or by spaces in a line without tabs. The score is the first number behind the words, as also in SimLex-999 and
SimVerb-3500, or else a number in front of them; further columns are ignored. A first line without a number in that
column is a header (standard error says so); if its first column has no name, that column is ignored; parts of speech at
the ends of all words, as in MEN (sun-n), are left out. Lines that begin with # are skipped. Results are Spearman's
correlation of scores and cosines, with average ranks for ties, and Pearson's.

The output is a table with a row per score and a column per file of VECTORS: accuracy in percent or correlation, and the
number of questions or pairs with only known words, of all. Each file is followed by the conventions of its scores:
evaluators differ in these, and scores by different conventions are not comparable. --to tsv writes a line per score: vectors,
file, name, value (accuracy from 0 to 1), answered, all, unit, signature, and with --confidence the mean over the resamples
and half the width of the 95% interval. --to jsonl writes an object per score, with unrounded numbers and with correct, the
number of solved questions. A correlation of fewer than two pairs, or of equal numbers, is undefined: -, nothing, or null.

CONVENTIONS. Only the first --restrict words are known, in questions and as answers. With --case fold, case is ignored, and
of words that become the same the first counts. Questions and pairs with unknown words are left out; with --unknown wrong
they count as wrong, and as similarity 0. With --subwords, unknown words have the vectors that the file has for them: those
behind the first N words, as written, or composed of n-grams; the answer of an analogy must still be known. The defaults
are the conventions of word2vec's compute-accuracy with its threshold of 30000, except that it accepts as an answer a word
that differs only in case from one of the question. They are those of gensim with restrict_vocab=30000, except that it
considers only the five nearest words; gensim's own default is --restrict 300000, its dummy4unknown is --unknown wrong, and
its case_insensitive=False is --case keep. GloVe uses --restrict 0.

Formats of VECTORS: {FILES}. They are described in nlptools-convert(1); standard input (-) is word2vec."""


@make_command(
    "eval-vectors",
    EvalVectors,
    formats=FORMATS,
    examples=(
        ("Accuracy on analogies, by section", "nlptools eval-vectors vectors.bin --analogies questions-words.txt"),
        (
            "Several models and files side by side, with 95% intervals",
            "nlptools eval-vectors a.bin b.vec --analogies questions-words.txt --pairs wordsim353.tsv "
            "--pairs simlex.tsv --confidence",
        ),
        (
            "The accuracy of one model, for a script",
            "nlptools eval-vectors v.bin --analogies questions-words.txt --to tsv | awk -F'\\t' '$3 == \"total\" {print $4}'",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 69, 74, 78, 130, 141, 143),
)
@click.argument("vectors", nargs=-1, required=True, type=click.Path(path_type=str))
def command(vectors: tuple[str, ...], evalvectors: EvalVectors, common: Common) -> None:
    """Score word vectors on analogies and on word similarity.

    VECTORS are files of word vectors, or directories from convert. Needs --analogies FILE, --pairs FILE or both.
    """
    evalvectors.check()
    if [*vectors, *evalvectors.analogies, *evalvectors.pairs].count("-") > 1:
        raise UsageError("'-' (standard input) may stand only once")
    from nlptools.files import streams
    from nlptools.vectors import evaluation, score_table
    from nlptools.vectors.files import formats

    evaluation.check_vectors(vectors, evalvectors.source_format)
    tests = evaluation.read_tests(evalvectors, common.encoding_errors)
    scores: list[list[evaluation.Score]] = []
    write = {"jsonl": score_table.json_lines, "tsv": score_table.tsv}.get(evalvectors.to)
    with streams.Output() as out:
        for path in vectors:
            table = formats.load(path, evalvectors.source_format, common.encoding_errors)
            scores.append(evaluation.score(table, tests, evalvectors))
            if write is not None:
                out.write_lines(write(scores[-1]))
        if write is None:
            out.write_lines(score_table.table(scores))
