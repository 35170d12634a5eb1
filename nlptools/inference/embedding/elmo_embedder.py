"""Vectors of words, and of lines, from an ELMo (Peters et al. 2018, arXiv:1802.05365).

The words of a line are separated by white space, and the model reads the spelling of each. The vector of a word alone is computed
once for all lines that are read together. Each line begins with a new state, so that its vectors do not depend on other
lines. Departure, on request (`stateful`): bilm-tf and AllenNLP keep the state from text to text, so that the same text has
other vectors later; here the state goes from each line to the next one, in both directions.
Shapes: U different words, B lines, T words of the longest line, P projection, L layers, n words of a line, D dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle, messages
from nlptools.batches.pairs import cut_batches
from nlptools.compute.backend import Backend
from nlptools.configs.embed import Embed
from nlptools.configs.tasks.table import changed
from nlptools.errors import UsageError
from nlptools.inference.embedding.selected_layers import SelectedLayers
from nlptools.inference.embedding.units import Units
from nlptools.inference.opening import Asked, Opened
from nlptools.layers.pooling import pool
from nlptools.models.language.elmo import Elmo
from nlptools.models.language.recurrent import RecurrentState
from nlptools.text import byte_spelling

_TYPES = 4096  # words per batch
_NOT_HERE = ("subword", "prompt", "long", "max_length")  # options of `embed` for models of tokens


class SentenceBatch(NamedTuple):
    """The words of some lines."""

    words: list[list[str]]
    numbers: list[np.ndarray]  # (n,) of each line: the numbers of its words among the different ones
    spellings: np.ndarray  # (U, C)
    cut: int  # different words that are longer than a spelling


class ElmoEmbedder:
    """See the module's docstring. Implements `uses.Embeds`."""

    roundings = ()  # nothing that `quantization.quantize` rounds

    def __init__(self, loaded: bundle.Bundle[Elmo], backend: Backend, settings: Embed | None = None) -> None:
        """Raises UsageError for settings of other models."""
        self.settings = settings = settings or Embed()
        if settings.unit == "token":
            raise UsageError("--unit token: an ELMo reads words", hint="--unit word")
        if flags := changed(settings, _NOT_HERE):
            raise UsageError(f"{flags[0]} cannot be combined with an ELMo, which reads any number of whole words")
        if settings.pooling in ("cls", "model"):
            raise UsageError(f"--pooling {settings.pooling} cannot be combined with an ELMo")
        self.bundle, self.backend = loaded, backend.for_model(loaded.model)
        self.model: Elmo = self.backend.for_inference(loaded.model)
        self.layers = SelectedLayers.of(settings.layers, self.model.config.num_hidden_layers + 1)
        width = self.layers.width(2 * self.model.config.hidden_size)
        if settings.truncate_dim > width:
            raise UsageError(f"--truncate-dim {settings.truncate_dim}: the vectors have {width} dimensions")
        self.dimensions = settings.truncate_dim or width
        self._state: list[RecurrentState] | None = None
        self._cut: set[str] = set()

    @classmethod
    def opened(cls, asked: Asked[Embed], model: Opened[Elmo]) -> ElmoEmbedder:
        """See `uses`."""
        return cls(model.bundle, Backend.detect(asked.compute), asked.settings)

    def prepare(self, lines: Sequence[str]) -> SentenceBatch:
        """Split the lines into words, and spell these."""
        lowercase = self.bundle.tokenizer.lowercase
        words = [line.split() for line in lines]
        read = [[word.lower() for word in row] for row in words] if lowercase else words
        numbers = {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(read)))}
        rows = [np.fromiter(map(numbers.__getitem__, row), np.int64, len(row)) for row in read]
        return SentenceBatch(words, rows, byte_spelling.spell(list(numbers)), byte_spelling.count_cut(list(numbers)))

    def embed(self, lines: Sequence[str], prepared: SentenceBatch | None = None) -> np.ndarray:
        """See `uses.Embeds`: the words of each line pooled, zeros for a line without words."""
        kinds = (self.settings.pooling or "mean",)
        out = np.zeros((len(lines), self.dimensions), np.float32)
        for row, vectors in zip(out, self._vectors(prepared or self.prepare(lines)), strict=True):
            if len(vectors):
                row[:] = self._finished(pool(vectors[None], None, kinds))[0]
        return out

    def embed_units(self, lines: Sequence[str], prepared: SentenceBatch | None = None) -> list[Units]:
        """See `uses.Embeds`: the words of each line."""
        prepared = prepared or self.prepare(lines)
        vectors = map(self._finished, self._vectors(prepared))
        return [Units(names, rows) for names, rows in zip(prepared.words, vectors, strict=True)]

    def count_tokens(self, text: str) -> int:
        """The number of words between white space."""
        return len(text.split())

    def finish(self) -> None:
        """Report how many words were cut."""
        if self._cut:
            most = byte_spelling.COLUMNS - 2
            counted = messages.counted(len(self._cut), "different word")
            messages.warn(f"cut {counted} of more than {most} bytes; the model does not see their ends")

    @torch.inference_mode()
    def _vectors(self, prepared: SentenceBatch) -> list[Tensor]:
        """(n, D) of each line, or (n, layers, D) with --layers all, on the CPU in float32."""
        if prepared.cut:
            different = dict.fromkeys(chain.from_iterable(prepared.words))
            self._cut |= {word for word in different if byte_spelling.count_cut([word])}
        table = self._table(prepared.spellings)
        lengths = np.fromiter(map(len, prepared.numbers), np.int64, len(prepared.numbers))
        rows = self._empty(lengths)
        if self.settings.stateful:
            batches = [np.array([line]) for line in np.flatnonzero(lengths)]
            self._state = self._state or self.model.start(1, table)
        else:
            order = np.argsort(-lengths, kind="stable")
            order = order[: int((lengths > 0).sum())]
            bounds = cut_batches(lengths[order], self.settings.batch_tokens)
            batches = [order[a:b] for a, b in pairwise(bounds)]
        for batch in batches:
            inverse = np.zeros((len(batch), int(lengths[batch].max())), np.int64)
            for row, line in zip(inverse, batch, strict=True):
                row[: lengths[line]] = prepared.numbers[line]
            put = self.backend.put(inverse), self.backend.put(lengths[batch])
            states = self.model.in_context(table, *put, self._state)
            combined = self.layers.combine([states[i] for i in self.layers.numbers]).float().cpu()
            for vectors, line in zip(combined, batch, strict=True):
                rows[line] = vectors[: lengths[line]]
        return rows

    def _empty(self, lengths: np.ndarray) -> list[Tensor]:
        """The result for lines without words, (0, D) or (0, layers, D), for each line."""
        layers = (len(self.layers.numbers),) if self.layers.kind == "all" else ()
        return [torch.zeros(0, *layers, self.layers.width(2 * self.model.config.hidden_size))] * len(lengths)

    def _table(self, spellings: np.ndarray) -> Tensor:
        """(U + 2, P): the vectors of different words, and of the begin and the end of a text."""
        whole = np.concatenate([spellings, byte_spelling.boundaries()]).astype(np.int64)
        parts = [self.backend.put(whole[i : i + _TYPES]) for i in range(0, len(whole), _TYPES)]
        return torch.cat([self.model.words(part) for part in parts])

    def _finished(self, vectors: Tensor) -> np.ndarray:
        """The vectors cut to the requested dimensions, and scaled to length 1 if requested."""
        vectors = vectors[..., : self.dimensions]
        out: np.ndarray = (F.normalize(vectors, dim=-1) if self.settings.normalize else vectors.contiguous()).numpy()
        return out
