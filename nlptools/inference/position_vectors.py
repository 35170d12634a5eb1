"""The vectors that models add to their embeddings to tell positions apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from nlptools.arrays import Floats
from nlptools.errors import UsageError, display
from nlptools.models.contract import Positioned
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.tasks.with_heads import WithHeads

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from nlptools.inference.opening import Asked, Opened

# a number of positions -> (T, D), the vectors of the first ones, or of all if there are fewer; UsageError for a model without any
PositionVectors = Callable[[int], Floats]


def of_model(asked: Asked[object], model: Opened[Positioned]) -> PositionVectors:
    """See `uses`."""
    return lambda length: _checked(model.bundle.model.position_vectors(length), model.path)


def of_task_decoder(asked: Asked[object], model: Opened[WithHeads]) -> PositionVectors:
    """See `uses`."""
    decoder = cast(Positioned, model.bundle.model.encoder)
    return lambda length: _checked(decoder.position_vectors(length), model.path)


def of_encoder(asked: Asked[object], model: Opened[BertWithHeads]) -> PositionVectors:
    """See `uses`."""
    encoder = model.bundle.model.encoder
    begin, table = encoder.config.first_position, encoder.position_embedding
    return lambda length: _checked(None if table is None else table.weight[begin : begin + length], model.path)


def _checked(vectors: Tensor | None, path: Path) -> Floats:
    if vectors is None:
        raise UsageError(
            f"{display(str(path))} adds no vectors of positions to its embeddings",
            hint="models with learned or sinusoidal positions have some: BERT, GPT-2, Transformers of train-seq2seq",
        )
    found: Floats = vectors.detach().float().numpy()
    return found
