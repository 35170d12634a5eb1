"""Folders of encoders, from and to the names of each family.

A family is an `EncoderLayout` per model_type: tables of names, and the fields of config.json. One matrix of ours is three of
theirs, or two of ours are one of theirs: queries, keys and values are stacked here, a gate and what it multiplies are not.
Names of old uploads are accepted: gamma and beta for the weights of a norm, no prefix where only the encoder was saved,
buffers of positions. Copies of tied matrices are not written, and not needed when read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import HEADS
from nlptools.models.huggingface import checks
from nlptools.models.tasks.heads import ROW_HEADS

C = TypeVar("C", bound=EncoderConfig)

SIZES: Mapping[str, tuple[str, Json]] = {  # ours: theirs, and their default; None: required
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
TASK_CLASSES = {
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "spans": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
}
_NORM = {"gamma": "weight", "beta": "bias"}  # in old uploads
_LABELLED = ("sequence", "choice", "tokens", "spans")  # their weights may have the same names


@dataclass(frozen=True)
class EncoderLayout(Generic[C]):
    """The folders of one model_type.

    Attributes:
        model_type: in config.json; `EncoderConfig.layout`.
        classes: the beginning of the names of classes.
        prefix: before the names of the encoder's weights.
        encoder: ours: theirs, of weights outside blocks and heads.
        block: ours: theirs, of weights in a block. A name that ends in ":0" or ":1" is a half of their matrix.
        layer, inner: before and after the number of a block.
        heads: ours: theirs, of heads. The weights of two heads may have the same names.
        pretraining: the ends of names of classes with only these heads.
        copies: of tied weights, for masked tokens: the weight.
        sizes: ours: theirs, and their default, of the fields of config.json.
        activation: their name of the activation, and its default.
        fixed: fields of ours that all folders have alike.
        reads: more fields of ours, given config.json. Raises BundleError for a variant that is not supported.
        writes: more fields of theirs.
        prepared: config.json in the names of `sizes`, for folders with others. Raises BundleError.
        variant: more of `block`, for a model with this configuration.
        renamed: patterns of other names, and their replacements.
        stacked: their name of a matrix of three, the name of a part of it, and the parts; in folders with other names.
        ignored: names of buffers.
    """

    model_type: str
    classes: str
    prefix: str
    encoder: Mapping[str, str]
    block: Mapping[str, tuple[str, ...]]
    heads: Mapping[str, str]
    layer: str = "encoder.layer."
    inner: str = ""
    pretraining: Mapping[frozenset[str], str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, tuple[str, Json]] = field(default_factory=lambda: SIZES)
    activation: tuple[str, str] = ("hidden_act", "gelu")
    fixed: Mapping[str, Json] = field(default_factory=dict)
    reads: Callable[[JsonObject], JsonObject] = lambda data: {}
    writes: Callable[[C], JsonObject] = lambda config: {}
    prepared: Callable[[JsonObject], JsonObject] = lambda data: data
    variant: Callable[[C], Mapping[str, tuple[str, ...]]] = lambda config: {}
    renamed: tuple[tuple[str, str], ...] = ()
    stacked: tuple[str, str, tuple[str, ...]] | None = None
    ignored: str = r"embeddings\.position_ids"

    def plain(self, name: str) -> str:
        """A weight's name without prefixes, and with the names that norms have today."""
        name = checks.plain(name, self.prefix)
        for pattern, replacement in self.renamed:
            name = re.sub(pattern, replacement, name)
        return re.sub(r"LayerNorm\.(gamma|beta)$", lambda match: f"LayerNorm.{_NORM[match[1]]}", name)

    def read(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights under names without prefixes; see `stacked`."""
        out: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            name = self.plain(name)
            whole, part, which = self.stacked or ("", "", ())
            if whole and f".{whole}." in name:
                names = [name.replace(whole, part.format(each)) for each in which]
                out |= dict(zip(names, tensor.chunk(len(which)), strict=True))
            else:
                out[name] = tensor
        return out

    def names(self, name: str, config: C) -> list[str]:
        """Their names for a weight of ours: three for stacked queries, keys and values."""
        if name in checks.CRF:
            return [checks.CRF[name]]
        part, kind = name.rsplit(".", 1)
        if not part.startswith("encoder."):
            return [f"{self.all_heads[part]}.{kind}"]
        part = part.removeprefix("encoder.")
        in_block = re.fullmatch(r"blocks\.(\d+)\.(.+)", part)
        if in_block:
            number, inner = in_block.groups()
            block = f"{self.prefix}{self.layer}{number}.{self.inner}"
            parts = {**self.block, **self.variant(config)}[inner]
            return [checks.joined_name(block + theirs, kind) for theirs in parts]
        return [f"{self.prefix}{self.encoder[part]}.{kind}"]

    @property
    def all_heads(self) -> Mapping[str, str]:
        """`heads`, and those that transformers does not know."""
        return {**self.heads, **checks.OUR_HEADS}

    def class_name(self, heads: tuple[str, ...]) -> str:
        """Their class for a model with these heads."""
        task = [TASK_CLASSES[head] for head in heads if head in TASK_CLASSES]
        return self.classes + (task[0] if task else self.pretraining.get(frozenset(heads), "Model"))


class EncoderFolders(Generic[C]):
    """The folders of some model types that are read and written alike; fulfils `directories.TaskFamily`."""

    def __init__(self, *layouts: EncoderLayout[C], arch: str = "bert", sizes: type[C]) -> None:
        """`arch`, `sizes`: the architecture and the class of its configurations."""
        self.layouts = {layout.model_type: layout for layout in layouts}
        self.MODEL_TYPES = tuple(self.layouts)
        self.arch, self.sizes = arch, sizes

    def architecture(self, data: JsonObject) -> str:
        """See `directories.FolderLayout`."""
        return self.arch

    def tied(self, config: C) -> tuple[str, str] | None:
        """See `directories.FolderLayout`: another output matrix than the embedding is refused when the weights are read."""
        return None

    def prefix(self, model_type: str) -> str:
        """See `directories.TaskFamily`."""
        return self.layouts[model_type].prefix

    def fills(self, model_type: str) -> bool:
        """See `directories.FillingFamily`."""
        return "masked" in self.layouts[model_type].heads

    def can_express(self, config: C) -> bool:
        """See `directories.FolderLayout`."""
        return config.layout in self.layouts

    def config_to_hf(self, config: C, heads: tuple[str, ...] = ()) -> JsonObject:
        """See `directories.FolderLayout`."""
        layout = self.layouts[config.layout]
        return {
            "model_type": config.layout,
            "architectures": [layout.class_name(heads)],
            **{theirs: vars(config)[ours] for ours, (theirs, _) in layout.sizes.items()},
            layout.activation[0]: config.activation,
            "torch_dtype": "float32",
            **layout.writes(config),
        }

    def config_from_hf(self, data: JsonObject) -> C:
        """See `directories.FolderLayout`."""
        layout = self.layouts[str(data["model_type"])]
        data = layout.prepared(data)
        if data.get("is_decoder") or data.get("add_cross_attention"):
            raise BundleError("config.json: an encoder made into a decoder is not supported")
        values = {ours: data.get(theirs, default) for ours, (theirs, default) in layout.sizes.items()}
        names = checks.their_names(layout.sizes)
        checks.check_present(values, names)
        activation = checks.activation(data.get(*layout.activation))
        values |= {"layout": layout.model_type, "activation": activation, **layout.fixed, **layout.reads(data)}
        return checks.built(self.sizes, values, names)

    def heads_in(self, weights: Mapping[str, Tensor], config: C, architectures: Sequence[str] = ()) -> tuple[str, ...]:
        """The heads that a directory's weights hold, in the order of `bert.HEADS`.

        Weights of one name stand for different heads; `architectures` of config.json says for which. Without it, a model with
        a pooler is taken for a classifier of sequences.
        """
        layout = self.layouts[config.layout]
        names = {layout.plain(name).rpartition(".")[0] for name in weights}
        parts: dict[str, list[str]] = {}
        for ours, theirs in layout.heads.items():
            parts.setdefault(ours.split(".")[0], []).append(theirs)
        heads = {head for head, all_of_it in parts.items() if names.issuperset(all_of_it)}
        heads |= {ours.split(".")[0] for ours, theirs in checks.OUR_HEADS.items() if theirs in names}
        if layout.encoder.get("pooler.dense") in names:
            heads.add("pooler")
        heads -= {head for head in ROW_HEADS if config.is_pooled(head) and "pooler" not in heads}
        held = [head for head in _LABELLED if head in heads]
        possible = [h for h in held if any({*parts[h]} & {*parts[other]} for other in held if other != h)]
        named = [head for head in possible for name in architectures if str(name).endswith(TASK_CLASSES[head])]
        heads -= {*possible} - {*(named or possible)[:1]}
        if "tokens" in heads and "crf.transitions" in {layout.plain(name) for name in weights}:
            heads.add("crf")
        return tuple(name for name in HEADS if name in heads)

    def weights_to_hf(self, weights: Mapping[str, Tensor], config: C) -> dict[str, Tensor]:
        """See `directories.FolderLayout`."""
        layout = self.layouts[config.layout]
        out: dict[str, Tensor] = {}
        halves: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            if name == "encoder.token_embedding.weight":
                tensor = tensor[: config.vocab_size]
            theirs = layout.names(name, config)
            for their_name, part in zip(theirs, tensor.chunk(len(theirs)), strict=True):
                (halves if ":" in their_name else out)[their_name] = part.contiguous()
        return out | checks.whole_matrices(halves)

    def weights_from_hf(
        self, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: C
    ) -> dict[str, Tensor]:
        """See `directories.FolderLayout`."""
        layout = self.layouts[config.layout]
        left = layout.read(weights)
        _check_copies(layout, left, wanted)
        out = {}
        for name, target in wanted.items():
            theirs = [their_name.removeprefix(layout.prefix) for their_name in layout.names(name, config)]
            tensors = [checks.taken_part(left, their_name) for their_name in theirs]
            if name == "encoder.token_embedding.weight":
                checks.check_rows(theirs[0], tensors[0], target, config.vocab_size)
            out[name] = _fitted(name, theirs, tensors, target)
        known = re.compile("|".join([layout.ignored, *map(re.escape, layout.copies)]))
        checks.refuse_unknown([name for name in left if not known.fullmatch(name)])
        return out


def plain_positions(data: JsonObject) -> JsonObject:
    """For `EncoderLayout.reads`: positions are learned, as in the first BERT. Raises BundleError for relative ones."""
    if data.get("position_embedding_type", "absolute") != "absolute":
        raise BundleError(f"config.json: positions {data['position_embedding_type']!r:.80} are not supported")
    return {}


def _check_copies(layout: EncoderLayout[C], weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise BundleError where the output matrix for masked tokens is not the embedding."""
    if not any(name.startswith("masked.") for name in wanted):
        return
    for copy, first in layout.copies.items():
        if copy in weights and first in weights and not checks.are_equal(weights[copy], weights[first]):
            raise BundleError(f"model.safetensors: {copy} is not {first}: untied matrices are not supported")


def _fitted(name: str, theirs: list[str], tensors: list[Tensor], target: Tensor) -> Tensor:
    if len({tuple(tensor.shape) for tensor in tensors}) > 1:
        raise BundleError(f"model.safetensors: {', '.join(theirs)} differ in shape")
    tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
    return checks.fitted(name.removeprefix("encoder."), theirs[0], tensor, target)
