"""Directories of BART (Lewis et al. 2020, arXiv:1910.13461) and mBART (Liu et al. 2020, arXiv:2001.08210).

Positions are learned, the first two rows of their tables are not used, and a norm follows the embeddings. BART has a norm after
each sublayer, mBART before it and after the last.
"""

from __future__ import annotations

from collections.abc import Callable

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface.encoder_decoder_folders import (
    SIZES,
    EncoderDecoderFolders,
    EncoderDecoderLayout,
)

_SIZES = {**SIZES, "pad": ("pad_token_id", 1)}
_FIXED = {"positions": "learned", "position_offset": 2, "embedding_norm": True}


def _only(**expected: bool) -> Callable[[JsonObject], JsonObject]:
    """For `EncoderDecoderLayout.reads`: settings of older versions have no other value. Raises BundleError."""

    def reads(data: JsonObject) -> JsonObject:
        for name, value in {**expected, "normalize_embedding": True, "static_position_embeddings": False}.items():
            if data.get(name, value) != value:
                raise BundleError(f"config.json: {name} {data[name]!r:.80} is not supported for {data['model_type']}")
        return {}

    return reads


FAMILY = EncoderDecoderFolders(
    EncoderDecoderLayout(
        "bart",
        "BartForConditionalGeneration",
        {**_FIXED, "norm": "post"},
        sizes=_SIZES,
        reads=_only(normalize_before=False, add_final_layer_norm=False),
        start=2,
    ),
    EncoderDecoderLayout(
        "mbart",
        "MBartForConditionalGeneration",
        {**_FIXED, "norm": "pre"},
        sizes=_SIZES,
        reads=_only(normalize_before=True, add_final_layer_norm=True),
    ),
)
