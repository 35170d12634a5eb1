"""BERT and ELECTRA for inference on sequences without padding: see `layers.packed`.

The same layers as `bert.Bert`, visited with less: no row is padded, bias, activation and residual are added by the
kernels of the products, and only the layers asked for are computed and kept.
Shapes: N tokens of all sequences, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nlptools.layers import packed
from nlptools.layers.packed import Group

if TYPE_CHECKING:
    from nlptools.models.encoders.bert import Bert


def hidden_states(
    model: Bert, ids: Tensor, positions: Tensor, groups: Sequence[Group], layers: range, types: Tensor | None = None
) -> list[Tensor]:
    """The hidden states (N, D) of each of `layers`, numbered as in `contract.Hidden`.

    Args:
        model: in eval mode, without gradients.
        ids, positions: (N,) of all sequences, in the order of `groups`.
        layers: not empty; those after the last of them are not computed.
        types: (N,) the segment of each token; None: 0.
    """
    x = _embedded(model, ids, positions, types)
    kept = [x] if 0 in layers else []
    for number, block in enumerate(model.blocks, 1):
        if number > layers[-1]:
            break
        x = _block(block, x, groups)
        if number in layers:
            kept.append(x)
    return kept


def first_states(
    model: Bert, ids: Tensor, positions: Tensor, groups: Sequence[Group], types: Tensor | None = None
) -> Tensor:
    """The last hidden state (B, D) of the first token of each sequence; of the last block no others are computed."""
    x = _embedded(model, ids, positions, types)
    for block in model.blocks[:-1]:
        x = _block(block, x, groups)
    last = model.blocks[-1]
    attended = packed.attend_from_first(last.attention.query_key_value(x), last.attention.num_heads, groups)
    firsts = torch.cat([x[group.start : group.end : group.length] for group in groups])
    return _after_attention(last, firsts, attended)


def _embedded(model: Bert, ids: Tensor, positions: Tensor, types: Tensor | None) -> Tensor:
    """(N,) -> (N, D): what goes into the first block."""
    x: Tensor = model.token_embedding(ids) + model.position_embedding(positions)
    x = x.add_(model.type_embedding.weight[0] if types is None else model.type_embedding(types))
    x = model.embedding_norm(x)
    if model.config.embedding_size != model.config.hidden_size:
        x = model.embedding_projection(x)
    return x


def _block(block: Any, x: Tensor, groups: Sequence[Group]) -> Tensor:
    attended = packed.attend(block.attention.query_key_value(x), block.attention.num_heads, groups)
    return _after_attention(block, x, attended)


def _after_attention(block: Any, x: Tensor, attended: Tensor) -> Tensor:
    """The rest of a block, of what went into it and what its attention gives, (N, D) each."""
    feed_forward = block.feed_forward
    x = block.attention_norm(block.attention.output.add_to(x, attended))
    out: Tensor = block.feed_forward_norm(feed_forward.down.add_to(x, feed_forward.up(x, feed_forward.activation)))
    return out
