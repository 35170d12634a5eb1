"""Models of other families that continue prompts as a `TextLanguageModel`: n-grams, and the forward direction of an ELMo."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from nlptools.compute.backend import Backend
from nlptools.inference.bidirectional import refuse_features
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.opening import Asked, Opened
from nlptools.models import contract
from nlptools.models.language.elmo import FORWARD, Elmo, OneDirection, spelled_vocabulary
from nlptools.models.language.ngram import NGrams
from nlptools.models.language.ngram_decoder import NGramDecoder


def of_ngrams(asked: Asked[object], opened: Opened[NGrams]) -> TextLanguageModel:
    """An n-gram model, on the CPU. See `uses`."""
    loaded = opened.bundle
    decoder = cast(contract.LanguageModel, NGramDecoder(loaded.model, loaded.eos))  # it has no layers and embeddings
    return TextLanguageModel(loaded.with_model(decoder), Backend.detect(replace(asked.compute, device="cpu")))


def of_forward_direction(asked: Asked[object], opened: Opened[Elmo]) -> TextLanguageModel:
    """The forward direction of an ELMo. See `uses`. Raises UsageError for a model without a softmax."""
    loaded, vocab = opened.bundle, opened.bundle.tokenizer.vocab
    refuse_features(loaded)
    assert vocab is not None
    half = OneDirection(loaded.model, FORWARD, spelled_vocabulary(vocab.tokens, loaded.eos, FORWARD)).eval()
    return TextLanguageModel(loaded.with_model(cast(contract.LanguageModel, half)), Backend.detect(asked.compute))
