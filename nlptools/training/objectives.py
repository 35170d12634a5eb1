"""Objectives of language models and of encoder-decoders: the next token, given the tokens before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nlptools.configs import Training
from nlptools.layers.output import Projection
from nlptools.models.contract import CarriedState, EncoderDecoder, LanguageModel, is_streaming
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.objective import CARRIED, Objective
from nlptools.training.token_vectors import FrozenRows

if TYPE_CHECKING:
    from nlptools.batches.pairs import PairBatch
    from nlptools.batches.windows import TextBatch
    from nlptools.training.engine.weights import Weights


class CausalLM(Objective[LanguageModel]):
    """Next-token cross-entropy, in nats. A model that `streams` gets the state after the batch before.

    The loss includes the penalty of the model, once for each target. `frozen`: tokens with fixed embeddings, int64.
    """

    def __init__(self, model: LanguageModel, frozen: Tensor | None = None) -> None:
        super().__init__(model)
        self.frozen = frozen

    def counts(self, batch: TextBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        return {"loss": batch.num_targets}

    def arrays(self, batch: TextBatch) -> tuple[np.ndarray, np.ndarray]:
        """The arguments of `forward` for a batch, to be put on the device."""
        return batch.ids, batch.targets

    def continues(self, batch: TextBatch) -> bool:
        """Whether each row continues the same row of the batch before, and the model carries a state."""
        return bool(self.model.streams) and batch.continues

    def forward(self, ids: Tensor, targets: Tensor, *carried: Tensor) -> dict[str, Tensor]:
        """(B, T) ids and targets, and the tensors of the model's state -> the sum of the losses, and the state after them."""
        state, model = None, self.model
        if is_streaming(model):
            state = model.start(len(ids), 0)
            state = state._make(carried) if carried else state
        hidden, state = self.model(ids, state)
        after = () if state is None else enumerate(state.detach())
        flat = hidden.reshape(-1, hidden.shape[-1])
        loss = self.model.output.summed_loss(flat, targets.reshape(-1))
        if self.model.penalty is not None:
            penalty, self.model.penalty = self.model.penalty, None
            loss = loss + penalty * (targets >= 0).sum()
        return {"loss": loss, **{f"{CARRIED}{i}": tensor for i, tensor in after}}

    def state(self, carried: Sequence[Tensor]) -> CarriedState:
        """See `Objective`."""
        assert is_streaming(self.model)
        return self.model.start(1, 0)._make(carried)

    def optimizer(self, run: Training, weights: Weights[object]) -> Optimizer:
        """See `Objective.optimizer`; frozen embeddings do not change."""
        inner = super().optimizer(run, weights)
        if self.frozen is None:
            return inner
        weights.refuse_divided("frozen vectors")
        return FrozenRows(inner, weights.parameters["model.token_embedding.weight"], self.frozen)


class Seq2Seq(Objective[EncoderDecoder]):
    """Cross-entropy of each target token given the source and the target tokens before it, in nats.

    With `label_smoothing` e, the target distribution is 1 - e on the token, and spreads e evenly over the vocabulary
    (Szegedy et al. 2016); the loss is then no longer the log of a perplexity. With `r_drop` each pair is read twice, with
    separate dropout, and the distance of the two distributions times `r_drop` is part of the loss (Liang et al. 2021).
    """

    def __init__(self, model: EncoderDecoder, label_smoothing: float = 0.0, r_drop: float = 0.0) -> None:
        super().__init__(model)
        self.label_smoothing, self.r_drop = label_smoothing, r_drop

    def counts(self, batch: PairBatch) -> dict[str, int]:
        """Number of targets of each kind of loss."""
        return {"loss": batch.num_targets}

    def arrays(self, batch: PairBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward` for a batch, to be put on the device."""
        return batch.source, batch.source_mask, batch.inputs, batch.targets

    def forward(self, source: Tensor, mask: Tensor, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """(B, S) source and its mask, (B, T) inputs and targets -> the sum of the losses."""
        model = self.model
        twice = self.r_drop > 0 and self.training
        if twice:
            source, mask, inputs = (torch.cat([x, x]) for x in (source, mask, inputs))
        hidden, _ = model(inputs, model.encode(source, mask))
        flat, flat_targets = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
        head, smoothing = model.output, self.label_smoothing
        if twice:
            assert isinstance(head, Projection), "R-Drop compares two distributions over the whole vocabulary"
            pair = flat.view(2, -1, flat.shape[1])
            return {"loss": head.summed_r_drop(pair, flat_targets, self.r_drop, smoothing=smoothing)}
        return {"loss": head.summed_loss(flat, flat_targets, smoothing=smoothing)}
