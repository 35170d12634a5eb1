"""Vision Transformers: rows of pictures, and logits of rows, for validation and prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.batches.images import ImageEncoding, pixels_of
from nlptools.compute.backend import Backend
from nlptools.models.tasks.vision import VisionTransformer


def encoding(loaded: bundle.Bundle[VisionTransformer], max_length: int, threads: int) -> ImageEncoding:
    """How paths become rows for the model of a directory."""
    return ImageEncoding(loaded.tokenizer, loaded.model.config.grid)


def row_logits(model: VisionTransformer, features: Features, backend: Backend) -> Callable[[np.ndarray], np.ndarray]:
    """A function from the numbers of rows (B,) to their logits (B, K), float32."""

    def logits(rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = model(backend.put(pixels_of(features, rows))).float().cpu().numpy()
        return values

    return logits
