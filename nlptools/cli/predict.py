"""nlptools predict: predictions of fine-tuned models."""

from __future__ import annotations

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
    formats=r"""One line per line or example of the input, in order. classify and pair: `label TAB probability`; --top-k K:
K such pairs in a line; --probabilities: that of each label, in the order of the model's config.json. Models of --multi-label:
all labels with at least the probability --threshold, joined by --label-separator, TAB their probabilities; an
empty field for none. regress: a number, for two texts; a transformers model with one output (num_labels 1) gives one for each
text, or with --pair for two texts. --columns: the columns of the input with the prediction appended, and the header if
there is one; in JSON lines under "prediction" and "probability". The input is that of finetune, with or without labels: a text
per line, `text TAB text`, tables with a header, JSON lines. An empty text gets a prediction as well.
tag: the tags of a sentence in a line, between spaces, in the scheme of the training files or of --scheme: the best tag of each
word, or with --decode scheme the best sequence that keeps to the scheme; with --columns all lines of the file with one more
column, as conlleval reads it. The input is columns, with tags or without, or with --layout lines
a sentence per line, words between spaces, an empty line for an empty one. Long sentences are read in windows, so that
every word gets a tag.
roles: a line per predicate, its number and the word, then for each argument TAB role, first-last word, words; with
--columns a block of lines per predicate: word TAB V at the predicate TAB the role in the file, if it has roles, TAB role.
answer: the answer to each question in a line, an empty line for none (--null-threshold; without it, models that are not from
finetune always answer), `yes` or `no` where the model was trained with --yes-no. --predictions, --nbest and --null-odds write
SQuAD's official files as well: JSON objects from question id to answer, to the best answers with their probabilities and
logits, and to the odds of no answer.
choice: `index TAB probability` of the best ending, counted from 0; --top-k and --probabilities as above.
coreference: A, B or neither, TAB the probabilities of the three; --submission: the file for GAP's scorer. --to json: a
JSON object per example of these three tasks, with its id.
seq2seq: the target text for each source text; lines are `source`, or `source TAB target`, whose target is ignored;
nlptools-generate(1) has more options.
Tabs, line ends and backslashes in labels and answers are written as \t, \n and \\.""",
    examples=(
        ("The type of a question:", "echo 'Who wrote Emma ?' | nlptools predict questions/"),
        ("A table with two more columns:", "nlptools predict questions/ --columns test.tsv > answered.tsv"),
        (
            "Accuracy:",
            "nlptools predict questions/ dev.tsv | cut -f 1 | nlptools evaluate -m accuracy -r gold.txt",
        ),
        ("Names in a sentence:", "echo 'Ann lives in Rome .' | nlptools predict ner/ --layout lines"),
        (
            "F1 of names, as in conlleval:",
            "nlptools predict ner/ --columns eng.testb | nlptools evaluate -m entity-f1",
        ),
        (
            "Answers, and their scores:",
            "nlptools predict squad/ --predictions answers.json dev-v2.0.json > answers.txt &&"
            " nlptools evaluate -m squad2 -r dev-v2.0.json answers.json",
        ),
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
    from nlptools.files import progress, streams

    names = streams.check_inputs(inputs)
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as out:
        from nlptools.inference.loading import load

        predictor = load(model, compute=compute, settings=predict, files=files)
        if lines.line_buffered:
            predictor.window = 1
        for window in predictor.lines(names, common.encoding_errors, lines.force):
            out.write_lines(window)
            progress.done(len(window))
