"""nlptools predict: predictions of fine-tuned models."""

from __future__ import annotations

from dataclasses import replace

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, Lines
from nlptools.configs.finetuning import Files, Predict


@make_command(
    "predict",
    Predict,
    Files,
    Compute,
    Lines,
    opens_models=True,
    formats="""One line per line or record of the input, in order; the input is that of nlptools-finetune(1), with or without
labels. A model for classify, pair or regress knows the columns of its training data: a table with such names in its first line
has them in any order. If a table has other columns, --text-column names the texts. --to json, or an --output that ends with
.jsonl, writes a JSON object per example, for every task. Tabs, line ends and backslashes in labels and answers are written as
\\t, \\n and \\\\. Tabs in the examples below are written as \\t.

classify and pair: label TAB probability; --top-k K: K such pairs; --probabilities: the probability of each label, after a first
line of the labels; --columns: the columns of the input and these, with a header if the input has one, and of JSON lines and
Parquet the object with these keys. Models of --multi-label: the labels with at least the probability --threshold, TAB their
probabilities. An empty text gets a prediction as well.

\b
positive\\t0.9934

regress: a number. A model that is not from finetune reads one text per line, or two with --text-column 1 --text-column 2.

\b
4.72

tag: the tags of a sentence, in the scheme of the training files or of --scheme; with --columns all lines of the file with one
more column, as conlleval reads it (of a line of text: word and tag); with --to entities a JSON object per sentence: its text, and
the text, label, start and end of each entity, in characters of the text. The input is columns, or with --layout lines (and always
with --text) a sentence per line, which --split cuts into words: words as nlptools-tokenize(1) does, or whitespace at spaces only.
Long sentences are read in windows, so that every word gets a tag.

\b
B-PER O O

roles: the number of the predicate and the word, then for each argument TAB role, first-last word, words; with --columns a block
of lines per predicate: word TAB V at the predicate TAB the role in the file, if it has roles, TAB role.

\b
2 sleeps\\tARG0 1-1 Ann\\tARGM-LOC 3-4 in Rome

answer: the answer, an empty line for none, `yes` or `no` if the model has learned them; lines of `question TAB context`, or the
files of finetune. A model that is not from finetune always answers, unless --null-threshold is given. --predictions, --nbest
and --null-odds write SQuAD's official files as well: JSON objects from question id to answer, to the 20 best answers with
their probabilities and logits, and to the odds of no answer.

\b
in Rome

choice: the number of the best ending, from 0, TAB its probability; --top-k and --probabilities as above, without header.

\b
2\\t0.8713

coreference: A, B or neither, TAB the probabilities of the three; --submission writes the file for GAP's scorer.

\b
A\\t0.9021\\t0.0514\\t0.0465

reward: the reward of each response, between tabs; the input is that of finetune, or JSON lines of `prompt` and `completion`,
or of `prompt` and `responses`.

\b
-0.3127

seq2seq: the target text for each `source`, or `source TAB target`, whose target is ignored. nlptools-generate(1) has more
options.""",
    examples=(
        ("The type of a question:", "echo 'Who wrote Emma ?' | nlptools predict questions/"),
        ("A table with two more columns:", "nlptools predict questions/ --columns test.tsv > answered.tsv"),
        (
            "Accuracy:",
            "nlptools predict questions/ dev.tsv | cut -f 1 | nlptools evaluate -m accuracy -r gold.txt",
        ),
        ("Names in a sentence, with their places:", "nlptools predict ner/ --to entities --text 'Ann lives in Rome.'"),
        (
            "Tags of sentences that are split already:",
            "nlptools predict ner/ --layout lines --split whitespace words.txt",
        ),
        (
            "F1 of names, as in conlleval:",
            "nlptools predict ner/ --columns eng.testb | nlptools evaluate -m entity-f1",
        ),
        (
            "Answers, and their scores:",
            "nlptools predict squad/ --predictions answers.json dev-v2.0.json > answers.txt &&"
            " nlptools evaluate -m squad2 -r dev-v2.0.json answers.json",
        ),
        ("An answer to one question:", "printf 'Who sleeps?\\tAnn sleeps.\\n' | nlptools predict squad/"),
        ("A file for GLUE's server:", "nlptools predict rte/ --submission test.tsv -o RTE.tsv"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str,
    inputs: tuple[str, ...],
    predict: Predict,
    files: Files,
    compute: Compute,
    lines: Lines,
    common: Common,
) -> None:
    """Answer with a fine-tuned model: labels, numbers, tags, answers, choices.

    MODEL is a directory of finetune, or a Hugging Face BertForSequenceClassification, BertForTokenClassification,
    BertForQuestionAnswering, BertForMultipleChoice, or the same for ELECTRA or GPT-2. Many lines are computed at a time,
    those of similar length together, which changes the numbers by rounding only.
    """
    predict.check()
    from nlptools.files import layout_names, progress, streams

    by_name = layout_names.named_layout(lines.output)
    if by_name == "jsonl" and not (predict.columns or predict.probabilities or predict.top_k > 1 or predict.submission):
        predict = replace(predict, to="json")
    if not predict.columns or by_name not in (
        "csv",
        "jsonl",
    ):  # those are checked when the layout of the input is known
        layout_names.check_output(lines.output, "jsonl" if predict.to == "json" else "text")
    names = streams.check_inputs(inputs)
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=None) as out:
        from nlptools.inference.loading import load

        predictor = load(model, compute=compute, settings=predict, files=files)
        if lines.line_buffered:
            predictor.window = 1
        for window in predictor.lines(names, common.encoding_errors, lines.force):
            layout_names.check_output(lines.output, predictor.layout)
            out.write_lines(window)
            progress.done(len(window))
