"""DistilBERT directories.

Sanh et al. 2019, "DistilBERT" (arXiv:1910.01108): a BERT without segments and without pooler.
Departure: heads of tasks also have dropout before their first layer.
"""

from __future__ import annotations

from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.bert import ENCODER
from nlptools.models.huggingface.encoder_folders import EncoderFolders, EncoderLayout

FAMILY = EncoderFolders(
    EncoderLayout[EncoderConfig](
        "distilbert",
        "DistilBert",
        "distilbert.",
        {name: ENCODER[name] for name in ("token_embedding", "position_embedding", "embedding_norm")},
        {
            "attention.query_key_value": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "attention.output": ("attention.out_lin",),
            "attention_norm": ("sa_layer_norm",),
            "feed_forward.up": ("ffn.lin1",),
            "feed_forward.down": ("ffn.lin2",),
            "feed_forward_norm": ("output_layer_norm",),
        },
        {
            "masked.transform": "vocab_transform",
            "masked.norm": "vocab_layer_norm",
            "masked": "vocab_projector",  # its bias
            "sequence.dense": "pre_classifier",
            "sequence.output": "classifier",
            "choice.dense": "pre_classifier",
            "choice.output": "classifier",
            "tokens": "classifier",
            "spans": "qa_outputs",
        },
        layer="transformer.layer.",
        pretraining={frozenset({"masked"}): "ForMaskedLM"},
        copies={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
        sizes={
            "vocab_size": ("vocab_size", None),
            "hidden_size": ("dim", None),
            "num_hidden_layers": ("n_layers", None),
            "num_attention_heads": ("n_heads", None),
            "intermediate_size": ("hidden_dim", None),
            "max_position_embeddings": ("max_position_embeddings", 512),
            "initializer_range": ("initializer_range", 0.02),
            "hidden_dropout": ("dropout", 0.1),
            "attention_dropout": ("attention_dropout", 0.1),
            "pad": ("pad_token_id", 0),
        },
        activation=("activation", "gelu"),
        fixed={
            "type_vocab_size": 0,
            "layer_norm_eps": 1e-12,
            "sequence_activation": "relu",
            "choice_activation": "relu",
        },
        writes=lambda config: {"sinusoidal_pos_embds": False},
    ),
    sizes=EncoderConfig,
)
