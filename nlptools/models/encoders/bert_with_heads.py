"""A BERT or one of its kin with the heads of pretraining and of tasks.

Shapes: B batch, T length, D hidden, V vocabulary, N positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nlptools.layers import packed, pooling
from nlptools.layers.heads import ReplacedTokenHead
from nlptools.layers.linear import Linear
from nlptools.layers.output import Projection
from nlptools.layers.packed import EqualLengths
from nlptools.models.contract import Hidden
from nlptools.models.encoders.bert import Bert, EncoderConfig
from nlptools.models.tasks.heads import BESIDE_HEADS, ROW_HEADS, TASK_HEADS, EncoderWithHeads

PRETRAINING_HEADS = ("pooler", "masked", "next_sentence", "replaced")
HEADS = (*PRETRAINING_HEADS, *TASK_HEADS, *BESIDE_HEADS)


class BertWithHeads(EncoderWithHeads):
    """An encoder with the heads it was, or is to be, pretrained or fine-tuned with. See `EncoderConfig.is_pooled` for heads that
    need the pooler.

    Attributes:
        encoder: the `Bert`; "pooler" is a part of it.
        masked: which token is at a masked position (BERT, and ELECTRA's generator), or None.
        next_sentence: (B, D) pooled -> (B, 2): 0 the next sentence, 1 a random one; or None.
        replaced: whether each token was replaced (ELECTRA's discriminator), or None.
        sequence, tokens, spans, choice, yes_no, mentions, arcs, crf, layer_mix, layer_concat: see `EncoderWithHeads`.
    """

    config: EncoderConfig

    def __init__(self, config: EncoderConfig, heads: tuple[str, ...] = (), num_labels: int = 2, **sizes: int) -> None:
        """`num_labels` and other `sizes` of heads: see `EncoderWithHeads`."""
        super().__init__(config, heads, num_labels, **sizes)
        D = config.hidden_size
        self.encoder: Bert = config.encoder(pooler="pooler" in heads)
        self.initializer_range = config.initializer_range
        self.masked = config.masked_head() if "masked" in heads else None
        self.next_sentence = Linear(D, 2) if "next_sentence" in heads else None
        self.replaced = ReplacedTokenHead(D, config.activation) if "replaced" in heads else None
        self.prediction = config.before_heads() if {*heads} & {*TASK_HEADS} else None
        self.add_heads(config.activation, {head: config.row_activation(head) for head in ROW_HEADS})

    def prepared(self, hidden: Tensor) -> Tensor:
        """See `EncoderWithHeads`."""
        return hidden if self.prediction is None else self.prediction(hidden)

    @property
    def output(self) -> Projection:
        """The distribution over tokens, given what `masked` returns for a hidden state. The model has to have that head."""
        masked = self.masked
        assert masked is not None
        return Projection(self.encoder.token_embedding, self.config.vocab_size, bias=lambda: masked.bias)

    def masked_logits(self, hidden: Tensor) -> Tensor:
        """(N, D) hidden states -> (N, V). The model has to have the head "masked"."""
        assert self.masked is not None
        return self.output.logits(self.masked(hidden))

    def states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Hidden:
        """See `EncoderWithHeads`."""
        hidden: Hidden = self.encoder(ids, mask, types)
        return hidden

    def row_states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """See `EncoderWithHeads`."""
        if self.config.pools_means:
            return self.of_rows(self.encoder(ids, mask, types).last, mask)
        return self.encoder.first(ids, mask, types)

    def of_rows(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `EncoderWithHeads`."""
        return pooling.pool(hidden, mask, ["mean"])[:, None] if self.config.pools_means else hidden[:, :1]

    def pooled(self, ids: Tensor, mask: Tensor, types: Tensor, kinds: Sequence[str]) -> Tensor:
        """See `EncoderWithHeads`; packed on a CPU, where many groups of few rows cost little."""
        if ids.device.type != "cpu":
            return super().pooled(ids, mask, types, kinds)
        lengths, order = mask.sum(1).sort(stable=True)
        groups, real, top = packed.equal_lengths(lengths.numpy()), mask[order], self.config.num_hidden_layers
        positions = torch.arange(ids.shape[1]).expand_as(ids)[real]
        (last,) = self.packed_states(ids[order][real], positions, groups, range(top, top + 1), types[order][real])
        return packed.pool(last, groups, kinds, [0] * len(groups))[order.argsort()]

    def packed_states(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range, types: Tensor | None = None
    ) -> list[Tensor]:
        """See `EncoderWithHeads`."""
        return self.encoder.packed(ids, positions, groups, layers, types)

    def packed_rows(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], types: Tensor | None = None
    ) -> Tensor:
        """See `EncoderWithHeads`."""
        if self.config.pools_means:
            top = self.config.num_hidden_layers
            (last,) = self.encoder.packed(ids, positions, groups, range(top, top + 1), types)
            return packed.pool(last, groups, ["mean"], [0] * len(groups)).to(last.dtype)
        return self.encoder.packed_first(ids, positions, groups, types)

    def vectors(self, head: str, hidden: Tensor) -> Tensor:
        """See `EncoderWithHeads`; through the pooler where the head takes its vector."""
        pooler = self.encoder.pooler
        return pooler(hidden) if pooler is not None and self.config.is_pooled(head) else hidden[:, 0]
