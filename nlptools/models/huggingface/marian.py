"""MarianMT directories (norm after each sublayer) and Pegasus ones (norm before each, and after the last).

Both families of Hugging Face are the Transformer of Vaswani et al. 2017 with computed positions. Pegasus (Zhang et al. 2020,
arXiv:1912.08777) always shares its embeddings, and neither family notes its epsilon (see `_found`).
"""

from __future__ import annotations

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.encoder_decoder_folders import EncoderDecoderFolders, EncoderDecoderLayout
from nlptools.models.translation.transformer_config import TransformerConfig

_EPSILON = 1e-5
_NORMS = {"post": "marian", "pre": "pegasus"}


def _found(config: TransformerConfig) -> str:
    """The family that has words for this configuration, of those without a layout: "" for none."""
    if config.layout:
        return config.layout
    known = config.layer_norm_eps == _EPSILON and config.activation in checks.ACTIVATIONS
    return _NORMS[config.norm] if known and (config.norm == "post" or config.share_embeddings) else ""


def _common(config: TransformerConfig) -> JsonObject:
    pre_norm = config.norm == "pre"
    return {
        "num_hidden_layers": config.encoder_layers,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "normalize_before": pre_norm,
        "add_final_layer_norm": pre_norm,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    }


def _marian(config: TransformerConfig) -> JsonObject:
    separate = {"decoder_vocab_size": config.target_vocab_size,
                "share_encoder_decoder_embeddings": config.share_embeddings}  # fmt: skip
    return {**_common(config), **separate}


def _computed_positions(data: JsonObject) -> JsonObject:
    """For `EncoderDecoderLayout.reads`. Raises BundleError for other positions, or another start."""
    if not data.get("static_position_embeddings", True):
        raise BundleError("config.json: learned positions (static_position_embeddings false) are not supported")
    pad = data.get("pad_token_id")
    start = data.get("decoder_start_token_id", pad)
    if start != pad:
        raise BundleError(f"config.json: decoder_start_token_id is {start!r:.80}, expected the padding, {pad}")
    return {"layout": ""}


def _vocabularies(data: JsonObject) -> JsonObject:
    """For `EncoderDecoderLayout.reads`: of a Marian, which may have two."""
    size = data.get("decoder_vocab_size")
    target = {} if size is None else {"target_vocab_size": size}
    shared = data.get("share_encoder_decoder_embeddings", True)
    return {**_computed_positions(data), **target, "share_embeddings": shared, "tie_word_embeddings": True}


FAMILY = EncoderDecoderFolders(
    EncoderDecoderLayout("marian", "MarianMTModel", {"norm": "post"}, reads=_vocabularies, writes=_marian),
    EncoderDecoderLayout(
        "pegasus",
        "PegasusForConditionalGeneration",
        {"norm": "pre"},
        reads=lambda data: {**_computed_positions(data), "tie_word_embeddings": True},
        writes=_common,
        written_positions=True,
    ),
    found=_found,
)
