"""The encoders in GGUF files.

Encoders like BERT are all written as BERT: a RoBERTa is one whose positions begin in a later row.
"""

from __future__ import annotations

from dataclasses import replace

from nlptools.errors import UsageError
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.gguf_names import GGUFLayout, Weights

POOLINGS = {"mean": 1, "cls": 2, "last": 3}  # names in `layers.pooling`: numbers in files
_POSITIONS = "encoder.position_embedding.weight"


def _plain_encoder(config: EncoderConfig, weights: Weights) -> tuple[EncoderConfig, Weights]:
    """An encoder as a BERT, without heads. Raises UsageError for one with factored embeddings or shared layers."""
    if config.embedding_size != config.hidden_size or config.num_blocks != config.num_hidden_layers:
        raise UsageError(f"llama.cpp has no factored embeddings and no shared layers, as this {config.layout} has")
    first = config.first_position
    plain = replace(
        config,
        layout="bert",
        first_position=0,
        max_position_embeddings=config.max_position_embeddings - first,
        pad=0,
    )
    kept = {
        name: tensor[first:] if name == _POSITIONS else tensor
        for name, tensor in weights.items()
        if name.startswith("encoder.") and not name.startswith("encoder.pooler.")
    }
    return plain, kept


_BERT = GGUFLayout(
    "bert",
    ("bert", "roberta", "xlm-roberta", "distilbert", "electra"),
    {
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.layer_norm_epsilon": "layer_norm_eps",
    },
    "encoder.layer.",
    {
        "embeddings.word_embeddings": "token_embd",
        "embeddings.position_embeddings": "position_embd",
        "embeddings.token_type_embeddings": "token_types",
        "embeddings.LayerNorm": "token_embd_norm",
    },
    {
        "attention.self.query": "attn_q",
        "attention.self.key": "attn_k",
        "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output",
        "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up",
        "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm",
    },
    {"hidden_act": ("gelu", "gelu_new")},
    lambda data, layout: {
        layout.key("attention.causal"): False,
        "tokenizer.ggml.token_type_count": int(str(data["type_vocab_size"])) or 1,
    },
    lambda file, layout: {
        "type_vocab_size": file.tensors["token_types.weight"].shape[0] if "token_types.weight" in file.tensors else 0
    },
    _plain_encoder,
)
ENCODERS = (_BERT,)
