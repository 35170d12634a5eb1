"""The language model that alignment trains, and the log-probabilities that it gives to responses.

Shapes: N sequences, R rows of a batch, T length, P targets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle
from nlptools.batches.completions import NEXT, CompletionEncoding, PackedBatch, in_order, packed_batch
from nlptools.batches.encoder_rows import UNLIMITED
from nlptools.batches.features import Features
from nlptools.batches.windows import NO_TARGET
from nlptools.compute.backend import Backend
from nlptools.configs.lora import Adapted
from nlptools.errors import BundleError, display
from nlptools.inference.opening import open_model
from nlptools.json_types import JsonObject
from nlptools.models import registry
from nlptools.models.contract import LanguageModel, with_dropout
from nlptools.models.huggingface import peft
from nlptools.text import chat_templates
from nlptools.training import lora

_BATCH_TOKENS = 4096  # without gradients
_PLACE = "place"  # of each token among all


@dataclass(frozen=True)
class Policy:
    """A model directory to train, and where the result is saved.

    Attributes:
        path: the directory.
        chat: the name of the chat template of messages; None: the template of the directory, if it has one.
    """

    base: bundle.Bundle
    path: str
    chat: str | None = None
    adapter: peft.Adapter | None = None  # None: all weights are trained

    @classmethod
    def open(cls, path: str, settings: Adapted, chat: str | None = None) -> Policy:
        """The model directory `path`, to be trained with the adapters of `settings`, if any.

        Raises:
            InputError, BundleError: no such model, or one that cannot be aligned.
            UsageError: a directory with another template than `chat`; see also `lora.adapter`.
        """
        opened = open_model(path).bundle
        if opened.arch not in registry.names(registry.LANGUAGE):
            raise BundleError(
                f"{display(path)}: not a language model to train further",
                hint="a GPT-2, a LLaMA, or a directory of train-lm, but not of n-grams or ELMo",
            )
        chat_templates.for_training(path, chat)
        return cls(opened, path, chat, lora.adapter(settings, opened, path))

    @property
    def context(self) -> int | None:
        """The most tokens that the model can read; None: no limit."""
        return self.base.model.max_context

    @property
    def template(self) -> chat_templates.Conversation | None:
        """How messages become text; None: see `batches.conversations`."""
        return chat_templates.for_training(self.path, self.chat)

    def settings(self) -> JsonObject:
        """What must be the same when a run continues."""
        return {} if self.adapter is None else {"base": self.adapter.digest}

    def encoding(self, max_length: int, threads: int) -> CompletionEncoding:
        """How prompts and responses become rows of at most `max_length` tokens, 0 for the model's limit."""
        longest = min(max_length or UNLIMITED, self.context or UNLIMITED)
        return CompletionEncoding(self.base.tokenizer, self.base.start, self.base.eos, longest, threads, self.template)

    def trained(self, dropout: float | None, seed: int) -> LanguageModel:
        """The model to train: `model`, with new adapters if the options ask for them. `seed`: of the adapters."""
        model = self.model(dropout)
        if self.adapter is not None:
            lora.adapt(model, self.base.arch, self.adapter.settings, seed, self.base.weights())
        return model

    def model(self, dropout: float | None) -> LanguageModel:
        """A copy of the model, on the CPU in float32. `dropout`: None keeps the dropouts of the directory."""
        config = self.base.model.config
        model = registry.model_class(self.base.arch)(with_dropout(config, dropout))
        model.load_state_dict(self.base.weights())
        return model

    @property
    def forbidden(self) -> list[int]:
        """The tokens that `generate` does not write: unknown words and other special tokens, but those that end a text."""
        vocab = self.base.tokenizer.vocab
        tokens = [] if vocab is None else vocab.never_generated(self.base.eos, self.base.model.output.vocab_size)
        return [token for token in tokens if token not in self.base.ends]

    def save(
        self, directory: Path, model: LanguageModel, weights: Mapping[str, Tensor], record: Mapping[str, object]
    ) -> None:
        """Write the model directory, which keeps the chat template. Raises StreamError."""
        bundle.save(
            directory,
            self.base.arch,
            model,
            weights,
            self.base.tokenizer,
            eos=self.base.eos,
            start=self.base.start,
            ends=self.base.ends,
            document=self.base.document,
            training=record,
            files=chat_templates.keep(directory, self.path, self.chat),
            adapter=self.adapter,
        )


