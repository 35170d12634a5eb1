"""A trained encoder-decoder at work: translate, summarize, score, align.

Text goes in and comes out; ids stay inside. One or several bundles (an ensemble), and where to compute.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from torch import nn

from nlptools import bundle, messages
from nlptools.compute.backend import Backend
from nlptools.configs.generation import Generate
from nlptools.configs.seq2seq import Translate
from nlptools.errors import BundleError, DataError, display
from nlptools.inference import source_parts
from nlptools.inference.generation import decoding, forced
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.stop_texts import stop_at
from nlptools.inference.line_score import LineScore, token_name
from nlptools.inference.opening import Asked, Opened
from nlptools.layers.quantized import Rounding
from nlptools.models.contract import EncoderDecoder
from nlptools.models.translation.ensemble import Ensemble
from nlptools.text import pair_format, pixels
from nlptools.text.pair_format import PairMarks
from nlptools.text.unknown import UnknownTokens

DEFAULT_BEAM = 5


@dataclass(frozen=True)
class Translated:
    """An output as text."""

    text: str
    score: float | None = None  # ranking score of beam search
    finish: str = "eos"  # eos, length, stop; empty where the source was
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float] = field(
        default_factory=list
    )  # natural logs, with the end token; empty without `Generate.logprobs`
    alignment: list[tuple[int, int]] | None = None  # (source token, output token), from 0

    def fields(self, logprobs: bool) -> dict[str, object]:
        """The keys and values for JSON; with `logprobs` also the tokens and their log-probabilities."""
        values: dict[str, object] = {"text": self.text, "finish": self.finish}
        if self.score is not None:
            values["score"] = self.score
        if logprobs:
            values |= {"tokens": self.tokens, "logprobs": self.logprobs}
        return values if self.alignment is None else {**values, "alignment": self.alignment}


class Translator:
    """See the module's docstring; `nlptools.load` makes it."""

    def __init__(self, loaded: Sequence[bundle.Bundle[EncoderDecoder]], backend: Backend) -> None:
        """Raises BundleError when several bundles do not go together."""
        first = loaded[0]
        for other in loaded:
            if _tokens(other) != _tokens(first):
                raise BundleError(f"{display(str(other.path))}: other tokens than {display(str(first.path))}")
        self.backend = backend = backend.for_model(*(b.model for b in loaded))
        self._models = models = [backend.for_inference(b.model) for b in loaded]
        self.model: EncoderDecoder = models[0] if len(models) == 1 else cast(EncoderDecoder, Ensemble(models))
        self.bundle = first
        self.source_tokenizer, self.target_tokenizer = first.tokenizer, first.target_tokenizer or first.tokenizer
        self.eos = int(self.model.config.eos)
        self.format = first.format or pair_format.plain(self.model.start_token, self.eos)
        assert self.target_tokenizer.vocab is not None and self.source_tokenizer.vocab is not None
        self.target_vocab = self.target_tokenizer.vocab
        never = self.target_vocab.never_generated(self.eos, self.model.output.vocab_size)
        self._never = sorted({*never, *self.format.tokens.values()})
        self.unknown = UnknownTokens(self.source_tokenizer, "the sources")

    @classmethod
    def opened(cls, asked: Asked[object], *models: Opened[EncoderDecoder]) -> Translator:
        """See `uses`; several models are an ensemble."""
        return cls([each.bundle for each in models], Backend.detect(asked.compute))

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [Rounding(cast(nn.Module, model), cast(nn.Module, model), model.output) for model in self._models]

    @property
    def reads_images(self) -> bool:
        """Whether sources are names of image files."""
        return self.model.config.source_length is not None

    def window(self, options: Translate) -> int:
        """The most sources to read together."""
        length = self.model.config.source_length
        return options.window if length is None else min(options.window, pixels.at_a_time(length))

    # -- translating --------------------------------------------------------------------------------------------------

    def translate(
        self,
        lines: Iterable[str],
        settings: Generate | None = None,
        options: Translate | None = None,
        *,
        seed: int = 1,
    ) -> Iterator[list[Translated]]:
        """The outputs for each line, in order; at most `options.window` lines are read at a time."""
        options = options or Translate()
        lines, first = iter(lines), 0
        while batch := list(itertools.islice(lines, self.window(options))):
            yield from self.translate_batch(batch, settings, options, seed=seed, first=first)
            first += len(batch)

    def translate_batch(
        self,
        lines: Sequence[str],
        settings: Generate | None = None,
        options: Translate | None = None,
        *,
        seed: int = 1,
        first: int = 0,
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Translated]]:
        """The outputs for some lines; decodes lines of similar length together. `first` is the number of the first line.

        `prefixes`: the beginning of each output, instead of `options.prefix`. A line without tokens has empty outputs.

        Raises:
            DataError: a source or a prefix that the model cannot read; a source that is too long, with `settings.strict`.
            UsageError: options for attention weights, of a model without attention.
        """
        options = options or Translate()
        options.check_attention(self.model.attends)
        options.check_source(self.reads_images)
        settings, marks = resolved(settings or Generate()), self._marks(options)
        parts = self._source_parts(lines, options, settings.strict)
        ids = [part for row in parts for part in row]
        begun = self._prefix_ids(len(lines), options, prefixes, first)
        starts = None if begun is None else [begun[i] for i, row in enumerate(parts) for _ in row]
        outputs = decoding.translate(
            self.model,
            ids,
            settings,
            self.backend,
            marks=marks,
            seeds=[(seed, first + i, *([k] if k else [])) for i, row in enumerate(parts) for k in range(len(row))],
            forbidden=self._never,
            prefixes=starts,
            coverage_penalty=options.coverage_penalty,
        )
        rows = [
            [self._translated(c, settings) for c in row] if source else [Translated("", 0.0, "empty")] * settings.count
            for source, row in zip(ids, outputs or [], strict=True)
        ]
        if options.mbr is not None:
            from nlptools.metrics.translation import minimum_risk

            chosen = [minimum_risk.choose([t.text for t in row], options.mbr) for row in rows]
            rows = [[row[i]] for row, i in zip(rows, chosen, strict=True)]
            outputs = [[row[i]] for row, i in zip(outputs or [], chosen, strict=True)]
        rows = self._aligned(ids, outputs or [], rows, marks) if options.alignments else rows
        places = iter(zip(ids, rows, strict=True))
        return [_joined([next(places) for _ in row]) for row in parts]

    def _source_parts(self, lines: Sequence[str], options: Translate, strict: bool) -> list[list[list[int]]]:
        """The tokens of each source, in one part, or with `options.long` "split" in as many as it takes."""
        ids = self.source_tokenizer.encode_lines(lines, self.backend.threads)
        self.unknown.count(lines, ids)
        most = self._longest(options)
        parts = [[row] for row in ids]
        for i, row in enumerate(ids):
            if len(row) <= most:
                continue
            if strict:
                raise _too_long(row, most)
            if options.long == "split":
                parts[i] = source_parts.split(lines[i], self.source_tokenizer, most)
                messages.warn(f"a source of {len(row)} tokens is split into {len(parts[i])}", kind="source split")
            else:
                parts[i] = [row[:most]]
                messages.warn(f"a source of {len(row)} tokens is cut to {most}", kind="source cut")
        return parts

    def _longest(self, options: Translate) -> int:
        """The most tokens of a source."""
        if (length := self.model.config.source_length) is not None:
            return int(length)
        most = options.max_source_length or self.model.max_context or source_parts.LIMIT
        # positions, the tokens around the source among them
        around = self.format.plain.of_source if not self.format.tokens else 2
        return most if self.model.max_context is None else min(most, self.model.max_context - around)

    def _marks(self, options: Translate) -> PairMarks:
        """The tokens around sources and targets. Raises UsageError for a language that the model does not know."""
        return self.format.marks(options.source_lang, options.target_lang)

    def check_source(self, source: str, options: Translate) -> None:
        """Raise DataError for an image that cannot be read, and, with both numbers, for a source that is too long."""
        ids, most = self.source_tokenizer.encode(source), self._longest(options)
        if len(ids) > most:
            raise _too_long(ids, most)

    def _prefix_ids(
        self, count: int, options: Translate, prefixes: Sequence[str] | None, first: int
    ) -> list[list[int]] | None:
        if prefixes is None and options.prefix is None:
            return None
        texts = list(prefixes) if prefixes is not None else [options.prefix or ""] * count
        rows = self.target_tokenizer.encode_lines(texts)
        for number, (text, row) in enumerate(zip(texts, rows, strict=True), first + 1):
            if any(id in self._never for id in row):
                where = "" if prefixes is None else f"input {number}: "
                raise DataError(f"{where}the model has no tokens for the prefix {text!r}")
        return rows

    def _translated(self, output: Continuation, settings: Generate) -> Translated:
        text = self.target_tokenizer.decode(output.ids)
        end = stop_at(text, settings.stop)
        finish = "stop" if end < len(text) else output.finish
        return Translated(
            text[:end], output.score, finish, [token_name(self.target_vocab, i) for i in output.ids], output.logprobs
        )

    def _aligned(
        self, ids: list[list[int]], outputs: list[list[Continuation]], rows: list[list[Translated]], marks: PairMarks
    ) -> list[list[Translated]]:
        """The outputs with the source token that each of their tokens attends to."""
        places = [(i, j) for i, row in enumerate(outputs) for j in range(len(row)) if ids[i]]
        pairs = [(ids[i], outputs[i][j].ids) for i, j in places]
        links = forced.alignments(self.model, pairs, self.backend, marks=marks)
        out = [[replace(t, alignment=[]) for t in row] for row in rows]
        for (i, j), row in zip(places, links, strict=True):
            out[i][j] = replace(rows[i][j], alignment=[(int(s), t) for t, s in enumerate(row)])
        return out

    # -- scoring --------------------------------------------------------------------------------------------------

    def score_batch(
        self, pairs: Sequence[tuple[str, str]], options: Translate | None = None, strict: bool = False
    ) -> list[LineScore]:
        """The log-probability of each target given its source, token by token, the end included."""
        options = replace(options or Translate(), long="cut")
        sources = [row for (row,) in self._source_parts([source for source, _ in pairs], options, strict)]
        targets = self.target_tokenizer.encode_lines([target for _, target in pairs], self.backend.threads)
        both = list(zip(sources, targets, strict=True))
        scores = forced.pair_scores(self.model, both, self.backend, marks=self._marks(options))
        assert scores is not None
        names = [[token_name(self.target_vocab, i) for i in [*target, self.eos]] for target in targets]
        return [LineScore(tokens, row.tolist()) for tokens, row in zip(names, scores, strict=True)]


