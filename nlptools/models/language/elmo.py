"""ELMo: a forward and a backward language model over words that are read as their characters.

Peters et al. 2018, "Deep contextualized word representations" (arXiv:1802.05365), in the layout of bilm-tf and AllenNLP:
filters over the bytes of a word, highway layers, LSTMs with projection in both directions (each layer but the first adds its
input), and one softmax that both share. With `layer_norm`, the output of each LSTM is normalized before its input is added.
Departure: the begin of a text, which ends the backward reading, is the same token of the softmax as the end.
Shapes: U different words, C characters, B batch, T length in words, P projection, D cells, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.projected_lstm import Limits
from nlptools.configs.architectures.elmo import ElmoOptions, character_filters
from nlptools.configs.architectures.shared import adaptive_cutoffs
from nlptools.configs.checks import check_sizes, checked_cutoffs
from nlptools.errors import BundleError
from nlptools.layers.adaptive_softmax import AdaptiveSoftmax
from nlptools.layers.characters import CharacterFilters
from nlptools.layers.dropout import Dropout
from nlptools.layers.module_lists import Modules
from nlptools.layers.output import OutputHead, Projection
from nlptools.layers.recurrent import ProjectedLSTM, side_by_side
from nlptools.models.contract import Hidden, LanguageModelDefaults
from nlptools.models.language.recurrent import RecurrentState
from nlptools.text import byte_spelling

FORWARD, BACKWARD = 0, 1
# Jozefowicz et al. 2016, in all published models
FILTERS = character_filters(ElmoOptions.filters)  # the sizes of the paper


@dataclass(frozen=True)
class ElmoConfig:
    """Sizes and regularization. Dropout applies in training only."""

    vocab_size: int  # of the softmax
    hidden_size: int  # P, in each direction
    cell_size: int  # D
    num_hidden_layers: int = 2
    highway_layers: int = 1
    character_size: int = 16
    filters: tuple[tuple[int, int], ...] = FILTERS  # width of windows, number of filters
    activation: str = "relu"  # of the filters
    cell_clip: float | int = 3.0  # largest absolute value of a cell; 0: no limit
    projection_clip: float | int = 3.0  # and of a hidden state
    skip: bool = True  # layers from the second on add their input
    layer_norm: bool = False
    hidden_dropout: float = 0.0  # of the inputs of the LSTMs, and of the last states
    adaptive_cutoffs: tuple[int, ...] = ()  # first tokens of the clusters of an adaptive softmax
    softmax: bool = True  # False: only features, as in the weights that AllenNLP published

    def __post_init__(self) -> None:
        check_sizes(self, cell_size=1 << 16, character_size=1 << 10)
        if type(self.highway_layers) is not int or not 0 <= self.highway_layers <= 64:
            raise BundleError(f"highway_layers is {self.highway_layers!r:.80}, expected a whole number from 0 to 64")
        for name in ("cell_clip", "projection_clip"):
            value = vars(self)[name]
            if type(value) not in (int, float) or not 0 <= value < float("inf"):
                raise BundleError(f"{name} is {value!r:.80}, expected a number from 0 on")
        if self.activation not in ("relu", "tanh"):
            raise BundleError(f"activation {self.activation!r:.80} is not supported, expected relu or tanh")
        object.__setattr__(self, "filters", _checked_filters(self.filters))
        object.__setattr__(self, "adaptive_cutoffs", checked_cutoffs(self.adaptive_cutoffs, self.vocab_size))

    @classmethod
    def from_options(cls, options: ElmoOptions, vocab_size: int) -> ElmoConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        return cls(
            vocab_size,
            options.hidden,
            options.cells or 8 * options.hidden,
            options.layers,
            options.highways,
            filters=character_filters(options.filters),
            layer_norm=options.layer_norm,
            hidden_dropout=options.dropout,
            adaptive_cutoffs=adaptive_cutoffs(options.adaptive, vocab_size),
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        P, D, held = self.hidden_size, self.cell_size, sum(number for _, number in self.filters)
        softmax = self.vocab_size * P if self.softmax and not self.adaptive_cutoffs else 0
        return 2 * self.num_hidden_layers * 9 * P * D + self.highway_layers * 2 * held**2 + held * P + softmax


def _checked_filters(filters: object) -> tuple[tuple[int, int], ...]:
    """The filters in a model file. Raises BundleError."""
    pairs = filters if isinstance(filters, (list, tuple)) and filters else ((0, 0),)
    for pair in pairs:
        whole = isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(n) is int and n > 0 for n in pair)
        if not whole or pair[0] > byte_spelling.COLUMNS or pair[1] > 1 << 16:
            raise BundleError(f"filters is {filters!r:.80}, expected pairs of a width up to 50 and a number of filters")
    return tuple((width, number) for width, number in pairs)


class Reading(NamedTuple):
    """The states of both directions over texts, in the order of the text, without its boundaries."""

    forward: list[Tensor]  # layers 1 to L, (B, T, P) each
    backward: list[Tensor]


class Elmo(nn.Module):
    """See the module's docstring. `OneDirection` is one direction as a language model."""

    runs_in_16_bits = True

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        P, V = config.hidden_size, config.vocab_size
        self.words = CharacterFilters(
            byte_spelling.NUMBERS,
            config.character_size,
            config.filters,
            config.highway_layers,
            P,
            fill=byte_spelling.FILL,
            activation=config.activation,
        )
        self.directions = nn.ModuleList(_Direction(config) for _ in (FORWARD, BACKWARD))
        self.dropout = Dropout(config.hidden_dropout)
        self.output: OutputHead | None = None
        if config.softmax and config.adaptive_cutoffs:
            self.output = AdaptiveSoftmax(P, V, config.adaptive_cutoffs)
        elif config.softmax:
            self.output_matrix, self.output_bias = nn.Linear(P, V, bias=False), nn.Parameter(torch.empty(V))
            self.output = Projection(self.output_matrix, V, bias=self._output_bias)

    def _output_bias(self) -> Tensor:
        return self.output_bias

    @torch.no_grad()
    def initialize(self) -> None:
        """Initial weights as in bilm-tf."""
        self.words.initialize()
        for direction in self.directions:
            direction.initialize()  # type: ignore[operator]
        if isinstance(self.output, AdaptiveSoftmax):
            for parameter in self.output.parameters():
                parameter.normal_(std=self.config.hidden_size**-0.5) if parameter.dim() > 1 else parameter.zero_()
        elif self.output is not None:
            self.output_matrix.weight.normal_(std=self.config.hidden_size**-0.5)
            self.output_bias.zero_()

    def layers(self, spellings: Tensor, inverse: Tensor, lengths: Tensor) -> Tensor:
        """The representations of words in their texts: (L + 1, B, T, 2 P), 0 after the end of a text.

        Layer 0 is the vector of the word alone, twice, as AllenNLP has it; in the others the forward state comes before the
        backward state. Each text begins with a new state. The model also reads its boundaries; the result leaves them out.

        Args:
            spellings: (U, C) the different words, see `text.byte_spelling.spell`.
            inverse: (B, T) the number of each word among them; any number after the end of a text.
            lengths: (B,) words of each text.
        """
        marks = torch.from_numpy(byte_spelling.boundaries()).to(inverse.device)
        return self.in_context(self.words(torch.cat([spellings.long(), marks.long()])), inverse, lengths)

    def in_context(
        self, vectors: Tensor, inverse: Tensor, lengths: Tensor, states: list[RecurrentState] | None = None
    ) -> Tensor:
        """As `layers`, from the vectors (U, P) of the different words; the last two are for the begin and the end of a text.

        `states`: see `read`.
        """
        places = F.pad(inverse, (1, 1), value=len(vectors) - 2)
        places.scatter_(1, lengths[:, None] + 1, len(vectors) - 1)
        forward, backward = self.read(vectors, places, lengths + 2, states)
        first = F.embedding(inverse, vectors)
        both = zip([first, *forward], [first, *backward], strict=True)
        out = torch.stack([torch.cat([a, b], -1) if a is first else torch.cat([a, b], -1)[:, 1:-1] for a, b in both])
        return out * (torch.arange(inverse.shape[1], device=lengths.device) < lengths[:, None])[None, :, :, None]

    def read(
        self,
        vectors_UP: Tensor,
        places_BT: Tensor,
        lengths_B: Tensor,
        states: list[RecurrentState] | None = None,
    ) -> Reading:
        """The states of both directions after each word, boundaries included; undefined after the ends of the texts.

        Args:
            vectors_UP: of different words.
            places_BT: the number of each word among them.
            lengths_B: words of each text.
            states: of both directions before the texts, for texts of the same length; replaced by the states after them.
                None: new ones.
        """
        backwards = reversal(lengths_B, places_BT.shape[1])
        before = self.start(len(places_BT), vectors_UP) if states is None else states
        inputs = [F.embedding(places.t(), vectors_UP) for places in (places_BT, places_BT.gather(1, backwards))]
        read = _steps(list(self.directions), inputs, before)  # type: ignore[arg-type]
        forward, backward = (outputs for outputs, _ in read)
        if states is not None:
            states[:] = (state for _, state in read)
        turned = backwards.t()[..., None].expand(-1, -1, vectors_UP.shape[1])
        return Reading([x.transpose(0, 1) for x in forward], [x.gather(0, turned).transpose(0, 1) for x in backward])

    def start(self, batch_size: int, like: Tensor) -> list[RecurrentState]:
        """The states of both directions before a text, with the type and on the device of a tensor (..., P)."""
        return [direction.start(batch_size, like) for direction in self.directions]  # type: ignore[operator]


