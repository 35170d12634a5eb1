"""Options of the task similarity."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import option, redefined
from nlptools.configs.lora import LoRA
from nlptools.configs.tasks.shared import TaskOptions
from nlptools.errors import UsageError


def dimensions(text: str | None) -> tuple[int, ...]:
    """The numbers in `384,256,128`, without repetitions, the largest first; none for None. Raises UsageError."""
    if text is None:
        return ()
    if not re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", text):
        raise UsageError(f"--dims {text}: expected numbers of dimensions with commas, such as 384,256,128")
    return tuple(sorted({*map(int, text.split(","))}, reverse=True))


@dataclass(frozen=True)
class SimilarityOptions(LoRA, TaskOptions):
    """Sentence vectors: similar texts get similar vectors"""

    model: str | None = redefined(
        TaskOptions,
        "model",
        None,
        "A sentence-transformers directory (its pooling is kept), or an encoder or decoder such as a BERT or a LLaMA.",
    )
    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: spearman of the cosines and the scores; without scores, mrr"
        " of the second text among all of them.",
        choices=("auto", "spearman", "pearson", "mrr", "accuracy", "loss"),
    )
    pooling: str | None = option(
        None,
        "How the tokens of a text become one vector. Default: as in the sentence-transformers directory, otherwise mean.",
        choices=("mean", "cls", "max", "mean-sqrt", "weighted-mean", "last"),
    )
    scale: float = option(
        20.0,
        "Pairs without scores: factor of the cosines in the softmax over the batch, the inverse of the temperature.",
        low=1e-3,
        metavar="X",
    )
    symmetric: bool = option(
        False, "Pairs without scores: also rank the first texts for each second text; the loss is the mean of both."
    )
    dims: str | None = option(
        None,
        "Also train the first N dimensions of the vectors alone (Matryoshka), such as 384,256,128; the loss is the sum.",
        metavar="N,...",
        check=dimensions,
    )
    chunk_size: int = option(
        0,
        "Compute N texts at a time, in two passes, with the gradient of the whole batch (Gao et al. 2021, GradCache). Memory"
        " then depends on N and not on --batch-size. 0: one pass.",
        low=0,
        metavar="N",
    )
