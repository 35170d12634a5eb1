"""How models read a line to look at its attention: the tokens of a row, their words, and the weights of each layer.

Shapes: T tokens of a row, W words of it, S tokens of a source, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

import numpy as np
from torch import Tensor

from nlptools.arrays import Longs
from nlptools.batches.encoder_rows import marks_of
from nlptools.bundle import Bundle
from nlptools.compute.backend import Backend
from nlptools.errors import UsageError, display
from nlptools.formats.examples import Place
from nlptools.inference.line_score import token_name
from nlptools.inference.opening import Asked, Opened
from nlptools.models.contract import Attends, AttendsToSource
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.text import pair_format
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens
from nlptools.text.word_bounds import word_bounds, word_spans
from nlptools.text.word_marks import word_marks

SELF = "self"  # the attention of models that have one kind


class RowTokens(NamedTuple):
    """The tokens of a row, and its words, or tokens as words. A special token is a word."""

    ids: list[int]
    names: list[str]  # of the words
    starts: Longs  # (W,) the first token of each word
    special: list[bool]  # whether each word is a special token


class AttentionRow(NamedTuple):
    """A line as a model reads it."""

    queries: RowTokens
    keys: RowTokens
    weights: Iterator[Tensor]  # of each layer, (1, H, T, T or S), see `contract.Attends`


class ReadsAttention(Protocol):
    """A model at work, for looking at its attention."""

    @property
    def sizes(self) -> Mapping[str, tuple[int, int]]:
        """Layers and heads of each kind of attention, the default first."""

    def row(self, texts: Sequence[str], part: str, per_word: bool, place: Place) -> AttentionRow:
        """The attention between the words or tokens of the texts of a line, which tabs separate.

        Args:
            part: a key of `sizes`.

        Raises DataError for another number of texts than the model reads, and for one that is longer than the context.
        """

    def finish(self) -> None:
        """Called after the last line: report unknown tokens."""


class RowReader:
    """Makes rows of special tokens and texts."""

    def __init__(self, tokenizer: Tokenizer, texts: str) -> None:
        """`texts` names the texts in messages."""
        assert tokenizer.vocab is not None
        self.tokenizer, self.vocab = tokenizer, tokenizer.vocab
        self.unknown = UnknownTokens(tokenizer, texts)
        self._at_end = word_marks(tokenizer).at_end

    def row(self, *parts: int | str | None, per_word: bool) -> RowTokens:
        """The row of these tokens and texts; None: left out."""
        ids: list[int] = []
        names: list[str] = []
        starts: list[int] = []
        special: list[bool] = []
        for part in parts:
            if isinstance(part, str):
                new = self.tokenizer.encode(part)
                self.unknown.count([part], [new])
                words = self._words(part) if per_word else []
            else:
                new, words = [part] if part is not None else [], []
            # white space has no words, but may have tokens
            words = words or [(place, token_name(self.vocab, id)) for place, id in enumerate(new)]
            starts += [len(ids) + first for first, _ in words]
            names += [name for _, name in words]
            special += [not isinstance(part, str)] * len(words)
            ids += new
        return RowTokens(ids, names, np.array(starts, np.int64), special)

    def _words(self, text: str) -> list[tuple[int, str]]:
        """The first token of each word, and the word; those without tokens are left out."""
        bounds = word_bounds(self.tokenizer, text, self._at_end).tolist()
        spans = word_spans(self.tokenizer, text)
        return [(a, text[slice(*span)]) for a, b, span in zip(bounds, bounds[1:], spans, strict=False) if a < b]


class EncoderAttention:
    """An encoder, which reads a text or two: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]."""

    def __init__(self, loaded: Bundle[BertWithHeads], backend: Backend) -> None:
        """Raises BundleError if the tokenizer has no such tokens."""
        self.marks = marks_of(loaded.tokenizer)
        self.reader = RowReader(loaded.tokenizer, "the text")
        self.backend = backend.for_model(loaded.model)
        model: BertWithHeads = self.backend.for_inference(loaded.model)
        self.model = model.encoder
        self.second = min(1, model.config.type_vocab_size - 1)  # the segment of a second text
        self.sizes = {SELF: self.model.attention_size}

    @classmethod
    def opened(cls, asked: Asked[object], model: Opened[BertWithHeads]) -> EncoderAttention:
        """See `uses`."""
        return cls(model.bundle, Backend.detect(asked.compute))

    def row(self, texts: Sequence[str], part: str, per_word: bool, place: Place) -> AttentionRow:
        """See `ReadsAttention`."""
        if len(texts) > 2:
            raise place.error(f"expected a text, or two with a tab between them, found {len(texts)}")
        begin = [] if self.marks.cls is None else [self.marks.cls]
        first = self.reader.row(*begin, texts[0], self.marks.sep, per_word=per_word)
        second = self.reader.row(*(part for text in texts[1:] for part in (text, self.marks.sep)), per_word=per_word)
        starts = np.concatenate([first.starts, len(first.ids) + second.starts])
        special = first.special + second.special
        words = RowTokens(first.ids + second.ids, first.names + second.names, starts, special)
        _check(words, self.model.max_context, place, "the line")
        types = [0] * len(first.ids) + [self.second] * len(second.ids)
        ids, segments = (self.backend.put(np.array([row], np.int64)) for row in (words.ids, types))
        return AttentionRow(words, words, self.model.attention_weights(ids, segments))

    def finish(self) -> None:
        """See `ReadsAttention`."""
        self.reader.unknown.report()


class DecoderAttention:
    """A language model, which reads a text after its start token, if it has one."""

    def __init__(self, loaded: Bundle[object], model: Attends, backend: Backend) -> None:
        """`model`: the language model of the directory, without heads of tasks."""
        self.start = loaded.start if loaded.prepends_start else None
        self.reader = RowReader(loaded.tokenizer, "the text")
        self.backend = backend.for_model(model)
        self.model: Attends = self.backend.for_inference(model)
        self.sizes = {SELF: self.model.attention_size}

    @classmethod
    def of_language_model(cls, asked: Asked[object], model: Opened[Attends]) -> DecoderAttention:
        """See `uses`."""
        return cls(model.bundle, model.bundle.model, Backend.detect(asked.compute))

    @classmethod
    def of_task_decoder(cls, asked: Asked[object], model: Opened[WithHeads]) -> DecoderAttention:
        """See `uses`."""
        return cls(model.bundle, cast(Attends, model.bundle.model.encoder), Backend.detect(asked.compute))

    def row(self, texts: Sequence[str], part: str, per_word: bool, place: Place) -> AttentionRow:
        """See `ReadsAttention`."""
        if len(texts) > 1:
            raise place.error(
                f"expected a text, found {len(texts)} with tabs between them",
                "a language model reads one text: replace each tab with a space or an end-of-text token",
            )
        words = self.reader.row(self.start, texts[0], per_word=per_word)
        _check(words, self.model.max_context, place, "the line")
        return AttentionRow(
            words, words, self.model.attention_weights(self.backend.put(np.array([words.ids], np.int64)))
        )

    def finish(self) -> None:
        """See `ReadsAttention`."""
        self.reader.unknown.report()


class TranslatorAttention:
    """An encoder-decoder, which reads a source and its translation.

    The decoder reads the start token and the translation. Rows of cross-attention have the names of the words that the decoder
    predicts there: the translation and its end.
    """

    def __init__(self, loaded: Bundle[AttendsToSource], backend: Backend) -> None:
        self.source = RowReader(loaded.tokenizer, "the sources")
        self.target = RowReader(loaded.target_tokenizer or loaded.tokenizer, "the translations")
        self.backend = backend.for_model(loaded.model)
        self.model: AttendsToSource = self.backend.for_inference(loaded.model)
        form = loaded.format or pair_format.plain(self.model.start_token, int(self.model.config.eos))
        self.marks = form.marks()
        self.sizes = self.model.attention_sizes

    @classmethod
    def opened(cls, asked: Asked[object], model: Opened[AttendsToSource]) -> TranslatorAttention:
        """See `uses`. Raises UsageError for a model without attention."""
        if not model.bundle.model.attends:
            raise UsageError(
                f"{display(str(model.path))} is an encoder-decoder without attention, which attend cannot take",
                hint="train-seq2seq --attention bahdanau trains one with attention",
            )
        return cls(model.bundle, Backend.detect(asked.compute))

    def row(self, texts: Sequence[str], part: str, per_word: bool, place: Place) -> AttentionRow:
        """See `ReadsAttention`. Self-attention of the encoder does not need a translation."""
        if len(texts) != 2 and (part != "encoder" or len(texts) > 2):
            hint = None if len(texts) > 2 else "--part encoder looks at a source alone; generate writes translations"
            raise place.error(
                f"expected a source and its translation with a tab between them, found {len(texts)}", hint
            )
        marks = self.marks
        source = self.source.row(*marks.before, texts[0], *marks.ends, per_word=per_word)
        _check(source, self.model.max_context, place, "the source")
        translation = texts[1] if len(texts) > 1 else ""
        target = self.target.row(*marks.read, translation, per_word=per_word)
        _check(target, self.model.max_context, place, "the translation")
        put = self.backend.put
        weights = self.model.attention_weights(part, *(put(np.array([row.ids], np.int64)) for row in (source, target)))
        if part == "cross":
            predicted = self.target.row(*marks.given, translation, marks.eos, per_word=per_word)
            return AttentionRow(predicted, source, weights)
        words = source if part == "encoder" else target
        return AttentionRow(words, words, weights)

    def finish(self) -> None:
        """See `ReadsAttention`."""
        self.source.unknown.report()
        self.target.unknown.report()


def _check(row: RowTokens, most: int | None, place: Place, what: str) -> None:
    """Raise DataError for a row beyond the context."""
    if most is not None and len(row.ids) > most:
        message = f"{what} has {len(row.ids)} tokens, special tokens included, and the model reads at most {most}"
        raise place.error(message, "split it into shorter lines")
