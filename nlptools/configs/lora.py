"""Settings of low-rank adapters (Hu et al. 2021, arXiv:2106.09685), which several commands have among theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nlptools.configs import option

if TYPE_CHECKING:
    pass


_SECTION = "Low-rank adapters"
TARGETS = ("all", "attention")


@dataclass(frozen=True)
class LoRA:
    """How adapters are trained. Commands have these options by `configs.redefined`."""

    lora: int = option(
        0,
        "Rank of low-rank adapters (Hu et al. 2021), with the base weights frozen. The output is a directory of the"
        " adapters and the head in the layout of PEFT, which refers to the base model. Adapters need about ten times"
        " the learning rate: --lr 5e-4. 0: train all weights.",
        low=0,
        high=1024,
        metavar="R",
        section=_SECTION,
    )
    lora_alpha: float = option(
        16.0,
        "Scale adapters by X / R. With the same X, one learning rate serves for any rank.",
        low=1e-6,
        metavar="X",
        section=_SECTION,
        needs=("lora",),
    )
    lora_dropout: float = option(
        0.0,
        "Dropout on the input of adapters.",
        low=0,
        high=0.9,
        metavar="P",
        section=_SECTION,
        needs=("lora",),
    )
    lora_targets: str = option(
        "all",
        "Layers with adapters: all, or only the projections of attention (queries, keys, values, output), half as"
        " many weights.",
        choices=TARGETS,
        section=_SECTION,
        needs=("lora",),
    )


NAMES = tuple(LoRA.__dataclass_fields__)


class Adapted(Protocol):
    """Options with the rank of adapters, and perhaps the others of `LoRA`."""

    @property
    def lora(self) -> int: ...


def of(settings: Adapted) -> LoRA | None:
    """The adapters that the options of a command ask for; None: all weights are trained."""
    known = {name: vars(settings)[name] for name in NAMES if name in vars(settings)}
    return LoRA(**known) if settings.lora else None
