"""Settings of low-rank adapters (Hu et al. 2021, arXiv:2106.09685), which several commands have among theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nlptools.configs import option
from nlptools.configs.tasks import changed
from nlptools.errors import UsageError

_SECTION = "Low-rank adapters"
TARGETS = ("all", "attention")


@dataclass(frozen=True)
class LoRA:
    """How adapters are trained. Commands have these options by `configs.redefined`."""

    lora: int = option(
        0,
        "Train low-rank adapters of rank R beside the weights of each layer, which stay as they are, and the head (Hu et al."
        " 2021). The result is a small directory in the layout of PEFT, which needs that of the model. Adapters learn with"
        " about ten times the learning rate: --lr 5e-4. 0: train all weights.",
        low=0,
        high=1024,
        metavar="R",
        section=_SECTION,
    )
    lora_alpha: float = option(
        16.0,
        "Adapters are scaled by X / R. With the same X, as in the paper, a learning rate serves for any rank.",
        low=1e-6,
        metavar="X",
        section=_SECTION,
    )
    lora_dropout: float = option(
        0.0, "Dropout of the input of adapters during training.", low=0, high=0.9, metavar="P", section=_SECTION
    )
    lora_targets: str = option(
        "all",
        "Maps of each layer that have adapters: all, or the maps of attention (queries, keys, values, output), which are about"
        " half as many weights.",
        choices=TARGETS,
        section=_SECTION,
    )


NAMES = tuple(LoRA.__dataclass_fields__)


def of(settings: Any) -> LoRA | None:
    """The adapters that the options of a command ask for; None: all weights are trained."""
    known = {name: getattr(settings, name) for name in NAMES if hasattr(settings, name)}
    return LoRA(**known) if settings.lora else None


def check(settings: Any) -> None:
    """Raise UsageError for options of adapters without any."""
    given = [] if settings.lora else changed(settings, [name for name in NAMES if hasattr(settings, name)])
    if given:
        raise UsageError(f"{given[0]} goes with --lora", hint="--lora 8")