def resolved(settings: Generate) -> Generate:
    """`settings` with the defaults of encoder-decoders: beam search, unless an option of sampling is given."""
    if settings.beam is not None:
        return settings
    return replace(settings, beam=0 if settings.samples else max(DEFAULT_BEAM, settings.nbest))


def _too_long(source: Sequence[int], most: int) -> DataError:
    return DataError(f"the source has {len(source)} tokens, and at most {most} are read")


def _joined(parts: Sequence[tuple[list[int], list[Translated]]]) -> list[Translated]:
    """The outputs of a source, given the tokens and the outputs of each of its parts.

    Texts are joined by a space. The score is the mean over the parts, and the end of the last part that was cut short counts.
    """
    if len(parts) == 1:
        return parts[0][1]
    out = []
    for row in zip(*(outputs for _, outputs in parts), strict=True):
        sources = itertools.accumulate((len(ids) for ids, _ in parts), initial=0)
        targets = itertools.accumulate((len(each.tokens) for each in row), initial=0)
        links = [
            (source + i, target + j)
            for source, target, each in zip(sources, targets, row)
            for i, j in each.alignment or ()
        ]
        scores = [each.score for each in row if each.score is not None]
        out.append(
            Translated(
                " ".join(each.text for each in row if each.text),
                sum(scores) / len(scores) if scores else None,
                next((each.finish for each in reversed(row) if each.finish not in ("eos", "empty")), "eos"),
                [token for each in row for token in each.tokens],
                [value for each in row for value in each.logprobs],
                None if row[0].alignment is None else links,
            )
        )
    return out


def _tokens(loaded: bundle.Bundle[EncoderDecoder]) -> tuple[Sequence[str] | None, ...]:
    sides = (loaded.tokenizer, loaded.target_tokenizer or loaded.tokenizer)
    return tuple(side.vocab.tokens if side.vocab is not None else None for side in sides)
