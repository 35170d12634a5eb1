"""MPNet directories.

Song et al. 2020, "MPNet" (arXiv:2004.09297): a RoBERTa without segments, whose heads have learned scores of distances.
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.bert import BLOCK, ENCODER
from nlptools.models.huggingface.encoder_folders import SIZES, EncoderFolders, EncoderLayout
from nlptools.models.huggingface.roberta import COPIES, HEADS

_PAD, _BUCKETS = 1, 32


def _reads(data: JsonObject) -> JsonObject:
    buckets = data.get("relative_attention_num_buckets", _BUCKETS)
    if buckets != _BUCKETS:  # transformers computes with 32, whatever config.json says
        raise BundleError(
            f"config.json: relative_attention_num_buckets {buckets!r:.80} is not supported, expected {_BUCKETS}"
        )
    return {}


_SIZES = {name: theirs for name, theirs in SIZES.items() if name != "type_vocab_size"}
FAMILY = EncoderFolders(
    EncoderLayout[EncoderConfig](
        "mpnet",
        "MPNet",
        "mpnet.",
        {
            **{name: theirs for name, theirs in ENCODER.items() if name != "type_embedding"},
            "distance_scores": "encoder.relative_attention_bias",
        },
        {
            **BLOCK,
            "attention.query_key_value": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
            "attention.output": ("attention.attn.o",),
            "attention_norm": ("attention.LayerNorm",),
        },
        HEADS,
        pretraining={frozenset({"masked"}): "ForMaskedLM"},
        copies=COPIES,
        sizes={
            **_SIZES,
            "pad": ("pad_token_id", _PAD),
            "distance_buckets": ("relative_attention_num_buckets", _BUCKETS),
        },
        fixed={
            "type_vocab_size": 0,
            "first_position": _PAD + 1,  # whatever the padding token is
            "masked_activation": "gelu",
            "sequence_activation": "tanh",
        },
        reads=_reads,
    ),
    sizes=EncoderConfig,
)
