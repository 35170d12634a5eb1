"""Logistic regression with any number of labels (Cox 1958; Böhning 1992), on counts of words or on numbers.

Numbers are standardized by the mean and the standard deviation of the training data.
Shapes: B batch, T features of a row, V features, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nlptools.configs.checks import check_sizes
from nlptools.configs.text_classifiers import LOGISTIC_VALUES
from nlptools.errors import BundleError
from nlptools.models import registry


@dataclass(frozen=True)
class LogisticConfig:
    """Sizes of a logistic regression.

    Attributes:
        values: counts, or numbers.
        unk: the word for unknown words (counts).
    """

    vocab_size: int
    num_labels: int
    values: str = "counts"
    unk: int = 0

    def __post_init__(self) -> None:
        check_sizes(self, vocab_size=1 << 26, num_labels=1 << 20)
        if self.values not in LOGISTIC_VALUES:
            raise BundleError(f"values is {self.values!r:.80}, expected {' or '.join(LOGISTIC_VALUES)}")
        if type(self.unk) is not int or not 0 <= self.unk < self.vocab_size:
            raise BundleError(f"unk is {self.unk!r:.80}, expected a whole number below {self.vocab_size}")

    @property
    def has_numbers(self) -> bool:
        """Whether the features are columns of numbers."""
        return self.values == "numbers"

    def least_weights(self) -> int:
        """The number of parameters without the biases."""
        return self.vocab_size * self.num_labels


class Logistic(nn.Module):
    """See the module's docstring.

    Attributes:
        weight: (V, K).
        bias: (K,).
        mean, scale: (V,) of numbers; 0 and 1 of counts.
    """

    runs_in_16_bits = False
    family = registry.LOGISTIC
    heads = ("sequence",)
    mean: Tensor
    scale: Tensor

    def __init__(self, config: LogisticConfig) -> None:
        super().__init__()
        self.config, self.num_labels = config, config.num_labels
        self.weight = nn.Parameter(torch.zeros(config.vocab_size, config.num_labels))
        self.bias = nn.Parameter(torch.zeros(config.num_labels))
        self.register_buffer("mean", torch.zeros(config.vocab_size))
        self.register_buffer("scale", torch.ones(config.vocab_size))

    @torch.no_grad()
    def initialize(self) -> None:
        """Zeros: the loss has one minimum."""
        self.weight.zero_()
        self.bias.zero_()

    def standardize(self, mean: Tensor, scale: Tensor) -> None:
        """Take the mean (V,) and the standard deviation (V,) of each column; of a constant column only the mean."""
        self.mean.copy_(mean)
        self.scale.copy_(scale.where(scale > 0, torch.ones_like(scale)))

    def forward(self, ids: Tensor, values: Tensor) -> Tensor:
        """Features (B, T) and their values (B, T), 0 at padding -> logits (B, K)."""
        if self.config.has_numbers:
            values = (values - self.mean[ids]) / self.scale[ids]
        return torch.einsum("bt,btk->bk", values, self.weight[ids]) + self.bias
