"""Vectors of lines from an encoder or a language model.

Reimers & Gurevych 2019 (arXiv:1908.10084) for sentence vectors from the states of an encoder; Devlin et al. 2019, section
5.3, for token vectors. Lines are tokenized (`prepare`) in one thread while another computes. Batches concatenate sequences
grouped by length, so there is no padding.
An empty line has the vector of the special tokens. The states of a language model are pooled over the tokens of the text,
without the end-of-text token before them, unless the line is empty.
Shapes: N tokens of a batch, B sequences, D dimensions.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from nlptools import bundle, messages
from nlptools.compute import memory
from nlptools.compute.backend import Backend
from nlptools.configs.embed import Embed
from nlptools.errors import UsageError, display
from nlptools.files import progress
from nlptools.inference.embedding import batching
from nlptools.inference.embedding.batching import Cutting, PackedTexts, PreparedLines
from nlptools.inference.embedding.line_readers import (
    DecoderReader,
    EncoderReader,
    LineReader,
    SentenceReader,
    SourceReader,
)
from nlptools.inference.embedding.selected_layers import SelectedLayers
from nlptools.inference.embedding.sentence_steps import SentenceSteps
from nlptools.inference.embedding.units import Units
from nlptools.inference.opening import Asked, Opened
from nlptools.layers import packed
from nlptools.layers.quantized import Rounding
from nlptools.text.unknown import UnknownTokens

if TYPE_CHECKING:
    from nlptools.models.encoders.bert_with_heads import BertWithHeads
    from nlptools.models.tasks.with_heads import WithHeads
    from nlptools.models.translation.transformer import Transformer


class TextEmbedder:
    """See the module's docstring. Implements `uses.Embeds`."""

    def __init__(
        self,
        loaded: bundle.Bundle[object],
        reader: LineReader,
        steps: SentenceSteps | None,
        backend: Backend,
        settings: Embed | None = None,
    ) -> None:
        """
        Args:
            reader: how the model of the directory reads lines.
            steps: the steps of a sentence-transformers directory, or None.

        Raises:
            UsageError: the model does not support the settings.
        """
        self.settings = settings = settings or Embed()
        self.bundle, self.backend, self.reader = loaded, backend.for_model(reader.model), reader
        self.model = self.backend.for_inference(reader.model)
        asks_model = settings.pooling == "model" or (settings.pooling is None and steps is not None)
        if asks_model and steps is None:
            raise UsageError(f"--pooling model: {display(str(loaded.path))} is no sentence-transformers directory")
        self.steps = steps if asks_model and settings.unit == "sentence" else None
        self.kinds = self.steps.pooling if self.steps else (settings.pooling or "mean",)
        count = self.model.config.num_hidden_layers + 1
        self.layers = SelectedLayers.of(settings.layers, count)
        pools_prompt = self.steps is None or self.steps.include_prompt
        self.cutting = Cutting.of(loaded.tokenizer, reader, steps, settings, pools_prompt)
        self.dimensions = self._dimensions()
        self._cut = 0
        self._unknown = UnknownTokens(loaded.tokenizer, "the text")

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [Rounding(cast(nn.Module, self.model), cast(nn.Module, self.model))]

    # -- lines --------------------------------------------------------------------------------------------------

    def prepare(self, lines: Sequence[str]) -> PreparedLines:
        """Tokenize the lines and arrange them in batches."""
        prepared = self._batches(lines)
        own = [ids[start:end] for ids, (start, end) in zip(prepared.sequences, prepared.own, strict=True)]
        self._unknown.count(lines, own)
        return prepared

    def embed(self, lines: Sequence[str], prepared: PreparedLines | None = None) -> np.ndarray:
        """See `uses.Embeds`."""
        prepared = prepared or self.prepare(lines)
        self._cut += prepared.cut
        return self._vectors(prepared, len(lines))

    def sample(self, lines: Sequence[str]) -> np.ndarray:
        """See `quantization.SamplesVectors`."""
        return self._vectors(self._batches(lines), len(lines))

    @torch.inference_mode()
    def _vectors(self, prepared: PreparedLines, count: int) -> np.ndarray:
        """The vectors (N, D) of `count` lines."""
        rows: np.ndarray | None = None
        for batch in _reported(prepared, count):
            vectors = packed.pool(self._states(batch), batch.groups, self.kinds, batch.skips).cpu().numpy()
            if rows is None:
                rows = np.empty((len(prepared.lines), vectors.shape[1]), np.float32)
            rows[batch.pieces] = vectors
        if rows is None:
            return np.empty((0, self.dimensions), np.float32)
        whole = torch.from_numpy(_join(rows, prepared, count))
        return self._finished(whole if self.steps is None else after_pooling(whole, self.steps)).numpy()

    @torch.inference_mode()
    def embed_units(self, lines: Sequence[str], prepared: PreparedLines | None = None) -> list[Units]:
        """See `uses.Embeds`. Special tokens, and tokens beyond the maximum length, are left out."""
        prepared = prepared or self.prepare(lines)
        self._cut += prepared.cut
        parts: list[np.ndarray] = [np.empty((0, self.dimensions), np.float32)] * len(prepared.lines)
        for batch in _reported(prepared, len(lines)):
            states = self._states(batch).float().cpu().numpy()
            for group, first in zip(batch.groups, batch.firsts, strict=True):
                for i, piece in enumerate(batch.pieces[first : first + group.count].tolist()):
                    start = group.start + i * group.length
                    begin, end = prepared.own[piece]
                    parts[piece] = states[start + begin : start + end]
        by_line: list[list[np.ndarray]] = [[] for _ in lines]
        for number, part in zip(prepared.lines, parts, strict=True):
            by_line[number].append(part)
        return [
            self._units(line, ids, np.concatenate(own))
            for line, ids, own in zip(lines, prepared.ids, by_line, strict=True)
        ]

    def count_tokens(self, text: str) -> int:
        """See `uses.Embeds`."""
        return len(self.bundle.tokenizer.encode(text))

    def finish(self) -> None:
        """Report how many lines were cut, and many unknown tokens."""
        self._unknown.report()
        if self._cut:
            messages.warn(
                f"cut {messages.counted(self._cut, 'line')} longer than {self.cutting.most} tokens; "
                "--long window uses all tokens"
            )

    def _batches(self, lines: Sequence[str]) -> PreparedLines:
        return batching.prepare(lines, self.cutting, self.settings.batch_tokens, self.backend.threads)

    # -- internals ----------------------------------------------------------------------------------------------

    def _dimensions(self) -> int:
        width = self.layers.width(self.model.config.hidden_size)
        width *= len(self.kinds) if self.settings.unit == "sentence" else 1
        for dense in self.steps.dense if self.steps else ():
            if dense.weight.shape[1] != width:
                raise UsageError(
                    f"the model's dense layer takes {dense.weight.shape[1]} dimensions, --layers selects {width}"
                )
            width = dense.weight.shape[0]
        if self.settings.truncate_dim > width:
            raise UsageError(f"--truncate-dim {self.settings.truncate_dim}: the vectors have {width} dimensions")
        return self.settings.truncate_dim or width

    def _states(self, batch: PackedTexts) -> torch.Tensor:
        """The states (N, D) of the requested layers. Layer 0 is the embeddings; the last one is the input of the heads."""
        put = self.backend.put
        states = self.reader.states(put(batch.ids), put(batch.positions), batch.groups, self.layers.numbers)
        width = self.model.config.hidden_size
        for state in states:
            if state.shape[-1] != width:
                raise UsageError(f"--layers: one of these has {state.shape[-1]} units, the last layer {width}")
        return self.layers.combine(states)

    def _finished(self, vectors: torch.Tensor) -> torch.Tensor:
        """The vectors cut to the requested dimensions, and scaled to length 1 if requested."""
        vectors = vectors[..., : self.dimensions]
        return F.normalize(vectors, dim=-1) if self.settings.normalize else vectors.contiguous()

    def _units(self, line: str, ids: Sequence[int], states: np.ndarray) -> Units:
        """The tokens or words of a line, with vectors from the states (n, D) of its first n tokens."""
        names, vectors = self._tokens(ids), states
        if self.settings.unit == "word":
            names, vectors = self._words(line, states)
        return Units(names, self._finished(torch.from_numpy(vectors)).numpy())

    def _words(self, line: str, states: np.ndarray) -> tuple[list[str], np.ndarray]:
        """The words of a line up to the point where it was cut, and their vectors; zeros for a word without tokens."""
        text = line.lower() if self.cutting.lowercase else line
        spans = self.bundle.tokenizer.offsets(text)
        words = list(re.finditer(r"\S+", text))
        starts = [word.start() for word in words]
        # the last character of a token decides: the first token of a word may include the space before it
        places = [bisect.bisect_right(starts, max(begin, end - 1)) - 1 for begin, end in spans[: len(states)]]
        if len(states) < len(spans):
            words = words[: max(places, default=-1) + 1]
        of_word: list[list[int]] = [[] for _ in words]
        for token, (place, (begin, end)) in enumerate(zip(places, spans, strict=False)):
            if place >= 0 and end > begin and not text[end - 1].isspace():
                of_word[place].append(token)
        rows = np.zeros((len(words), *states.shape[1:]), np.float32)
        for row, tokens in zip(rows, of_word, strict=True):
            if tokens:
                chosen = {"first": tokens[:1], "last": tokens[-1:]}.get(self.settings.subword, tokens)
                row[:] = states[chosen].mean(0)
        shown = line if len(line) == len(text) else text
        return [shown[word.start() : word.end()] for word in words], rows

    def _tokens(self, ids: Sequence[int]) -> list[str]:
        vocab = self.bundle.tokenizer.vocab
        assert vocab is not None
        return [vocab.token(i) for i in ids]


