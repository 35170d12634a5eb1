"""Fine-tuning of a pretrained model: a BERT, an ELECTRA or a GPT with a head for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.features import Encoding, FeatureBatch, FeatureBatches, Features
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune
from nlptools.configs.layers import Layers, layers, read_mix
from nlptools.configs.tasks.shared import frozen
from nlptools.errors import BundleError, UsageError, display
from nlptools.inference.opening import open_model
from nlptools.models import registry
from nlptools.models.contract import with_dropout
from nlptools.models.huggingface import peft
from nlptools.models.tasks.heads import BESIDE_HEADS, LAYER_HEADS, TASK_HEADS, TaskHeads
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks
from nlptools.tasks.task import Task
from nlptools.text import chat_templates
from nlptools.training import lora
from nlptools.training.finetuning import rates
from nlptools.training.objective import Objective


def opened(settings: Finetune) -> Pretrained:
    """The pretrained model. Raises UsageError, InputError, BundleError."""
    assert settings.model is not None
    base = open_model(settings.model).bundle
    if base.family == registry.BIDIRECTIONAL:
        raise UsageError(
            f"{display(settings.model)} is an ELMo: --features says where its vectors go", hint="--features input"
        )
    if registry.with_heads(base.arch) is None:
        raise BundleError(
            f"{display(settings.model)}: not an encoder or a language model that can have a head",
            hint="finetune takes a BERT, an ELECTRA, a GPT, a LLaMA, or a language model of train-lm except n-grams",
        )
    if settings.chat is not None and base.is_encoder:
        raise UsageError(f"--chat goes with language models, {display(settings.model)} is an encoder")
    chat_templates.for_training(settings.model, settings.chat)
    sizes = base.model.config
    which = layers(settings.layers)
    if not which.count(sizes.num_hidden_layers + 1):
        raise UsageError(f"--layers {settings.layers}: the model has layers 0 to {sizes.num_hidden_layers}")
    return Pretrained(base, settings, lora.adapter(settings, base, settings.model))


@dataclass(frozen=True)
class Pretrained:
    """Turns texts into the input of a head: an encoder or a GPT with the weights of `base`. `FromScratch` has the same methods.

    A run calls them in this order, once per process.
    """

    several_processes: ClassVar[bool] = True  # whether several processes can train together
    base: bundle.Bundle
    options: Finetune
    adapter: peft.Adapter | None = None  # None: all weights are trained

    @property
    def arch(self) -> str:
        """The architecture of the model with heads."""
        return registry.with_heads(self.base.arch) or self.base.arch

    def settings(self) -> dict[str, Any]:
        """The settings besides `Finetune`; a continued run must have the same."""
        return {} if self.adapter is None else {"base": self.adapter.digest}

    def encoding(self, examples: Sequence[Any], threads: int) -> Encoding:
        """How texts become rows, which may depend on the training examples; the argument of `Task.features`."""
        encoding: Encoding = tasks.encoding(self.base, self.options.max_length, threads, training=True)
        chat = self.options.chat
        return encoding if chat is None else replace(encoding, chat=chat_templates.FORMATS[chat])

    def model(self, task: Task, seed: int) -> TaskHeads:
        """The initial model, on the CPU in float32, with a new head, or with its own head if that is for the same labels."""
        options = self.options
        which = layers(options.layers)
        model = new_model(self.base, task, seed, which, options.encoder_dropout)
        if self.adapter is not None:
            lora.adapt(model, self.arch, self.adapter.settings, seed, _weights(self.base, task, which))
        rates.freeze(model, frozen(options.freeze))
        return model

    def objective(self, model: Any, task: Task) -> TaskLoss:
        """The loss to minimize."""
        options = self.options
        return TaskLoss(model, task, layers(options.layers), options.layer_decay, options.unfreeze)

    def source(self, features: Features, batch_size: int, seed: int, backend: Backend) -> FeatureBatches:
        """The training batches of this process."""
        held: Any = self.base.model
        pad = int(held.config.pad) if self.base.is_encoder else self.base.eos
        where = {"rank": backend.rank, "world_size": backend.world_size}
        return FeatureBatches(features, batch_size, seed=seed, pad=pad, **where)

    def save(
        self, directory: Path, model: Any, weights: Mapping[str, Any], training: Mapping[str, Any], more: dict[str, Any]
    ) -> None:
        """Write the model directory, with `more` in its config.json."""
        base = self.base
        if not base.is_encoder:
            chat_templates.keep(directory, str(base.path), self.options.chat)
            # transformers finds the last token of a row by the padding
            more = {"bos_token_id": base.start, "eos_token_id": base.eos, "pad_token_id": base.eos, **more}
        how: dict[str, Any] = {"arch": self.arch, "training": training, "more": more, "adapter": self.adapter}
        bundle.save_encoder(directory, model, weights, base.tokenizer, **how)


def new_model(
    base: bundle.Bundle, task: Task, seed: int, which: Layers = outputs.LAST, dropout: float | None = None
) -> TaskHeads:
    """The model of a bundle with the head of a task, on the CPU: the head of the bundle if it is for the same labels, else
    a random one. A BERT without a pooler gets a new one, with a note.

    Args:
        which: the layers that the head sees.
        dropout: None: as in the bundle.
    """
    held: Any = base.model
    config, heads = held.config, (task.head, *task.extra_heads)
    heads += (f"layer_{which.kind}",) if f"layer_{which.kind}" in LAYER_HEADS else ()
    sees = which.count(config.num_hidden_layers + 1)
    config = with_dropout(config, dropout)
    if base.is_encoder and task.head in ("sequence", "choice") and config.layout == "bert":
        heads = ("pooler", *heads)
    arch = registry.with_heads(base.arch) or base.arch
    model: TaskHeads = registry.build(arch, config, heads=heads, num_labels=task.num_labels, concatenated=sees)
    torch.manual_seed(seed)
    model.initialize()
    task.begin(model)
    missing, _ = model.load_state_dict(_weights(base, task, which), strict=False)
    if which.file is not None:
        assert model.layer_mix is not None
        model.layer_mix.set(read_mix(which.file, config.num_hidden_layers + 1))
    if any(name.startswith("encoder.pooler") for name in missing):
        messages.note(f"{display(str(base.path))}: has no pooler, trains a new one")
    return model


def _weights(base: bundle.Bundle, task: Task, which: Layers) -> dict[str, Tensor]:
    """The weights of a bundle under the names of a `TaskHeads`; those of heads only if they are for the same labels and see the
    same layers.
    """
    held: Any = base.model
    weights: dict[str, Tensor] = base.weights()
    if not base.heads and registry.find(base.arch).family == registry.LANGUAGE:
        return {f"encoder.{name}": tensor for name, tensor in weights.items()}
    same = task.head in held.heads and held.num_labels == task.num_labels
    same &= tasks.seen_layers(base) == which._replace(file=None)
    same &= all(base.config.get(key) == value for key, value in task.label_settings().items() if key != "label2id")
    if same:
        return weights
    return {name: tensor for name, tensor in weights.items() if name.split(".")[0] not in (*TASK_HEADS, *BESIDE_HEADS)}


class TaskLoss(Objective):
    """The loss of a task's head on top of an encoder, as a weighted sum."""

    def __init__(self, model: Any, task: Task, which: Layers, decay: float = 1.0, unfreeze: float = 0.0) -> None:
        """`decay`, `unfreeze`: see `rates.Rates`."""
        super().__init__(model)
        self.task, self.which = task, which
        parts = {f"model.{name}": model.part_of(name) for name, _ in model.named_parameters()}
        self.factors = rates.Rates(parts, model.config.num_hidden_layers + 1, decay, unfreeze)

    def counts(self, batch: FeatureBatch) -> dict[str, float]:
        """The divisor of the loss: the sum of the weights."""
        return {"loss": batch.weight}

    def arrays(self, batch: FeatureBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return batch.ids, batch.mask, batch.types, *batch.targets

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor, *targets: Tensor) -> dict[str, Tensor]:
        """(B, T) ids, mask and types, and the targets of the task -> the sum of the losses."""
        hidden = outputs.hidden_states(self.model, self.task.head, self.which, ids, mask, types)
        given: tuple[Tensor, ...] = ()
        if self.task.head in outputs.OF_SPANS:
            given, targets = (targets[0].view(len(ids), -1, 2),), targets[1:]
        logits = self.model.task_logits(self.task.head, hidden, *given)
        return {"loss": self.task.loss(logits.float(), *targets, **self.task.layers_of(self.model))}

    def rates(self, epoch: float) -> dict[str, float]:
        """See `rates.Rates.at`."""
        return self.factors.at(epoch)
