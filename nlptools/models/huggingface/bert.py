"""BERT and ELECTRA directories, with any heads of pretraining or of a task that they hold."""

from __future__ import annotations

from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.huggingface.encoder_folders import EncoderFolders, EncoderLayout, plain_positions

ENCODER = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "type_embedding": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "embedding_projection": "embeddings_project",
    "pooler.dense": "pooler.dense",
}
BLOCK = {
    "attention.query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feed_forward.up": ("intermediate.dense",),
    "feed_forward.down": ("output.dense",),
    "feed_forward_norm": ("output.LayerNorm",),
}
_BERT = EncoderLayout[EncoderConfig](
    "bert",
    "Bert",
    "bert.",
    ENCODER,
    BLOCK,
    {
        "masked.transform": "cls.predictions.transform.dense",
        "masked.norm": "cls.predictions.transform.LayerNorm",
        "masked": "cls.predictions",  # its bias
        "next_sentence": "cls.seq_relationship",
        "sequence.output": "classifier",
        "choice.output": "classifier",
        "tokens": "classifier",
        "spans": "qa_outputs",
    },
    pretraining={
        frozenset({"pooler", "masked", "next_sentence"}): "ForPreTraining",
        frozenset({"masked"}): "ForMaskedLM",
        frozenset({"pooler", "next_sentence"}): "ForNextSentencePrediction",
    },
    copies={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    reads=plain_positions,
    writes=lambda config: {"position_embedding_type": "absolute"},
)
_ELECTRA = EncoderLayout[EncoderConfig](
    "electra",
    "Electra",
    "electra.",
    ENCODER,
    BLOCK,
    {
        "masked.transform": "generator_predictions.dense",
        "masked.norm": "generator_predictions.LayerNorm",
        "masked": "generator_lm_head",
        "replaced.dense": "discriminator_predictions.dense",
        "replaced.output": "discriminator_predictions.dense_prediction",
        "sequence.dense": "classifier.dense",
        "sequence.output": "classifier.out_proj",
        "choice.dense": "sequence_summary.summary",
        "choice.output": "classifier",
        "tokens": "classifier",
        "spans": "qa_outputs",
    },
    pretraining={frozenset({"masked"}): "ForMaskedLM", frozenset({"replaced"}): "ForPreTraining"},
    copies={"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
    reads=lambda data: {**plain_positions(data), "embedding_size": data.get("embedding_size", 128)},
    writes=lambda config: {"position_embedding_type": "absolute", "embedding_size": config.embedding_size},
)
FAMILY = EncoderFolders(_BERT, _ELECTRA, sizes=EncoderConfig)