def packed_hidden(
    model: LanguageModel, ids: Tensor, targets: Tensor, segments: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The hidden states (P, D) before the real targets of a batch, these targets (P,), and the sequence of each (P,)."""
    hidden = model.packed(ids, segments)
    real = targets >= 0
    return hidden[real], targets[real], segments[real]


@torch.inference_mode()
def token_numbers(
    read: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]],
    features: Features,
    backend: Backend,
    stop: Callable[[], bool] | None = None,
    shared: bool = False,
) -> list[np.ndarray] | None:
    """What `read` computes for the targets, at the place of each in `features.rows.ids`, float32; 0 where there is none.

    None when `stop()` turned true. `read`: (R, T) ids, targets and segments -> (P,) tensors. With `shared`, all processes call
    this together, and each computes a part.
    """
    places = np.arange(len(features.rows.ids))
    placed = replace(features, targets={NEXT: features.targets[NEXT], _PLACE: places}, per_token=(NEXT, _PLACE))
    out: list[np.ndarray] = []
    batches = in_order(features, _BATCH_TOKENS)
    for sequences in batches[backend.rank :: backend.world_size] if shared else batches:
        if stop is not None and stop():
            return None
        batch = packed_batch(placed, sequences)
        parts = read(*(backend.put(array) for array in arrays(batch)))
        out = out or [np.zeros(len(places), np.float32) for _ in parts]
        for whole, part in zip(out, parts, strict=True):
            whole[batch.of_tokens[_PLACE][batch.targets != NO_TARGET]] = part.float().cpu().numpy()
    if shared and backend.world_size > 1:
        every = backend.gather({str(i): torch.from_numpy(array) for i, array in enumerate(out)})
        count = max(map(len, every))
        out = [np.sum([part[str(i)].numpy() for part in every if part], 0) for i in range(count)]
    return out


def token_log_probabilities(
    model: LanguageModel,
    features: Features,
    backend: Backend,
    stop: Callable[[], bool] | None = None,
    forbidden: Tensor | None = None,
    shared: bool = False,
) -> np.ndarray | None:
    """The log-probability of each target, in nats, if the tokens `forbidden` have probability 0; see `token_numbers`."""

    def read(ids: Tensor, targets: Tensor, segments: Tensor) -> tuple[Tensor]:
        hidden, chosen, _ = packed_hidden(model, ids, targets, segments)
        return (model.output.chosen_log_probabilities(hidden, chosen, forbidden)[0],)

    numbers = token_numbers(read, features, backend, stop, shared)
    return None if numbers is None else numbers[0]


def log_probabilities(
    model: LanguageModel, features: Features, backend: Backend, stop: Callable[[], bool] | None = None
) -> np.ndarray | None:
    """(N, 2) float64 for each sequence: the sum of the log-probabilities of its targets, in nats, and their number.

    None when `stop()` turned true.
    """
    values = token_log_probabilities(model, features, backend, stop)
    return None if values is None else sums(features, values, features.targets[NEXT] != NO_TARGET)


def sums(features: Features, *values: np.ndarray) -> np.ndarray:
    """(N, K) float64: the sum over the tokens of each sequence of K arrays, none of the sequences empty."""
    starts = features.rows.bounds[:-1]
    return np.stack([np.add.reduceat(each.astype(np.float64), starts) for each in values], 1)


def arrays(batch: PackedBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments of a model for a batch: ids, targets, segments (R, T)."""
    return batch.ids, batch.targets, batch.segments
