"""GPT directories (Radford et al. 2018). They equal GPT-2 directories, with other names of embeddings and no norm at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import JsonObject
from nlptools.models.huggingface import checks, gpt2
from nlptools.models.language.gpt import GPTConfig

MODEL_TYPES = ("openai-gpt",)
_EMBEDDINGS = {"wte.weight": "tokens_embed.weight", "wpe.weight": "positions_embed.weight"}
_ACTIVATIONS = {"gelu_new": "gelu", "relu": "relu", "swish": "silu"}  # their "gelu" is the approximation by tanh
_OF_GPT2 = (
    *("activation_function", "n_ctx", "n_inner", "use_cache", "scale_attn_weights"),
    *("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"),
)
_CLASSES = ("OpenAIGPTLMHeadModel", "OpenAIGPTForSequenceClassification")  # there are none of other tasks


def config_to_hf(config: GPTConfig, heads: tuple[str, ...] = ()) -> JsonObject:
    """The content of config.json: of a language model, or with the `heads` of tasks."""
    data = gpt2.config_to_hf(config, heads)
    named = [name.replace("GPT2", "OpenAIGPT") for name in checks.architectures(data)]
    kept = {key: value for key, value in data.items() if key not in _OF_GPT2}
    return kept | {
        "model_type": MODEL_TYPES[0],
        "architectures": [name if name in _CLASSES else "OpenAIGPTModel" for name in named],
        "afn": _ACTIVATIONS[config.activation],
    }


def config_from_hf(data: JsonObject) -> GPTConfig:
    """The configuration in a config.json. Raises BundleError for a variant that is not supported."""
    name = data.get("afn", "gelu")
    ours = {theirs: activation for activation, theirs in _ACTIVATIONS.items()} | {"swish": "swish"}
    if not isinstance(name, str) or name not in ours:
        raise BundleError(f"config.json: activation {name!r:.80} is not supported")
    sizes = {key: value for key, value in data.items() if key not in _OF_GPT2}
    return gpt2.config_from_hf({**sizes, "activation_function": ours[name]}, post_norm=True)


def prefix(model_type: str) -> str:
    """See `directories.TaskFamily`."""
    return "transformer."


def architecture(data: JsonObject) -> str:
    """A language model, or one with heads of tasks, ours or another's."""
    return gpt2.architecture({**data, "architectures": [*_of_gpt2(checks.architectures(data))]})


def tied(config: GPTConfig) -> tuple[str, str] | None:
    """See `directories.FolderLayout`."""
    pair = gpt2.tied(config)
    return pair and (_EMBEDDINGS[pair[0]], pair[1])


def can_express(config: GPTConfig) -> bool:
    """Whether norms, positions, activation and widths are GPT's."""
    usual = config.activation in _ACTIVATIONS and config.intermediate_size == 4 * config.hidden_size
    return config.post_norm and config.positions == "learned" and usual


def heads_in(weights: Mapping[str, Tensor], config: GPTConfig, architectures: Sequence[str] = ()) -> tuple[str, ...]:
    """See `gpt2.heads_in`."""
    return gpt2.heads_in(weights, config, _of_gpt2(architectures))


def weights_to_hf(weights: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """The model's weights under the names and in the layout of GPT."""
    return _renamed(gpt2.weights_to_hf(weights, config), _EMBEDDINGS)


def weights_from_hf(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], config: GPTConfig
) -> dict[str, Tensor]:
    """The weights of a directory under our names, in the shapes of `wanted`. Raises BundleError."""
    return gpt2.weights_from_hf(_renamed(weights, {ours: name for name, ours in _EMBEDDINGS.items()}), wanted, config)


def _renamed(weights: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Tensor]:
    """`weights` with the ends of their names changed by `names`."""
    out = {}
    for name, tensor in weights.items():
        for before, after in names.items():
            if name == before or name.endswith("." + before):
                name = name.removesuffix(before) + after
                break
        out[name] = tensor
    return out


def _of_gpt2(architectures: Sequence[str]) -> list[str]:
    """Names of classes, with GPT-2 instead of GPT."""
    return [name.replace("OpenAIGPT", "GPT2") for name in architectures]
