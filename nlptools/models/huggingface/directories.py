"""Doors to and from Hugging Face directories: configurations and names of weights.

Inside the house there is one naming; a file per family in `doors` says what each name is called outside. What no family
has a word for is kept under a `model_type` of our own, with our names. Unknown weights are an error, buffers of old
uploads are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from torch import Tensor

from nlptools.configs.encoders import EncoderConfig
from nlptools.configs.lm import GPTConfig, LSTMConfig
from nlptools.configs.seq2seq import ConvolutionConfig, RecurrentConfig, TransformerConfig, Vocabularies
from nlptools.configs.text_classifiers import TextClassifierConfig
from nlptools.errors import BundleError
from nlptools.layers.linear import ACTIVATIONS
from nlptools.models.huggingface import bert, checks, gpt2, marian

_OURS: dict[str, tuple[str, str, Any]] = {  # model_type: architecture, class, configuration
    "nlptools-lstm": ("lstm", "LSTM", LSTMConfig),
    "nlptools-seq2seq-transformer": ("seq2seq-transformer", "Transformer", TransformerConfig),
    "nlptools-seq2seq-rnn": ("seq2seq-rnn", "Recurrent", RecurrentConfig),
    "nlptools-seq2seq-convolution": ("seq2seq-convolution", "Convolution", ConvolutionConfig),
    "nlptools-text-classifier": ("text-classifier", "TextClassifier", TextClassifierConfig),
}


def config_to_hf(config: Any, heads: tuple[str, ...] = ()) -> dict[str, Any]:
    """The content of config.json for a model of ours; an encoder has `heads`, and so has a GPT for tasks."""
    if isinstance(config, EncoderConfig):
        return bert.config_to_hf(config, heads)
    if isinstance(config, GPTConfig):
        return gpt2.config_to_hf(config, heads)
    if isinstance(config, TransformerConfig) and marian.has_a_name(config):
        return marian.config_to_hf(config)
    kind, name = next((kind, name) for kind, (_, name, held) in _OURS.items() if isinstance(config, held))
    out = {"model_type": kind, "architectures": [name], **asdict(config)}
    if isinstance(config, Vocabularies):
        special = {"pad_token_id": config.pad, "eos_token_id": config.eos, "decoder_start_token_id": config.pad}
        out |= {"vocab_size": config.source_vocab_size, **special, "is_encoder_decoder": True}
    return out


def config_from_hf(data: Mapping[str, Any]) -> tuple[str, Any]:
    """(architecture, configuration) that a config.json describes.

    Raises:
        BundleError: not a family of ours, sizes missing or out of bounds, or a variant that is not supported.
    """
    kind = data.get("model_type")
    if kind == "gpt2":
        return gpt2.TASKS if gpt2.is_for_a_task(data) else "transformer", gpt2.config_from_hf(data)
    if not isinstance(kind, str) or kind not in (*_OURS, *marian.KINDS, *bert.KINDS):
        raise BundleError(
            f"config.json: model_type {kind!r:.80} is not a model of ours,"
            " expected 'gpt2', 'marian', 'pegasus', 'bert' or 'electra'"
        )
    if kind in bert.KINDS:
        return "bert", bert.config_from_hf(data)
    if kind in marian.KINDS:
        return "seq2seq-transformer", marian.config_from_hf(data)
    arch, _, held = _OURS[kind]
    known = {field.name for field in fields(held)}
    config = checks.built(held, {k: v for k, v in data.items() if k in known})
    if getattr(config, "activation", "none") not in tuple(ACTIVATIONS):
        raise BundleError(f"config.json: activation {config.activation!r:.80} is not supported")
    return arch, config


def weights_to_hf(arch: str, weights: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
    """The model's weights under the names, in the layout and with the number of rows that the field expects."""
    if arch in ("transformer", gpt2.TASKS):
        return gpt2.weights_to_hf(weights, config)
    if arch == "bert":
        return bert.weights_to_hf(weights, config)
    if arch == "seq2seq-transformer" and marian.has_a_name(config):
        return marian.weights_to_hf(weights, config)
    return {name: tensor.contiguous() for name, tensor in weights.items()}


def weights_from_hf(
    arch: str, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: Any = None
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`.

    Raises:
        BundleError: a weight is missing, unknown, or has another shape than the configuration says.
    """
    if arch in ("transformer", gpt2.TASKS):
        return gpt2.weights_from_hf(weights, wanted, config)
    if arch == "bert":
        return bert.weights_from_hf(weights, wanted, config)
    if arch == "seq2seq-transformer" and marian.has_a_name(config):
        return marian.weights_from_hf(weights, wanted, config)
    left = {checks.plain(name, ""): tensor for name, tensor in weights.items()}
    out = {name: checks.fitted(name, name, checks.taken(left, name), target) for name, target in wanted.items()}
    checks.refuse_unknown(list(left))
    return out


def heads_in(arch: str, weights: Mapping[str, Tensor], config: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's class wants to know besides its configuration: of an encoder or a GPT for tasks, the `heads` that a
    directory with this config.json has, their `num_labels`, and how many layers they see `concatenated`.
    """
    said = data.get("architectures")
    names = said if isinstance(said, list) else ()
    if arch == gpt2.TASKS:
        heads, labels = gpt2.heads_in(weights, names), gpt2.labels_in(weights)
    elif arch == "bert":
        heads, labels = bert.heads_in(weights, config, names), bert.labels_in(weights, config)
    else:
        return {}
    return {"heads": heads, "num_labels": labels, "concatenated": checks.concatenated_in(weights)}


def least_weights(config: Any) -> int:
    """A number of weights that no model of this configuration stays below."""
    if isinstance(config, (GPTConfig, LSTMConfig)):
        return config.num_hidden_layers * 4 * config.hidden_size**2 + config.vocab_size * config.hidden_size
    if isinstance(config, EncoderConfig):
        block = 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size
        return config.num_hidden_layers * block + config.vocab_size * config.embedding_size
    if isinstance(config, TextClassifierConfig):
        return (config.vocab_size + config.num_ngrams) * config.embedding_size
    D, layers = config.hidden_size, config.encoder_layers + config.decoder_layers
    tokens = config.target_vocab_size + (0 if config.share_embeddings else config.source_vocab_size)
    if isinstance(config, TransformerConfig):
        inner = config.encoder_layers * config.encoder_intermediate_size
        inner += config.decoder_layers * config.decoder_intermediate_size
        return int((4 * layers + 4 * config.decoder_layers) * D**2 + 2 * inner * D + tokens * D)
    return int(layers * D**2 + tokens * config.embedding_size)
