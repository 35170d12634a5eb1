"""Word vectors as initial embeddings, and embeddings that training does not change.

Shapes: V tokens, E embedding size.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nlptools import messages
from nlptools.configs.lm import TrainLM
from nlptools.errors import DataError, UsageError, display
from nlptools.layers.initial import empty_weights
from nlptools.models import registry
from nlptools.models.contract import Sizes
from nlptools.text.vocab import Vocab
from nlptools.training.engine.optimizers import Optimizer
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors


class TokenVectors:
    """The vectors of the tokens of a vocabulary.

    Attributes:
        ids: the tokens that have a vector, int64.
        rows: their vectors, float32 (N, E).
    """

    def __init__(self, vocab: Vocab, vectors: Vectors, *, any_case: bool = False) -> None:
        """`any_case`: a token without a vector gets the vector of its lower-case form. Raises BundleError."""
        vectors.words.hold_index()
        places = vectors.words.find(vocab.tokens)
        if any_case:
            missing = [token for token in vocab.tokens if token not in places]
            lower = vectors.words.find({token.lower() for token in missing})
            places |= {token: lower[token.lower()] for token in missing if token.lower() in lower}
        known = [token for token in vocab.tokens if token in places]
        self.ids = torch.tensor([vocab.ids[token] for token in known], dtype=torch.int64)
        self.rows = torch.from_numpy(vectors.take([places[token] for token in known]).copy())

    @torch.no_grad()
    def place(self, table: Tensor) -> None:
        """Put the vectors into their rows of `table` (V, E), in place.

        The other rows get random numbers of the same variance (Kim 2014, arXiv:1408.5882). Without any vector, the table stays.
        """
        if len(self.ids):
            bound = float(self.rows.std(correction=0)) * 3**0.5
            table.uniform_(-bound, bound)
            table[self.ids.to(table.device)] = self.rows.to(table)


def of_options(options: TrainLM, vocab: Vocab, config: Sizes, errors: str = "strict") -> TokenVectors | None:
    """The vectors of `options.vectors` for the tokens of a language model; None without that option.

    Raises:
        UsageError: the embeddings of the model have another size.
        DataError: no token has a vector.
        InputError, BundleError: see `vectors.files.formats.load`.
    """
    if options.vectors is None:
        return None
    vectors, name = formats.load(options.vectors, errors=errors), display(options.vectors)
    with empty_weights():
        size = registry.model_class(options.arch)(config).token_embedding.embedding_dim
    if vectors.dimensions != size:
        raise UsageError(
            f"--vectors {name}: vectors of {vectors.dimensions} numbers, the embeddings of the model have {size}",
            hint=f"--hidden {vectors.dimensions}",
        )
    result = TokenVectors(vocab, vectors)
    if not len(result.ids):
        raise DataError(f"{name}: no token of the vocabulary has a vector")
    messages.note(f"vectors: {len(result.ids):,} of {len(vocab):,} tokens have one")
    return result


class FrozenRows(Optimizer):
    """An optimizer that leaves some rows of one parameter unchanged, also by weight decay."""

    def __init__(self, inner: Optimizer, weight: nn.Parameter, rows: Tensor) -> None:
        """`rows`: int64 numbers of rows of `weight`."""
        self.inner, self.weight, self.rows = inner, weight, rows.to(weight.device)
        self.steps = inner.steps

    def adjust_gradients(self) -> None:
        """Set the gradients of the rows to 0, so that they do not count when gradients are clipped."""
        if self.weight.grad is not None:
            self.weight.grad.index_fill_(0, self.rows, 0.0)
        self.inner.adjust_gradients()

    def skip(self) -> None:
        """See `Optimizer`."""
        self.inner.skip()

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """See `Optimizer`."""
        kept = self.weight[self.rows]
        self.inner.step(rate, scale, factors)
        self.weight[self.rows] = kept
        self.steps = self.inner.steps

    def state(self) -> dict[str, Tensor]:
        """See `Optimizer`."""
        return self.inner.state()

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """See `Optimizer`."""
        self.inner.restore(tensors, steps)
        self.steps = self.inner.steps

    def validated(self, loss: float) -> None:
        """See `Optimizer`."""
        self.inner.validated(loss)

    @torch.no_grad()
    def swap(self) -> bool:
        """See `Optimizer`."""
        kept = self.weight[self.rows]
        swapped = self.inner.swap()
        self.weight[self.rows] = kept  # averages include weight decay
        return swapped
