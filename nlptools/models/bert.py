"""BERT and ELECTRA: bidirectional Transformer encoders.

Devlin et al. 2019, "BERT: pre-training of deep bidirectional Transformers" (arXiv:1810.04805): post-norm blocks, learned
positions, segment embeddings, a norm over their sum. Clark et al. 2020, "ELECTRA" (arXiv:2003.10555): the same, with
narrower embeddings that are projected to the hidden size.
Departure: embeddings have their rows padded to a multiple of 64 in memory, for aligned matrix products.
Shapes: B batch, T length, E embedding, D hidden, V vocabulary, N positions, K labels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nlptools.configs.encoders import EncoderConfig
from nlptools.errors import DataError
from nlptools.layers.crf import Crf
from nlptools.layers.dropout import Dropout
from nlptools.layers.heads import MaskedTokenHead, MentionHead, Pooler, ReplacedTokenHead, SequenceHead
from nlptools.layers.linear import Linear
from nlptools.layers.transformer import Block
from nlptools.models.contract import Hidden

_ROWS = 64


class Bert(nn.Module):
    """See the module's docstring; fulfils `contract.Encoder`."""

    runs_in_16_bits = True

    def __init__(self, config: EncoderConfig, pooler: bool = False) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.hidden_size = config.hidden_size
        self.max_context = config.max_position_embeddings
        E, D = config.embedding_size, config.hidden_size
        self.token_embedding = nn.Embedding(-(-config.vocab_size // _ROWS) * _ROWS, E)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, E)
        self.type_embedding = nn.Embedding(config.type_vocab_size, E)
        self.embedding_norm = nn.LayerNorm(E, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)
        if E != D:
            self.embedding_projection = Linear(E, D)
        self.blocks: Any = nn.ModuleList(
            Block(
                D,
                config.num_attention_heads,
                config.intermediate_size,
                activation=config.activation,
                dropout=config.hidden_dropout,
                attention_dropout=config.attention_dropout,
                eps=config.layer_norm_eps,
                pre_norm=False,
                causal=False,
            )
            for _ in range(config.num_hidden_layers)
        )
        self.pooler = Pooler(D) if pooler else None

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights as BERT does: normal, biases 0, norms 1."""
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                parameter.normal_(std=self.config.initializer_range)
            else:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
        self.token_embedding.weight[self.config.pad].zero_()
        self.token_embedding.weight[self.vocab_size :].zero_()

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        types: Tensor | None = None,
        positions: Tensor | None = None,
        attend: Tensor | None = None,
    ) -> Hidden:
        """See `contract.Encoder`."""
        layers = [self._embedded(ids, types, positions)]
        real = None if mask is None or bool(mask.all()) else mask
        for block in self.blocks:
            layers.append(block(layers[-1], mask=attend, real=real))
        return Hidden(layers[-1], tuple(layers))

    def first(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """(B, T) ids -> (B, 1, D): the last hidden state of the first token alone.

        The last block is computed for that position only, which saves five sixths of it.
        """
        x = self._embedded(ids, types, None)
        real = None if mask is None or bool(mask.all()) else mask
        for block in self.blocks[:-1]:
            x = block(x, real=real)
        out: Tensor = self.blocks[-1].first(x, real)
        return out

    def _embedded(self, ids: Tensor, types: Tensor | None, positions: Tensor | None) -> Tensor:
        """(B, T) -> (B, T, D): what goes into the first block."""
        T = ids.shape[1]
        if positions is None:
            if self.max_context < T:
                raise DataError(f"{T} tokens are more than the model's limit of {self.max_context}")
            positions = torch.arange(T, device=ids.device)
        types = torch.zeros_like(ids) if types is None else types
        x: Tensor = self.token_embedding(ids) + self.position_embedding(positions) + self.type_embedding(types)
        x = self.dropout(self.embedding_norm(x))
        if self.config.embedding_size != self.config.hidden_size:
            x = self.embedding_projection(x)
        return x


PRETRAINING_HEADS = ("pooler", "masked", "next_sentence", "replaced")
TASK_HEADS = ("sequence", "tokens", "spans", "choice", "yes_no", "mentions")
HEADS = (*PRETRAINING_HEADS, *TASK_HEADS, "crf")


class BertWithHeads(nn.Module):
    """An encoder with the heads it was, or is to be, pretrained or fine-tuned with.

    Attributes:
        encoder: the `Bert`; "pooler" is a part of it.
        masked: which token stands at a masked position (BERT, and ELECTRA's generator), or None.
        next_sentence: (B, D) pooled -> (B, 2): 0 the next sentence, 1 a random one; or None.
        replaced: whether each token was replaced (ELECTRA's discriminator), or None.
        sequence: labels of a whole sequence, or a number; or None. In a BERT it needs the pooler.
        tokens: labels of each token, or None.
        spans: whether each token begins, and whether it ends, an answer; or None.
        choice: how well a sequence fits, to be compared with others; or None. In a BERT it needs the pooler.
        yes_no: beside "spans", whether the answer is a span, yes or no, of the first token; or None.
        mentions: which name a pronoun means, of the vectors of all three; or None.
        crf: how well labels of neighbouring tokens go together, beside "tokens"; or None.
    """

    runs_in_16_bits = True

    def __init__(self, config: EncoderConfig, heads: tuple[str, ...] = (), num_labels: int = 2) -> None:
        """`num_labels`: K, of the heads "sequence", "tokens" and "crf"."""
        super().__init__()
        self.config = config
        self.heads = heads
        self.num_labels = num_labels
        D, eps, dropout = config.hidden_size, config.layer_norm_eps, config.hidden_dropout
        self.encoder = Bert(config, pooler="pooler" in heads)
        # ELECTRA's generator always takes the exact GELU
        activation = config.activation if config.family == "bert" else "gelu"
        sizes = (D, config.embedding_size, config.vocab_size)
        self.masked = MaskedTokenHead(*sizes, activation, eps) if "masked" in heads else None
        self.next_sentence = Linear(D, 2) if "next_sentence" in heads else None
        self.replaced = ReplacedTokenHead(D, config.activation) if "replaced" in heads else None
        dense = config.family == "electra"
        self.sequence = SequenceHead(D, num_labels, dense, dropout) if "sequence" in heads else None
        self.choice = SequenceHead(D, 1, dense, dropout, first_dropout=False) if "choice" in heads else None
        self.tokens = Linear(D, num_labels) if "tokens" in heads else None
        self.spans = Linear(D, 2) if "spans" in heads else None
        self.crf = Crf(num_labels) if "crf" in heads else None
        self.yes_no = Linear(D, 3) if "yes_no" in heads else None
        self.mentions = MentionHead(D, config.activation, dropout) if "mentions" in heads else None
        self.dropout = Dropout(dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw all weights as BERT does."""
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                parameter.normal_(std=self.config.initializer_range)
            else:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
        self.encoder.initialize()

    def masked_logits(self, hidden: Tensor) -> Tensor:
        """(N, D) hidden states -> (N, V). The model has to have the head."""
        assert self.masked is not None
        out: Tensor = self.masked.logits(hidden, self.encoder.token_embedding.weight)
        return out

    def task_logits(self, head: str, hidden: Tensor, spans: Tensor | None = None) -> Tensor:
        """(B, T, D) last hidden states -> what the head of TASK_HEADS gives, which the model has to have.

        "sequence": (B, K); "choice": (B,); "tokens": (B, T, K); "spans": (B, T, 2), begin and end,
        or (B, T, 5) with a head "yes_no", whose three count at the first token; "mentions": (B, 3) with `spans` (B, 3, 2), the
        first and last position of each in its row, or in (N, D) hidden states of all rows end to end.
        """
        if head == "tokens":
            assert self.tokens is not None
            out: Tensor = self.tokens(self.dropout(hidden))
        elif head == "spans":
            assert self.spans is not None
            out = self.spans(hidden)
            if self.yes_no is not None:
                out = torch.cat([out, self.yes_no(hidden)], -1)
        elif head == "mentions":
            assert self.mentions is not None and spans is not None
            if hidden.dim() == 3:
                B, T, _ = hidden.shape
                hidden, spans = hidden.flatten(0, 1), spans + T * torch.arange(B, device=spans.device)[:, None, None]
            out = self.mentions(hidden, spans)
        else:
            chosen = self.sequence if head == "sequence" else self.choice
            assert chosen is not None
            pooler = self.encoder.pooler
            out = chosen(hidden[:, 0] if pooler is None else pooler(hidden))
            out = out if head == "sequence" else out.squeeze(-1)
        return out
