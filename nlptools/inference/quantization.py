"""Quantize a model to 8 or 16 bits, and compare its perplexity or its vectors before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar, cast

import numpy as np

from nlptools import messages
from nlptools.configs.scoring import Score
from nlptools.errors import Unavailable, UsageError
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.perplexity import perplexity
from nlptools.inference.uses import Embeds
from nlptools.layers import quantized
from nlptools.layers.quantized import WEIGHTS, Rounding
from nlptools.vectors.rows import scaled

T = TypeVar("T")
_MEASURED = 1000  # characters of the texts that are measured twice: a fraction of a second


class Quantizable(Protocol):
    """Every model that `loading.load` returns."""

    @property
    def roundings(self) -> Sequence[Rounding]:
        """The parts that `quantize` rounds, of each of its models; empty: it has no layers to round."""


class SamplesVectors(Quantizable, Protocol):
    """A model that embeds lines and has layers to round."""

    def sample(self, lines: Sequence[str]) -> np.ndarray:
        """One vector per line, (N, D); the lines do not count for what `Embeds.finish` reports."""


def check(loaded: Quantizable, weights: str) -> None:
    """Whether `quantize` can round the weights of a loaded model to a kind in `WEIGHTS`.

    Raises:
        UsageError: it has no layers to round: n-grams, a mixture, word vectors, recurrent layers alone.
        Unavailable: it is not on a CPU, or there are no such products for this processor.
    """
    roundings = loaded.roundings
    if not roundings or not all(each.possible for each in roundings):
        raise UsageError(f"--quantize {weights} needs a neural model with linear layers, and no mixture")
    devices = {weight.device for each in roundings for weight in each.model.parameters()}
    for device in devices:
        if device.type != "cpu":
            raise Unavailable(f"--quantize {weights} needs a CPU, not {device}", hint="use --device cpu")
    if not WEIGHTS[weights].available():
        raise Unavailable(f"PyTorch has no products in {weights} for this processor", hint="leave --quantize out")


def quantize(loaded: Quantizable, weights: str) -> None:
    """Round the weights of a loaded model, see `layers.quantized`. Raises as `check`, and as `quantized.quantize`."""
    check(loaded, weights)
    for each in loaded.roundings:
        quantized.quantize(each, weights)


def compared(loaded: Embeds, weights: str, windows: Iterable[tuple[list[str], T]]) -> Iterator[tuple[list[str], T]]:
    """Windows of lines; the model is quantized before the first one, and compared on its lines."""
    done = False
    for lines, ready in windows:
        if not done:
            check(loaded, weights)
            _quantize_and_compare(cast(SamplesVectors, loaded), weights, lines)  # as all that pass the check are
        done = True
        yield lines, ready


def _quantize_and_compare(loaded: SamplesVectors, weights: str, lines: Sequence[str]) -> None:
    """As `quantize`; notes the cosines of the vectors of the first lines before and after."""
    texts = _beginning(lines)
    before = loaded.sample(texts) if texts else None
    quantize(loaded, weights)
    if before is None:
        messages.note(f"{weights} weights: no text to compare vectors of")
        return
    cosines = (scaled(before) * scaled(loaded.sample(texts))).sum(1)
    messages.note(
        f"{weights} weights: cosine with the vector before {np.mean(cosines):.4f}, lowest {np.min(cosines):.4f}, of "
        f"{messages.counted(len(texts), 'line')}"
    )


def quantize_and_measure(loaded: TextLanguageModel, weights: str, prompts: Sequence[str]) -> None:
    """As `quantize`; notes the perplexity of the beginning of the prompts before and after."""
    texts = _beginning(prompts)
    before = _perplexity(loaded, texts) if texts else (0.0, 0)
    quantize(loaded, weights)
    after, tokens = _perplexity(loaded, texts) if texts else (0.0, 0)
    if not tokens:
        messages.note(
            f"{weights} weights: score --quantize {weights} measures their perplexity on a text; the prompts are empty"
        )
        return
    messages.note(
        f"{weights} weights: perplexity {before[0]:.4g} -> {after:.4g} on {messages.counted(tokens, 'token')} of the prompts"
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
