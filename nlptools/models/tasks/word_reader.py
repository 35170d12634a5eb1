"""Bidirectional LSTMs over words, with or without the features of an ELMo, and a head for any task.

Peters et al. 2018 (arXiv:1802.05365), section 3.3: the LSTMs of a task read the vector of each word, the vector of its
spelling and a learned mix of the layers of an ELMo, concatenated; another mix may be concatenated to their output. A row is
`[CLS] words [SEP] words [SEP]`; the ELMo reads each stretch of words as a separate text. The head for whole rows sees
the maximum of each dimension over the row (Conneau et al. 2017, arXiv:1705.02364).
Departure: one network for all tasks; the paper takes the best published network of each task.
Shapes: B batch, T length, U different words of a batch, L layers of the ELMo, P its projection, D output, E word vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nlptools.configs.checks import check_sizes
from nlptools.configs.layers import Layers, layers
from nlptools.configs.word_taggers import CHARACTERS, FEATURES
from nlptools.errors import BundleError, UsageError
from nlptools.layers.dropout import LockedDropout
from nlptools.layers.heads import LayerMix
from nlptools.layers.initial import draw_as_pytorch
from nlptools.layers.pooling import choose, pool
from nlptools.layers.sentence import Bidirectional
from nlptools.models import registry
from nlptools.models.language.elmo import Elmo, ElmoConfig
from nlptools.models.tasks.heads import BESIDE_HEADS, TASK_HEADS, TaskHeads
from nlptools.models.tasks.word_input import WordInput
from nlptools.text.lexicon import Lexicon
from nlptools.text.spelling import MOST_CHARACTERS

MARKS = ("<pad>", "<unk>", "[CLS]", "[SEP]")  # the first tokens of the vocabulary
PAD, UNK, CLS, SEP = range(4)
_TYPE_SIZE = 16  # of the vector of a segment, which also marks the predicate of roles and the mentions of a pronoun
OF_ROWS = ("sequence", "choice")  # heads with one vector per row


@dataclass(frozen=True)
class WordReaderConfig:
    """Sizes. Dropout applies in training only.

    Attributes:
        vocab_size, trained, rare, characters, character_hidden, alphabet, unk: see `word_tagger.WordTaggerConfig`.
        state_size: of an LSTM in each direction.
        heads: of `TaskHeads`.
        features: where the ELMo's vectors go: to the input of the LSTMs, to their output, both or none.
        layers: which layers of the ELMo, as --layers has them.
        elmo: its sizes, of an `ElmoConfig`; None without features.
        elmo_lowercase: whether it reads words in lower case.
        num_relations: of the head "arcs".
    """

    vocab_size: int
    trained: int
    rare: int
    embedding_size: int
    num_labels: int
    heads: tuple[str, ...]
    state_size: int = 200
    depth: int = 1
    dropout: float = 0.5
    characters: str = "cnn"
    character_hidden: int = 30
    alphabet: str = ""
    unk: int = UNK
    features: str = "input"
    layers: str = "mix"
    elmo: ElmoConfig | None = None
    elmo_lowercase: bool = False
    num_relations: int = 0

    def __post_init__(self) -> None:
        limits = {"trained": 1 << 26, "character_hidden": 1 << 12, "state_size": 1 << 16, "depth": 64}
        check_sizes(self, vocab_size=1 << 26, num_labels=1 << 20, **limits)
        for name, least, most in (("trained", 4, self.vocab_size), ("rare", 0, self.trained), ("unk", UNK, UNK)):
            value = vars(self)[name]
            if type(value) is not int or not least <= value <= most:
                raise BundleError(f"{name} is {value!r:.80}, expected a whole number from {least} to {most}")
        for name, known in (("characters", CHARACTERS), ("features", FEATURES)):
            if vars(self)[name] not in known:
                raise BundleError(f"{name} is {vars(self)[name]!r:.80}, expected one of {', '.join(known)}")
        if type(self.alphabet) is not str or len(self.alphabet) > MOST_CHARACTERS:
            raise BundleError(f"alphabet: expected a text of at most {MOST_CHARACTERS:,} characters")
        if self.characters == "lstm" and self.character_hidden % 2:
            raise BundleError(f"character_hidden is {self.character_hidden}, expected an even number")
        heads = tuple(self.heads) if isinstance(self.heads, (list, tuple)) else ()
        if not heads or any(head not in (*TASK_HEADS, *BESIDE_HEADS) for head in heads):
            raise BundleError(f"heads is {self.heads!r:.80}, expected heads of tasks")
        object.__setattr__(self, "heads", heads)
        if (self.features == "none") != (self.elmo is None):
            raise BundleError(f"features is {self.features}, and there is {'an' if self.elmo else 'no'} elmo")
        if self.elmo is not None:
            self._check_elmo()

    def _check_elmo(self) -> None:
        elmo = vars(self)["elmo"]  # of JSON
        if not isinstance(elmo, ElmoConfig):
            try:
                elmo = ElmoConfig(**elmo)
            except TypeError as error:
                raise BundleError(f"elmo: {error}") from None
        object.__setattr__(self, "elmo", elmo)
        try:
            which = layers(self.layers)
        except UsageError as error:
            raise BundleError(str(error)) from None
        if which.kind in ("concat", "all") or not which.count(elmo.num_hidden_layers + 1):
            raise BundleError(f"layers is {self.layers!r:.80}, expected one vector of layers that the elmo has")

    @property
    def hidden_size(self) -> int:
        """D."""
        beside = 2 * self.elmo.hidden_size if self.elmo is not None and self.features in ("output", "both") else 0
        return 2 * self.state_size + beside

    # what `TaskHeads` asks for
    hidden_dropout = property(lambda self: self.dropout)
    activation = property(lambda self: "relu")
    num_hidden_layers = property(lambda self: 0 if self.elmo is None else self.elmo.num_hidden_layers)

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return self.vocab_size * self.embedding_size + (0 if self.elmo is None else int(self.elmo.least_weights()))


class WordReader(TaskHeads):
    """See the module's docstring.

    Attributes:
        lexicon: the words that `ids` number; set before use.
        elmo: or None.
        layer_mix, output_mix: the learned mixes for the input and the output, or None.
        keeps_features: whether to keep the result of `features` for rows that are read again (in training).
        kept: rows, and their features; see `tasks.readers`.
    """

    runs_in_16_bits = False
    family = registry.WORD_READER
    config: WordReaderConfig
    lexicon: Lexicon
    keeps_features = False
    kept: tuple[object, np.ndarray | None] | None = None

    def __init__(self, config: WordReaderConfig) -> None:
        super().__init__(config, config.heads, config.num_labels, num_relations=config.num_relations)
        self.add_heads("relu")
        self.input = WordInput(config)
        self.types = nn.Embedding(2, _TYPE_SIZE)
        size = self.input.input_size + _TYPE_SIZE
        self.elmo: Elmo | None = None
        self.which = layers(config.layers)
        self.output_mix: LayerMix | None = None
        self.layer_mix = None
        if config.elmo is not None:
            self.elmo = Elmo(config.elmo)
            count, learned = config.num_hidden_layers + 1, self.which.kind == "mix"
            if config.features in ("input", "both"):
                size += 2 * config.elmo.hidden_size
                self.layer_mix = LayerMix(count, softmax=True) if learned else None
            if config.features in ("output", "both"):
                self.output_mix = LayerMix(count, softmax=True) if learned else None
        dropout = LockedDropout(config.dropout, steps=1)
        self.body = Bidirectional("lstm", size, config.state_size, config.depth, dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights: vectors uniform with variance 1 / size, layers as PyTorch does. Those of the ELMo are as bilm-tf
        draws them, to be replaced.
        """
        draw_as_pytorch(self)
        self.body.initialize()
        self.input.initialize_words()
        if self.elmo is not None:
            self.elmo.initialize()

    def train(self, mode: bool = True) -> WordReader:
        """As PyTorch's; a frozen ELMo has no dropout in training either."""
        super().train(mode)
        if self.elmo is not None and not any(weight.requires_grad for weight in self.elmo.parameters()):
            self.elmo.eval()
        return self

    def features(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, T) numbers of words, and True = real -> (L + 1, B, T, 2 P): the layers of the ELMo, 0 at marks."""
        assert self.elmo is not None and self.config.elmo is not None
        L, P = self.config.num_hidden_layers, self.config.elmo.hidden_size
        word = mask & (ids > SEP)
        begins = word & ~torch.cat([torch.zeros_like(word[:, :1]), word[:, :-1]], 1)
        where = word.flatten().nonzero().flatten()  # of all words, (W,)
        out = self.elmo.words.projection.weight.new_zeros(L + 1, ids.numel(), 2 * P)
        if len(where):
            text = begins.flatten().cumsum(0)[where] - 1  # the number of the text of each word
            lengths = torch.bincount(text)
            column = torch.arange(len(where), device=ids.device) - (lengths.cumsum(0) - lengths)[text]
            different, places = torch.unique(ids.flatten()[where], return_inverse=True)
            inverse = places.new_zeros(len(lengths), int(lengths.max()))
            inverse[text, column] = places
            spellings = self._put(self.lexicon.bytes(different.tolist(), self.config.elmo_lowercase), ids)
            out = out.index_copy(1, where, self.elmo.layers(spellings, inverse, lengths)[:, text, column])
        return out.view(L + 1, *ids.shape, 2 * P)

    def read(self, ids: Tensor, mask: Tensor, types: Tensor, known: Tensor | None = None) -> Tensor:
        """(B, T) numbers of words, True = real, and segments -> (B, T, D). `known`: the result of `features`."""
        different, places = torch.unique(ids, return_inverse=True)
        numbers = different.tolist()
        words = self._put(self.lexicon.vocabulary_ids(numbers, len(MARKS)), ids)
        letters = self._put(self.lexicon.letters(numbers, self.config.alphabet), ids)
        parts = [self.input.spelled_vectors(words, letters)[places], self.types(types)]
        where, beside = self.config.features, []
        if where != "none":
            states = self.features(ids, mask) if known is None else known
            if where in ("input", "both"):
                parts.append(self._combined(states, self.layer_mix))
            if where in ("output", "both"):
                beside.append(self._combined(states, self.output_mix))
        return torch.cat([self.body.states(torch.cat(parts, 2), mask), *beside], 2)

    def _combined(self, states: Tensor, mix: LayerMix | None) -> Tensor:
        if mix is not None:
            mixed: Tensor = mix(states)
            return mixed
        return choose(list(states), Layers(self.which.kind, self.which.begin, self.which.end))

    def _put(self, array: np.ndarray, like: Tensor) -> Tensor:
        return torch.from_numpy(array).to(like.device)

    def logits(
        self, ids: Tensor, mask: Tensor, types: Tensor, spans: Tensor | None = None, known: Tensor | None = None
    ) -> Tensor:
        """The output of the task's head, see `TaskHeads.task_logits`; arguments as in `read`."""
        hidden = self.read(ids, mask, types, known)
        if self.head in OF_ROWS:
            hidden = pool(hidden, mask, ("max",))[:, None]
        return self.task_logits(self.head, hidden, spans)

    @property
    def head(self) -> str:
        """The head of the task."""
        return next(head for head in self.heads if head in TASK_HEADS)
