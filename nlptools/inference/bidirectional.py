"""A bidirectional language model at work: each word of a text scored given those before it, and given those after it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score
from nlptools.corpora import token_file
from nlptools.corpora.token_file import TextCounts
from nlptools.errors import UsageError, display
from nlptools.files.streams import LineBlock
from nlptools.inference.line_score import BOTH_DIRECTIONS, LineScore, refuse_streams, token_name
from nlptools.inference.mixture_parts import Mixed
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.perplexity import perplexities, perplexity
from nlptools.inference.scoring import Stop, document_scores, whole_documents
from nlptools.inference.words import WordScore
from nlptools.json_types import JsonObject
from nlptools.layers.output import OutputHead
from nlptools.models.contract import LanguageModel
from nlptools.models.language.elmo import BACKWARD, FORWARD, Elmo, OneDirection, spelled_vocabulary
from nlptools.text.open_words import OpenWords
from nlptools.text.unknown import UnknownTokens
from nlptools.text.vocab import Vocab


class BothDirections:
    """Scores texts, given as the numbers of their words: ids of the vocabulary, and further ones of words outside it.

    The latter are scored as the unknown token, but read by their spelling.
    """

    def __init__(self, model: Elmo, vocab: Vocab, eos: int, backend: Backend) -> None:
        self.backend, self.eos = backend, eos
        self._size, self._unk = model.config.vocab_size, vocab.unk
        self.halves = [
            OneDirection(model, direction, spelled_vocabulary(vocab.tokens, eos, direction).to(backend.device))
            for direction in (FORWARD, BACKWARD)
        ]

    def extend(self, spellings: np.ndarray) -> None:
        """Give the next numbers to words with these spellings, (F, C)."""
        for half in self.halves:
            half.extend(self.backend.put(np.array(spellings)))

    def __call__(
        self, texts: Sequence[Sequence[int] | np.ndarray], stop: Stop | None = None
    ) -> list[np.ndarray] | None:
        """(T + 1, 2), float32, in nats, for each text of T words: the log-probability of each word, and of the boundary,
        given all words before it and given all words after it. Returns None when `stop()` turned true.
        """
        boundary = np.array([self.eos], np.int64)
        rows = [np.asarray(text, np.int64) for text in texts]
        sides = []
        for half, step in zip(self.halves, (1, -1), strict=True):
            ordered = [np.concatenate([row[::step], boundary]) for row in rows]
            model = cast(LanguageModel, half)  # without a token embedding
            scored = document_scores(model, ordered, self.backend, start=self.eos, stop=stop, measure=self._measure)
            if scored is None:
                return None
            sides.append([np.concatenate([row[:-1][::step], row[-1:]]) for row in scored])
        return [np.stack(pair, 1) for pair in zip(*sides, strict=True)]

    def _measure(self, head: OutputHead, hidden_ND: Tensor, numbers_N: Tensor) -> Tensor:
        """The log-probabilities of words (N,)."""
        if self._unk is not None:
            numbers_N = torch.where(numbers_N < self._size, numbers_N, self._unk)
        return head.log_probabilities(hidden_ND, numbers_N)


def total_of_both(
    scores: BothDirections, encoded: Iterable[tuple[np.ndarray, TextCounts]], stop: Stop | None = None
) -> tuple[float, float, TextCounts] | None:
    """(log-probability forward, backward, counts) of a text given as chunks of numbers in which `eos` ends each document.

    Ranks share the documents. Returns None when `stop()` turned true.
    """
    backend, total, counts = scores.backend, np.zeros(2), TextCounts()
    for documents, part in whole_documents(encoded, scores.eos):
        counts += part
        mine = [document[:-1] for document in documents[backend.rank :: backend.world_size]]
        scored = scores(mine, stop)
        if scored is None:
            return None
        total += sum((each.sum(0, dtype=np.float64) for each in scored), np.zeros(2))
    forward, backward = backend.sum(total.tolist())
    return forward, backward, counts


class BidirectionalScorer:
    """Scores as `inference.language_model.TextLanguageModel` does; returned by `nlptools.load`.

    The log-probability of a word is the mean over both directions; totals also have each direction.
    """

    total_columns = BOTH_DIRECTIONS

    roundings = ()  # nothing that `quantization.quantize` rounds

    @property
    def mixed(self) -> Mixed | None:
        """See `uses.Scores`."""
        return None

    def __init__(self, loaded: bundle.Bundle[Elmo], backend: Backend) -> None:
        """Raises UsageError for a model without a softmax."""
        model = loaded.model
        refuse_features(loaded)
        assert loaded.tokenizer.vocab is not None
        self.bundle, self.backend, self.vocab = loaded, backend.for_model(model), loaded.tokenizer.vocab
        self.unknown = UnknownTokens(loaded.tokenizer, "the text")
        self.words_read = OpenWords(loaded.tokenizer, model.config.vocab_size)
        self.scores = BothDirections(self.backend.for_inference(model), self.vocab, loaded.eos, self.backend)
        self._spelled = 0  # words outside the vocabulary that the model can already spell

    @classmethod
    def opened(cls, asked: Asked[Score], model: Opened[Elmo]) -> BidirectionalScorer:
        """See `uses`. Raises UsageError for options that see the text as one stream."""
        refuse_streams("a bidirectional model", asked.settings)
        return cls(model.bundle, Backend.detect(asked.compute))

    def score(self, lines: Iterable[str], settings: Score | None = None) -> Iterator[LineScore]:
        """The score of each line, in order; 1,024 lines are read at a time."""
        settings, lines = settings or Score(), iter(lines)
        while batch := list(itertools.islice(lines, 1024)):
            yield from self.score_batch(batch, settings)

    def score_batch(self, lines: Sequence[str], settings: Score) -> list[LineScore]:
        """The scores of some lines: of each token the mean of both directions."""
        left = 0 if settings.eos else 1  # the boundary
        out = []
        for ids, scored in zip(*self._scored(lines), strict=True):
            names = [token_name(self.vocab, i) for i in [*self.words_read.tokens(ids).tolist(), self.bundle.eos]]
            out.append(LineScore(names[: len(names) - left], scored.mean(1)[: len(names) - left].tolist()))
        return out

    def totals(self, lines: Sequence[str], settings: Score) -> list[tuple[float, int, float, float]]:
        """(mean log-probability of both directions in nats, number of tokens, forward, backward) of each line."""
        left = 0 if settings.eos else 1
        out = []
        for scored in self._scored(lines)[1]:
            count = len(scored) - left
            forward, backward = scored[:count].sum(0, dtype=np.float64).tolist()
            out.append(((forward + backward) / 2, count, forward, backward))
        return out

    def words(self, lines: Sequence[str], settings: Score) -> list[WordScore]:
        """Raises UsageError: surprisal is defined for one direction."""
        raise UsageError(
            f"--per word: {display(str(self.bundle.path))} is bidirectional", hint="--per token, --per line"
        )

    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> JsonObject:
        """Perplexities of a text, of the mean of both directions and of each, and the protocol."""
        settings = settings or Score(per="total")
        document, eos = settings.document or self.bundle.document, self.bundle.eos

        def encoded() -> Iterator[tuple[np.ndarray, TextCounts]]:
            chunks = token_file.encode(blocks, self.unknown, eos, document, self.backend.threads, self.words_read)
            for chunk in chunks:
                self._extend()
                yield chunk

        with torch.inference_mode():
            scored = total_of_both(self.scores, encoded())
        assert scored is not None
        forward, backward, counts = scored
        tokens = max(1, counts.tokens)
        return {
            "log_probability": (forward + backward) / 2,
            **perplexities((forward + backward) / 2, counts),
            "forward_perplexity": perplexity(-forward / tokens),
            "backward_perplexity": perplexity(-backward / tokens),
            **vars(counts),
            "protocol": {
                "context": "all words of the document before the token, or all after it",
                "perplexity": "of the mean of both log-probabilities",
                "document": document,
                "before_first_token": "begin of text",
                "end_of_text_counted": True,
                "words": "separated by white space in the text as given",
                "unknown_tokens": "scored as the unknown token, read as spelled"
                if self.vocab.unk is not None
                else "none possible",
                "logarithm": "natural",
                **self.backend.describe(),
            },
        }

    @torch.inference_mode()
    def _scored(self, lines: Sequence[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The numbers of the words of each line, and their scores, see `BothDirections`."""
        rows = [np.array(row, np.int64) for row in self.words_read.encode_lines(lines)]
        for line, row in zip(lines, rows, strict=True):
            self.unknown.count([line], self.words_read.tokens(row))
        self._extend()
        scored = self.scores(rows)
        assert scored is not None
        return rows, scored

    def _extend(self) -> None:
        """Give the model the spellings of new words outside the vocabulary."""
        further = self.words_read.further
        if len(further) > self._spelled:
            from nlptools.text.byte_spelling import spell

            self.scores.extend(spell(further[self._spelled :]))
            self._spelled = len(further)


def refuse_features(loaded: bundle.Bundle[Elmo]) -> None:
    """Raise UsageError for a model without a softmax."""
    if loaded.model.output is None:
        raise UsageError(
            f"{display(str(loaded.path))} has no softmax, as the published weights: it has features only",
            hint="embed and finetune take such models",
        )
