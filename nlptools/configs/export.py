"""Settings of `export`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import REQUIRED, option


@dataclass(frozen=True)
class Export:
    """Output options"""

    output: str = option(REQUIRED, "File to write, such as model.onnx.", short="-o", metavar="FILE")
    force: bool = option(False, "Replace the output file if it exists.")
    result: str = option(
        "auto",
        "Output of the graph: logits of a fine-tuned head, the sentence vector of a sentence-transformers directory,"
        " or the hidden state of each token in the last layer. auto: the first that the model has.",
        choices=("auto", "logits", "sentence", "hidden"),
    )
