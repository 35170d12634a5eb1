"""From and to the directories of Hugging Face: configurations, and names and layout of weights.

Inside the package each weight has one name; the module of a family (`FolderLayout`) translates it. A model that no
family can express is saved with our names, and the `model_type` "nlptools-" and the architecture. Unknown weights are an
error, except buffers of old uploads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from nlptools import messages
from nlptools.errors import BundleError, display
from nlptools.json_types import JsonObject
from nlptools.layers.initial import empty_weights
from nlptools.models import registry
from nlptools.models.contract import Configuration
from nlptools.models.huggingface import checks
from nlptools.models.translation.vocabularies import Vocabularies

_OURS = "nlptools-"
_LAYERS = re.compile(r"(n|num|encoder|decoder|num_hidden|num_encoder|num_decoder)_layers?")  # the keys of all families
_MOST_LAYERS = 4096
_NEAREST = {  # families that are not supported, because of a special layer or scaling: the nearest one that is
    **dict.fromkeys(("phi", "granite", "cohere", "cohere2"), "llama"),
    **dict.fromkeys(("falcon", "internlm2", "llama4", "mpt"), "llama"),
    "olmo": "olmo2",
    **dict.fromkeys(("qwen3_moe", "qwen3_next"), "qwen3"),
    **dict.fromkeys(("mixtral", "ministral", "mistral3"), "mistral"),
    **dict.fromkeys(("gptj", "bloom"), "gpt2"),
    **dict.fromkeys(("gemma3", "gemma3n_text", "gemma4_text"), "gemma3_text"),
    "gpt_neox_japanese": "gpt_neox",
    "phimoe": "phi3",
    "qwen2_moe": "qwen2",
    **dict.fromkeys(("umt5", "longt5", "switch_transformers", "t5gemma"), "t5"),
    **dict.fromkeys(("blenderbot", "blenderbot-small", "led", "plbart", "mvp"), "bart"),
    **dict.fromkeys(("pegasus_x", "bigbird_pegasus", "prophetnet"), "pegasus"),
    **dict.fromkeys(("nllb-moe", "fsmt", "seamless_m4t"), "m2m_100"),
}


class FolderLayout(Protocol):
    """The interface of a module of this package for a family of models."""

    MODEL_TYPES: tuple[str, ...]  # in config.json

    def architecture(self, data: JsonObject) -> str:
        """The architecture of a directory with this config.json, of one of `MODEL_TYPES`."""

    def tied(self, config: Configuration) -> tuple[str, str] | None:
        """The names, without the prefix of the family, of an embedding and of an output matrix that a language model with this
        configuration has in common; None: it has two.
        """

    def can_express(self, config: Configuration) -> bool:
        """Whether the family has words for this configuration."""

    def config_to_hf(self, config: Configuration, heads: tuple[str, ...] = ()) -> JsonObject:
        """The content of config.json."""

    def config_from_hf(self, data: JsonObject) -> Configuration:
        """The configuration in a config.json. Raises BundleError for a variant that is not supported."""

    def weights_to_hf(self, weights: Mapping[str, Tensor], config: Configuration) -> dict[str, Tensor]:
        """The model's weights under the family's names, in its layout."""

    def weights_from_hf(
        self, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: Configuration
    ) -> dict[str, Tensor]:
        """The weights of a directory under our names, in the shapes of `wanted`. Raises BundleError."""


class TaskFamily(FolderLayout, Protocol):
    """A family of models that may have heads of tasks."""

    def prefix(self, model_type: str) -> str:
        """The beginning of the names of weights outside heads."""

    def heads_in(
        self, weights: Mapping[str, Tensor], config: Configuration, architectures: Sequence[str]
    ) -> tuple[str, ...]:
        """The heads in a directory with these weights; `architectures` is what its config.json says."""


class FillingFamily(FolderLayout, Protocol):
    """A family of encoders or of encoder-decoders."""

    def fills(self, model_type: str) -> bool:
        """Whether published models of this type predict the words at masks."""


class ReadableFamily(FolderLayout, Protocol):
    """A family of language models that may lack the output matrix."""

    def has_output(self, weights: Mapping[str, Tensor], config: Configuration) -> bool:
        """Whether these weights have an output matrix, or the configuration ties it to the embedding."""


def prefix(model_type: str) -> str:
    """See `TaskFamily.prefix`; "model." if no family has this model_type."""
    for name in registry.names(registry.ENCODER, registry.LANGUAGE, registry.READER):
        for family in map(_imported, registry.find(name).huggingface):
            if model_type in family.MODEL_TYPES:
                return cast(TaskFamily, family).prefix(model_type)
    return "model."


def model_types(arch: str) -> list[str]:
    """The types, in config.json, of the directories of an architecture in layouts of Hugging Face."""
    return [each for family in map(_imported, registry.find(arch).huggingface) for each in family.MODEL_TYPES]


def filling_types(arch: str) -> list[str]:
    """The `model_types` of an encoder or an encoder-decoder with published models that predict the words at masks."""
    families = [cast(FillingFamily, _imported(module)) for module in registry.find(arch).huggingface]
    return [each for family in families for each in family.MODEL_TYPES if family.fills(each)]


def config_to_hf(arch: str, config: Configuration, heads: tuple[str, ...] = ()) -> JsonObject:
    """The content of config.json for a model of ours, with any `heads` that it has."""
    family, row = _family(arch, config), registry.find(arch)
    if family is not None:
        return family.config_to_hf(config, heads)
    out = {"model_type": _OURS + arch, "architectures": [row.model.split(":")[1]], **asdict(config)}
    if isinstance(config, Vocabularies):
        special = {"pad_token_id": config.pad, "eos_token_id": config.eos, "decoder_start_token_id": config.pad}
        out |= {"vocab_size": config.source_vocab_size, **special, "is_encoder_decoder": True}
    return out


def config_from_hf(data: JsonObject) -> tuple[str, Configuration]:
    """(architecture, configuration) that a config.json describes.

    Raises:
        BundleError: an unknown family, sizes missing or out of bounds, quantized weights, or a variant that is not supported.
    """
    _refuse_quantized(data)
    _check_layers(data)
    kind = data.get("model_type")
    for module in dict.fromkeys(module for row in registry.ARCHITECTURES.values() for module in row.huggingface):
        family = _imported(module)
        if kind in family.MODEL_TYPES:
            arch = family.architecture(data)
            own = map(_imported, registry.find(arch).huggingface)  # of the encoder alone, where a family has both
            family = next(each for each in own if kind in each.MODEL_TYPES)
            return arch, family.config_from_hf(data)
    if isinstance(kind, str) and kind in _NEAREST:
        raise BundleError(
            f"config.json: models of the family {kind!r} are not supported; the nearest that is: {_NEAREST[kind]!r}"
        )
    arch = kind.removeprefix(_OURS) if isinstance(kind, str) and kind.startswith(_OURS) else ""
    if not registry.is_known(arch):
        raise BundleError(
            f"config.json: model_type {kind!r:.80} is not supported, see the table of `nlptools help models`"
        )
    sizes = registry.config_class(arch)
    known = {field.name for field in fields(sizes)}
    config = checks.built(sizes, {k: v for k, v in data.items() if k in known})
    return arch, config


def build(data: JsonObject, tensors: Mapping[str, Tensor], path: Path, warn: str = "") -> tuple[str, nn.Module]:
    """(architecture, model on the CPU in float32) with this config.json and these weights.

    Args:
        path: for messages.
        warn: see `as_stored`.

    Raises:
        BundleError: see `config_from_hf`, `weights_from_hf`; or a weight that is not finite.
    """
    arch, config = config_from_hf(data)
    config = as_stored(arch, config, tensors, warn)
    arch = as_read(arch, config, tensors)
    checks.check_number(config.least_weights(), tensors)
    with empty_weights():
        model = registry.build(arch, config, **heads_in(arch, tensors, config, data))
    model.load_state_dict(weights_from_hf(arch, tensors, model.state_dict(), config), assign=True)
    for name, tensor in model.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise BundleError(f"{display(str(path))}: weight {name} holds values that are not finite")
    return arch, model.eval()


def tied(arch: str, config: Configuration) -> tuple[str, str] | None:
    """See `FolderLayout.tied`; None also for models with task heads and for models that no Hugging Face layout holds."""
    family = None if registry.names_heads(arch) else _family(arch, config)
    return None if family is None else family.tied(config)


def as_stored(arch: str, config: Configuration, weights: Mapping[str, Tensor], warn: str = "") -> Configuration:
    """The configuration of a model with these weights: `config`, unless it ties the output matrix to the embedding and the
    weights have another one. That matrix is then the output, as in transformers since version 5, with a warning about the
    directory `warn`, unless that is empty.
    """
    names = tied(arch, config)
    embedding, output = (checks.name_in(weights, name) for name in names) if names is not None else (None, None)
    if embedding is None or output is None or checks.are_equal(weights[embedding], weights[output]):
        return config
    if warn:
        messages.warn(
            f"{display(warn)}: config.json ties the output matrix to the embedding, the weights have another output matrix,"
            " which is used"
        )
    return replace(config, tie_word_embeddings=False)


def as_read(arch: str, config: Configuration, weights: Mapping[str, Tensor]) -> str:
    """The architecture of a model with these weights: `arch`; without its output matrix, the layers alone, if it has one."""
    family, reader = _family(arch, config), registry.find(arch).reader
    if not reader or family is None or registry.names_heads(arch):
        return arch
    return arch if cast(ReadableFamily, family).has_output(weights, config) else reader


def _check_layers(data: JsonObject) -> None:
    """Refuse an absurd number of layers before families list what each layer has."""
    for key in filter(_LAYERS.fullmatch, data):
        if isinstance(layers := data[key], (int, float)) and layers > _MOST_LAYERS:
            raise BundleError(f"config.json: {key} is {layers!r:.80}, expected at most {_MOST_LAYERS}")


def _refuse_quantized(data: JsonObject) -> None:
    for key in ("quantization_config", "compression_config"):
        if data.get(key) is not None:
            how = data[key]
            how = how.get("quant_method") if isinstance(how, dict) else how
            method = "" if how is None else f": {how!r:.80}"
            raise BundleError(
                f"config.json: quantized weights ({key}{method}) are not supported",
                hint="take the model as it was published before it was quantized; transformers writes one with"
                " model.dequantize() and save_pretrained",
            )


def weights_to_hf(arch: str, weights: Mapping[str, Tensor], config: Configuration) -> dict[str, Tensor]:
    """The model's weights under the names, in the layout and with the number of rows that the field expects."""
    family = _family(arch, config)
    if family is not None:
        return family.weights_to_hf(weights, config)
    return {name: tensor.contiguous() for name, tensor in weights.items()}


