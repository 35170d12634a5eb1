"""Text classifiers that are trained from nothing, or from word vectors.

mean: the mean of the words' vectors and a layer (Iyyer et al. 2015, "Deep unordered composition"). bag: the mean of the
vectors of words and n-grams, and nothing else (Joulin et al. 2016, arXiv:1607.01759). cnn: windows of several widths and
their maximum over time (Kim 2014, arXiv:1408.5882). lstm, gru, rnn: Hochreiter & Schmidhuber 1997, Cho et al. 2014, Elman
1990, from both ends (Schuster & Paliwal 1997). transformer: Vaswani et al. 2017, blocks with norms before, sines as positions.
Two texts go through the same layers; the head sees both vectors, their difference and their product (Conneau et al. 2017,
arXiv:1705.02364).
Departures: a text shorter than a window of the cnn is filled up with zeros to one window.
Shapes: B batch, T length, E embedding, D hidden, F features of a text, K labels, P words of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.embedding_bag import PendingGradients, bag_means
from nlptools.configs.checks import check_sizes
from nlptools.configs.text_classifiers import ARCHITECTURES, HEADS, WORD_DROPOUT
from nlptools.configs.word_vectors import lengths
from nlptools.errors import BundleError, UsageError
from nlptools.layers.convolution import windows
from nlptools.layers.dropout import Dropout
from nlptools.layers.heads import SequenceHead
from nlptools.layers.initial import draw_as_pytorch
from nlptools.layers.linear import Linear
from nlptools.layers.module_lists import Modules
from nlptools.layers.pooling import pool
from nlptools.layers.sentence import Bidirectional, SentenceAttention
from nlptools.models import registry

WIDTHS = (3, 4, 5)  # of the windows of a cnn, in words (Kim 2014)


@dataclass(frozen=True)
class TextClassifierConfig:
    """Sizes of a text classifier. Dropouts apply in training only.

    Attributes:
        texts: 1, or 2 for pairs.
        num_ngrams: rows of n-grams, in addition to the words (bag).
        buckets: the number that n-grams are hashed into (bag).
        pooling: over the words, mean or max (mean).
        hidden_layer: whether there is a layer between the pooled words and the head (mean).
    """

    arch: str
    vocab_size: int
    embedding_size: int
    num_labels: int
    texts: int = 1
    hidden_size: int = 128
    num_hidden_layers: int = 1
    num_attention_heads: int = HEADS
    dropout: float = 0.5
    num_ngrams: int = 0
    word_ngrams: int = 1
    char_ngrams: str | None = None
    buckets: int = 2_000_000
    unk: int = 1
    pooling: str = "mean"
    hidden_layer: bool = True

    def __post_init__(self) -> None:
        if self.arch not in ARCHITECTURES:
            raise BundleError(f"arch is {self.arch!r:.80}, expected one of {', '.join(ARCHITECTURES)}")
        more = {"word_ngrams": 16, "buckets": 1 << 31}
        check_sizes(self, vocab_size=1 << 26, num_labels=1 << 20, texts=2, num_hidden_layers=64, **more)
        for name, most in (("num_ngrams", self.buckets), ("unk", self.vocab_size - 1)):
            value = vars(self)[name]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                raise BundleError(f"{name} is {value!r:.80}, expected a whole number from 0 to {most}")
        if self.char_ngrams is not None:
            try:
                lengths(str(self.char_ngrams))
            except UsageError as error:
                raise BundleError(f"char_ngrams: {error}") from None
        if self.pooling not in ("mean", "max"):
            raise BundleError(f"pooling is {self.pooling!r:.80}, expected mean or max")
        if self.arch == "transformer" and self.hidden_size % (2 * self.num_attention_heads):
            raise BundleError(f"hidden size {self.hidden_size} is not a multiple of {2 * self.num_attention_heads}")

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return (self.vocab_size + self.num_ngrams) * self.embedding_size


class TextClassifier(nn.Module):
    """See the module's docstring.

    Attributes:
        token_embedding: (V + U, E): words, and n-grams of a bag.
        buckets: (U,) int64, of a bag: which n-gram each of these rows is for.
        rows: of a bag that learns: where the gradients of its rows wait.
    """

    runs_in_16_bits = False
    family = registry.TEXT_CLASSIFIER
    buckets: Tensor
    heads = ("sequence",)

    def __init__(self, config: TextClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.num_labels = config.num_labels
        self.is_bag = config.arch == "bag"
        self.token_embedding = nn.Embedding(config.vocab_size + config.num_ngrams, config.embedding_size)
        self.rows: PendingGradients | None = PendingGradients() if self.is_bag else None
        self.word_dropout = WORD_DROPOUT.get(config.arch, 0.0)
        self.body: Mean | ConvolutionClassifier | RecurrentClassifier | Attention | None = None
        size = config.embedding_size
        if self.is_bag:
            self.register_buffer("buckets", torch.zeros(config.num_ngrams, dtype=torch.int64))
            self.token_embedding.weight.requires_grad_(False)  # its rows have a separate optimizer
        else:
            self.body = _BODIES.get(config.arch, RecurrentClassifier)(config)
            size = self.body.size
        self.sequence = SequenceHead(size * (4 if config.texts == 2 else 1), config.num_labels, "", config.dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights: words uniform within 1/E (bag) or 0.02, layers as PyTorch does."""
        draw_as_pytorch(self)
        weight = self.token_embedding.weight
        # small, so that learning from few texts outweighs the initial values (Kim 2014 uses 0.25)
        bound = 1 / self.config.embedding_size if self.is_bag else 0.02
        weight.uniform_(-bound, bound)
        if self.is_bag:
            self.sequence.output.weight.zero_()
        self.sequence.output.bias.zero_()

    def freeze_words(self) -> None:
        """Let nothing change the vectors of words and n-grams."""
        self.token_embedding.weight.requires_grad_(False)
        self.rows = None

    def forward(self, ids: Tensor, where: Tensor, types: Tensor | None = None) -> Tensor:
        """Rows of words -> (B, K).

        `ids` (B, T), `where` (B, T) True = real, padded on the right, `types` (B, T) the number of the text. Of a bag `ids`
        (P,), and `where` (B,), or (2 B,) the first and the second text of each row in turn: how many belong to each.
        """
        two = self.config.texts == 2
        if self.is_bag:
            features = self.bag(ids, where)
            one, other = (features[0::2], features[1::2]) if two else (features, features)
        else:
            assert types is not None
            features = self.features(*(apart(ids, where, types) if two else (ids, where)))
            one, other = features.chunk(2) if two else (features, features)
        if two:
            features = torch.cat([one, other, (one - other).abs(), one * other], 1)
        return self.sequence(features)

    def features(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, T) ids, padded on the right, and True = real -> (B, F)."""
        if self.training and self.word_dropout:
            dropped = torch.rand(ids.shape, device=ids.device) < self.word_dropout
            ids = ids.masked_fill(dropped, self.config.unk)
        assert self.body is not None
        out: Tensor = self.body(self.token_embedding(ids), mask)
        return out

    def bag(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(P,) ids of bags end to end, and how many each has -> (bags, E)."""
        return bag_means(self.token_embedding.weight, ids, lengths, self.rows)


