"""A GPT, or a decoder of the LLaMA family, with heads of tasks in place of its output head.

Radford et al. 2018, "Improving language understanding by generative pre-training": the hidden state of the
last token represents a whole row, and a linear layer without a bias classifies it. For rows see `batches.encoder_rows`.
Departures: no language model loss beside the task's; the end-of-text token is used for all special tokens.
Shapes: B batch, T length, N tokens of all sequences, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from nlptools.layers import packed
from nlptools.layers.packed import EqualLengths
from nlptools.models.contract import Hidden
from nlptools.models.language.gpt import GPT, GPTConfig
from nlptools.models.language.modern import Modern, ModernConfig
from nlptools.models.tasks.heads import TaskHeads


class GPTWithHeads(TaskHeads):
    """See the module's docstring. `encoder` is the `GPT`. Rows are padded on the right, where no position attends to it."""

    last_speaks = True

    def __init__(
        self,
        config: GPTConfig | ModernConfig,
        heads: tuple[str, ...] = (),
        num_labels: int = 2,
        concatenated: int = 1,
    ) -> None:
        """`num_labels`, `concatenated`: see `TaskHeads`."""
        super().__init__(config, heads, num_labels, concatenated)
        tied = replace(config, tie_word_embeddings=True)  # there is no output head with a matrix
        self.encoder = Modern(tied) if isinstance(tied, ModernConfig) else GPT(tied)
        self.add_heads(bias=False)

    def states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Hidden:
        """See `TaskHeads`. Raises DataError for rows longer than the context."""
        hidden: Hidden = self.encoder.states(ids)
        return hidden

    def row_states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """See `TaskHeads`."""
        return self.of_rows(self.encoder(ids)[0], mask)

    def packed_states(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range, types: Tensor | None = None
    ) -> list[Tensor]:
        """See `TaskHeads`."""
        return packed.by_group(lambda rows: self.encoder.states(rows).layers, ids, groups, layers)

    def packed_rows(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], types: Tensor | None = None
    ) -> Tensor:
        """See `TaskHeads`."""
        (rows,) = packed.by_group(lambda ids: (self.encoder(ids)[0][:, -1:],), ids, groups, range(1))
        return rows
