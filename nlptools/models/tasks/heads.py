"""Heads of tasks on top of the hidden states of an encoder or a language model.

Shapes: B batch, T length, N positions, D hidden, K labels, A + R size of the vectors of a parser.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nlptools.configs.layers import Layers
from nlptools.errors import UsageError
from nlptools.layers.biaffine import DependencyHead
from nlptools.layers.chains import ChainHead
from nlptools.layers.crf import Crf
from nlptools.layers.dropout import Dropout
from nlptools.layers.heads import LayerMix, MentionHead, SequenceHead
from nlptools.layers.initial import draw_as_bert
from nlptools.layers.linear import Linear
from nlptools.layers.packed import EqualLengths
from nlptools.layers.pooling import choose, pool
from nlptools.models.contract import Hidden, Layered, Sizes

TASK_HEADS = ("sequence", "tokens", "spans", "choice", "yes_no", "mentions", "chains", "arcs")
OF_TOKENS = ("tokens", "spans", "chains", "arcs")  # heads with an output for each token
ROW_HEADS = ("sequence", "choice")  # of one vector per row
LAYER_HEADS = ("layer_mix", "layer_concat")  # learned combinations of several layers into the one that they see
BESIDE_HEADS = ("crf", *LAYER_HEADS)
_PARTS, _LEAST_ROWS = 4, 16  # rows are computed in so many parts of similar length, or in fewer with so many rows
NO_LAYERS: Mapping[str, str] = {}


class TaskHeads(nn.Module, ABC):
    """The heads of tasks of a model that reads whole texts.

    Attributes:
        sequence: labels of a whole sequence, or a number; or None.
        tokens: labels of each token, or None.
        spans: whether each token begins an answer, and whether it ends one; or None.
        choice: a score of a sequence, to compare it with others; or None.
        yes_no: in addition to "spans", whether the answer is a span, yes or no, from the vector of the token that means no
            answer; or None.
        mentions: which of two names a pronoun means, from the vectors of all three; or None.
        chains: vectors of each token, to compare the spans of a document; or None.
        arcs: vectors of each token for the arcs of a dependency tree; or None.
        crf: scores of successive labels, in addition to "tokens"; or None.
        layer_mix: the heads see a weighted sum of all layers; or None.
        layer_concat: they see a linear map of several layers side by side; or None.
    """

    runs_in_16_bits = True
    causal = False  # whether tokens see only those before them, so that the last one represents its row, not the first

    family: str | None = None  # of models that are trained without pretraining, see `tasks.without_pretraining`
    initializer_range = 0.02  # standard deviation of the first weights of heads

    def __init__(
        self, config: Sizes, heads: tuple[str, ...], num_labels: int, concatenated: int = 1, num_relations: int = 0
    ) -> None:
        """The heads come by `add_heads`.

        Args:
            num_labels: K, of the heads "sequence", "tokens" and "crf".
            concatenated: layers that "layer_concat" takes.
            num_relations: of the head "arcs".
        """
        super().__init__()
        self.config = config
        self.heads = heads
        self.num_labels = num_labels
        self.concatenated = concatenated
        self.num_relations = num_relations

    @property
    def rounded_part(self) -> nn.Module:
        """The part with linear layers that `layers.quantized` may round; empty where rounding does not pay."""
        return nn.ModuleList()

    def add_heads(self, activation: str, dense: Mapping[str, str] = NO_LAYERS, bias: bool = True) -> None:
        """Create the heads of tasks. `dense` (by head), `bias`: of the `ROW_HEADS`, see `SequenceHead`."""
        heads, K, D, dropout = self.heads, self.num_labels, self.config.hidden_size, self.config.hidden_dropout
        sequence, choice = dense.get("sequence", ""), dense.get("choice", "")
        self.sequence = SequenceHead(D, K, sequence, dropout, bias=bias) if "sequence" in heads else None
        more: dict[str, bool] = {"first_dropout": False, "bias": bias}
        self.choice = SequenceHead(D, 1, choice, dropout, **more) if "choice" in heads else None
        self.tokens = Linear(D, K) if "tokens" in heads else None
        self.spans = Linear(D, 2) if "spans" in heads else None
        self.crf = Crf(K) if "crf" in heads else None
        self.yes_no = Linear(D, 3) if "yes_no" in heads else None
        self.mentions = MentionHead(D, activation, dropout) if "mentions" in heads else None
        self.chains = ChainHead(D, dropout) if "chains" in heads else None
        self.arcs = DependencyHead(D, self.num_relations) if "arcs" in heads else None
        self.layer_mix = LayerMix(self.config.num_hidden_layers + 1) if "layer_mix" in heads else None
        self.layer_concat = Linear(self.concatenated * D, D, bias=False) if "layer_concat" in heads else None
        self.dropout = Dropout(dropout)

    @abstractmethod
    def initialize(self) -> None:
        """Draw all weights."""

    def put_together(self, states: Sequence[Tensor], which: Layers) -> Tensor:
        """(..., D) of each layer -> (..., D): the combination of the layers `which` that the heads see. Raises UsageError."""
        seen = states if self.layer_mix is not None else states[which.begin : which.end]
        if any(state.shape[-1] != self.config.hidden_size for state in seen):
            raise UsageError("--layers: one of these layers has another size than the last one")
        if self.layer_mix is not None:
            mixed: Tensor = self.layer_mix(states)
            return mixed
        chosen = choose(states, which)
        return chosen if self.layer_concat is None else self.layer_concat(chosen)

    def vectors(self, head: str, hidden: Tensor) -> Tensor:
        """(B, 1 or more, D) -> (B, D): the input of a head of `ROW_HEADS`, from the first position."""
        return hidden[:, 0]

    def prepared(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., D): the input of a head, from hidden states or `vectors`."""
        return hidden

    def task_logits(self, head: str, hidden: Tensor, spans: Tensor | None = None) -> Tensor:
        """(B, T, D) last hidden states -> the output of one of TASK_HEADS, which the model has to have.

        "sequence": (B, K); "choice": (B,), both of the first position, where the token has to be that stands for its row;
        "tokens": (B, T, K); "chains": (B, T, 4 F), see `layers.chains`; "spans": (B, T, 2), begin and end,
        or (B, T, 5) with a head "yes_no", three scores that count at the token for no answer; "mentions": (B, 3) with `spans`
        (B, 3, 2), the first and last position of each in its row, or in (N, D) hidden states of all rows end to end;
        "arcs": (B, T, 2 (A + R)), after the K numbers of "tokens" in a model that has this head too.
        """
        if head == "tokens":
            assert self.tokens is not None
            out: Tensor = self.tokens(self.dropout(self.prepared(hidden)))
        elif head == "spans":
            assert self.spans is not None
            hidden = self.prepared(hidden)
            out = self.spans(hidden)
            if self.yes_no is not None:
                out = torch.cat([out, self.yes_no(hidden)], -1)
        elif head == "chains":
            assert self.chains is not None
            out = self.chains(self.dropout(hidden))
        elif head == "arcs":
            assert self.arcs is not None
            out = self.arcs(hidden)
            if self.tokens is not None:
                out = torch.cat([self.tokens(self.dropout(hidden)), out], -1)
        elif head == "mentions":
            assert self.mentions is not None and spans is not None
            if hidden.dim() == 3:
                B, T, _ = hidden.shape
                hidden, spans = hidden.flatten(0, 1), spans + T * torch.arange(B, device=spans.device)[:, None, None]
            out = self.mentions(hidden, spans)
        else:
            chosen = self.sequence if head == "sequence" else self.choice
            assert chosen is not None
            out = chosen(self.prepared(self.vectors(head, hidden)))
            out = out if head == "sequence" else out.squeeze(-1)
        return out


