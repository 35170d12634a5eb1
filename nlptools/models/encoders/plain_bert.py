"""BERT and ELECTRA in plain operations, for export: see `onnx_export`.

The same layers as `bert.Bert`, visited without anything that looks at numbers or sizes while it computes (whether a mask is
all true, which kernel is fast for so many tokens), so that what is traced holds for every batch and length. The weights must
require gradients: those that do not may be packed for a kernel that only this processor has (`layers.linear`).
Shapes: B batch, T length, D hidden, H heads, K size per head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nlptools.models.encoders.bert import Bert


def hidden_states(model: Bert, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, ...]:
    """(B, T) ids, mask (True = real) and segments -> the hidden states of all layers, as `contract.Hidden.layers`.

    `model`: in eval mode.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    x = model.token_embedding(ids) + model.position_embedding(places) + model.type_embedding(types)
    x = model.embedding_norm(x)
    if model.config.embedding_size != model.config.hidden_size:
        x = model.embedding_projection(x)
    bias = (~mask).to(x.dtype)[:, None, None] * torch.finfo(x.dtype).min  # (B, 1, 1, T)
    layers = [x]
    for block in model.blocks:
        layers.append(_block(block, layers[-1], bias))
    return tuple(layers)


def _block(block: Any, x: Tensor, bias: Tensor) -> Tensor:
    x = block.attention_norm(x + _attention(block.attention, x, bias))
    out: Tensor = block.feed_forward_norm(x + block.feed_forward(x))
    return out


def _attention(attention: Any, x: Tensor, bias: Tensor) -> Tensor:
    B, T, D = x.shape
    packed = attention.query_key_value(x).view(B, T, 3, attention.num_heads, D // attention.num_heads)
    query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
    weights = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + bias).softmax(-1)
    out: Tensor = attention.output((weights @ value).transpose(1, 2).reshape(B, T, D))
    return out
