"""Options of the task seq2seq."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.seq2seq import source_language, target_language
from nlptools.configs.tasks.shared import TaskOptions


@dataclass(frozen=True)
class Seq2SeqOptions(TaskOptions):
    """Translations and summaries, with a model of train-seq2seq, or a published T5, BART, M2M-100 or the like"""

    model: str | None = redefined(
        TaskOptions, "model", None, "Directory of train-seq2seq, or of a published encoder-decoder."
    )
    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: BLEU.",
        choices=("auto", "loss"),
    )
    max_length: int = redefined(
        TaskOptions,
        "max_length",
        0,
        "Maximum number of tokens of a source or a target; longer ones are cut and counted. 0: no limit.",
    )
    source_lang: str | None = source_language()
    target_lang: str | None = target_language()