def of_encoder(asked: Asked[Embed], opened: Opened[BertWithHeads]) -> TextEmbedder:
    """An encoder, with the steps of a sentence-transformers directory. See `uses`."""
    return _opened(asked, opened, EncoderReader(opened.bundle))


def of_encoder_decoder(asked: Asked[Embed], opened: Opened[Transformer]) -> TextEmbedder:
    """The encoder of an encoder-decoder. See `uses`."""
    return _opened(asked, opened, SourceReader(opened.bundle))


def of_language_model(asked: Asked[Embed], opened: Opened) -> TextEmbedder:
    """A language model, with the steps of a sentence-transformers directory. See `uses`."""
    reader = DecoderReader if opened.steps is None else SentenceReader
    return _opened(asked, opened, reader(opened.bundle, opened.bundle.model))


def of_reader(asked: Asked[Embed], opened: Opened) -> TextEmbedder:
    """The layers of a decoder that read in both directions, with such steps. See `uses`."""
    return _opened(asked, opened, SentenceReader(opened.bundle, opened.bundle.model))


def of_task_decoder(asked: Asked[Embed], opened: Opened[WithHeads]) -> TextEmbedder:
    """A language model with the heads of tasks. See `uses`."""
    return _opened(asked, opened, DecoderReader(opened.bundle, opened.bundle.model.encoder))


