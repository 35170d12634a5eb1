"""Pictures as rows: one token for each patch, from left to right and from top to bottom; its pixels are in a table.

Shapes: N pictures, B of a batch, P patches of each, F numbers of a patch: S x S pixels of C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.batches.encoder_rows import EncoderRows
from nlptools.batches.features import FeatureBatch, FeatureBatches, Features
from nlptools.errors import DataError, InvalidText
from nlptools.files.images import PatchGrid, read_image
from nlptools.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ImageEncoding:
    """How paths of pictures become rows. The tokenizer numbers the patches.

    Attributes:
        grid: pictures are scaled to its size.
    """

    tokenizer: Tokenizer
    grid: PatchGrid

    def rows(self, texts: Sequence[Sequence[str]]) -> Features:
        """One row for each element, which is one path. Raises InvalidText for what is not a picture, Unavailable."""
        grid, N, P = self.grid, len(texts), self.grid.count
        pixels = np.empty((N, P, grid.numbers), np.uint8)
        for row, (path, *_) in enumerate(texts):
            pixels[row] = grid.cut(picture(path, row, grid.channels, (grid.height, grid.width)))
        ids = np.tile(np.arange(P, dtype=np.int32), N)
        rows = EncoderRows(ids, np.zeros(N * P, np.uint8), np.arange(N + 1, dtype=np.int64) * P)
        return Features(rows, tables={"pixels": pixels.reshape(-1)})


def picture(path: str, row: int, channels: int = 0, size: tuple[int, int] | None = None) -> np.ndarray:
    """See `read_image`; raises InvalidText."""
    try:
        return read_image(path, channels, size)
    except DataError as error:
        raise InvalidText(str(error), row) from None


def pixels_of(features: Features, rows: np.ndarray) -> np.ndarray:
    """(B, P, F) float32 from 0 to 1: the pixels of some rows."""
    shape = len(features), int(features.lengths[0]), -1
    values: np.ndarray = features.tables["pixels"].reshape(shape)[rows].astype(np.float32) / 255
    return values


@dataclass(frozen=True)
class ImageBatch(FeatureBatch):
    """A batch with the pixels (B, P, F) of its pictures."""

    pixels: np.ndarray

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arguments of the model: the pixels."""
        return (self.pixels,)


class ImageBatches(FeatureBatches):
    """See `FeatureBatches`; the batches are `ImageBatch`es."""

    def _batch(self, plan: list[np.ndarray], position: int, mine: slice) -> ImageBatch:
        batch = super()._batch(plan, position, mine)
        pixels = pixels_of(self.features, batch.rows)
        return ImageBatch(batch.rows, batch.ids, batch.mask, batch.types, batch.targets, batch.weight, pixels)
