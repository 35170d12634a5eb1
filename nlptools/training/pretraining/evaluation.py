"""Validation of an encoder on its pretraining objective, on held-out text with the same masks every time.

Losses are in nats per masked token, per sequence (next sentence) and per token (replaced tokens). Replaced tokens are
measured by precision, recall and F1, because nine in ten tokens are not replaced. Sums are added over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.backend import Backend
from nlptools.compute.kernels.cross_entropy import chunk_rows, log_sum_exp
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.encoders.electra import Electra
from nlptools.training.pretraining.objectives import (
    DISCRIMINATOR_WEIGHT,
    Inputs,
    Masked,
    Replaced,
    encoded_at,
    next_sentence_logits,
    replaced_logits,
    replacements,
    sample,
)

if TYPE_CHECKING:
    from nlptools.batches.pretraining import PretrainingBatch

NAMES = {  # recorded metrics of the best validation, by objective; the last one is reported at the end
    "bert": ("loss", "masked_loss", "next_sentence_loss", "next_sentence_accuracy", "masked_accuracy"),
    "mlm": ("loss", "masked_loss", "masked_accuracy"),
    "electra": (
        *("loss", "masked_loss", "masked_accuracy", "replaced_loss"),
        *("replaced_precision", "replaced_recall", "replaced_f1"),
    ),
}
_SEED = 20

_MASKED = ("masked_loss", "masked_right", "masked")
_NEXT = ("next_sentence_loss", "next_sentence_right", "sequences")
_REPLACED = ("replaced_loss", "replaced_right", "replaced_predicted", "replaced", "tokens")

Sums = dict[str, float]


def measure(
    batches: Callable[[], Iterator[PretrainingBatch]],
    backend: Backend,
    model: BertWithHeads | Electra,
    stop: Callable[[], bool],
) -> dict[str, float] | None:
    """The metrics in `NAMES` over the batches of all processes; None if `stop` became true meanwhile."""
    random = torch.Generator(backend.device).manual_seed(_SEED)
    total = dict.fromkeys(_kinds(model), 0.0)  # also in a process without batches
    for batch in batches():
        if backend.world_size == 1 and stop():
            return None
        for name, value in _sums(model, batch, backend, random).items():
            total[name] += value
    return numbers(dict(zip(total, backend.sum(list(total.values())), strict=True)))


def _kinds(model: BertWithHeads | Electra) -> tuple[str, ...]:
    """The names of the sums for a model."""
    if isinstance(model, Electra):
        return (*_MASKED, *_REPLACED)
    return _MASKED if model.next_sentence is None else (*_MASKED, *_NEXT)


def _sums(model: BertWithHeads | Electra, batch: PretrainingBatch, backend: Backend, random: torch.Generator) -> Sums:
    if isinstance(model, Electra):
        return electra_sums(model, [backend.put(a) for a in Replaced(model).arrays(batch)], random)
    return bert_sums(model, [backend.put(a) for a in Masked(model).arrays(batch)])


def numbers(sums: Sums) -> dict[str, float]:
    """The metrics, from sums over all batches."""

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    metrics = {
        "masked_loss": ratio(sums["masked_loss"], sums["masked"]),
        "masked_accuracy": ratio(sums["masked_right"], sums["masked"]),
    }
    loss = metrics["masked_loss"]
    if "sequences" in sums:
        metrics["next_sentence_loss"] = ratio(sums["next_sentence_loss"], sums["sequences"])
        metrics["next_sentence_accuracy"] = ratio(sums["next_sentence_right"], sums["sequences"])
        loss += metrics["next_sentence_loss"]
    if "tokens" in sums:
        metrics["replaced_loss"] = ratio(sums["replaced_loss"], sums["tokens"])
        metrics["replaced_precision"] = ratio(sums["replaced_right"], sums["replaced_predicted"])
        metrics["replaced_recall"] = ratio(sums["replaced_right"], sums["replaced"])
        metrics["replaced_f1"] = ratio(2 * sums["replaced_right"], sums["replaced_predicted"] + sums["replaced"])
        loss += DISCRIMINATOR_WEIGHT * metrics["replaced_loss"]
    return {"loss": loss, **metrics}


def bert_sums(model: BertWithHeads, arrays: list[Tensor]) -> Sums:
    """The sums over a batch in the form of `Masked.arrays`."""
    *inputs, targets, next_sentence = arrays
    hidden = encoded_at(model, Inputs(*inputs))
    sums = _masked_sums(model, hidden[: len(targets)], targets)
    if model.next_sentence is not None:
        logits = next_sentence_logits(model, hidden[len(targets) :]).float()
        sums["next_sentence_loss"] = float(F.cross_entropy(logits, next_sentence, reduction="sum"))
        sums["next_sentence_right"] = float((logits.argmax(1) == next_sentence).sum())
        sums["sequences"] = len(next_sentence)
    return sums


def electra_sums(model: Electra, arrays: list[Tensor], random: torch.Generator) -> Sums:
    """The sums over a batch in the form of `Replaced.arrays`."""
    inputs, (masked, targets, real) = Inputs(*arrays[:6]), arrays[6:]
    hidden = encoded_at(model.generator, inputs)
    sums = _masked_sums(model.generator, hidden, targets)
    drawn = sample(model.generator, hidden, random)
    replaced, labels = replacements(inputs.ids, masked, targets, drawn)
    logits, labels = replaced_logits(model.discriminator, inputs._replace(ids=replaced), real), labels[real]
    predicted = logits > 0
    return {
        **sums,
        "replaced_loss": float(F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")),
        "replaced_right": float(labels[predicted].sum()),
        "replaced_predicted": float(predicted.sum()),
        "replaced": float(labels.sum()),
        "tokens": len(real),
    }


def _masked_sums(model: BertWithHeads, hidden: Tensor, targets: Tensor) -> Sums:
    loss = right = 0.0
    size = chunk_rows(model.encoder.token_embedding.weight)
    for start in range(0, len(hidden), size):
        rows = slice(start, start + size)
        logits = model.masked_logits(hidden[rows])
        chosen = logits.gather(1, targets[rows, None]).float()
        loss += float((log_sum_exp(logits) - chosen).sum())
        right += float((logits.argmax(1) == targets[rows]).sum())
    return {"masked_loss": loss, "masked_right": right, "masked": len(hidden)}
