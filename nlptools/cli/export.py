"""nlptools export: encoders and fine-tuned models as ONNX files."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.export import Export


@make_command(
    "export",
    Export,
    formats="""An ONNX file that holds graph and weights, float32, at most 2 GiB. Inputs, int64, any number of rows and any length
that the model can see: input_ids (rows, tokens), attention_mask (1: a token, 0: padding), token_type_ids (0, or 1 in a second
text); of --task choice (rows, choices, tokens). Outputs, float32: of an encoder last_hidden_state (rows, tokens,
dimensions); of a sentence-transformers directory sentence_embedding (rows, dimensions), pooled and normalized; of a fine-tuned
model logits: classify, pair, regress (rows, labels), tag and roles (rows, tokens, labels), choice (rows, choices), answer
start_logits and end_logits (rows, tokens), and with --yes-no yes_no_logits (rows, 3). What stands for padding means nothing.
The tokenizer stays where it is, in tokenizer.json or vocab.txt of MODEL, and so do the names of the labels, in config.json.
A conditional random field (--crf), prompts, windows over long texts and a null threshold are no part of the graph.""",
    examples=(
        ("A classifier for onnxruntime:", "nlptools export questions/ -o questions.onnx"),
        ("Vectors of sentences:", "nlptools export all-MiniLM-L6-v2/ -o minilm.onnx"),
        ("The hidden states below a fine-tuned head:", "nlptools export ner/ --result hidden -o encoder.onnx"),
    ),
    exit_codes=(0, 1, 2, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
def command(model: str, export: Export, common: Common) -> None:
    """Write an encoder or a fine-tuned model as an ONNX file.

    MODEL is a directory of a BERT or an ELECTRA, of sentence-transformers, or one that finetune made of one. The file is compared
    with the model on batches of several sizes before it gets its name. Needs the packages onnx and onnxscript, and
    onnxruntime to compare: pip install 'nlptools[onnx]'.
    """
    from nlptools.inference.onnx_export import export as write

    write(model, export)
