"""Vectors of lines from static token vectors: their mean, without a neural network (and without PyTorch).

A token that is unknown does not count. A line without a known token has the vector zero.
Shapes: N lines, M tokens of some lines, D dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from nlptools import messages
from nlptools.arrays import Floats
from nlptools.configs.embed import Embed
from nlptools.errors import UsageError
from nlptools.files import progress
from nlptools.inference.embedding.units import Units
from nlptools.inference.opening import Asked
from nlptools.text.unknown import UnknownTokens
from nlptools.vectors import static_directory
from nlptools.vectors.rows import unit
from nlptools.vectors.static_directory import StaticVectors

_LINES = 256  # that are summed at a time: their vectors stay in the cache


class StaticEmbedder:
    """See the module's docstring. Implements `uses.Embeds`."""

    roundings = ()  # nothing that `quantization.quantize` rounds

    def __init__(self, vectors: StaticVectors, settings: Embed | None = None, threads: int = 1) -> None:
        """Raises UsageError for settings that static vectors do not support."""
        self.settings = settings = settings or Embed()
        self.vectors, self.threads = vectors, threads
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
        self._unknown, self._cut = UnknownTokens(vectors.tokenizer, "the text"), 0

    @classmethod
    def opened(cls, asked: Asked[Embed]) -> StaticEmbedder:
        """See `uses`."""
        where = static_directory.locate(asked.path)
        assert where is not None
        return cls(static_directory.load(where), asked.settings, asked.compute.threads or 1)

    def prepare(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the tokens of each line."""
        prompt = self.settings.prompt or ""
        texts = [prompt + line for line in lines] if prompt else lines
        rows = self.vectors.tokenizer.encode_lines(texts, self.threads)
        self._unknown.count(lines, rows)
        if self.most is not None and max(map(len, rows), default=0) > self.most:
            self._cut += sum(len(row) > self.most for row in rows)
            rows = [row[: self.most] for row in rows]
        return rows

    def embed(self, lines: Sequence[str], prepared: list[list[int]] | None = None) -> np.ndarray:
        """See `uses.Embeds`."""
        rows = self.prepare(lines) if prepared is None else prepared
        out = np.zeros((len(rows), self.vectors.table.shape[1]), np.float32)
        for start in range(0, len(rows), _LINES):
            self._sum(rows[start : start + _LINES], out[start : start + _LINES])
            progress.ahead(start)
        if self.vectors.normalize:
            out = unit(out)
        out = out[:, : self.dimensions]
        return unit(out) if self.settings.normalize else np.ascontiguousarray(out)

    def _sum(self, rows: list[list[int]], out: Floats) -> None:
        """Write the means of the vectors of some lines."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
        if self._unknown_id is not None and (known := ids != self._unknown_id).sum() < len(ids):
            owner = np.repeat(np.arange(len(rows)), lengths)[known]
            ids, lengths = ids[known], np.bincount(owner, minlength=len(rows))
        filled = lengths > 0
        if filled.any():
            starts = np.cumsum(lengths[filled]) - lengths[filled]
            out[filled] = np.add.reduceat(self.vectors.table[ids], starts, axis=0) / lengths[filled, None]

    def embed_units(self, lines: Sequence[str], prepared: list[list[int]] | None = None) -> list[Units]:
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
