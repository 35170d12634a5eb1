"""Directories of M2M-100 (Fan et al. 2021, arXiv:2010.11125) and NLLB (NLLB Team 2022, arXiv:2207.04672), in the same layout.

Norm before each sublayer and after the last; positions are computed as in fairseq, and begin after the number of the padding.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface.encoder_decoder_folders import (
    SIZES,
    EncoderDecoderFolders,
    EncoderDecoderLayout,
)

_START = 2  # of the decoder, where config.json names no other


def _reads(data: JsonObject) -> JsonObject:
    pad, start = data.get("pad_token_id", 1), data.get("decoder_start_token_id", _START)
    if start in (pad, None):  # the decoder would begin with the padding, whose position transformers leaves out
        raise BundleError(f"config.json: decoder_start_token_id is {start!r:.80}, expected a token besides the padding")
    return {"position_offset": pad + 1 if isinstance(pad, int) else 0}


FAMILY = EncoderDecoderFolders(
    EncoderDecoderLayout(
        "m2m_100",
        "M2M100ForConditionalGeneration",
        {"norm": "pre", "positions": "fairseq"},
        sizes={**SIZES, "pad": ("pad_token_id", 1), "scale_embedding": ("scale_embedding", True)},
        activation=("activation_function", "relu"),
        reads=_reads,
        start=_START,
        has_bias=False,
        ignored=r"(encoder|decoder)\.embed_positions\.weights",
    )
)
