"""Settings of reward models, the same as of `finetune --task reward`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from nlptools.configs import REQUIRED, redefined
from nlptools.configs.finetuning import Finetune
from nlptools.configs.lora import LoRA
from nlptools.configs.tasks.reward import RewardOptions


@dataclass(frozen=True)
class TrainReward(RewardOptions):
    """Task options"""

    model: str = redefined(RewardOptions, "model", REQUIRED)
    lora: int = redefined(LoRA, "lora", 0, excludes=("freeze",))
    # not options here
    task: ClassVar[str] = "reward"  # type: ignore[misc]
    features: ClassVar[None] = None  # type: ignore[misc]
    train_all: ClassVar[bool] = False  # type: ignore[misc]

    def finetune(self) -> Finetune:
        """The same as settings of `finetune`. Raises UsageError for options that cannot be combined."""
        settings = Finetune(task="reward", **{each.name: vars(self)[each.name] for each in fields(self)})
        settings.check()
        return settings
