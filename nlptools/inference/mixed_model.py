"""A mixture of language models at work, neural ones among them: score and generate text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score
from nlptools.errors import BundleError, UsageError, display
from nlptools.files.streams import LineBlock
from nlptools.inference import adaptation
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.mixture import SameTokens
from nlptools.inference.mixture_parts import AnyBundle, Mixed, Parts, ngrams_of, parts_of
from nlptools.inference.opening import Asked, Opened
from nlptools.json_types import JsonObject
from nlptools.layers.output import Measure, OutputHead
from nlptools.layers.quantized import Rounding
from nlptools.models import contract
from nlptools.models.language.mixture import LARGEST, Mixture, MixtureHead
from nlptools.models.language.ngram import NGrams
from nlptools.models.language.ngram_decoder import NGramDecoder


class MixedLanguageModel(TextLanguageModel):
    """A `TextLanguageModel` with the tokens of its main model."""

    def __init__(self, parts: Parts, backend: Backend) -> None:
        self.mixture = Mixture([_module(each) for each in parts.bundles], parts.alignments, parts.weights)
        super().__init__(parts.bundles[0].with_model(cast(contract.LanguageModel, self.mixture)), backend)
        self.parts, self.unknown = parts, SameTokens(parts)

    @classmethod
    def opened(cls, asked: Asked[object], *models: Opened[contract.LanguageModel | NGrams]) -> MixedLanguageModel:
        """See `uses`. N-gram models alone are computed on the CPU."""
        parts, compute = parts_of([each.bundle for each in models], asked.weights), asked.compute
        if all(map(ngrams_of, parts.bundles)):
            compute = replace(compute, device="cpu", precision="fp32")
        return cls(parts, Backend.detect(compute))

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`; nothing is rounded."""
        return []

    @property
    def mixed(self) -> Mixed:
        """See `uses.Scores`."""
        return self

    @property
    def weights(self) -> list[float]:
        """Of the models."""
        return [float(weight) for weight in self.mixture.output.weights]

    def set_weights(self, weights: Sequence[float]) -> None:
        """Replace the weights."""
        self.mixture.set_weights(weights)

    def part_scores(self, blocks: Iterable[LineBlock], settings: Score) -> NDArray[np.float64]:
        """(T, K) the log-probability of each token of a text by each model, in nats; with the cache that `settings` asks for."""
        cached = CachedPart(self._neural(), adaptation.NeuralCache.of(settings)) if settings.cache else None
        measure = _part_scores if cached is None else cached.part_scores
        return self.measured(blocks, settings, measure).astype(np.float64)

    def cache_grid(self, size: int, factors: Sequence[float]) -> Measure:
        """See `TextLanguageModel.cache_grid`; of the neural part."""
        grid, place = adaptation.CacheGrid(size, factors), self._neural()

        def measure(head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
            assert isinstance(head, MixtureHead)
            return grid(cast(OutputHead, head.heads[place]), head.split(hidden_ND)[place], targets_N)

        return measure

    def _context(self, settings: Score) -> JsonObject:
        return {**super()._context(settings), **self.parts.describe(self.weights)}

    def _cached(self, cache: Measure) -> Measure:
        return CachedPart(self._neural(), cache)

    def _neural(self) -> int:
        """The place of the one neural part. Raises UsageError if there are several."""
        places = [place for place, neural in enumerate(self.mixture.neural_parts) if neural]
        if len(places) != 1:
            raise UsageError("--cache requires a mixture of one neural model with n-gram models")
        return places[0]


class CachedPart:
    """A `output.Measure` of a mixture in which one part has a cache."""

    def __init__(self, place: int, cache: Measure) -> None:
        self.place, self.cache = place, cache

    def __call__(self, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `output.Measure`."""
        assert isinstance(head, MixtureHead)
        return head.interpolated(self.part_scores(head, hidden_ND, targets_N))

    def part_scores(self, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """(N, K), see `MixtureHead.part_log_probabilities`."""
        assert isinstance(head, MixtureHead)
        return head.part_log_probabilities(hidden_ND, targets_N, {self.place: self.cache})


def _part_scores(head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
    assert isinstance(head, MixtureHead)
    return head.part_log_probabilities(hidden_ND, targets_N)


def _module(loaded: AnyBundle) -> contract.LanguageModel:
    """The model of a part as a module. Raises BundleError for an n-gram model with too many words."""
    ngrams = ngrams_of(loaded)
    if ngrams is None:
        return cast(contract.LanguageModel, loaded.model)
    if ngrams.model.vocab_size > LARGEST:
        raise BundleError(
            f"{display(str(loaded.path))}: has {ngrams.model.vocab_size:,} words; n-gram models of up to {LARGEST:,} can be"
            " mixed with neural ones"
        )
    return cast(contract.LanguageModel, NGramDecoder(ngrams.model, loaded.eos))
