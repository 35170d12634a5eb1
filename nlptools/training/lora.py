"""Low-rank adapters for a model in training, with all other weights frozen; see `layers.lora`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from nlptools import bundle
from nlptools.configs import lora
from nlptools.configs.lora import LoRA
from nlptools.errors import UsageError, display
from nlptools.files import artifacts, hub_cache
from nlptools.layers.linear import Linear
from nlptools.layers.lora import LowRankLinear
from nlptools.models.contract import LanguageModel, Layered
from nlptools.models.huggingface import peft
from nlptools.models.tasks.heads import EncoderWithHeads


def adapter(settings: lora.Adapted, base: bundle.Bundle, name: str) -> peft.Adapter | None:
    """The adapters that the options of a command ask for; None: all weights are trained.

    Args:
        name: the name of the model `base` on the command line.

    Raises:
        UsageError: the base has adapters itself.
    """
    chosen = lora.of(settings)
    if chosen is None:
        return None
    if peft.is_adapter(base.path):
        raise UsageError(
            f"--lora: {display(name)} has adapters already, which are not trained further",
            hint=f"nlptools convert {name} MODEL, then --lora on MODEL; or train all weights, without --lora",
        )
    if not targets(base.model, chosen.lora_targets):
        what = "attention" if chosen.lora_targets == "attention" else "linear maps"
        raise UsageError(
            f"--lora: {display(name)} has no {what} that adapters could be added to", hint="leave --lora out"
        )
    by_name = not Path(name).exists() and base.path == hub_cache.locate(name)
    return peft.Adapter(chosen, name if by_name else str(base.path.resolve()), artifacts.weights_digest(base.path))


def targets(model: Layered, which: str) -> list[str]:
    """The names of the linear maps of a model that have adapters, by --lora-targets."""
    return [name for name in model.linear_maps() if which == "all" or ".attention." in name]


def adapt(
    model: LanguageModel | EncoderWithHeads, arch: str, settings: LoRA, seed: int, weights: Mapping[str, Tensor]
) -> None:
    """Give the linear maps of the blocks of a model adapters, and freeze all other weights except heads.

    Args:
        weights: the initial weights of the model, by name; frozen weights become these tensors, not copies.
    """
    generator, whole = torch.Generator().manual_seed(seed), cast(nn.Module, model)
    for name in targets(cast(Layered, model), settings.lora_targets):
        module = whole.get_submodule(name)
        assert isinstance(module, Linear)
        parts, _ = peft.modules(arch, name, module.out_features, model.config)
        sizes = settings.lora, settings.lora_alpha, settings.lora_dropout
        adapted = LowRankLinear(module, list(parts.values()), *sizes)
        adapted.initialize(generator)
        parent, _, own = name.rpartition(".")
        setattr(whole.get_submodule(parent), own, adapted)
    for name, parameter in whole.named_parameters():
        learns = name.endswith((".lora_A", ".lora_B")) or peft.is_whole(arch, name)
        parameter.requires_grad_(learns)
        if not learns and name in weights:
            parameter.data = weights[name]
