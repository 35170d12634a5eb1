"""Folders of decoders, from and to the names of each family.

A family is a `DecoderLayout` per model_type: tables of names, and the fields of config.json. One matrix of ours is several of
theirs (queries, keys and values), or two of ours are halves of one of theirs (a gate and what it multiplies). Heads of tasks
are stored alike in all families. config.json is read in both spellings, of transformers before version 5 (rope_theta,
rope_scaling) and since (rope_parameters).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.models import registry
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.decoder_positions import positions
from nlptools.models.language.modern import ModernConfig
from nlptools.models.tasks.heads import BESIDE_HEADS, TASK_HEADS

SIZES: Mapping[str, tuple[str, Json]] = {  # ours: theirs, and their default; None: required
    "vocab_size": ("vocab_size", None),
    "hidden_size": ("hidden_size", None),
    "intermediate_size": ("intermediate_size", None),
    "num_hidden_layers": ("num_hidden_layers", None),
    "num_attention_heads": ("num_attention_heads", None),
    "num_key_value_heads": ("num_key_value_heads", 0),
    "head_dim": ("head_dim", 0),
    "max_position_embeddings": ("max_position_embeddings", 2048),
    "initializer_range": ("initializer_range", 0.02),
    "rms_norm_eps": ("rms_norm_eps", 1e-6),
    "attention_dropout": ("attention_dropout", 0.0),
    "embedding_dropout": ("embedding_dropout", 0.0),  # this and the next: unknown to transformers, which keeps them
    "hidden_dropout": ("hidden_dropout", 0.0),
    "tie_word_embeddings": ("tie_word_embeddings", False),
}
TOP = {"token_embedding": "embed_tokens", "norm": "norm"}
BLOCK = {
    "attention_norm": ("input_layernorm",),
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.o_proj",),
    "attention.query_norm": ("self_attn.q_norm",),
    "attention.key_norm": ("self_attn.k_norm",),
    "feed_forward_norm": ("post_attention_layernorm",),
    "feed_forward.gate": ("mlp.gate_proj",),
    "feed_forward.up": ("mlp.up_proj",),
    "feed_forward.down": ("mlp.down_proj",),
}
HEADS = {
    "sequence.output": "score",
    "tokens": "score",  # of the two, a model has one
    "spans": "qa_outputs",
    "choice.output": "nlptools.choice.output",
    **checks.OUR_HEADS,
}
_TASK_CLASSES = {
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "spans": "ForQuestionAnswering",
}
_OUTPUT = "lm_head"
_EMBEDDINGS = ("token_embedding.weight", "output_matrix.weight")  # with a row for each token
_POSITIONS = "position_embedding.weight"

Permuted = Callable[[Tensor, ModernConfig], Tensor]  # a joint matrix of ours, (rows, ...), in their order or back


@dataclass(frozen=True)
class DecoderLayout:
    """The folders of one model_type.

    Attributes:
        model_type: in config.json.
        classes: the beginning of the names of classes.
        language_class: of language models, "": as the others.
        both_ways: the switch in config.json with which positions see each other in both directions; "": there is none.
        prefix: before the names of weights outside heads.
        reader_prefix: the same in their class that answers questions.
        top: ours: theirs, of weights outside blocks and heads.
        blocks: the name of the list of blocks.
        block: ours: theirs, of weights in a block. A name that ends in ":0" or ":1" is a half of their matrix.
        heads: ours: theirs, of heads.
        output: their name of the output matrix.
        first_position: the row of the first position in their table of learned ones.
        to_theirs, to_ours: the order of rows in the joint matrix of queries, keys and values, where it is another.
        sizes: ours: theirs, and their default, of fields of config.json.
        partial: whether positions may turn a part of each head.
        activation: their name of the activation, and its default.
        reads: more fields of ours, given config.json. Raises BundleError for a variant that is not supported.
        writes: more fields of theirs.
        renamed: patterns of names in older or newer folders, and their replacements.
        ignored: names of buffers, after the prefix.
    """

    model_type: str
    classes: str
    language_class: str = ""
    both_ways: str = ""
    prefix: str = "model."
    reader_prefix: str = "transformer."
    top: Mapping[str, str] = field(default_factory=lambda: TOP)
    blocks: str = "layers"
    block: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: BLOCK)
    heads: Mapping[str, str] = field(default_factory=lambda: HEADS)
    output: str = _OUTPUT
    first_position: int = 0
    to_theirs: Permuted = lambda tensor, config: tensor
    to_ours: Permuted = lambda tensor, config: tensor
    sizes: Mapping[str, tuple[str, Json]] = field(default_factory=lambda: SIZES)
    partial: bool = False
    activation: tuple[str, str] = ("hidden_act", "silu")
    reads: Callable[[JsonObject], JsonObject] = lambda data: {}
    writes: Callable[[ModernConfig], JsonObject] = lambda config: {}
    renamed: tuple[tuple[str, str], ...] = ()
    ignored: str = r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"

    def names(self, name: str) -> list[str]:
        """Their names for a weight of ours."""
        if name in checks.CRF:
            return [checks.CRF[name]]
        part, kind = name.removeprefix("encoder.").rsplit(".", 1)
        if checks.is_of_a_head(name):
            return [f"{self.heads[part]}.{kind}"]
        if part == "output_matrix":
            return [f"{self.output}.{kind}"]
        in_block = re.fullmatch(r"blocks\.(\d+)\.(.+)", part)
        if not in_block:
            return [f"{self.prefix}{self.top[part]}.{kind}"]
        layer, part = in_block.groups()
        return [f"{self.prefix}{self.blocks}.{layer}.{checks.joined_name(each, kind)}" for each in self.block[part]]

    def prefixed(self, name: str) -> str:
        """A weight's name with the prefix that a model saved without any head lacks, and that a reader has in another form."""
        name = re.sub(f"^{re.escape(self.reader_prefix)}", self.prefix, name)
        for pattern, replacement in self.renamed:
            name = re.sub(pattern, replacement, name)
        whole = (self.prefix, f"{self.output}.", "nlptools.", "crf.", *(f"{each}." for each in self.heads.values()))
        return name if name.startswith(whole) else self.prefix + name


