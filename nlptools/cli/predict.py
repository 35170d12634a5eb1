"""nlptools predict: predictions of fine-tuned models."""

from __future__ import annotations

import itertools
from dataclasses import replace

import click

from nlptools.cli.input_shares import leave_if_done, record_range
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs, is_model
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.finetuning import Predict
from nlptools.configs.shares import Shares
from nlptools.configs.tasks.files import Files


@make_command(
    "predict",
    Predict,
    Files,
    Compute,
    Shares,
    LineOutput,
    opens_models=True,
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
    shares: Shares,
    lines: LineOutput,
    common: Common,
) -> None:
    """Run a fine-tuned model on new examples.

    MODEL is a directory of finetune, or a published model with the head of a task, such as
    BertForSequenceClassification or RobertaForQuestionAnswering; with --ask, a pretrained BERT or ELECTRA. The
    directories of further models of the same task and labels, before the input files, make an ensemble. Batches
    contain examples of similar length, which changes numbers only by rounding.
    """
    predict.check()
    from nlptools.files import layout_names, progress, streams

    by_name = layout_names.named_layout(lines.output)
    other = predict.columns or predict.probabilities or predict.top_k > 1 or predict.submission
    if by_name == "jsonl" and predict.to == "text" and not other:
        predict = replace(predict, to="jsonl")
    # --columns to CSV or JSON lines is checked when the layout of the input is known
    if not predict.columns or by_name not in ("csv", "jsonl"):
        layout_names.check_output(lines.output, "jsonl" if predict.objects else "text")
    more = list(itertools.takewhile(is_model, inputs))
    leave_if_done(shares, lines.output)
    names = streams.check_inputs(inputs[len(more) :])
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=None) as out:
        from nlptools.inference.loading import load

        predictor = load(model, *more, compute=compute, settings=predict, files=files)
        if lines.line_buffered:
            predictor.window = 1
        errors = common.encoding_errors
        first, end = record_range(names, lambda: predictor.count(names, errors), shares)
        for window in predictor.lines(names, errors, lines.force, first, end):
            layout_names.check_output(lines.output, predictor.layout)
            out.write_lines(window)
            progress.done(len(window))
