"""How a model reads lines: the special tokens around each, and the hidden states of its layers.

Shapes: N tokens of all sequences of a batch, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from nlptools.bundle import Bundle
from nlptools.errors import BundleError, display
from nlptools.layers import packed
from nlptools.layers.packed import EqualLengths
from nlptools.models.contract import LanguageModel
from nlptools.text import pair_format
from nlptools.text.text_boundaries import around_text, is_open_at_start, of_encoder

if TYPE_CHECKING:
    from nlptools.models.encoders.bert_with_heads import BertWithHeads
    from nlptools.models.translation.transformer import Transformer


class LayerSizes(Protocol):
    """The sizes of a stack of layers: their number L, without the embeddings, and D."""

    @property
    def num_hidden_layers(self) -> int: ...

    @property
    def hidden_size(self) -> int: ...


class ReadsLines(Protocol):
    """What computes states: a `torch.nn.Module` with these sizes."""

    @property
    def config(self) -> LayerSizes: ...

    @property
    def max_context(self) -> int | None: ...

    @property
    def runs_in_16_bits(self) -> bool: ...


class LineReader(Protocol):
    """See the module's docstring.

    Attributes:
        model: what computes the states.
        before, after: special tokens around each sequence.
        alone: the sequence of an empty line, if there are no special tokens around it, or none that is pooled.
        skips_before: whether `before` is not pooled; an empty line is still represented by it.
    """

    before: list[int]
    after: list[int]
    alone: list[int]
    skips_before: bool

    @property
    def model(self) -> ReadsLines: ...

    def states(self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range) -> Sequence[Tensor]:
        """The states (N, D) of `layers` for sequences end to end, see `packed`."""


class EncoderReader:
    """Reads lines between [CLS] and [SEP], which are pooled. A T5 has only a token at the end."""

    skips_before = False

    def __init__(self, loaded: Bundle[BertWithHeads]) -> None:
        """Raises BundleError if the tokenizer has no such tokens."""
        ends = of_encoder(loaded.tokenizer)
        if ends.last is None or (ends.first is None and not is_open_at_start(loaded.tokenizer)):
            raise BundleError(f"{display(str(loaded.path))}: the tokenizer has no [CLS] and [SEP]")
        self.model = loaded.model.encoder
        self.before = [] if ends.first is None else [ends.first]
        self.after, self.alone = [ends.last], list[int]()

    def states(self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range) -> Sequence[Tensor]:
        """See `LineReader`."""
        states: Sequence[Tensor] = self.model.packed(ids, positions, groups, layers)
        return states


class SentenceReader:
    """Reads lines with the layers of a decoder in a sentence-transformers directory.

    The tokenizer puts tokens around a text, and the pooling includes them.
    """

    skips_before = False

    def __init__(self, loaded: Bundle[object], model: LanguageModel) -> None:
        """Raises BundleError for a damaged tokenizer_config.json."""
        self.model = model
        self.before, self.after = around_text(loaded.tokenizer, loaded.path)
        self.alone = [] if self.before or self.after else [loaded.start]

    def states(self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range) -> Sequence[Tensor]:
        """See `LineReader`."""
        return packed.by_group(lambda rows: self.model.states(rows).layers, ids, groups, layers)


class DecoderReader:
    """Reads lines after the start token of a language model, if it has one. The start token represents an empty line only."""

    skips_before = True

    def __init__(self, loaded: Bundle[object], model: LanguageModel) -> None:
        self.model = model
        self.alone, self.after = [loaded.start], list[int]()
        self.before = self.alone if loaded.prepends_start else []

    def states(self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range) -> Sequence[Tensor]:
        """See `LineReader`."""
        return packed.by_group(lambda rows: self.model.states(rows).layers, ids, groups, layers)


class SourceReader:
    """Reads lines as the sources of an encoder-decoder, with the tokens around them, which are pooled."""

    skips_before = False

    def __init__(self, loaded: Bundle[Transformer]) -> None:
        """Raises UsageError if the model needs the language of a source, and its files name none."""
        from nlptools.models.translation.source_encoder import SourceEncoder

        model = loaded.model
        form = loaded.format or pair_format.plain(model.start_token, model.config.eos)
        marks = form.of_source()
        self.model = SourceEncoder(model)
        self.before, self.after, self.alone = list(marks.before), list(marks.ends), list[int]()

    def states(self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range) -> Sequence[Tensor]:
        """See `LineReader`."""
        return packed.by_group(self.model.states, ids, groups, layers)