def _opened(asked: Asked[Embed], opened: Opened[object], reader: LineReader) -> TextEmbedder:
    """Raises UsageError for options of an ELMo."""
    if asked.settings is not None and asked.settings.stateful:
        raise UsageError("--stateful requires an ELMo: other models reset their state for each line")
    memory.expect_new_shapes()
    return TextEmbedder(opened.bundle, reader, opened.steps, Backend.detect(asked.compute), asked.settings)


def after_pooling(vectors: torch.Tensor, steps: SentenceSteps) -> torch.Tensor:
    """Apply the steps after pooling to vectors (B, D): dense layers and normalization."""
    for dense in steps.dense:
        vectors = dense(vectors)
    return F.normalize(vectors, dim=-1) if steps.normalize else vectors


def _reported(prepared: PreparedLines, lines: int) -> Iterator[PackedTexts]:
    """The batches of so many lines; those that are computed are reported as progress."""
    computed = 0
    for batch in prepared.batches:
        yield batch
        computed += len(batch.pieces)
        progress.ahead(lines * computed // len(prepared.lines))


def _join(rows: np.ndarray, prepared: PreparedLines, count: int) -> np.ndarray:
    """The vectors of lines (count, D): the means of the vectors of their pieces (P, D), weighted by numbers of tokens."""
    if len(rows) == count:
        return rows
    lines = np.asarray(prepared.lines)
    weights = np.array([max(1, end - begin) for begin, end in prepared.own], np.float32)
    out = np.zeros((count, rows.shape[1]), np.float32)
    total = np.zeros(count, np.float32)
    np.add.at(out, lines, rows * weights[:, None])
    np.add.at(total, lines, weights)
    return out / total[:, None]
