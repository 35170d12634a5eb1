"""Quantize a language model to 8 bits, and compare its perplexity before and after."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools import messages
from nlptools.compute.kernels import int8
from nlptools.configs.scoring import Score
from nlptools.errors import Unavailable, UsageError
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.perplexity import perplexity
from nlptools.layers import quantized

_MEASURED = 1000  # characters of the prompts for both perplexities: a fraction of a second


def quantize(loaded: object) -> None:
    """Round the weights of a loaded language model to 8 bits, see `layers.quantized`.

    Raises:
        UsageError: it is no language model, or one without layers to round: n-grams, a mixture.
        Unavailable: it is not on a CPU, or there are no such products for this processor.
    """
    if type(loaded) is not TextLanguageModel or not quantized.quantizable(loaded.model):
        raise UsageError("--quantize int8 needs a neural language model, and no mixture")
    if loaded.backend.device.type != "cpu":
        raise Unavailable(f"--quantize int8 needs a CPU, not {loaded.backend.device}", hint="use --device cpu")
    if not int8.available():
        raise Unavailable("PyTorch has no products in 8 bits for this processor", hint="leave --quantize out")
    quantized.quantize(loaded.model)


def quantize_and_measure(loaded: TextLanguageModel, prompts: Sequence[str]) -> None:
    """As `quantize`; notes the perplexity of the beginning of the prompts before and after."""
    texts = _beginning(prompts)
    before = _perplexity(loaded, texts) if texts else (0.0, 0)
    quantize(loaded)
    after, tokens = _perplexity(loaded, texts) if texts else (0.0, 0)
    if not tokens:
        messages.note("int8 weights: score --quantize int8 measures their perplexity on a text; the prompts are empty")
        return
    messages.note(
        f"int8 weights: perplexity {before[0]:.4g} -> {after:.4g} on {messages.counted(tokens, 'token')} of the prompts"
    )


def _beginning(prompts: Sequence[str]) -> list[str]:
    texts, left = [], _MEASURED
    for prompt in prompts:
        if prompt[:left]:
            texts.append(prompt[:left])
        left -= len(prompt)
        if left <= 0:
            break
    return texts


def _perplexity(loaded: TextLanguageModel, texts: Sequence[str]) -> tuple[float, int]:
    """The perplexity per token of some texts, each by itself, and their number of tokens, without ends of text."""
    rows = loaded.totals(texts, Score(eos=False))
    tokens = sum(count for _, count in rows)
    return perplexity(-sum(total for total, _ in rows) / max(1, tokens)), tokens
