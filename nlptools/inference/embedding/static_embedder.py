"""Vectors of lines from static token vectors: their mean, without a neural network (and without PyTorch).

A token that is unknown does not count. A line without a known token has the vector zero.
Shapes: N lines, M tokens of all lines, D dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools import messages
from nlptools.arrays import Floats, Longs
from nlptools.configs.embed import Embed
from nlptools.errors import UsageError
from nlptools.files import progress
from nlptools.inference.embedding.units import Units
from nlptools.inference.opening import Asked
from nlptools.text import word_cache
from nlptools.text.flat_ids import heads
from nlptools.text.unknown import UnknownTokens
from nlptools.vectors import static_directory
from nlptools.vectors.rows import unit
from nlptools.vectors.static_directory import StaticVectors

_LINES = 1024  # that are summed at a time: their sums stay in the cache

Flat = tuple[np.ndarray, Longs]  # the ids of all lines (M,) and the number of ids of each line (N,)


class StaticEmbedder:
    """See the module's docstring. Implements `uses.Embeds`."""

    roundings = ()  # nothing that `quantization.quantize` rounds

    def __init__(self, vectors: StaticVectors, settings: Embed | None = None, threads: int = 1) -> None:
        """Raises UsageError for settings that static vectors do not support."""
        self.settings = settings = settings or Embed()
        self.vectors = vectors
        width = vectors.table.shape[1]
        for refused, message in (
            (settings.unit != "sentence", f"--unit {settings.unit}: static vectors do not depend on the context"),
            (settings.layers != "last", "--layers: static vectors have one layer"),
            (settings.pooling not in (None, "mean", "model"), f"--pooling {settings.pooling}: expected mean"),
            (settings.stateful, "--stateful requires an ELMo"),
            (
                settings.truncate_dim > width,
                f"--truncate-dim {settings.truncate_dim}: the vectors have {width} dimensions",
            ),
        ):
            if refused:
                raise UsageError(message)
        self.dimensions = settings.truncate_dim or width
        self.most = settings.max_length or vectors.most
        vocab = vectors.tokenizer.vocab
        self._unknown_id = None if vocab is None else vocab.unk
        self._encode = word_cache.encoder(vectors.tokenizer, threads)
        self._unknown, self._cut = UnknownTokens(vectors.tokenizer, "the text"), 0

    @classmethod
    def opened(cls, asked: Asked[Embed]) -> StaticEmbedder:
        """See `uses`."""
        where = static_directory.locate(asked.path)
        assert where is not None
        return cls(static_directory.load(where), asked.settings, asked.compute.threads or 1)

    def prepare(self, lines: Sequence[str]) -> Flat:
        """The ids of the tokens of each line, flat."""
        prompt = self.settings.prompt or ""
        ids, lengths = self._encode([prompt + line for line in lines] if prompt else lines)
        self._unknown.count(lines, ids)
        if self.most is not None and (long := lengths > self.most).any():
            self._cut += int(long.sum())
            sizes = np.minimum(lengths, self.most)
            ids, lengths = heads(ids, lengths, sizes), sizes
        if self._unknown_id is not None and not (known := ids != self._unknown_id).all():
            owners = np.repeat(np.arange(len(lengths)), lengths)[known]
            ids, lengths = ids[known], np.bincount(owners, minlength=len(lengths))
        return ids, lengths

    def embed(self, lines: Sequence[str], prepared: Flat | None = None) -> np.ndarray:
        """See `uses.Embeds`."""
        ids, lengths = self.prepare(lines) if prepared is None else prepared
        table, ends = self.vectors.table, np.cumsum(lengths)
        out = np.empty((len(lengths), table.shape[1]), np.float32)
        for first in range(0, len(lengths), _LINES):
            some = slice(first, first + _LINES)
            out[some] = _means(table, ids, ends[some] - lengths[some], lengths[some])
            progress.ahead(first)
        if self.vectors.normalize:
            out = unit(out)
        out = out[:, : self.dimensions]
        return unit(out) if self.settings.normalize else np.ascontiguousarray(out)

    def embed_units(self, lines: Sequence[str], prepared: Flat | None = None) -> list[Units]:
        """See `uses.Embeds`; refused by `__init__`."""
        raise UsageError("static vectors do not depend on the context", hint="nlptools convert writes them")

    def count_tokens(self, text: str) -> int:
        """See `uses.Embeds`."""
        return len(self.vectors.tokenizer.encode(text))

    def finish(self) -> None:
        """See `uses.Embeds`."""
        self._unknown.report()
        if self._cut:
            messages.warn(f"cut {messages.counted(self._cut, 'line')} longer than {self.most} tokens")


def _means(table: Floats, ids: np.ndarray, starts: Longs, lengths: Longs) -> Floats:
    """The means (L, D) of the vectors of L lines, whose ids begin at `starts`; zero for lines without ids.

    Adds the vectors of one position of all lines at a time, which is several times as fast as `np.add.reduceat`.
    """
    order = np.argsort(-lengths, kind="stable")  # longest first
    starts = starts[order]
    sums = np.zeros((len(order), table.shape[1]), np.float32)
    longer = len(lengths) - np.cumsum(np.bincount(lengths))  # lines with more than 0, 1, 2 ... ids
    for position, count in enumerate(longer[:-1]):
        sums[:count] += table[ids[starts[:count] + position]]
    sums /= np.maximum(lengths[order], 1)[:, None]
    out = np.empty_like(sums)
    out[order] = sums
    return out
