"""nlptools score: log-probabilities and perplexity."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs, is_model
from nlptools.configs import Common, Compute, Lines
from nlptools.configs.scoring import Score
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from nlptools.files.streams import Output
    from nlptools.inference.language_model import LanguageModel


@make_command(
    "score",
    Score,
    Compute,
    Lines,
    opens_models=True,
    formats="""--per line writes, for each input line, its log-probability (natural logarithm), a tab, and its number of
tokens, including the end-of-text token, which an empty line consists of. With --text-column, these two columns are written
behind those of the line, and their names behind those of the first line, if it has names. --per token writes a line for each
token, the token and its log-probability separated by a tab, and an empty line after each input line. --per total writes one
JSON object: perplexity per token, per word and per byte, bits per byte, the counts, and the protocol (context, stride, the last
window, memory, the token before the first one, unknown words, device and precision).

An ELMo has two more columns per line: the log-probability forward, each token given those before it, and backward, each given
those behind it. The first column is their mean; so are the log-probabilities per token, and the perplexity of --per total,
which also has forward_perplexity and backward_perplexity.

--per word writes a line for each word (what stands between white space, as in the text) with the columns of --columns behind it,
and an empty line after each input line. Surprisal is the negative logarithm, to the base of --base, of the probability of the
word given all words before it in the line; for the first word, given the start of the text. The pieces of a word are summed. In
most tokenizers the space before a word is part of its first piece. The end of a word then shows in the piece after it;
surprisal includes this end (Pimentel and Meister 2024, arXiv:2406.14561; Oh and Schuler 2024, arXiv:2406.10851) unless
--no-boundary-correction is given. Tokenizers of whole words need no correction. With WordPiece, every piece without ## ends the
word before it. A word that has no token of its own has surprisal 0 and an empty rank and entropy. With --text-column, the lines
are a long table, which R and pandas read as it is: for each word the columns of its record except the text (item, condition,
...), its number in the text (position), the word, the columns of --columns, and unknown, 1 for a word with a token unknown to
the model; the names of all these in the first line, if the first line of the input has names; and no empty lines.

--masked writes pseudo-log-likelihoods of an encoder in place of log-probabilities: the sum, over the tokens, of the
log-probability of each given all others (Salazar et al. 2020, arXiv:1910.14659), or of each given all others but the later
pieces of its word (within-word; Kauf and Ivanova 2023, arXiv:2305.10588). There is no end of text, so an empty line has 0 tokens
and the score 0; --per total writes pseudo-perplexities. In a line longer than the context of the model, each token is scored in
the middle of as many tokens as fit. Surprisals, ranks and entropies of words are those of the masked tokens, without correction.

--choices reads records of a context and its choices: JSON objects with "prompt", "context" or "ctx"; "choices" or "endings"; and
perhaps "answer", "label" or "gold", the number of the right one from 0 (an "answer" may be its text). The files of SWAG and
HellaSwag, and Parquet (by suffix), are read as they are. Context and choice are cut into tokens together, white space at the end
of the context goes to the choice, and contexts that are too long are cut from the left, all as lm-evaluation-harness does. The
output has, for each record, its keys and lists with a value for each choice: "log_probability", "tokens", "bytes" (of the choice
itself, without white space around it), "characters" (of the choice as it is given), "greedy" (whether it is what greedy decoding
generates), and "unconditional" with that option. "best" has the number of the most probable choice by "sum" (acc of
lm-evaluation-harness), by mean log-probability per "token", per "byte" and per "character" (acc_norm), and by "unconditional"
(acc_mutual_info); null if several are equally probable: such ties are counted, and never right. Accuracies go to standard error,
with --by also those of the records with each value of a column.

Minimal pairs are choices, too: records with "sentence_good" and "sentence_bad" (BLiMP), tables with two such columns (good and
bad, grammatical and ungrammatical, acceptable and unacceptable, correct and incorrect), and CSV or .tsv with two columns
without names, the right sentence first. Several models, before the input files, give a table with a line for each, and with
--by for each value of the column; with --per total and without --choices, a table of perplexities.