class DecoderFolders:
    """The folders of some model types that are read and written alike; fulfils `directories.TaskFamily`."""

    def __init__(
        self,
        *layouts: DecoderLayout,
        choose: Callable[[ModernConfig], str | None] = lambda config: config.layout,
    ) -> None:
        """`choose`: the model_type for a configuration; None: there is none here."""
        self.layouts = {layout.model_type: layout for layout in layouts}
        self.MODEL_TYPES = tuple(self.layouts)
        self.choose = choose

    def architecture(self, data: JsonObject) -> str:
        """See `directories.FolderLayout`. Raises BundleError for a model with a head that is not known."""
        ours, names = data.get("nlptools"), data.get("architectures")
        has_task = isinstance(ours, dict) and registry.names_heads(ours.get("arch"))
        for name in names if isinstance(names, list) else ():
            has_task |= bool(_named([name]))
            if isinstance(name, str) and not name.endswith(("ForCausalLM", "Model", *_TASK_CLASSES.values())):
                known = ", ".join(f"...{end}" for end in ("ForCausalLM", *_TASK_CLASSES.values()))
                raise BundleError(f"config.json: {name:.80} is not supported, expected {known}")
        switch = self.layouts[str(data["model_type"])].both_ways
        if switch and data.get(switch):
            if has_task:
                raise BundleError(f"config.json: a head of a task with {switch} is not supported")
            return "modern-reader"
        return "modern-tasks" if has_task else "modern"

    def prefix(self, model_type: str) -> str:
        """See `directories.TaskFamily`."""
        return self.layouts[model_type].prefix

    def can_express(self, config: ModernConfig) -> bool:
        """See `directories.FolderLayout`."""
        return self.choose(config) in self.layouts

    def _layout(self, config: ModernConfig) -> DecoderLayout:
        return self.layouts[str(self.choose(config))]

    def tied(self, config: ModernConfig) -> tuple[str, str] | None:
        """See `directories.FolderLayout`."""
        layout = self._layout(config)
        names = (f"{layout.top['token_embedding']}.weight", f"{layout.output}.weight")
        return names if config.tie_word_embeddings else None

    def has_output(self, weights: Mapping[str, Tensor], config: ModernConfig) -> bool:
        """See `directories.ReadableFamily`."""
        layout = self._layout(config)
        names = (layout.prefixed(checks.plain(name, "")) for name in weights)
        return config.tie_word_embeddings or f"{layout.output}.weight" in names

    def config_to_hf(self, config: ModernConfig, heads: tuple[str, ...] = ()) -> JsonObject:
        """See `directories.FolderLayout`."""
        layout = self._layout(config)
        named = [end for head, end in _TASK_CLASSES.items() if head in heads]
        language = layout.language_class or f"{layout.classes}ForCausalLM"
        return {
            "model_type": layout.model_type,
            "architectures": [layout.classes + (named[0] if named else "Model") if heads else language],
            **{theirs: vars(config)[ours] for ours, (theirs, _) in layout.sizes.items()},
            layout.activation[0]: _their_activation(layout, config.activation),
            **(_rope(config) if config.positions == "rotary" else {}),
            "pad_token_id": None,  # the default of some families is a token that a small vocabulary lacks
            "use_cache": True,
            "torch_dtype": "float32",
            **layout.writes(config),
        }

    def config_from_hf(self, data: JsonObject) -> ModernConfig:
        """See `directories.FolderLayout`."""
        layout = self.layouts[str(data["model_type"])]
        for name in ("num_key_value_heads", "head_dim", "intermediate_size", "sliding_window"):
            checks.given(data, name)
        checks.refuse_both_ways(data)
        values: JsonObject = {}
        for ours, (theirs, default) in layout.sizes.items():
            values[ours] = default if data.get(theirs) is None else data[theirs]
        if "num_key_value_heads" in data and data["num_key_value_heads"] is None:
            values["num_key_value_heads"] = 0
        names = checks.their_names(layout.sizes)
        checks.check_present(values, names)
        values["activation"] = checks.activation(data.get(*layout.activation))
        values |= positions(data) | layout.reads(data)
        share = values["rotary_share"]
        if share != 1.0 and not layout.partial:
            raise BundleError(f"config.json: rotary positions in a part of each head ({share!r:.20}) are not supported")
        return checks.built(ModernConfig, values, names)

    def heads_in(
        self, weights: Mapping[str, Tensor], config: ModernConfig, architectures: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The heads that a directory's weights hold, or that its config.json names, in the order of TASK_HEADS."""
        layout = self._layout(config)
        names = {checks.plain(name, "") for name in weights}
        heads = {ours.split(".")[0] for ours, theirs in layout.heads.items() if f"{theirs}.weight" in names}
        if layout.heads["tokens"] == layout.heads["sequence.output"]:
            heads -= {"sequence" if f"{layout.heads['tokens']}.bias" in names else "tokens"}
        heads |= set(_named(architectures))
        if "crf.transitions" in names:
            heads.add("crf")
        return tuple(name for name in (*TASK_HEADS, *BESIDE_HEADS) if name in heads)

    def weights_to_hf(self, weights: Mapping[str, Tensor], config: ModernConfig) -> dict[str, Tensor]:
        """See `directories.FolderLayout`."""
        layout = self._layout(config)
        out: dict[str, Tensor] = {}
        halves: dict[str, Tensor] = {}
        # their class of readers has another name for what comes before the heads
        prefix = layout.reader_prefix if any(name.startswith("spans.") for name in weights) else layout.prefix
        for name, tensor in weights.items():
            if name.removeprefix("encoder.") in _EMBEDDINGS:
                tensor = tensor[: config.vocab_size]
            elif name.removeprefix("encoder.") == _POSITIONS:
                tensor = pad(tensor, (0, 0, layout.first_position, 0))
            names = [re.sub(f"^{re.escape(layout.prefix)}", prefix, theirs) for theirs in layout.names(name)]
            if ".query_key_value." in name:
                tensor = layout.to_theirs(tensor, config)
            parts = torch.split(tensor, _rows(config)) if len(names) > 1 else [tensor]
            for theirs, part in zip(names, parts, strict=True):
                (halves if ":" in theirs else out)[theirs] = part.contiguous()
        return out | checks.whole_matrices(halves)

    def weights_from_hf(
        self, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: ModernConfig
    ) -> dict[str, Tensor]:
        """See `directories.FolderLayout`."""
        layout = self._layout(config)
        left = {layout.prefixed(checks.plain(name, "")): tensor for name, tensor in weights.items()}
        if config.tie_word_embeddings or not config.causal:
            left.pop(f"{layout.output}.weight", None)  # stored by some all the same
        out = {}
        for name, target in wanted.items():
            names = layout.names(name)
            tensors = [checks.taken_part(left, theirs) for theirs in names]
            ours = name.removeprefix("encoder.")
            if ours in _EMBEDDINGS:
                checks.check_rows(names[0], tensors[0], target, config.vocab_size)
            elif ours == _POSITIONS:
                tensors = [tensors[0][layout.first_position :]]
            if len(names) > 1:
                _check_parts(names, tensors, target, config)
            tensor = tensors[0] if len(names) == 1 else torch.cat(tensors)
            if ".query_key_value." in name and tensor.shape == target.shape:
                tensor = layout.to_ours(tensor, config)
            out[name] = checks.fitted(ours, names[0], tensor, target)
        ignored = re.compile(f"({re.escape(layout.prefix)})?({layout.ignored})")
        checks.refuse_unknown([name for name in left if not ignored.fullmatch(name)])
        return out


def _named(architectures: Sequence[object]) -> list[str]:
    """The heads that "architectures" in a config.json names."""
    names = tuple(name for name in architectures if isinstance(name, str))
    return [head for head, end in _TASK_CLASSES.items() if any(name.endswith(end) for name in names)]


def _rope(config: ModernConfig) -> JsonObject:
    return {"rope_theta": config.rope_theta, "rope_scaling": config.rope_scaling}


def _their_activation(layout: DecoderLayout, name: str) -> str:
    """Their name of an activation: the default, if that is the same."""
    if checks.ACTIVATIONS[layout.activation[1]] == name:
        return layout.activation[1]
    return "silu" if name == "swish" else name


def _rows(config: ModernConfig) -> list[int]:
    """The rows of queries, keys and values in the joint matrix."""
    K = config.head_dim
    return [config.num_attention_heads * K, config.num_key_value_heads * K, config.num_key_value_heads * K]


def _check_parts(names: list[str], tensors: list[Tensor], target: Tensor, config: ModernConfig) -> None:
    """Raise BundleError unless queries, keys and values have the sizes of the configuration."""
    for theirs, tensor, rows in zip(names, tensors, _rows(config), strict=True):
        if tensor.shape != (rows, *target.shape[1:]):
            raise BundleError(
                f"model.safetensors: {theirs} has shape {tuple(tensor.shape)},"
                f" config.json says {(rows, *target.shape[1:])}"
            )
