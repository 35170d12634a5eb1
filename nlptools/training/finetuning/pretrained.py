"""Fine-tuning of a pretrained model: an encoder or a language model with a head for a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.features import Encoding, FeatureBatches, Features
from nlptools.batches.source import Share
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune
from nlptools.configs.layers import Layers, layers, read_mix
from nlptools.configs.tasks.shared import frozen
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import hub_cache
from nlptools.formats.examples import TaskExample
from nlptools.inference.opening import open_model
from nlptools.json_types import JsonObject
from nlptools.models import registry
from nlptools.models.contract import with_dropout
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface import peft
from nlptools.models.language.elmo import Elmo
from nlptools.models.tasks.heads import BESIDE_HEADS, LAYER_HEADS, ROW_HEADS, TASK_HEADS, EncoderWithHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.models.tasks.with_heads import LANGUAGE, WithHeads
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks
from nlptools.tasks.task import Task
from nlptools.text import chat_templates
from nlptools.training import lora
from nlptools.training.finetuning import rates, row_tokens
from nlptools.training.finetuning.reader import TaskLoss


def opened(settings: Finetune) -> Pretrained:
    """The pretrained model. Raises UsageError, InputError, BundleError."""
    assert settings.model is not None
    base = open_model(settings.model).bundle
    model: object = base.model
    if isinstance(model, Elmo):
        raise UsageError(
            f"{display(settings.model)} is an ELMo: --features says where its vectors go", hint="--features input"
        )
    if registry.with_heads(base.arch) is None:
        raise BundleError(
            f"{display(settings.model)}: not an encoder or a language model that can have a head",
            hint="finetune takes a published encoder, a GPT, a LLaMA, or a language model of train-lm except n-grams",
        )
    if settings.chat is not None and not base.model.causal:
        raise UsageError(f"--chat applies to language models, {display(settings.model)} is an encoder")
    chat_templates.for_training(settings.model, settings.chat)
    sizes = base.model.config
    which = layers(settings.layers)
    if not which.count(sizes.num_hidden_layers + 1):
        raise UsageError(f"--layers {settings.layers}: the model has layers 0 to {sizes.num_hidden_layers}")
    if settings.lm_weight and registry.find(base.arch).family != registry.LANGUAGE:
        raise UsageError(f"--lm-weight applies to language models, which {display(settings.model)} is not")
    if settings.both_orders and not base.model.causal:
        raise UsageError(f"--both-orders applies to language models, {display(settings.model)} is an encoder")
    adapter, size = lora.adapter(settings, base, settings.model), sizes.vocab_size
    marks = registry.find(base.arch).family == registry.LANGUAGE and base.model.marks_rows
    if marks and adapter is None and frozen(settings.freeze) == 0:  # else the tokens could not learn
        base = row_tokens.added(base)
    return Pretrained(base, settings, adapter, range(size, base.model.config.vocab_size))


@dataclass(frozen=True)
class Pretrained:
    """An encoder or a language model with the weights of `base` and a head, as `reader.Reader`."""

    learns_vocabulary: ClassVar[bool] = False
    base: bundle.Bundle
    options: Finetune
    adapter: peft.Adapter | None = None  # None: all weights are trained
    new_tokens: range = range(0)  # ids of tokens in `base` that the directory does not have

    @property
    def arch(self) -> str:
        """The architecture of the model with heads."""
        return registry.with_heads(self.base.arch) or self.base.arch

    def settings(self) -> JsonObject:
        return {} if self.adapter is None else {"base": self.adapter.digest}

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> Encoding:
        encoding = tasks.pretrained_encoding(self.base, self.options.max_length, threads, training=True)
        chat = self.options.chat
        return encoding if chat is None else replace(encoding, chat=chat_templates.FORMATS[chat])

    def learned(self) -> JsonObject:
        return {}

    def restore(self, learned: JsonObject) -> None:
        """Nothing: the tokenizer is in the directory of the model."""

    def model(self, task: Task, seed: int) -> EncoderWithHeads:
        """See `Reader`; with a new head, or with its own head if that is for the same labels, and embeddings of new tokens."""
        options = self.options
        which = layers(options.layers)
        model = new_model(self.base, task, seed, which, options.encoder_dropout, (LANGUAGE,) * bool(options.lm_weight))
        if self.new_tokens:
            row_tokens.draw(model, self.new_tokens, model.initializer_range)
        if self.adapter is not None:
            lora.adapt(model, self.arch, self.adapter.settings, seed, _weights(self.base, task, which))
        rates.freeze(model, frozen(options.freeze))
        return model

    def objective(self, model: TaskModel, task: Task) -> TaskLoss[EncoderWithHeads]:
        assert isinstance(model, EncoderWithHeads)
        options, parts = self.options, {f"model.{name}": model.part_of(name) for name, _ in model.named_parameters()}
        factors = rates.Rates(parts, model.config.num_hidden_layers + 1, options.layer_decay, options.unfreeze)
        if options.lm_weight:
            assert isinstance(model, WithHeads)
            return LossWithLanguage(model, task, options.lm_weight, factors)
        return task_loss(model, task, layers(options.layers), factors)

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> FeatureBatches:
        held = self.base.model
        pad = self.base.eos if held.causal else int(cast(EncoderConfig, held.config).pad)
        return FeatureBatches(features, batch_size, seed=seed, pad=pad, share=share)

    def logits(
        self, model: TaskModel, task: Task, features: Features, backend: Backend, stop: Callable[[], bool] | None
    ) -> list[np.ndarray] | None:
        heads = cast(EncoderWithHeads, model)
        return outputs.logits(heads, task.head, features, backend, layers(self.options.layers), stop=stop)

    def save(
        self,
        directory: Path,
        model: TaskModel,
        weights: Mapping[str, Tensor],
        training: Mapping[str, object],
        more: Mapping[str, object],
    ) -> None:
        base = self.base
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("encoder.output")}
        published = hub_cache.origin(str(self.options.model))
        training = {**training, **({"base": dict(published)} if published else {})}
        if base.model.causal:
            chat_templates.keep(directory, str(base.path), self.options.chat)
            # transformers finds the last token of a row by the padding
            more = {"bos_token_id": base.start, "eos_token_id": base.eos, "pad_token_id": base.eos, **more}
        bundle.save_encoder(
            directory,
            model,
            weights,
            base.tokenizer,
            arch=self.arch,
            training=training,
            more=more,
            adapter=self.adapter,
        )


class LossWithLanguage(TaskLoss[WithHeads]):
    """The loss of a task and, with a weight, of the language model on the same rows (Radford et al. 2018, equation 5)."""

    def __init__(self, model: WithHeads, task: Task, weight: float, factors: rates.Rates) -> None:
        def logits(model: WithHeads, inputs: tuple[Tensor, ...], spans: Tensor | None) -> Tensor:
            return model.task_logits(task.head, model.row_states(*inputs))

        super().__init__(model, task, logits, 3, rates=factors.at)
        self.weight = weight

    def forward(self, *arrays: Tensor) -> dict[str, Tensor]:
        """See `TaskLoss`; one pass through the model for both losses. The last target is the weight of each example."""
        ids, mask, _, *targets = arrays
        model = self.model
        hidden, _ = model.encoder(ids)
        logits = model.task_logits(self.task.head, model.of_rows(hidden, mask)).float()
        language = model.language_loss(hidden, ids, mask) * targets[-1]
        return {"loss": self.task.loss(logits, *targets) + self.weight * language.sum()}


def task_loss(
    model: EncoderWithHeads, task: Task, which: Layers = outputs.LAST, factors: rates.Rates | None = None
) -> TaskLoss[EncoderWithHeads]:
    """The loss of the head of a task, which sees the layers `which`."""

    def logits(model: EncoderWithHeads, inputs: tuple[Tensor, ...], spans: Tensor | None) -> Tensor:
        logits: Tensor = model.task_logits(task.head, outputs.hidden_states(model, task.head, which, *inputs), spans)
        return logits

    return TaskLoss(model, task, logits, 3, rates=lambda epoch: {} if factors is None else factors.at(epoch))


def new_model(
    base: bundle.Bundle,
    task: Task,
    seed: int,
    which: Layers = outputs.LAST,
    dropout: float | None = None,
    more_heads: tuple[str, ...] = (),
) -> EncoderWithHeads:
    """The model of a bundle with the head of a task, on the CPU: the head of the bundle if it is for the same labels, else
    a random one. A BERT without a pooler gets a new one, with a note.

    Args:
        which: the layers that the head sees.
        dropout: None: as in the bundle.
        more_heads: in addition to the heads of the task.
    """
    held = base.model
    config, heads = held.config, (task.head, *task.extra_heads, *more_heads)
    heads += (f"layer_{which.kind}",) if f"layer_{which.kind}" in LAYER_HEADS else ()
    sees = which.count(config.num_hidden_layers + 1)
    config = with_dropout(config, dropout)
    if not held.causal and task.head in ROW_HEADS and cast(EncoderConfig, config).is_pooled(task.head):
        heads = ("pooler", *heads)
    arch = registry.with_heads(base.arch) or base.arch
    sizes = {"num_labels": task.num_labels, "num_relations": task.num_relations, "concatenated": sees}
    model = registry.build(arch, config, heads=heads, **sizes)
    assert isinstance(model, EncoderWithHeads)
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
    """The weights of a bundle under the names of a `EncoderWithHeads`, with its heads if they are for the same labels and see the
    same layers.
    """
    held, weights = cast(EncoderWithHeads, base.model), base.weights()
    if registry.with_heads(base.arch) != base.arch:
        return {f"encoder.{name}": tensor for name, tensor in weights.items()}
    same = task.head in held.heads and held.num_labels == task.num_labels
    same &= tasks.seen_layers(base) == which._replace(file=None)
    same &= all(base.config.get(key) == value for key, value in task.label_settings().items() if key != "label2id")
    if same:
        return weights
    return {name: tensor for name, tensor in weights.items() if name.split(".")[0] not in (*TASK_HEADS, *BESIDE_HEADS)}
