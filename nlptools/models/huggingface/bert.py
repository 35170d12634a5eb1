"""BERT and ELECTRA directories, with any heads of pretraining or of a task that they hold.

One matrix of ours is three of theirs: queries, keys and values are stacked here. Names of old uploads are accepted: gamma
and beta for the weights of a norm, no prefix where only the encoder was saved, buffers of positions. Copies of tied
matrices are not written, and not needed when read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.encoders.bert import HEADS, LAYOUTS, EncoderConfig
from nlptools.models.huggingface import checks

MODEL_TYPES = LAYOUTS
_SIZES = {  # ours: theirs, and their default; None: required
    "vocab_size": ("vocab_size", None),
    "hidden_size": ("hidden_size", None),
    "num_hidden_layers": ("num_hidden_layers", None),
    "num_attention_heads": ("num_attention_heads", None),
    "intermediate_size": ("intermediate_size", None),
    "max_position_embeddings": ("max_position_embeddings", 512),
    "type_vocab_size": ("type_vocab_size", 2),
    "layer_norm_eps": ("layer_norm_eps", 1e-12),
    "initializer_range": ("initializer_range", 0.02),
    "hidden_dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "pad": ("pad_token_id", 0),
}
_ENCODER = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "type_embedding": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "embedding_projection": "embeddings_project",
    "pooler.dense": "pooler.dense",
}
_BLOCK = {
    "attention.query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feed_forward.up": ("intermediate.dense",),
    "feed_forward.down": ("output.dense",),
    "feed_forward_norm": ("output.LayerNorm",),
}
_HEADS = {
    "bert": {
        "masked.transform": "cls.predictions.transform.dense",
        "masked.norm": "cls.predictions.transform.LayerNorm",
        "masked": "cls.predictions",  # its bias
        "next_sentence": "cls.seq_relationship",
        "sequence.output": "classifier",
        "choice.output": "classifier",
        "tokens": "classifier",
        "spans": "qa_outputs",
        **checks.OUR_HEADS,
    },
    "electra": {
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
        **checks.OUR_HEADS,
    },
}
_CLASSES = {  # which class of theirs holds which heads
    ("bert", frozenset({"pooler", "masked", "next_sentence"})): "BertForPreTraining",
    ("bert", frozenset({"masked"})): "BertForMaskedLM",
    ("bert", frozenset({"pooler"})): "BertModel",
    ("bert", frozenset({"pooler", "next_sentence"})): "BertForNextSentencePrediction",
    ("electra", frozenset({"masked"})): "ElectraForMaskedLM",
    ("electra", frozenset({"replaced"})): "ElectraForPreTraining",
    ("electra", frozenset()): "ElectraModel",
}
_TASK_CLASSES = {
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "spans": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
}
_NORM = {"gamma": "weight", "beta": "bias"}  # in old uploads
_COPIES = {  # of tied weights, for masked tokens: the weight
    "bert": {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "electra": {"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
}
_TIED = re.compile(r"cls\.predictions\.decoder\.(weight|bias)|generator_lm_head\.weight|embeddings\.position_ids")


def architecture(data: JsonObject) -> str:
    """The same for both families, with any heads."""
    return "bert"


def tied(config: EncoderConfig) -> tuple[str, str] | None:
    """See `directories.FolderLayout`: another output matrix than the embedding is refused when the weights are read."""
    return None


def can_express(config: EncoderConfig) -> bool:
    """Always."""
    return True


def config_to_hf(config: EncoderConfig, heads: tuple[str, ...] = ()) -> JsonObject:
    """The content of config.json."""
    prefix = config.layout.capitalize()
    task = [f"{prefix}{_TASK_CLASSES[head]}" for head in heads if head in _TASK_CLASSES]
    name = task[0] if task else _CLASSES.get((config.layout, frozenset(heads)), f"{prefix}Model")
    embedding = {"embedding_size": config.embedding_size} if config.layout == "electra" else {}
    return {
        "model_type": config.layout,
        "architectures": [name],
        **{theirs: vars(config)[ours] for ours, (theirs, _) in _SIZES.items()},
        **embedding,
        "hidden_act": config.activation,
        "position_embedding_type": "absolute",
        "torch_dtype": "float32",
    }


def config_from_hf(data: JsonObject) -> EncoderConfig:
    """The configuration in a config.json. Raises BundleError for sizes that are missing or a variant that is not BERT's."""
    kind = data["model_type"]
    if data.get("position_embedding_type", "absolute") != "absolute":
        raise BundleError(f"config.json: positions {data['position_embedding_type']!r:.80} are not supported")
    if data.get("is_decoder") or data.get("add_cross_attention"):
        raise BundleError("config.json: an encoder made into a decoder is not supported")
    values = {ours: data.get(theirs, default) for ours, (theirs, default) in _SIZES.items()}
    missing = [_SIZES[name][0] for name, value in values.items() if value is None]
    if missing:
        raise BundleError(f"config.json: no {missing[0]}")
    activation = checks.activation(data.get("hidden_act", "gelu"))
    embedding = data.get("embedding_size", 128) if kind == "electra" else 0
    config: EncoderConfig = checks.built(
        EncoderConfig, {**values, "layout": kind, "embedding_size": embedding, "activation": activation}
    )
    return config