--to jsonl writes an object for each input line: log_probability and tokens (a number) per line, of an ELMo also forward and
backward; lists named token and log_probability per token; lists named word, surprisal, rank, entropy, tokens per word. Infinite
numbers are null.""",
    examples=(
        ("Write the log-probability of each line:", "nlptools score lm/ < candidates.txt"),
        ("Measure the perplexity of a text:", "nlptools score lm/ --per total held-out.txt"),
        (
            "Let a Transformer-XL see 640 tokens back:",
            "nlptools score xl/ --memory-length 640 --per total held-out.txt",
        ),
        (
            "Find the most probable of some sentences:",
            "nlptools score lm/ < in.txt | paste - in.txt | sort -gr | head -1",
        ),
        (
            "Surprisal of each word in bits, and the entropy before it:",
            "nlptools score lm/ --per word --columns surprisal,entropy < stories.txt > surprisals.tsv",
        ),
        (
            "Score sentences with a BERT:",
            "nlptools score bert/ --masked within-word < sentences.txt",
        ),
        (
            "Sort translations (id, tab, text) by probability, the best of each id first:",
            "nlptools score lm/ --text-column 2 < nbest.tsv | sort -t $'\\t' -k 1,1n -k 3,3gr",
        ),
        (
            "Mix an LSTM and n-grams with the best weights for a held-out text, and save the mixture:",
            "nlptools score lstm/ --with 5-grams.arpa --tune valid.txt --save mixture/ --per total test.txt",
        ),
        (
            "Accuracy on HellaSwag, by log-probability per byte and in other ways:",
            "nlptools score gpt2/ --choices --per total hellaswag_val.jsonl",
        ),
        (
            "Accuracy on minimal pairs, by phenomenon, of two models:",
            "nlptools score gpt2/ qwen/ --choices --by linguistics_term blimp.jsonl",
        ),
        (
            "Surprisals of the words of stimuli, with their items and conditions, for R:",
            "nlptools score lm/ --per word --text-column sentence stimuli.csv > long.tsv",
        ),
        (
            "Let a model adapt to a text, with a cache and by training:",
            "nlptools score lstm/ --cache 500 --dynamic 0.1 --per total test.txt",
        ),
    ),
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(model: str, inputs: tuple[str, ...], score: Score, compute: Compute, lines: Lines, common: Common) -> None:
    """Write log-probabilities of lines and tokens, surprisals of words, or the perplexity of a text.

    MODEL is a directory written by train-lm, a Hugging Face GPT-2, or an ARPA file of n-grams (.arpa, .arpa.gz); with --masked,
    one written by pretrain-bert, or a Hugging Face BERT with its head for masked tokens. Each line is scored independently,
    unless --carry is given. On a CPU, what a Transformer gives a line depends on this line alone, in every digit and whatever
    --batch-tokens (of --choices: with --precision fp32). With other models and on a GPU, batches change how numbers are
    rounded: by about 1e-5 in fp32, 0.1 in bf16.
    """
    score.check()
    others = list(itertools.takewhile(is_model, inputs))
    if others:
        _compare([model, *others], inputs[len(others) :], score, compute, lines, common)
        return
    import json
    import math

    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.formats import stimuli
    from nlptools.inference import mixture_directory
    from nlptools.inference.loading import load
    from nlptools.inference.score_rows import rows, table

    layout = "json" if score.per == "total" else "jsonl" if score.json or score.choices else "text"
    names = streams.check_inputs(inputs, [score.tune] if score.tune else [])
    if score.save is not None:
        mixture_directory.check_target(score.save, lines.force)
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=layout) as out:
        loaded: Any = load(model, *score.mixed, compute=compute, settings=score, errors=common.encoding_errors)
        if score.tune is not None:
            from nlptools.inference.tuning import tune

            held_out = [score.tune]
            score = tune(loaded, lambda: text_lines.blocks(held_out, common.encoding_errors), score, score.tune)
        if score.save is not None:
            mixture_directory.save(score.save, loaded.parts.bundles, loaded.weights)
        if score.choices:
            _score_choices(loaded, names, score, lines, common, out)
            return
        if score.per == "total":
            result = loaded.perplexity(text_lines.blocks(names, common.encoding_errors), score)
            if result["tokens"] == 0:
                from nlptools.errors import DataError

                raise DataError("no text to score: the input is empty")
            # JSON has no infinity: a perplexity too large for a float becomes null
            plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in result.items()}
            out.write(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
            loaded.unknown.report()
            return
        size = 1 if lines.line_buffered else 1024
        if score.text_column is not None:
            for window in stimuli.read(names, score.text_column, size, common.encoding_errors):
                out.write_lines(table(loaded, window, score))
        else:
            for block in text_lines.batches(names, size, common.encoding_errors):
                out.write_lines(rows(loaded, block, score))
        loaded.unknown.report()


def _compare(
    models: list[str], inputs: tuple[str, ...], score: Score, compute: Compute, lines: Lines, common: Common
) -> None:
    """Write a table of several models, each alone."""
    from nlptools.corpora import text_lines
    from nlptools.errors import DataError
    from nlptools.files import progress, streams
    from nlptools.inference import choices, score_tables
    from nlptools.inference.loading import load

    if not score.choices and score.per != "total":
        raise UsageError(f"several models ({', '.join(models)}) go with --choices or --per total, which give a table")
    if score.mixed or score.tune or score.save:
        raise UsageError("--with, --tune and --save go with one MODEL, whose mixture they make")
    names = streams.check_inputs(inputs)
    if "-" in names:
        raise UsageError("several models read the same input: expected the names of files, not standard input")
    with streams.Output(lines.output, force=lines.force, line_buffered=True) as out:
        head = score_tables.accuracy_header(score) if score.choices else score_tables.perplexity_header()
        for number, model in enumerate(models):
            loaded: Any = load(model, compute=compute, settings=score, errors=common.encoding_errors)
            if score.choices:
                scorer = choices.ChoiceScorer(loaded, score)
                for items in scorer.objects(names, common.encoding_errors):
                    progress.done(len(items))
                rows = list(score_tables.accuracy_rows(model, scorer))
            else:
                result = loaded.perplexity(text_lines.blocks(names, common.encoding_errors), score)
                if result["tokens"] == 0:
                    raise DataError("no text to score: the input is empty")
                rows = [score_tables.perplexity_row(model, result)]
                loaded.unknown.report()
            out.write_lines(rows if number else [head, *rows])


def _score_choices(
    loaded: LanguageModel, names: list[str], score: Score, lines: Lines, common: Common, out: Output
) -> None:
    import json

    from nlptools.errors import DataError
    from nlptools.files import progress
    from nlptools.files.line_records import json_line
    from nlptools.inference import choices

    scorer = choices.ChoiceScorer(loaded, score)
    for items in scorer.objects(names, common.encoding_errors, 1 if lines.line_buffered else choices.WINDOW):
        if score.per == "line":
            out.write_lines(map(json_line, items))
        progress.done(len(items))
    if score.per == "total":
        if not scorer.accuracy.answered:
            raise DataError("no record has an answer")
        out.write(json.dumps(scorer.total(), indent=1, ensure_ascii=False) + "\n")
    else:
        scorer.note()
