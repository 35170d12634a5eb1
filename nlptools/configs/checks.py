"""Checks of sizes read from model files, made before memory is allocated for them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from nlptools.errors import BundleError, UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_LARGEST = {  # sizes that no model exceeds
    **dict.fromkeys(("vocab_size", "source_vocab_size", "target_vocab_size", "max_position_embeddings"), 1 << 22),
    **dict.fromkeys(("hidden_size", "embedding_size"), 1 << 16),
    **dict.fromkeys(("num_hidden_layers", "encoder_layers", "decoder_layers"), 1024),
    **dict.fromkeys(("num_attention_heads", "encoder_heads", "decoder_heads"), 1024),
    **dict.fromkeys(("intermediate_size", "encoder_intermediate_size", "decoder_intermediate_size"), 1 << 18),
    "type_vocab_size": 1 << 10,
    "head_size": 1 << 14,
    "position_offset": 1 << 22,
    "relative_buckets": 1 << 16,
    "farthest_distance": 1 << 22,
}
_MAY_BE_ZERO = ("type_vocab_size", "distance_buckets", "local_window", "head_size", "position_offset")


def check_sizes(config: DataclassInstance, **limits: int) -> None:
    """Check the numbers of a configuration, a dataclass.

    Args:
        limits: the largest values of more fields, or of fields that differ from the usual limits.

    Raises:
        BundleError: a size with a limit is no whole number from 1 to it, a fraction is no number from 0 to 1, or a switch is
            neither true nor false.
    """
    largest = {**_LARGEST, **limits}
    for field in fields(config):
        value, limit = vars(config)[field.name], largest.get(field.name)
        least = 0 if field.name in _MAY_BE_ZERO else 1
        if limit is not None and (type(value) is not int or not least <= value <= limit):
            raise BundleError(f"{field.name} is {value!r:.80}, expected a whole number from {least} to {limit}")
    for field in fields(config):
        value = vars(config)[field.name]
        if field.type == "float" and (type(value) not in (int, float) or not 0 <= value <= 1):
            raise BundleError(f"{field.name} is {value!r:.80}, expected a number from 0 to 1")
        if field.type == "bool" and type(value) is not bool:
            raise BundleError(f"{field.name} is {value!r:.80}, expected true or false")


def check_patches(width: int, height: int, patch: int, hint: str) -> None:
    """Raise UsageError, with `hint`, unless the sides of a picture are multiples of the side of a patch."""
    if height % patch or width % patch:
        size = f"{width} x {height} pixels"
        raise UsageError(f"pictures of {size} cannot be cut into patches of {patch} x {patch}", hint=hint)


def checked_cutoffs(cutoffs: object, vocab_size: int) -> tuple[int, ...]:
    """The first tokens of the clusters of an adaptive softmax, from a model file. Raises BundleError unless they ascend."""
    listed = cutoffs if isinstance(cutoffs, list | tuple) else [None]
    if not all(type(value) is int for value in listed) or list(listed) != sorted({0, vocab_size, *listed})[1:-1]:
        raise BundleError(f"adaptive_cutoffs is {cutoffs!r:.80}, expected ascending numbers below {vocab_size}")
    return tuple(listed)


def check_heads(hidden_size: int, heads: int) -> None:
    """Raise BundleError unless attention heads of one size make up the hidden state."""
    if hidden_size % heads:
        raise BundleError(f"hidden size {hidden_size} is not a multiple of the {heads} attention heads")
