"""Options of Transformer language models: GPT and GPT-2, and modern decoders."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import architecture, heads, inner_width, longest_context
from nlptools.configs.lm import TrainLM


@dataclass(frozen=True)
class TransformerOptions(TrainLM):
    """Decoder in the layout of GPT-2, or of GPT with --post-norm"""

    arch: str = architecture("transformer")
    context: int = longest_context()
    heads: int = heads()
    post_norm: bool = option(False, "Layer norms after the residual sums, as in GPT; otherwise before, as in GPT-2.")


@dataclass(frozen=True)
class ModernOptions(TrainLM):
    """Decoder in the layout of LLaMA, or of Qwen3 with --qk-norm"""

    arch: str = architecture("modern")
    context: int = longest_context()
    heads: int = heads()
    key_value_heads: int = option(
        0, "Heads of keys and values, each shared by a group of attention heads; 0: as many as --heads.", metavar="N"
    )
    intermediate: int = inner_width("8/3 of --hidden, rounded up to a multiple of 64")
    untied: bool = option(False, "Do not tie the output to the embeddings.")
    qk_norm: bool = option(False, "Normalize each query and key, as in Qwen3.")
    rope_theta: float = option(
        10000.0, "Base of the rotary positions; a larger base suits a longer context.", low=2, metavar="X"
    )