def weights_from_hf(
    arch: str, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: Configuration
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`.

    Raises:
        BundleError: a weight is missing, unknown, or has another shape than the configuration says.
    """
    family = _family(arch, config)
    if family is not None:
        return family.weights_from_hf(weights, wanted, config)
    left = {checks.plain(name, ""): tensor for name, tensor in weights.items()}
    out = {name: checks.fitted(name, name, checks.taken(left, name), target) for name, target in wanted.items()}
    checks.refuse_unknown(list(left))
    return out


def heads_in(arch: str, weights: Mapping[str, Tensor], config: Configuration, data: JsonObject) -> dict[str, object]:
    """The arguments of a model's class besides its configuration, for a directory with this config.json: of models with
    heads of tasks, which `heads` it has, their `num_labels` and `num_relations`, and how many layers they see `concatenated`.
    """
    if registry.with_heads(arch) != arch:
        return {}
    family = _family(arch, config)
    if family is None:
        heads = checks.our_heads_in(weights)
    else:
        heads = cast(TaskFamily, family).heads_in(weights, config, checks.architectures(data))
    return {
        "heads": heads,
        "num_labels": checks.labels_in(weights),
        "concatenated": checks.concatenated_in(weights),
        "num_relations": checks.relations_in(weights),
    }


def _family(arch: str, config: Configuration) -> FolderLayout | None:
    """The family that has the layout for a model; None: ours."""
    families = map(_imported, registry.find(arch).huggingface)
    return next((family for family in families if family.can_express(config)), None)


def _imported(place: str) -> FolderLayout:
    """A module, or with "module:NAME" an object in it."""
    module, _, name = place.partition(":")
    family: object = import_module(module)
    return cast(FolderLayout, vars(family)[name] if name else family)
