"""Settings of reward models, the same as of `finetune --task reward`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

from nlptools.configs import option, redefined
from nlptools.configs.finetuning import Files, Finetune
from nlptools.configs.lora import LoRA


@dataclass(frozen=True)
class TrainReward:
    """Task options"""

    model: str = redefined(
        Finetune,
        "model",
        MISSING,
        "Pretrained model: a GPT-2, a LLaMA, a model of train-lm or finetune --task instruct, a BERT or an ELECTRA.",
    )
    layout: str = redefined(Files, "layout", "auto", "Layout of the files: jsonl, parquet; auto: by file name.")
    best: str = option(
        "auto", "Validation metric that selects the weights. auto: accuracy.", choices=("auto", "accuracy", "loss")
    )
    max_length: int = redefined(
        Finetune,
        "max_length",
        0,
        "Maximum number of tokens of prompt and response; longer ones are cut and counted. 0: the limit of the model.",
    )
    chat: str | None = redefined(
        Finetune, "chat", None, "Chat template of messages, if the model has none; saved with the output."
    )
    encoder_dropout: float | None = redefined(Finetune, "encoder_dropout", None)
    freeze: str = redefined(Finetune, "freeze", "0")
    layers: str = redefined(Finetune, "layers", "last")
    layer_decay: float = redefined(Finetune, "layer_decay", 1.0)
    unfreeze: float = redefined(Finetune, "unfreeze", 0.0)
    lora: int = redefined(LoRA, "lora", 0, excludes=("freeze",))
    lora_alpha: float = redefined(LoRA, "lora_alpha", 16.0)
    lora_dropout: float = redefined(LoRA, "lora_dropout", 0.0)
    lora_targets: str = redefined(LoRA, "lora_targets", "all")
    seeds: int = redefined(Finetune, "seeds", 1)
    folds: int = redefined(Finetune, "folds", 0)

    def finetune(self) -> Finetune:
        """The same as settings of `finetune`. Raises UsageError for options that do not go together."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "layout"}
        settings = Finetune(task="reward", **own)
        settings.check()
        return settings

    def files(self) -> Files:
        """How files are read."""
        return Files(layout=self.layout)
