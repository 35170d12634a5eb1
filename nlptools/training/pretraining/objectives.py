"""Pretraining objectives of encoders: masked tokens, next sentences, replaced tokens.

BERT: Devlin et al. 2019 (arXiv:1810.04805), section 3.1. ELECTRA: Clark et al. 2020 (arXiv:2003.10555), section 2.
Losses are sums; training divides each by its count and adds them. Departures: a row holds several sequences, and each
attends only to itself; only the predicted positions go through the last block (except for its keys and values), and through
the layer and the vocabulary of the head.
ELECTRA's replacements are drawn by inverting the cumulative distribution, with one random number each.
Shapes: B rows, T positions of a row, M masked positions, N sequences, D hidden, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.cross_entropy import chunk_rows
from nlptools.layers.query_positions import QueryPositions, position_arrays
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.encoders.electra import Electra
from nlptools.training.objective import Objective

if TYPE_CHECKING:
    from nlptools.batches.pretraining import PretrainingBatch

DISCRIMINATOR_WEIGHT = 50.0  # weight of the discriminator's loss; the weight of the generator's loss is 1
_BLOCK = 64  # tokens with probabilities that `draw` sums first; a divisor of padded vocabulary sizes


class Masked(Objective[BertWithHeads]):
    """Cross-entropy of masked tokens, and of the next sentence if the model has that head (BERT), in nats."""

    def counts(self, batch: PretrainingBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        counts = {"masked": len(batch.masked)}
        if self.model.next_sentence is not None:
            counts["next_sentence"] = len(batch.next_sentence)
        return counts

    def arrays(self, batch: PretrainingBatch) -> tuple[np.ndarray, ...]:
        """The `Inputs` at the masked tokens, then at the first tokens of the sequences; targets (M,); next sentences (N,)."""
        wanted = [batch.masked] if self.model.next_sentence is None else [batch.masked, batch.firsts]
        return (*_inputs(batch, np.concatenate(wanted)), batch.targets, batch.next_sentence)

    def forward(self, *arrays: Tensor) -> dict[str, Tensor]:
        """The sums of the losses, from `arrays`."""
        *inputs, targets, next_sentence = arrays
        hidden = encoded_at(self.model, Inputs(*inputs))
        losses = {"masked": masked_loss(self.model, hidden[: len(targets)], targets)}
        if self.model.next_sentence is not None:
            logits = next_sentence_logits(self.model, hidden[len(targets) :])
            losses["next_sentence"] = F.cross_entropy(logits.float(), next_sentence, reduction="sum")
        return losses


class Replaced(Objective[Electra]):
    """ELECTRA: cross-entropy of the generator's masked tokens, plus 50 times the binary cross-entropy of the discriminator.

    The discriminator predicts for each real token whether the generator has replaced it. A token counts as not replaced if
    the generator drew the original token.
    """

    def counts(self, batch: PretrainingBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        return {"masked": len(batch.masked), "replaced": int((batch.sequences > 0).sum())}

    def arrays(self, batch: PretrainingBatch) -> tuple[np.ndarray, ...]:
        """The `Inputs` at the masked tokens; flat indexes of these (M,); targets (M,); flat indexes of all real tokens."""
        real = np.flatnonzero(batch.sequences > 0)
        return (*_inputs(batch, batch.masked), batch.masked, batch.targets, real)

    def forward(self, *arrays: Tensor) -> dict[str, Tensor]:
        """The weighted sums of the losses, from `arrays`."""
        inputs, (masked, targets, real) = Inputs(*arrays[:6]), arrays[6:]
        generator = self.model.generator
        hidden = encoded_at(generator, inputs)
        loss = masked_loss(generator, hidden, targets)
        drawn = sample(generator, hidden.detach())
        replaced, labels = replacements(inputs.ids, masked, targets, drawn)
        logits = replaced_logits(self.model.discriminator, inputs._replace(ids=replaced), real)
        wrong = F.binary_cross_entropy_with_logits(logits, labels[real], reduction="sum")
        return {"masked": loss, "replaced": DISCRIMINATOR_WEIGHT * wrong}


# -- parts that training and validation share ---------------------------------------------------------------------------


class Inputs(NamedTuple):
    """The arguments of an encoder for a `PretrainingBatch`, and where its last hidden states are needed."""

    ids: Tensor  # (B, T)
    types: Tensor  # (B, T)
    positions: Tensor  # (B, T)
    sequences: Tensor  # (B, T), or (0, 0) if each row is one sequence without padding and needs no attention mask
    queries: Tensor  # this and the next: `QueryPositions`
    wanted: Tensor


def _inputs(batch: PretrainingBatch, wanted: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays of `Inputs`; `wanted`: flat indexes."""
    sequences = batch.sequences[:0, :0] if bool((batch.sequences == 1).all()) else batch.sequences
    return (batch.ids, batch.types, batch.positions, sequences, *position_arrays(wanted, *batch.ids.shape))


