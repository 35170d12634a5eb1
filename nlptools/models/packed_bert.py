"""BERT and ELECTRA for inference on sequences without padding: see `layers.packed`.

The same layers as `bert.Bert`, visited with less: no row is padded, bias, activation and residual are added by the
kernels of the products, and only the layers asked for are computed and kept.
Shapes: N tokens of all sequences, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nlptools.layers import packed
from nlptools.layers.packed import Group
from nlptools.models.bert import Bert


def hidden_states(model: Bert, ids: Tensor, positions: Tensor, groups: Sequence[Group], layers: range) -> list[Tensor]:
    """The hidden states (N, D) of each of `layers`, numbered as in `contract.Hidden`.

    Args:
        model: in eval mode, without gradients.
        ids, positions: (N,) of all sequences, in the order of `groups`.
        layers: not empty; those after the last of them are not computed.
    """
    x = model.token_embedding(ids) + model.position_embedding(positions)
    x = model.embedding_norm(x.add_(model.type_embedding.weight[0]))
    if model.config.embedding_size != model.config.hidden_size:
        x = model.embedding_projection(x)
    kept = [x] if 0 in layers else []
    for number, block in enumerate(model.blocks, 1):
        if number > layers[-1]:
            break
        x = _block(block, x, groups)
        if number in layers:
            kept.append(x)
    return kept


def _block(block: Any, x: Tensor, groups: Sequence[Group]) -> Tensor:
    attention, feed_forward = block.attention, block.feed_forward
    attended = packed.attend(attention.query_key_value(x), attention.num_heads, groups)
    x = block.attention_norm(attention.output.add_to(x, attended))
    out: Tensor = block.feed_forward_norm(feed_forward.down.add_to(x, feed_forward.up(x, feed_forward.activation)))
    return out
