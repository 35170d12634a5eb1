"""Folders of encoder-decoders, from and to the names of each family.

A family is an `EncoderDecoderLayout` per model_type: tables of names, and the fields of config.json. One matrix of ours is three
of theirs: queries, keys and values are stacked here. Copies of tied matrices are not written, and must be equal when read.
Shapes: V vocabulary, D hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject
from nlptools.layers.positions import Sinusoids
from nlptools.models.huggingface import checks
from nlptools.models.translation.transformer_config import TransformerConfig

SHARED, OUTPUT = "shared.weight", "lm_head.weight"
_BIAS = "final_logits_bias"
_EMBEDDING = "embed_tokens.weight"
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
_NEVER = -1e4  # logit of a padding that has no probability here
_OTHER_CLASSES = ("Classification", "ForQuestionAnswering", "ForCausalLM", "EncoderModel")  # ends of names

SIZES: Mapping[str, tuple[str, Json]] = {  # ours: theirs, and their default; None: required
    "source_vocab_size": ("vocab_size", None),
    "pad": ("pad_token_id", None),
    "hidden_size": ("d_model", None),
    "encoder_layers": ("encoder_layers", None),
    "decoder_layers": ("decoder_layers", None),
    "encoder_heads": ("encoder_attention_heads", None),
    "decoder_heads": ("decoder_attention_heads", None),
    "encoder_intermediate_size": ("encoder_ffn_dim", None),
    "decoder_intermediate_size": ("decoder_ffn_dim", None),
    "max_position_embeddings": ("max_position_embeddings", 1024),
    "scale_embedding": ("scale_embedding", False),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "activation_dropout": ("activation_dropout", 0.0),
}
_TOKENS = {"eos": "eos_token_id", "start": "decoder_start_token_id"}  # ours: theirs
# of one layer, in fairseq's names
BLOCK: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("self_attn_layer_norm",),
    "attention.query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": ("self_attn.out_proj",),
    "cross_attention_norm": ("encoder_attn_layer_norm",),
    "cross_attention.query": ("encoder_attn.q_proj",),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "feed_forward_norm": ("final_layer_norm",),
    "feed_forward.up": ("fc1",),
    "feed_forward.down": ("fc2",),
}
Blocks = Mapping[str, Mapping[str, tuple[str, ...]]]
# of a stack
STACK: Mapping[str, str] = {
    "norm": "layer_norm",
    "embedding_norm": "layernorm_embedding",
    "positions": "embed_positions",
}


@dataclass(frozen=True)
class EncoderDecoderLayout:
    """The folders of one model_type.

    Attributes:
        model_type: in config.json; `TransformerConfig.layout`.
        class_name: of the model.
        fixed: fields of ours that all folders have alike.
        prefix: before the names of all weights except the output.
        blocks: of each stack: ours: theirs, of weights in a block of a model with this configuration.
        layer: before the number of a block.
        stack: ours: theirs, of weights of a stack, after "encoder" or "decoder".
        sizes: ours: theirs, and their default, of the fields of config.json.
        activation: their name of the activation, and its default; None: `reads` and `writes` have it.
        reads: more fields of ours, given config.json. Raises BundleError for a variant that is not supported.
        writes: more fields of theirs.
        start: their default of the token that the decoder begins with; None: the padding.
        has_bias: whether there is a bias of the logits.
        written_positions: whether positions that are computed are written too, as transformers expects them.
        written_output: whether the output matrix is written where it is the embedding.
        ignored: names of weights that are not used.
        spans: whether the models are pretrained to predict spans of tokens at sentinel tokens.
    """

    model_type: str
    class_name: str
    fixed: Mapping[str, object] = field(default_factory=dict)
    prefix: str = "model."
    blocks: Callable[[TransformerConfig], Blocks] = lambda config: {"encoder": BLOCK, "decoder": BLOCK}
    layer: str = "layers."
    stack: Mapping[str, str] = field(default_factory=lambda: STACK)
    sizes: Mapping[str, tuple[str, Json]] = field(default_factory=lambda: SIZES)
    activation: tuple[str, str] | None = ("activation_function", "gelu")
    reads: Callable[[JsonObject], JsonObject] = lambda data: {}
    writes: Callable[[TransformerConfig], JsonObject] = lambda config: {}
    start: int | None = None
    has_bias: bool = True
    written_positions: bool = False
    written_output: Callable[[TransformerConfig], bool] = lambda config: False
    ignored: str = r"$^"
    spans: bool = False

    def names(self, name: str, config: TransformerConfig) -> list[str]:
        """Their names, without the prefix, for a weight of ours, which may stack several of theirs."""
        in_layer = re.fullmatch(r"(encoder|decoder)\.(\d+)\.(.+)\.(weight|bias)", name)
        if in_layer:
            stack, layer, part, kind = in_layer.groups()
            return [f"{stack}.{self.layer}{layer}.{theirs}.{kind}" for theirs in self.blocks(config)[stack][part]]
        stack, _, rest = name.partition("_")
        part, kind = rest.rsplit(".", 1)
        return [f"{stack}.{self.stack[part]}.{kind}"]


class EncoderDecoderFolders:
    """The folders of some model types that are read and written alike; fulfils `directories.FolderLayout`."""

    def __init__(
        self,
        *layouts: EncoderDecoderLayout,
        found: Callable[[TransformerConfig], str] = lambda config: config.layout,
        encoder: str = "",
    ) -> None:
        """
        Args:
            found: the model_type for a configuration; "" or another: none of these.
            encoder: the architecture of directories with the encoder alone; "": they are not supported.
        """
        self.layouts = {layout.model_type: layout for layout in layouts}
        self.MODEL_TYPES = tuple(self.layouts)
        self.found, self.encoder = found, encoder

    def architecture(self, data: JsonObject) -> str:
        """See `directories.FolderLayout`. Raises BundleError for a class with another head, or without a decoder."""
        layout = self.layouts[str(data["model_type"])]
        for name in checks.architectures(data):
            if self.encoder and "Encoder" in name:
                return self.encoder
            if name.endswith(_OTHER_CLASSES):
                raise BundleError(f"config.json: {name:.80} is not supported, expected {layout.class_name}")
        return "seq2seq-transformer"

    def tied(self, config: TransformerConfig) -> tuple[str, str] | None:
        """See `directories.FolderLayout`."""
        return (SHARED, OUTPUT) if config.tie_word_embeddings and config.layout else None

    def fills(self, model_type: str) -> bool:
        """See `directories.FillingFamily`."""
        return self.layouts[model_type].spans

    def can_express(self, config: TransformerConfig) -> bool:
        """See `directories.FolderLayout`."""
        return self.found(config) in self.layouts

    def config_to_hf(self, config: TransformerConfig, heads: tuple[str, ...] = ()) -> JsonObject:
        """See `directories.FolderLayout`. There are no heads."""
        layout = self.layouts[self.found(config)]
        return {
            "model_type": layout.model_type,
            "architectures": [layout.class_name],
            **{theirs: vars(config)[ours] for ours, (theirs, _) in layout.sizes.items()},
            **({} if layout.activation is None else {layout.activation[0]: config.activation}),
            "eos_token_id": config.eos,
            "decoder_start_token_id": config.start_token,
            "forced_eos_token_id": config.eos,
            "tie_word_embeddings": config.tie_word_embeddings,
            "is_encoder_decoder": True,
            "use_cache": True,
            "torch_dtype": "float32",
            **layout.writes(config),
        }

    def config_from_hf(self, data: JsonObject) -> TransformerConfig:
        """See `directories.FolderLayout`."""
        layout = self.layouts[str(data["model_type"])]
        values: dict[str, object] = {
            ours: data.get(theirs, default) for ours, (theirs, default) in layout.sizes.items()
        }
        names = checks.their_names(layout.sizes)
        checks.check_present(values, names)
        eos, start = data.get("eos_token_id"), data.get("decoder_start_token_id", layout.start)
        values |= {
            "layout": layout.model_type,
            "target_vocab_size": values["source_vocab_size"],
            "eos": eos[0] if isinstance(eos, list) and len(eos) == 1 else eos,
            "start": None if start == values["pad"] else start,
            "tie_word_embeddings": data.get("tie_word_embeddings", True),
            **layout.fixed,
        }
        if layout.activation is not None:
            values["activation"] = checks.activation(data.get(*layout.activation))
        config: TransformerConfig = checks.built(TransformerConfig, {**values, **layout.reads(data)}, names | _TOKENS)
        return config

    def weights_to_hf(self, weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
        """See `directories.FolderLayout`. Copies of tied matrices are left out."""
        layout = self.layouts[self.found(config)]
        out = {}
        for name, tensor in weights.items():
            if name == "token_embedding.weight":
                theirs = SHARED if config.share_embeddings else f"decoder.{_EMBEDDING}"
                out[layout.prefix + theirs] = tensor[: config.target_vocab_size].contiguous()
            elif name == "source_embedding.weight":
                out[f"{layout.prefix}encoder.{_EMBEDDING}"] = tensor[: config.source_vocab_size].contiguous()
            elif name == "output_matrix.weight":
                out[OUTPUT] = tensor[: config.target_vocab_size].contiguous()
            elif name == "output_bias":
                if layout.has_bias:
                    out[_BIAS] = _written_bias(tensor, config)
            else:
                names = layout.names(name, config)
                chunks = tensor.chunk(len(names))
                out.update(
                    {layout.prefix + part: chunk.contiguous() for part, chunk in zip(names, chunks, strict=True)}
                )
        if config.tie_word_embeddings and layout.written_output(config):
            out[OUTPUT] = out[layout.prefix + SHARED].clone()
        if layout.written_positions:
            for stack in ("encoder", "decoder"):
                positions = Sinusoids(0, config.hidden_size).table(config.max_position_embeddings)
                out[f"{layout.prefix}{stack}.embed_positions.weight"] = positions
        return out

    def weights_from_hf(
        self, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: TransformerConfig
    ) -> dict[str, Tensor]:
        """See `directories.FolderLayout`."""
        layout = self.layouts[self.found(config)]
        left = {checks.plain(name, layout.prefix): tensor for name, tensor in weights.items()}
        out = {}
        for name, target in wanted.items():
            if name in ("token_embedding.weight", "source_embedding.weight"):
                out[name] = _embedding(left, name, target, config)
            elif name == "output_matrix.weight":
                tensor = left.pop(OUTPUT, out["token_embedding.weight"])
                checks.check_rows(OUTPUT, tensor, target, config.target_vocab_size)
                out[name] = checks.fitted(name, OUTPUT, tensor, target)
            elif name == "output_bias":
                out[name] = _read_bias(left, target)
            else:
                out[name] = _stacked(left, layout.names(name, config), target)
        for name in [name for name in left if _POSITIONS.fullmatch(name)]:
            _check_positions(name, left.pop(name))
        checks.refuse_unknown([name for name in left if not re.fullmatch(layout.ignored, name)])
        return out


def _written_bias(tensor: Tensor, config: TransformerConfig) -> Tensor:
    """(1, V)."""
    bias = tensor[: config.target_vocab_size].clone()
    bias[config.num_classes :] = _NEVER
    return bias[None]


def _read_bias(left: dict[str, Tensor], target: Tensor) -> Tensor:
    """(V,): the bias of the logits, zeros where there is none."""
    bias = left.pop(_BIAS, torch.zeros(1, len(target)))
    return checks.fitted("output_bias", _BIAS, bias[0] if bias.dim() == 2 and len(bias) == 1 else bias, target)


def _stacked(left: dict[str, Tensor], names: Sequence[str], target: Tensor) -> Tensor:
    """Take the weights `names` out of `left`, one below the other."""
    pieces = zip(names, target.chunk(len(names)), strict=True)
    return torch.cat([checks.fitted(part, part, checks.taken(left, part), like) for part, like in pieces])


def _embedding(left: dict[str, Tensor], name: str, target: Tensor, config: TransformerConfig) -> Tensor:
    """Take an embedding out of `left`, and its copies, which must be equal."""
    output = [OUTPUT] * config.tie_word_embeddings
    encoder, decoder = f"encoder.{_EMBEDDING}", f"decoder.{_EMBEDDING}"
    if config.share_embeddings:
        names, rows = [SHARED, encoder, decoder, *output], config.target_vocab_size
    elif name == "source_embedding.weight":
        names, rows = [encoder], config.source_vocab_size
    else:
        names, rows = [decoder, *output], config.target_vocab_size
    first, *copies = [name for name in names if name in left] or names[:1]
    tensor = checks.taken(left, first)
    for copy in copies:
        if not torch.equal(left.pop(copy), tensor):
            raise BundleError(f"model.safetensors: {copy} is not {first}: untied matrices are not supported")
    checks.check_rows(first, tensor, target, rows)
    return checks.fitted(name, first, tensor, target)


def _check_positions(name: str, tensor: Tensor) -> None:
    """Raise BundleError for positions that our models do not compute."""
    if (
        tensor.dim() != 2
        or tensor.shape[1] % 2
        or not torch.allclose(tensor.float(), Sinusoids(0, tensor.shape[1]).table(len(tensor)), atol=0.01)
    ):
        raise BundleError(f"model.safetensors: {name}: learned positions are not supported")