def encoded_at(model: BertWithHeads, inputs: Inputs) -> Tensor:
    """The last hidden states (M, D) of the wanted positions."""
    ids, types, positions, sequences, queries, wanted = inputs
    places = QueryPositions(queries, wanted)
    hidden: Tensor = model.encoder.at(ids, places, None, types, positions, _attend(sequences))
    return hidden


def _attend(sequences: Tensor) -> Tensor | None:
    """(B, 1, T, T) attention mask, True = attend; None: no mask."""
    return sequences[:, None, :, None] == sequences[:, None, None] if sequences.numel() else None


def masked_loss(model: BertWithHeads, hidden: Tensor, targets: Tensor) -> Tensor:
    """(M, D) last hidden states, and the original tokens (M,) -> the sum of the losses, in nats."""
    assert model.masked is not None
    return model.output.summed_loss(model.masked(hidden), targets)


def next_sentence_logits(model: BertWithHeads, firsts: Tensor) -> Tensor:
    """(N, D) last hidden states of the first tokens of N sequences -> (N, 2)."""
    assert model.encoder.pooler is not None and model.next_sentence is not None
    out: Tensor = model.next_sentence(model.encoder.pooler(firsts[:, None]))
    return out


@torch.no_grad()
def sample(model: BertWithHeads, hidden: Tensor, random: torch.Generator | None = None) -> Tensor:
    """(M, D) last hidden states -> tokens (M,) drawn from the model's distribution, computed in float32."""
    drawn = torch.empty(len(hidden), dtype=torch.int64, device=hidden.device)
    chances = torch.rand(len(hidden), 1, dtype=torch.float64, device=hidden.device, generator=random)
    size = max(1, chunk_rows(model.encoder.token_embedding.weight) // 8)
    for start in range(0, len(hidden), size):
        logits = model.masked_logits(hidden[start : start + size])
        drawn[start : start + size] = draw(logits, chances[start : start + size])
    return drawn


def draw(logits: Tensor, chances: Tensor) -> Tensor:
    """(M, V) logits, and (M, 1) numbers in [0, 1) -> (M,) the token at that point of the cumulative distribution.

    The block of the token is found first, then the token in the block: this reads the logits twice, and needs no second
    tensor of their size.
    """
    logits = F.pad(logits.float(), (0, -logits.shape[1] % _BLOCK), value=-torch.inf)
    shares = logits.sub_(logits.amax(1, keepdim=True)).exp_().view(len(logits), -1, _BLOCK)
    sums = shares.sum(2).double().cumsum(1)  # (M, blocks)
    block, within = _find(sums, chances)
    inside = shares.gather(1, block[:, :, None].expand(-1, -1, _BLOCK)).squeeze(1).double().cumsum(1)
    token, _ = _find(inside, within)
    return (block * _BLOCK + token).squeeze(1)


def _find(sums: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """(M, n) cumulative sums and (M, 1) shares of the last sum -> the step that each lies in, and its place in it, in [0, 1)."""
    last = sums[:, -1:]
    wanted = torch.minimum(chances * last, torch.nextafter(last, torch.zeros_like(last)))
    # clamped because of nan: the step of a diverging training is skipped later, but must not fail here
    step = torch.searchsorted(sums, wanted, right=True).clamp_max_(sums.shape[1] - 1)
    before = torch.where(step > 0, sums.gather(1, (step - 1).clamp_min(0)), 0.0)
    return step, (wanted - before) / (sums.gather(1, step) - before)


def replacements(ids: Tensor, masked: Tensor, targets: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) ids with `drawn` at the masked positions, and (B*T) float32 labels, 1 where the token differs from the target."""
    replaced = ids.reshape(-1).index_copy(0, masked, drawn).view_as(ids)
    labels = torch.zeros(ids.numel(), device=ids.device).index_copy_(0, masked, (drawn != targets).float())
    return replaced, labels


def replaced_logits(model: BertWithHeads, inputs: Inputs, real: Tensor) -> Tensor:
    """Inputs with some tokens replaced -> float32 logits at the flat indexes `real`."""
    assert model.replaced is not None
    states: Tensor = model.encoder(inputs.ids, None, inputs.types, inputs.positions, _attend(inputs.sequences)).last
    hidden = states.reshape(-1, states.shape[-1])
    if len(real) < len(hidden):
        hidden = hidden.index_select(0, real)
    out: Tensor = model.replaced(hidden).float()
    return out
