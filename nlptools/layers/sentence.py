"""Layers that read the words of a sentence in both directions, one vector per word.

`Bidirectional`: LSTM, GRU or RNN (Hochreiter & Schmidhuber 1997, Cho et al. 2014, Elman 1990) from both ends (Schuster &
Paliwal 1997). `SentenceAttention`: blocks of a Transformer (Vaswani et al. 2017) with norms before, sines as positions.
`Convolutions`: windows of three words with gates (Dauphin et al. 2017) and residual connections.
Sentences are padded on the right; padding never changes the vectors of real words.
Shapes: B batch, T length, E input size, D hidden size.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.convolution import GatedConvolution
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear
from nlptools.layers.module_lists import Modules
from nlptools.layers.positions import Sinusoids
from nlptools.layers.transformer import Block

RECURRENT = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
_WIDTH = 3  # words in a window of `Convolutions`


class Bidirectional(nn.Module):
    """Recurrent layers from both ends, with dropout before each.

    Rows of different lengths are read without packing: for the way back each row is turned around by itself, so that the
    padding comes last on both ways.

    Attributes:
        size: of the output, 2 D.
    """

    def __init__(self, kind: str, input_size: int, hidden_size: int, num_layers: int, dropout: nn.Module) -> None:
        """`kind`: a key of `RECURRENT`."""
        super().__init__()
        self.size = 2 * hidden_size
        sizes = [input_size] + [self.size] * num_layers
        self.layers: Modules[Modules[nn.RNNBase]] = Modules(
            Modules(RECURRENT[kind](sizes[i], hidden_size, batch_first=True) for _ in range(2))
            for i in range(num_layers)
        )
        self.dropout: Callable[[Tensor], Tensor] = dropout

    @torch.no_grad()
    def initialize(self) -> None:
        """Open the forget gates of an LSTM (Jozefowicz et al. 2015); the other weights stay as PyTorch draws them."""
        for layer in chain.from_iterable(self.layers):
            if isinstance(layer, nn.LSTM):
                bias = layer.get_parameter("bias_hh_l0")
                bias[layer.hidden_size : 2 * layer.hidden_size] = 1.0

    def states(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E), and (B, T) True = real -> (B, T, 2 D), the way forth first."""
        back = turned(mask)[..., None]
        for forwards, backwards in self.layers:
            x = self.dropout(x)
            read = backwards(x.gather(1, back.expand_as(x)))[0]
            x = torch.cat([forwards(x)[0], read.gather(1, back.expand_as(read))], 2)
        return x


def turned(mask: Tensor) -> Tensor:
    """(B, T) True = real, padded on the right -> (B, T) places that turn each row around, and back again."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    lengths = mask.sum(1, keepdim=True)
    return torch.where(columns < lengths, lengths - 1 - columns, columns)


class SentenceAttention(nn.Module):
    """A projection and blocks of a Transformer.

    Attributes:
        size: of the output, D.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        D = self.size = hidden_size
        self.projection = Linear(input_size, D)
        self.positions = Sinusoids(0, D)
        self.blocks = Modules(
            Block(D, heads, 4 * D, activation="gelu", dropout=dropout, causal=False) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(D)
        self.dropout = Dropout(dropout)

    def states(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E), and (B, T) True = real -> (B, T, D)."""
        x = self.projection(x)
        x = self.dropout(x + self.positions.rows(0, x.shape[1], x))
        attend = None if bool(mask.all()) else mask[:, None, None]  # (B, 1, 1, T)
        for block in self.blocks:
            x = block(x, mask=attend)
        out: Tensor = self.norm(x)
        return out


class Convolutions(nn.Module):
    """A projection and gated convolutions of three words, each added to its input: L layers see L words on either side.

    Attributes:
        size: of the output, D.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, dropout: nn.Module) -> None:
        super().__init__()
        self.size = hidden_size
        self.projection = Linear(input_size, hidden_size)
        self.layers = Modules(GatedConvolution(hidden_size, _WIDTH) for _ in range(num_layers))
        self.dropout: Callable[[Tensor], Tensor] = dropout

    def states(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, E), and (B, T) True = real -> (B, T, D)."""
        real, side = mask[..., None].to(x.dtype), _WIDTH // 2
        x = self.projection(self.dropout(x)) * real
        for layer in self.layers:
            x = (x + layer(F.pad(self.dropout(x), (0, 0, side, side)))) * real
        return x
