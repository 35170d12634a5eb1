"""The encoder of an encoder-decoder, as a model for embeddings.

Ni et al. 2022, "Sentence-T5" (arXiv:2108.08877): means of the encoder's last states are sentence vectors.
Shapes: B sequences, S length, D hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from nlptools.models.translation.transformer import Transformer


@dataclass(frozen=True)
class SourceSizes:
    """The sizes of an encoder."""

    hidden_size: int
    num_hidden_layers: int


class SourceEncoder(nn.Module):
    """See the module's docstring. The first states are the embeddings, the last ones have passed the encoder's norm."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.config = SourceSizes(model.config.hidden_size, model.config.encoder_layers)
        self.max_context, self.runs_in_16_bits = model.max_context, model.runs_in_16_bits

    def states(self, ids: Tensor) -> list[Tensor]:
        """(B, S) ids of sources without padding -> the states of all layers, each (B, S, D)."""
        return self.model.encoder_states(ids)
