"""Options that several tasks of `finetune` have."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import REQUIRED, option, redefined
from nlptools.configs.chat import FORMATS
from nlptools.configs.layers import layers
from nlptools.configs.lora import LoRA
from nlptools.configs.tasks.table import TASKS, task
from nlptools.errors import UsageError

MEASURES = ("accuracy", "exact", "f1", "f1_macro", "f1_micro", "matthews", "pearson", "spearman", "uas", "las", "loss")


def frozen(text: str) -> int | None:
    """How many layers `--freeze` names: None is the whole encoder, 0 nothing, N the embeddings and N blocks."""
    if text == "all":
        return None
    if not re.fullmatch(r"\d{1,4}", text):
        raise UsageError(f"not a number of layers: {text!r}, expected none, all or a number")
    return int(text)


@dataclass(frozen=True)
class TaskOptions:
    """Task options"""

    task: str = option(REQUIRED, f"Task to learn: {', '.join(TASKS)}, or glue/NAME.", metavar="TASK", check=task)
    model: str | None = option(
        None,
        "Pretrained model: an encoder (BERT, RoBERTa, ELECTRA, ...) or a language model (GPT-2, LLaMA, ..., train-lm except"
        " ngram).",
        short="-m",
        metavar="DIR",
    )
    best: str = option(
        "auto", "Validation metric for the choice of the weights. auto: accuracy.", choices=("auto", *MEASURES)
    )
    max_length: int = option(
        0,
        "Maximum number of tokens of an example, special tokens included; longer ones are cut and counted. 0: the limit of"
        " the model.",
        low=0,
        metavar="N",
    )


@dataclass(frozen=True)
class PretrainedOptions(LoRA, TaskOptions):
    """Options of tasks with a head on a pretrained model"""

    lora: int = redefined(LoRA, "lora", 0, excludes=("features", "freeze"))
    features: str | None = option(
        None,
        "If --model is an ELMo: where bidirectional LSTMs over the words use its vectors: as input, next to their output, both,"
        " or none (the same network without an ELMo). Each has its own defaults.",
        choices=("input", "output", "both", "none"),
        excludes=("layer_decay", "unfreeze", "encoder_dropout"),
    )
    train_all: bool = option(
        False,
        "Also train the ELMo, otherwise frozen.",
        needs=("features",),
        excludes=("features none",),
    )
    encoder_dropout: float | None = option(
        None,
        "Dropout during training, including attention weights. Default: from config.json of the model. A model pretrained"
        " without dropout needs some.",
        low=0,
        high=0.9,
        metavar="P",
    )
    freeze: str = option("0", "Freeze the embeddings and the first N layers, or all.", metavar="N", check=frozen)
    layers: str = option(
        "last",
        "Input of the head: last; layer N (0: the output of the embeddings); sum:A:B or mean:A:B of a slice (`all` for A:B);"
        " concat:A:B, projected to the size of one layer; mix, all layers with learned weights; mix:FILE starts from the"
        " weights in a JSON list.",
        metavar="LAYERS",
        check=layers,
    )
    layer_decay: float = option(
        1.0,
        "Learning rate of each layer, relative to the layer above (Clark et al. 2020 use 0.8).",
        low=0,
        high=1,
        metavar="X",
    )
    unfreeze: float = option(
        0.0,
        "Gradual unfreezing (Howard & Ruder 2018): train the head first, and one more layer, from the last to the first, after"
        " every X epochs. 0: train all from the start.",
        low=0,
        metavar="X",
        excludes=("freeze",),
    )
    seeds: int = option(
        1,
        "Train N times, with --seed and the seeds after it, in DIR/seed-N; DIR contains the best model.",
        low=1,
        metavar="N",
    )
    folds: int = option(
        0,
        "Cross-validation: train K times, in DIR/fold-N, and validate on a different 1/K of the data each time.",
        low=0,
        metavar="K",
        excludes=("seeds", "valid"),
    )


def scratch_option(architectures: tuple[str, ...], help: str) -> str | None:
    """The option --scratch."""
    return option(
        None,
        f"Train without a pretrained model: {help}. Each has its own defaults.",
        choices=architectures,
        excludes=("features", "layers", "layer_decay", "unfreeze", "encoder_dropout", "lora"),
    )


def chat_option() -> str | None:
    """The option --chat of training."""
    return option(None, "Chat template of messages, if the model has none; saved with the output.", choices=FORMATS)
