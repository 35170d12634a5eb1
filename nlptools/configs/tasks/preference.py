"""Options of the task preference."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, redefined
from nlptools.configs.lora import LoRA
from nlptools.configs.tasks.instruct import MODEL
from nlptools.configs.tasks.shared import TaskOptions, chat_option


@dataclass(frozen=True)
class PreferenceOptions(LoRA, TaskOptions):
    """Preferred responses, without a reward model: DPO, IPO, KTO, ORPO"""

    model: str | None = redefined(TaskOptions, "model", None, f"{MODEL} It is also the reference.")
    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: loss.",
        choices=("auto", "accuracy", "loss"),
    )
    loss: str = option(
        "dpo",
        "Loss: dpo (Rafailov et al. 2023), ipo (Azar et al. 2023), kto (Ethayarajh et al. 2024), orpo (Hong et al. 2024;"
        " without reference).",
        choices=("dpo", "ipo", "kto", "orpo"),
    )
    beta: float = option(
        0.1,
        "Strength of the KL constraint to the reference; orpo: weight of the odds ratio.",
        low=1e-6,
        metavar="X",
    )
    chat: str | None = chat_option()