def reversal(lengths_B: Tensor, length: int) -> Tensor:
    """(B, T) the positions of texts in reverse order; positions after the ends stay."""
    steps = torch.arange(length, device=lengths_B.device)
    return torch.where(steps < lengths_B[:, None], lengths_B[:, None] - 1 - steps, steps)


class _Direction(nn.Module):
    """The LSTMs of one direction."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        P, limits = config.hidden_size, Limits(config.cell_clip, config.projection_clip)
        self.skip, self.cell_size = config.skip, config.cell_size
        self.layers = Modules(ProjectedLSTM(P, config.cell_size, P, limits) for _ in range(config.num_hidden_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(P) for _ in self.layers) if config.layer_norm else None
        self.dropout = Dropout(config.hidden_dropout)

    def initialize(self) -> None:
        for layer in self.layers:
            layer.reset_parameters()

    def forward(self, x_TBP: Tensor) -> list[Tensor]:
        """The outputs of the layers, (T, B, P) each, from a new state on."""
        return self.steps(x_TBP, self.start(x_TBP.shape[1], x_TBP))[0]

    def start(self, batch_size: int, like: Tensor) -> RecurrentState:
        """The state before the first word, with the type and on the device of a tensor."""
        L, P = len(self.layers), like.shape[-1]
        wide = torch.promote_types(like.dtype, torch.float32)
        return RecurrentState(
            like.new_zeros(L, batch_size, P), like.new_zeros(L, batch_size, self.cell_size, dtype=wide)
        )

    def steps(
        self, x: Tensor, before: RecurrentState, mask_TB: Tensor | None = None
    ) -> tuple[list[Tensor], RecurrentState]:
        """The outputs of the layers for inputs (T, B, P) and the state before them, and the state after them."""
        if mask_TB is None:
            ((outputs, state),) = _steps([self], [x], [before])
            return outputs, state
        outputs, hidden, cells = [], [], []
        for i, layer in enumerate(self.layers):
            fed = self.dropout(x)
            x, h, c = layer.padded(fed, before.hidden[i], before.cell[i], mask_TB)
            x = self.after(i, x, fed)
            outputs.append(x)
            hidden.append(h)
            cells.append(c)
        return outputs, RecurrentState(torch.stack(hidden), torch.stack(cells))

    def after(self, i: int, x: Tensor, fed: Tensor) -> Tensor:
        """The output of layer `i`, given the output `x` and the input `fed` of its LSTM."""
        x = x if self.norms is None else self.norms[i](x)
        return x + fed if self.skip and i else x


def _steps(
    directions: Sequence[_Direction], inputs: Sequence[Tensor], before: Sequence[RecurrentState]
) -> list[tuple[list[Tensor], RecurrentState]]:
    """As `_Direction.steps`, for several directions at once."""
    K, xs = len(directions), list(inputs)
    outputs: list[list[Tensor]] = [[] for _ in directions]
    states: list[list[tuple[Tensor, Tensor]]] = [[] for _ in directions]
    for i in range(len(directions[0].layers)):
        lstms = [each.layers[i] for each in directions]
        fed = [each.dropout(x) for each, x in zip(directions, xs, strict=True)]
        hidden, cells = [state.hidden[i] for state in before], torch.cat([state.cell[i] for state in before])
        xs, last, cells = side_by_side(lstms, fed, hidden, cells)
        for k, (each, state) in enumerate(zip(directions, zip(last, cells.chunk(K), strict=True), strict=True)):
            xs[k] = each.after(i, xs[k], fed[k])
            outputs[k].append(xs[k])
            states[k].append(state)
    after = [RecurrentState(*map(torch.stack, zip(*each, strict=True))) for each in states]
    return list(zip(outputs, after, strict=True))


class OneDirection(LanguageModelDefaults, nn.Module):
    """One direction of an `Elmo`, a language model over the numbers of words, for text in the order of the direction.

    It fulfils `contract.LanguageModel`, but words are read as their spellings, so there is no `token_embedding`. `spellings`
    (N, C): of the words, the vocabulary first; see `spelled_vocabulary`.
    """

    streams = True
    runs_in_16_bits = True
    max_context = None
    spellings: Tensor

    def __init__(self, model: Elmo, direction: int, spellings: Tensor) -> None:
        super().__init__()
        self.model, self.direction, self.config = model, direction, model.config
        self.register_buffer("spellings", spellings, persistent=False)
        # in inference: the place of the vector of each word among those that are computed, -1 for others
        self._kept: tuple[Tensor, Tensor] | None = None

    def extend(self, spellings: Tensor) -> None:
        """Give the next numbers to words with these spellings, (F, C)."""
        self.spellings = torch.cat([self.spellings, spellings])
        if self._kept is not None:
            places, vectors = self._kept
            self._kept = F.pad(places, (0, len(spellings)), value=-1), vectors

    @property
    def output(self) -> OutputHead:
        """See `contract.Decoder`."""
        assert self.model.output is not None
        return self.model.output

    def forward(
        self, ids: Tensor, state: RecurrentState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState | None]:
        """See `contract.LanguageModel`."""
        mask_TB = None if mask is None or bool(mask.all()) else mask.t()
        before = self.start(len(ids), 0) if state is None else state
        outputs, after = self._layers.steps(self._vectors(ids), before, mask_TB)
        return outputs[-1].transpose(0, 1), None if state is None else after

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`; layer 0 has the vectors of the words alone."""
        x = self._vectors(ids)
        rows = tuple(layer.transpose(0, 1) for layer in (x, *self._layers(x)))
        return Hidden(rows[-1], rows)

    def start(self, batch_size: int, capacity: int) -> RecurrentState:
        """See `contract.LanguageModel`."""
        return self._layers.start(batch_size, self.model.words.projection.weight.new_empty(0, self.config.hidden_size))

    @property
    def _layers(self) -> _Direction:
        direction = self.model.directions[self.direction]
        assert isinstance(direction, _Direction)
        return direction

    def _vectors(self, ids: Tensor) -> Tensor:
        """(B, T) ids -> (T, B, P) vectors; each different word is computed once, in inference once and for all."""
        different, places = torch.unique(ids.t(), return_inverse=True)
        if torch.is_grad_enabled():
            return F.embedding(places, self.model.words(self.spellings[different].long()))
        weight = self.model.words.projection.weight
        if self._kept is None:
            self._kept = torch.full_like(self.spellings[:, 0], -1, dtype=torch.int64), weight.new_empty(0, len(weight))
        known, vectors = self._kept
        new = different[known[different] < 0]
        if len(new):
            known[new] = torch.arange(len(new), device=new.device) + len(vectors)
            vectors = torch.cat([vectors, self.model.words(self.spellings[new].long())])
            self._kept = known, vectors
        return F.embedding(known[ids.t()], vectors)


def spelled_vocabulary(tokens: Sequence[str], eos: int, direction: int) -> Tensor:
    """(V, C) int16: the spellings of the tokens of a vocabulary. The end-of-text token, which is also read before a text, has
    the spelling of the boundary at which the direction begins.
    """
    spelled = byte_spelling.spell(tokens)
    spelled[eos] = byte_spelling.boundaries()[direction]
    return torch.from_numpy(spelled)
