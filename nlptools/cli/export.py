"""nlptools export: encoders and fine-tuned models as ONNX files."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.export import Export


@make_command(
    "export",
    Export,
    opens_models=True,
    exit_codes=(0, 1, 2, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
def command(model: str, export: Export, common: Common) -> None:
    """Write an encoder or a fine-tuned model as an ONNX file.

    MODEL is the directory of an encoder (BERT, ELECTRA, RoBERTa, DistilBERT, ALBERT and so on) or a
    sentence-transformers model, or a model that finetune trained from one of these. The command compares graph and
    model on batches of several sizes before it writes the file. Requires the packages onnx and onnxscript, and for
    the comparison onnxruntime (extra onnx).
    """
    from nlptools.converters.onnx_export import export as export_onnx

    export_onnx(model, export)
