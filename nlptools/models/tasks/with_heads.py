"""A language model with heads of tasks instead of its output head, or in training next to it.

Radford et al. 2018, "Improving language understanding by generative pre-training": the hidden state of the
last token represents a whole row, and a linear layer without a bias classifies it. For rows see `batches.encoder_rows`.
Departure: the end-of-text token serves as every special token, except in a GPT-1.
Shapes: B batch, T length, N tokens of all sequences, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nlptools.layers import packed
from nlptools.layers.packed import EqualLengths
from nlptools.models.contract import Hidden, LanguageModel
from nlptools.models.tasks.heads import EncoderWithHeads

LANGUAGE = "language"  # among the heads of a model that keeps its output matrix for an auxiliary loss


class WithHeads(EncoderWithHeads):
    """See the module's docstring. `encoder` is the language model. Rows are padded on the right, where no position sees it."""

    causal = True

    encoder: LanguageModel

    def __init__(self, model: LanguageModel, heads: tuple[str, ...] = (), num_labels: int = 2, **sizes: int) -> None:
        """`model` loses its output matrix, unless `LANGUAGE` is among `heads`. `num_labels` and other `sizes` of
        heads: see `TaskHeads`.
        """
        own = tuple(head for head in heads if head != LANGUAGE)
        super().__init__(model.config, own, num_labels, **sizes)
        self.encoder = model
        self.runs_in_16_bits = model.runs_in_16_bits
        self.initializer_range = model.initializer_range
        if LANGUAGE not in heads:
            model.drop_output()
        self.add_heads(model.activation, bias=False)

    def states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Hidden:
        """See `EncoderWithHeads`. Raises DataError for rows longer than the context."""
        return self.encoder.states(ids)

    def row_states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """See `EncoderWithHeads`."""
        return self.of_rows(self.encoder(ids)[0], mask)

    def language_loss(self, hidden: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Hidden states (B, T, D) of rows of tokens (B, T), True = real -> (B,): the mean of -log p of the tokens of each row
        after the first, 0 for a row of one token. The model needs its output matrix.
        """
        real = mask[:, 1:]
        logprobs = self.encoder.output.log_probabilities(hidden[:, :-1][real], ids[:, 1:][real])
        sums = -logprobs.new_zeros(real.shape).masked_scatter(real, logprobs).sum(1)
        return sums / real.sum(1).clamp(min=1)

    def packed_states(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range, types: Tensor | None = None
    ) -> list[Tensor]:
        """See `EncoderWithHeads`."""
        return packed.by_group(lambda rows: self.encoder.states(rows).layers, ids, groups, layers)

    def packed_rows(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], types: Tensor | None = None
    ) -> Tensor:
        """See `EncoderWithHeads`."""
        (rows,) = packed.by_group(lambda ids: (self.encoder(ids)[0][:, -1:],), ids, groups, range(1))
        return rows
