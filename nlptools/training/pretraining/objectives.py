"""What encoders are pretrained on: masked tokens, the next sentence, replaced tokens.

BERT: Devlin et al. 2019 (arXiv:1810.04805), section 3.1. ELECTRA: Clark et al. 2020 (arXiv:2003.10555), section 2.
Losses are sums; training divides each by its count and adds them. Departures: several sequences stand
in a row and see themselves only; only the positions to be predicted go through the last block (but for its keys and values),
and the layer and the vocabulary of the head.
ELECTRA's replacements are drawn by inverting the cumulative distribution, with one random number for each.
Shapes: B rows, T positions of a row, M masked positions, N sequences, D hidden, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.compute.kernels.cross_entropy import chunk_rows
from nlptools.layers.query_positions import QueryPositions, position_arrays
from nlptools.training.objective import Objective

if TYPE_CHECKING:
    from nlptools.batches.pretraining import PretrainingBatch
    from nlptools.models.encoders.bert import BertWithHeads

DISCRIMINATOR_WEIGHT = 50.0  # of the loss of replaced tokens, beside 1 for the generator's
_BLOCK = 64  # tokens whose probabilities are summed before one of them is looked for; a divisor of padded vocabularies


class Masked(Objective):
    """Cross-entropy of masked tokens, and of the next sentence where the model has that head (BERT), in nats."""

    def __init__(self, model: BertWithHeads) -> None:
        super().__init__(model)

    def counts(self, batch: PretrainingBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        counts = {"masked": len(batch.masked)}
        if self.model.next_sentence is not None:
            counts["next_sentence"] = len(batch.next_sentence)
        return counts

    def arrays(self, batch: PretrainingBatch) -> tuple[np.ndarray, ...]:
        """What `forward` needs of a batch, to be put on the device."""
        wanted = [batch.masked] if self.model.next_sentence is None else [batch.masked, batch.firsts]
        return (
            *(batch.ids, batch.types, batch.positions, visible(batch.sequences)),
            *position_arrays(np.concatenate(wanted), *batch.ids.shape),
            *(batch.targets, batch.next_sentence),
        )

    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        positions: Tensor,
        sequences: Tensor,
        queries: Tensor,
        wanted: Tensor,
        targets: Tensor,
        next_sentence: Tensor,
    ) -> dict[str, Tensor]:
        """See `PretrainingBatch`, and `QueryPositions` of what is masked, then of the first tokens -> the sums of the losses."""
        hidden = encoded_at(self.model, ids, types, positions, sequences, QueryPositions(queries, wanted))
        losses = {"masked": masked_loss(self.model, hidden[: len(targets)], targets)}
        if self.model.next_sentence is not None:
            logits = next_sentence_logits(self.model, hidden[len(targets) :])
            losses["next_sentence"] = F.cross_entropy(logits.float(), next_sentence, reduction="sum")
        return losses


class Replaced(Objective):
    """ELECTRA's: cross-entropy of the generator's masked tokens, and 50 times that of the discriminator, which says of each
    real token whether the generator has put another in its place. Where it drew the very token, that counts as not replaced.
    """

    def __init__(self, model: Any) -> None:
        """`model`: a `models.encoders.electra.Electra`."""
        super().__init__(model)

    def counts(self, batch: PretrainingBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        return {"masked": len(batch.masked), "replaced": int((batch.sequences > 0).sum())}

    def arrays(self, batch: PretrainingBatch) -> tuple[np.ndarray, ...]:
        """What `forward` needs of a batch, to be put on the device."""
        real = np.flatnonzero(batch.sequences > 0)
        return (
            *(batch.ids, batch.types, batch.positions, visible(batch.sequences)),
            *position_arrays(batch.masked, *batch.ids.shape),
            *(batch.masked, batch.targets, real),
        )

    def forward(
        self,
        ids: Tensor,
        types: Tensor,
        positions: Tensor,
        sequences: Tensor,
        queries: Tensor,
        wanted: Tensor,
        masked: Tensor,
        targets: Tensor,
        real: Tensor,
    ) -> dict[str, Tensor]:
        """See `PretrainingBatch`, and `QueryPositions` of what is masked; `real`: flat indexes of what is no padding -> the
        sums of the losses, weighted.
        """
        generator, discriminator = self.model.generator, self.model.discriminator
        hidden = encoded_at(generator, ids, types, positions, sequences, QueryPositions(queries, wanted))
        loss = masked_loss(generator, hidden, targets)
        drawn = sample(generator, hidden.detach())
        replaced, labels = replacements(ids, masked, targets, drawn)
        logits = replaced_logits(discriminator, replaced, types, positions, sequences, real)
        wrong = F.binary_cross_entropy_with_logits(logits, labels[real], reduction="sum")
        return {"masked": loss, "replaced": DISCRIMINATOR_WEIGHT * wrong}


# -- parts, for training and for validation -----------------------------------------------------------------------------


def visible(sequences: np.ndarray) -> np.ndarray:
    """`sequences`, or nothing, (0, 0), where each row is one sequence without padding: all see all then."""
    return sequences[:0, :0] if bool((sequences == 1).all()) else sequences


def encoded(model: BertWithHeads, ids: Tensor, types: Tensor, positions: Tensor, sequences: Tensor) -> Tensor:
    """(B, T) tokens, segments, positions, and numbers of sequences (see `visible`) -> last hidden states (B*T, D)."""
    hidden: Tensor = model.encoder(ids, None, types, positions, _attend(sequences)).last
    return hidden.reshape(-1, hidden.shape[-1])


def encoded_at(
    model: BertWithHeads, ids: Tensor, types: Tensor, positions: Tensor, sequences: Tensor, places: QueryPositions
) -> Tensor:
    """As `encoded` -> (M, D): those of the places alone."""
    hidden: Tensor = model.encoder.at(ids, places, None, types, positions, _attend(sequences))
    return hidden


def _attend(sequences: Tensor) -> Tensor | None:
    """(B, 1, T, T): which positions see which."""
    return sequences[:, None, :, None] == sequences[:, None, None] if sequences.numel() else None


def masked_loss(model: BertWithHeads, hidden: Tensor, targets: Tensor) -> Tensor:
    """(M, D) last hidden states, and the tokens that stood there -> the sum of the losses, in nats."""
    assert model.masked is not None
    return model.output.summed_loss(model.masked(hidden), targets)


def next_sentence_logits(model: BertWithHeads, firsts: Tensor) -> Tensor:
    """(N, D) last hidden states of the first tokens of N sequences -> (N, 2)."""
    assert model.encoder.pooler is not None and model.next_sentence is not None
    out: Tensor = model.next_sentence(model.encoder.pooler(firsts[:, None]))
    return out


@torch.no_grad()
def sample(model: BertWithHeads, hidden: Tensor, random: torch.Generator | None = None) -> Tensor:
    """(M, D) last hidden states -> a token for each (M), drawn as probable as the model says, in float32."""
    drawn = torch.empty(len(hidden), dtype=torch.int64, device=hidden.device)
    chances = torch.rand(len(hidden), 1, dtype=torch.float64, device=hidden.device, generator=random)
    size = max(1, chunk_rows(model.encoder.token_embedding.weight) // 8)
    for start in range(0, len(hidden), size):
        logits = model.masked_logits(hidden[start : start + size])
        drawn[start : start + size] = draw(logits, chances[start : start + size])
    return drawn


def draw(logits: Tensor, chances: Tensor) -> Tensor:
    """(M, V) logits, and (M, 1) numbers from 0 up to 1 -> (M) which token's share of the probabilities each falls into.

    Block by block first, then within the block: the logits are visited twice, and nothing of their size is kept twice.
    """
    logits = F.pad(logits.float(), (0, -logits.shape[1] % _BLOCK), value=-torch.inf)
    shares = logits.sub_(logits.amax(1, keepdim=True)).exp_().view(len(logits), -1, _BLOCK)
    sums = shares.sum(2).double().cumsum(1)  # (M, blocks)
    block, within = _find(sums, chances)
    inside = shares.gather(1, block[:, :, None].expand(-1, -1, _BLOCK)).squeeze(1).double().cumsum(1)
    token, _ = _find(inside, within)
    return (block * _BLOCK + token).squeeze(1)


def _find(sums: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """(M, n) rising sums and (M, 1) shares of the last of them -> in which step each lies, and how far in, from 0 up to 1."""
    last = sums[:, -1:]
    wanted = torch.minimum(chances * last, torch.nextafter(last, torch.zeros_like(last)))
    # clamped for numbers that are none: the step of a training that diverges is refused, but has to come to its end
    step = torch.searchsorted(sums, wanted, right=True).clamp_max_(sums.shape[1] - 1)
    before = torch.where(step > 0, sums.gather(1, (step - 1).clamp_min(0)), 0.0)
    return step, (wanted - before) / (sums.gather(1, step) - before)


def replacements(ids: Tensor, masked: Tensor, targets: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) ids with `drawn` in place of what was masked, and (B*T) float32 labels, 1 where that is another token."""
    replaced = ids.reshape(-1).index_copy(0, masked, drawn).view_as(ids)
    labels = torch.zeros(ids.numel(), device=ids.device).index_copy_(0, masked, (drawn != targets).float())
    return replaced, labels


def replaced_logits(
    model: BertWithHeads, ids: Tensor, types: Tensor, positions: Tensor, sequences: Tensor, real: Tensor
) -> Tensor:
    """Tokens, some of them replaced -> the float32 logits of the `real` ones, as flat indexes."""
    assert model.replaced is not None
    hidden = encoded(model, ids, types, positions, sequences)
    if len(real) < len(hidden):
        hidden = hidden.index_select(0, real)
    out: Tensor = model.replaced(hidden).float()
    return out