def apart(ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T) rows of two texts each -> (2 B, T) and their mask: the first texts, then the second ones."""
    columns = torch.arange(ids.shape[1], device=ids.device)
    first = (mask & (types == 0)).sum(1, keepdim=True)
    second = mask.sum(1, keepdim=True) - first
    moved = ids.gather(1, (columns + first).clamp(max=ids.shape[1] - 1))
    return torch.cat([ids, moved]), torch.cat([columns < first, columns < second])


class Mean(nn.Module):
    """The mean of the words, or the maximum of each dimension (Shen et al. 2018, arXiv:1805.09843), and perhaps a layer."""

    def __init__(self, config: TextClassifierConfig) -> None:
        super().__init__()
        self.pooling = (config.pooling,)
        self.size, self.dense = config.embedding_size, None
        if config.hidden_layer:
            self.size, self.dense = config.hidden_size, Linear(config.embedding_size, config.hidden_size)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E) -> (B, D), or (B, E) without a layer. An empty row, the second text of a pair, is 0."""
        pooled = pool(x, mask, self.pooling)
        if not bool(mask[:, 0].all()):
            pooled = pooled.where(mask[:, :1], torch.zeros_like(pooled))
        return pooled if self.dense is None else self.dense(self.dropout(pooled), "relu")


class ConvolutionClassifier(nn.Module):
    """Windows of several widths, and the maximum and mean over time of each filter.

    Windows reach over both ends, as in Kim 2014 (D14-1181), so that filters know where a text begins and ends. The mean is
    a departure, which classifies the sentences of SST-2 better.
    """

    def __init__(self, config: TextClassifierConfig) -> None:
        super().__init__()
        self.size = 2 * len(WIDTHS) * config.hidden_size
        self.filters = Modules(Linear(w * config.embedding_size, config.hidden_size) for w in WIDTHS)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E) -> (B, 2 D for each width)."""
        x = self.dropout(x) * mask[..., None]
        lengths = mask.sum(1, keepdim=True)
        pooled = []
        for width, filters in zip(WIDTHS, self.filters, strict=True):
            scores = filters(windows(F.pad(x, (0, 0, width - 1, width - 1)), width), "relu")  # (B, T + width - 1, D)
            real = torch.arange(scores.shape[1], device=x.device) < (lengths + width - 1).clamp(min=1)
            pooled.append(pool(scores, real, ("max", "mean")))
        return torch.cat(pooled, 1)


class RecurrentClassifier(Bidirectional):
    """Layers that read word by word from both ends, and the mean over time."""

    def __init__(self, config: TextClassifierConfig) -> None:
        sizes = config.embedding_size, config.hidden_size, config.num_hidden_layers
        super().__init__(config.arch, *sizes, Dropout(config.dropout))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E) -> (B, 2 D)."""
        return pool(self.states(x, mask), mask, ("mean",))


class Attention(SentenceAttention):
    """Blocks of a Transformer, and the mean over time."""

    def __init__(self, config: TextClassifierConfig) -> None:
        sizes = config.embedding_size, config.hidden_size, config.num_hidden_layers
        super().__init__(*sizes, config.num_attention_heads, config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E) -> (B, D)."""
        return pool(self.states(x, mask), mask, ("mean",))


_BODIES: dict[str, type[Mean] | type[ConvolutionClassifier] | type[Attention]] = {
    "mean": Mean,
    "cnn": ConvolutionClassifier,
    "transformer": Attention,
}
