"""Learning rates of the parts of an encoder: layer-wise decay, frozen layers, gradual unfreezing.

Layer-wise decay: Howard & Ruder 2018 (arXiv:1801.06146), Clark et al. 2020 (arXiv:2003.10555). Gradual unfreezing: Howard &
Ruder 2018. The embeddings are part 0, the layers 1 to L, a norm after them L, the heads and the pooler L + 1.
Departure from ELECTRA's script: the rate of the last block is one decay below the rate of the head, not two.
"""

from __future__ import annotations

from collections.abc import Mapping

from nlptools.models.tasks.heads import EncoderWithHeads


def freeze(model: EncoderWithHeads, layers: int | None) -> None:
    """Freeze the embeddings and the first `layers` layers, None: all of them; 0 freezes nothing."""
    num_layers = model.config.num_hidden_layers
    last = num_layers if layers is None else min(layers, num_layers)
    if layers == 0:
        return
    for name, parameter in model.named_parameters():
        if model.part_of(name) <= last:
            parameter.requires_grad_(False)


class Rates:
    """Factors of the learning rate for each parameter."""

    def __init__(self, parts: Mapping[str, int], top: int, decay: float = 1.0, unfreeze: float = 0.0) -> None:
        """
        Args:
            parts: the part of each parameter, see `EncoderWithHeads.part_of`; `top` is the part of the heads.
            unfreeze: epochs after which one more part is trained; 0: all are trained from the start.
        """
        self.parts, self.top, self.decay, self.unfreeze = parts, top, decay, unfreeze

    def at(self, epoch: float) -> dict[str, float]:
        """The factor of each parameter; 1 for missing ones."""
        if self.decay == 1.0 and not self.unfreeze:
            return {}
        lowest = self.top - int(epoch / self.unfreeze) if self.unfreeze else 0
        return {name: 0.0 if part < lowest else self.decay ** (self.top - part) for name, part in self.parts.items()}