class EncoderWithHeads(TaskHeads):
    """An encoder or language model that was trained before, as `encoder`, with the heads of tasks. Subclasses turn rows of tokens
    into hidden states.
    """

    encoder: Layered

    def initialize(self) -> None:
        """Draw all weights: of the heads as BERT does, of the encoder by its own `initialize`."""
        draw_as_bert(self, self.initializer_range)
        self.encoder.initialize()

    @property
    def max_context(self) -> int | None:
        """Most tokens of a row; None: no limit."""
        return self.encoder.max_context

    @property
    def rounded_part(self) -> nn.Module:
        """See `TaskHeads`."""
        return cast(nn.Module, self.encoder)

    def part_of(self, name: str) -> int:
        """The part of the model that a parameter belongs to: 0 the embeddings, 1 to L the layers, L + 1 the heads."""
        top = self.config.num_hidden_layers + 1
        return self.encoder.layer_of(name.removeprefix("encoder.")) if name.startswith("encoder.") else top

    def linear_maps(self) -> list[str]:
        """The names of the linear maps that adapters can be added to."""
        return [f"encoder.{name}" for name in self.encoder.linear_maps()]

    @abstractmethod
    def states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Hidden:
        """The hidden states of all layers; see `contract.Encoder`."""

    @abstractmethod
    def row_states(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, 1, D): the last hidden state of the token that represents each row."""

    def pooled(self, ids: Tensor, mask: Tensor, types: Tensor, kinds: Sequence[str]) -> Tensor:
        """(B, T), padded on the right -> (B, k*D), float32: k kinds of `pooling.POOLINGS` over the last hidden states, side by
        side. Rows of similar length are computed together, with less padding.
        """
        lengths = mask.sum(1)
        order, parts = lengths.argsort(stable=True), []
        for rows in torch.split(order, max(_LEAST_ROWS, -(-len(ids) // _PARTS))):
            longest = int(lengths[rows[-1]])
            part = [array[rows, :longest] for array in (ids, mask, types)]
            parts.append(pool(self.states(*part).last, part[1], kinds))
        return torch.cat(parts)[order.argsort()]

    @abstractmethod
    def packed_states(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range, types: Tensor | None = None
    ) -> list[Tensor]:
        """The hidden states (N, D) of `layers` for sequences end to end; see `contract.Encoder.packed`."""

    @abstractmethod
    def packed_rows(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], types: Tensor | None = None
    ) -> Tensor:
        """(B, D): the last hidden state of the token that represents each sequence, of sequences end to end."""

    def of_rows(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, 1, D): of the token that represents each row. `mask` (B, T), True = real; None: all is."""
        if not self.causal:
            return hidden[:, :1]
        if mask is None:
            return hidden[:, -1:]
        rows = torch.arange(len(hidden), device=hidden.device)
        return hidden[rows, mask.sum(1) - 1][:, None]
