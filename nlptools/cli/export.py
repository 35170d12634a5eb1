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
    formats="""An ONNX file with graph and weights, float32, at most 2 GiB.

Inputs are int64, with any number of rows and any length up to the model's maximum: input_ids (rows, tokens), attention_mask
(1: a token, 0: padding) and token_type_ids (0, or 1 in a second text); for --task choice, (rows, choices, tokens).

Outputs are float32. Encoders: last_hidden_state (rows, tokens, dimensions). Sentence-transformers directories:
sentence_embedding (rows, dimensions), pooled and normalized. Fine-tuned models: logits, for classify, pair and regress (rows,
labels), for tag and roles (rows, tokens, labels), for choice (rows, choices); for answer, start_logits and end_logits (rows,
tokens), and with --yes-no, yes_no_logits (rows, 3). Outputs at padding are meaningless.

The tokenizer (tokenizer.json or vocab.txt) and the names of the labels (config.json) remain in MODEL. A conditional random
field (--crf), prompts, windows over long texts and a null threshold are not part of the graph.""",
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

    MODEL is the directory of a BERT or an ELECTRA, a sentence-transformers directory, or a model that finetune trained from
    one of these. The graph is compared with the model on batches of several sizes before the file gets its name. Needs the
    packages onnx and onnxscript, and onnxruntime for the comparison (the extra onnx).
    """
    from nlptools.converters.onnx_export import export as export_onnx

    export_onnx(model, export)
