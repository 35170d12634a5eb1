"""Options of the task instruct."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.lora import LoRA
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions, chat_option

MODEL = "Language model: a GPT-2, a LLaMA, or a directory of train-lm, except ngram and elmo."


@dataclass(frozen=True)
class InstructOptions(LoRA, TaskOptions):
    """Answers to prompts: supervised fine-tuning of a language model"""

    model: str | None = redefined(TaskOptions, "model", None, MODEL)
    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: loss.",
        choices=("auto", "loss"),
    )
    encoder_dropout: float | None = redefined(PretrainedOptions, "encoder_dropout", None)
    chat: str | None = chat_option()
