"""Directories of RoBERTa, and of XLM-RoBERTa and CamemBERT, which have the same architecture.

Liu et al. 2019, "RoBERTa" (arXiv:1907.11692); Conneau et al. 2020, "XLM-R" (arXiv:1911.02116); Martin et al. 2020, "CamemBERT"
(arXiv:1911.03894). Positions count from the one after the padding token, and pairs are separated by two tokens </s>.
"""

from __future__ import annotations

from dataclasses import replace

from nlptools.json_types import JsonObject
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.bert import BLOCK, ENCODER
from nlptools.models.huggingface.encoder_folders import SIZES, EncoderFolders, EncoderLayout, plain_positions

_PAD = 1
HEADS = {
    "masked.transform": "lm_head.dense",
    "masked.norm": "lm_head.layer_norm",
    "masked": "lm_head",  # its bias
    "sequence.dense": "classifier.dense",
    "sequence.output": "classifier.out_proj",
    "choice.output": "classifier",
    "tokens": "classifier",
    "spans": "qa_outputs",
}
COPIES = {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}


def first_position(data: JsonObject) -> JsonObject:
    """For `EncoderLayout.reads`: the position of the first token, after the padding token's number."""
    pad = data.get("pad_token_id", _PAD)
    return {"first_position": pad + 1 if type(pad) is int else 0}


_ROBERTA = EncoderLayout[EncoderConfig](
    "roberta",
    "Roberta",
    "roberta.",
    ENCODER,
    BLOCK,
    HEADS,
    pretraining={frozenset({"masked"}): "ForMaskedLM"},
    copies=COPIES,
    sizes={**SIZES, "pad": ("pad_token_id", _PAD)},
    fixed={"masked_activation": "gelu", "sequence_activation": "tanh"},
    reads=lambda data: {**plain_positions(data), **first_position(data)},
    writes=lambda config: {"position_embedding_type": "absolute"},
)
FAMILY = EncoderFolders(
    _ROBERTA,
    replace(_ROBERTA, model_type="xlm-roberta", classes="XLMRoberta"),
    replace(_ROBERTA, model_type="camembert", classes="Camembert"),
    sizes=EncoderConfig,
)