def heads_in(
    weights: Mapping[str, Tensor], config: EncoderConfig, architectures: Sequence[str] = ()
) -> tuple[str, ...]:
    """The heads that a directory's weights hold, in the order of `bert.HEADS`.

    Weights of one name stand for different heads; `architectures` of config.json says for which. Without it, a model with
    a pooler is taken for a classifier of sequences.
    """
    names = {_plain(name, config.layout) for name in weights}
    heads = {"pooler"} if "pooler.dense.weight" in names else set()
    for ours, theirs in _HEADS[config.layout].items():
        if f"{theirs}.weight" in names and ours != "masked" and theirs != "classifier":
            heads.add(ours.split(".")[0])
    if "classifier.weight" in names:
        heads -= {"choice", "sequence"}
        heads.add(_classifier_in(names, config.layout, architectures))
    if "tokens" in heads and "crf.transitions" in names:
        heads.add("crf")
    return tuple(name for name in HEADS if name in heads)


def _classifier_in(names: set[str], family: str, architectures: Sequence[str]) -> str:
    """The head that the weights called `classifier` belong to."""
    possible = ["tokens"]
    if family == "bert" and "pooler.dense.weight" in names:
        possible = ["sequence", "choice", "tokens"]  # old uploads have a pooler that nothing uses
    if "sequence_summary.summary.weight" in names:
        possible = ["choice"]
    named = [head for head in possible for name in architectures if str(name).endswith(_TASK_CLASSES[head])]
    return named[0] if named else possible[0]


def weights_to_hf(weights: Mapping[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """The model's weights under the names and in the layout of the family."""
    out = {}
    for name, tensor in weights.items():
        if name == "encoder.token_embedding.weight":
            tensor = tensor[: config.vocab_size]
        theirs = _names(name, config.layout)
        for their_name, part in zip(theirs, tensor.chunk(len(theirs)), strict=True):
            out[their_name] = part.contiguous()
    return out


def weights_from_hf(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: EncoderConfig
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`. Raises BundleError."""
    left = {_plain(name, config.layout): tensor for name, tensor in weights.items()}
    prefix = f"{config.layout}."
    out = {}
    for name, target in wanted.items():
        theirs = [their_name.removeprefix(prefix) for their_name in _names(name, config.layout)]
        tensors = [checks.taken(left, their_name) for their_name in theirs]
        if name == "encoder.token_embedding.weight":
            checks.check_rows(theirs[0], tensors[0], target, config.vocab_size)
        out[name] = _fitted(name, theirs, tensors, target)
    if any(name.startswith("masked.") for name in wanted):
        plain = {_plain(name, config.layout): tensor for name, tensor in weights.items()}
        for copy, first in _COPIES[config.layout].items():
            if copy in plain and first in plain and not checks.are_equal(plain[copy], plain[first]):
                raise BundleError(f"model.safetensors: {copy} is not {first}: untied matrices are not supported")
    checks.refuse_unknown([name for name in left if not _TIED.fullmatch(name)])
    return out


def _fitted(name: str, theirs: list[str], tensors: list[Tensor], target: Tensor) -> Tensor:
    if len({tuple(tensor.shape) for tensor in tensors}) > 1:
        raise BundleError(f"model.safetensors: {', '.join(theirs)} differ in shape")
    tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
    return checks.fitted(name.removeprefix("encoder."), theirs[0], tensor, target)


def _names(name: str, family: str) -> list[str]:
    """Their names for a weight of ours: three for stacked queries, keys and values."""
    if name in checks.CRF:
        return [checks.CRF[name]]
    part, kind = name.rsplit(".", 1)
    if not part.startswith("encoder."):
        return [f"{_HEADS[family][part]}.{kind}"]
    part = part.removeprefix("encoder.")
    in_block = re.fullmatch(r"blocks\.(\d+)\.(.+)", part)
    if in_block:
        layer, inner = in_block.groups()
        return [f"{family}.encoder.layer.{layer}.{theirs}.{kind}" for theirs in _BLOCK[inner]]
    return [f"{family}.{_ENCODER[part]}.{kind}"]


def _plain(name: str, family: str) -> str:
    """A weight's name without prefixes, and with the names that norms have today."""
    name = checks.plain(name, f"{family}.")
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda match: f"LayerNorm.{_NORM[match[1]]}", name)
