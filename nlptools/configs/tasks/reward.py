"""Options of the task reward."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions, chat_option


@dataclass(frozen=True)
class RewardOptions(PretrainedOptions):
    """A reward of a response to a prompt, from ranked responses"""

    model: str | None = redefined(
        TaskOptions,
        "model",
        None,
        "Pretrained model: a language model (GPT-2, LLaMA, ..., train-lm, finetune --task instruct) or an encoder.",
    )
    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        choices=("auto", "accuracy", "loss"),
    )
    max_length: int = redefined(
        TaskOptions,
        "max_length",
        0,
        "Maximum number of tokens of prompt and response; longer ones are cut and counted. 0: the limit of the model.",
    )
    chat: str | None = chat_option()
