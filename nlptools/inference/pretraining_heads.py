"""Predictions of the heads that pretraining leaves in an encoder.

BERT (Devlin et al. 2019, arXiv:1810.04805): does the second text follow the first? ELECTRA's discriminator (Clark et al. 2020,
arXiv:2003.10555): which tokens did another model write?
Shapes: B rows of a batch, T longest of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from nlptools import bundle, messages
from nlptools.batches.encoder_rows import EncoderSegment, join, packed
from nlptools.batches.features import Features
from nlptools.batches.strided_windows import cut
from nlptools.compute import memory
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError, UsageError, display
from nlptools.files import streams
from nlptools.files.line_ranges import lines_from
from nlptools.files.line_records import escape, unescape
from nlptools.files.streams import LineBlock
from nlptools.inference.line_score import token_name
from nlptools.inference.opening import Asked, Opened
from nlptools.layers.quantized import Rounding
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks
from nlptools.text.unknown import UnknownTokens

_WINDOW = 1024  # lines that are sorted by length together
NEXT = ("next", "not-next")  # the labels of BERT's head, in the order of its logits


class PretrainingPredictor(ABC):
    """An encoder with a head of pretraining, on a device; see `uses.Predicts`.

    Attributes:
        texts: the number of texts in a line of input, separated by tabs.
        head: the name of the head, see `bert.PRETRAINING_HEADS`.
        noun: the name of its predictions in messages.
        objective: the value of pretrain-bert's `--objective` that trains the head.
    """

    texts: ClassVar[int]
    head: ClassVar[str]
    noun: ClassVar[str]
    objective: ClassVar[str]

    def __init__(self, loaded: bundle.Bundle[BertWithHeads], backend: Backend, settings: Predict) -> None:
        """Raises UsageError for a model without the head."""
        if self.head not in loaded.heads or (self.head == "next_sentence" and "pooler" not in loaded.heads):
            raise UsageError(
                f"{display(str(loaded.path))} has no head that predicts {self.noun}",
                hint=f"pretrain-bert --objective {self.objective} trains one",
            )
        assert loaded.tokenizer.vocab is not None
        self.vocab, self.tokenizer = loaded.tokenizer.vocab, loaded.tokenizer
        self.settings, self.backend, self.window = settings, backend.for_model(loaded.model), _WINDOW
        self.layout = "text" if settings.to == "text" else settings.to
        self.encoding = tasks.pretrained_encoding(loaded, settings.max_length, backend.threads)
        self.model: BertWithHeads = self.backend.for_inference(loaded.model)
        self.unknown = UnknownTokens(loaded.tokenizer, "the text")
        self.cut = 0  # lines that lost tokens

    @staticmethod
    def opened(asked: Asked[Predict], model: Opened[BertWithHeads]) -> PretrainingPredictor:
        """See `uses`."""
        settings = asked.settings or Predict(ask="next")
        if asked.files not in (None, Files()):
            raise UsageError("predict --ask reads lines of text; options of other layouts do not apply")
        memory.expect_new_shapes()
        return _HEADS[settings.ask or "next"](model.bundle, Backend.detect(asked.compute), settings)

    @property
    def roundings(self) -> list[Rounding]:
        """See `quantization.Quantizable`."""
        return [Rounding(self.model, self.model.encoder)]

    def count(self, paths: Sequence[str], errors: str = "strict") -> int:
        """The number of lines of files."""
        return sum(len(block.lines) for block in streams.all_blocks(paths, errors))

    def lines(
        self, paths: Sequence[str], errors: str = "strict", force: bool = False, first: int = 0, end: int | None = None
    ) -> Iterator[list[str]]:
        """The lines that `predict` writes, a window at a time. Raises DataError for a line with another number of texts."""
        chosen = (block for _, block in lines_from(streams.all_blocks(paths, errors), first, end))
        for block in streams.windows(chosen, self.window):
            texts = [self._texts(line, block, number) for number, line in enumerate(block.lines)]
            yield self.answers(texts)
        self.unknown.report()
        if self.cut:
            messages.warn(f"cut {messages.counted(self.cut, 'line')} that exceeded the maximum length of the model")

    def _texts(self, line: str, block: LineBlock, number: int) -> list[str]:
        texts = [unescape(text) for text in line.split("\t")]
        if len(texts) != self.texts:
            expected = ("a text", "two texts")[self.texts - 1]
            message = f"expected {expected}, found {len(texts)} between tabs"
            raise DataError(message, path=block.path, line=block.start + number)
        return texts

    def logits(self, features: Features) -> list[np.ndarray]:
        """The logits of the head for each row, float64."""
        pad = self.encoding.marks.pad

        def of_rows(rows: np.ndarray) -> list[np.ndarray]:
            batch = features.rows.batch(rows, pad)
            return self.batch_logits(batch.ids, batch.mask, batch.types)

        found = outputs.in_batches(of_rows, features, batch_tokens=self.settings.batch_tokens)
        assert found is not None
        return [row.astype(np.float64) for row in found]

    @abstractmethod
    def batch_logits(self, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> list[np.ndarray]:
        """(B, T) ids, mask (True = real) and segments -> the logits of each row, float32."""

    @abstractmethod
    def answers(self, texts: Sequence[list[str]]) -> list[str]:
        """The line of output for each line of texts."""


class NextSentences(PretrainingPredictor):
    """Whether the second of two texts follows the first."""

    texts, head, noun, objective = 2, "next_sentence", "the next sentence", "bert"

    def batch_logits(self, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> list[np.ndarray]:
        put, model = self.backend.put, self.model
        assert model.next_sentence is not None and model.encoder.pooler is not None
        first = model.encoder.first(put(ids), put(mask), put(types))
        return list(model.next_sentence(model.encoder.pooler(first)).float().cpu().numpy())

    def probabilities(self, pairs: Sequence[Sequence[str]]) -> np.ndarray:
        """(N, 2) the probabilities of `NEXT` for pairs of texts. A pair that is too long is cut, the longer text first."""
        features = self.encoding.rows(pairs)
        self.cut += features.cut
        self.unknown.count([" ".join(pair) for pair in pairs], features.rows.ids)
        logits = np.stack(self.logits(features))
        exp = np.exp(logits - logits.max(1, keepdims=True))
        shares: np.ndarray = exp / exp.sum(1, keepdims=True)
        return shares

    def answers(self, texts: Sequence[list[str]]) -> list[str]:
        found = [(NEXT[int(row.argmax())], float(row.max())) for row in self.probabilities(texts)]
        if self.settings.to == "text":
            return [f"{label}\t{share:.4f}" for label, share in found]
        return [json.dumps({"label": label, "probability": round(share, 6)}) for label, share in found]


class ReplacedTokens(PretrainingPredictor):
    """The probability of each token that it was replaced."""

    texts, head, noun, objective = 1, "replaced", "replaced tokens", "electra"

    def batch_logits(self, ids: np.ndarray, mask: np.ndarray, types: np.ndarray) -> list[np.ndarray]:
        put, model = self.backend.put, self.model
        assert model.replaced is not None
        logits = model.replaced(model.encoder(put(ids), put(mask), put(types)).last).float().cpu().numpy()
        return [row[:length] for row, length in zip(logits, mask.sum(1), strict=True)]

    def probabilities(self, lines: Sequence[str]) -> list[list[tuple[str, float]]]:
        """The tokens of each line with their probabilities. A long line is read in overlapping windows."""
        encoded = self.tokenizer.encode_lines(lines, self.backend.threads)
        self.unknown.count(lines, encoded)
        pieces, marks = packed(encoded), self.encoding.marks
        room = np.full(len(lines), self.encoding.max_length - marks.count(1))
        windows = cut(np.ones(len(pieces.ids), np.int64), pieces.bounds, room, np.maximum(1, room // 2))
        if not len(windows.text):
            return [[] for _ in lines]
        starts = pieces.bounds[windows.text] + windows.first
        rows, (begins,) = join(marks, [EncoderSegment(pieces.ids, starts, windows.end - windows.first)])
        out: list[list[tuple[str, float]]] = [[] for _ in lines]
        for number, logits in enumerate(self.logits(Features(rows))):
            text, first = windows.text[number], windows.owned_first[number]
            ids = encoded[text][first : windows.owned_end[number]]
            place = begins[number] + first - windows.first[number]
            shares = 1 / (1 + np.exp(-logits[place : place + len(ids)]))
            out[text] += zip([token_name(self.vocab, id) for id in ids], shares.tolist(), strict=True)
        return out

    def answers(self, texts: Sequence[list[str]]) -> list[str]:
        lines = [text for (text,) in texts]
        found = self.probabilities(lines)
        if self.settings.to == "text":
            return ["\t".join(f"{escape(token)}\t{share:.4f}" for token, share in tokens) for tokens in found]
        rounded = [[(token, round(share, 6)) for token, share in tokens] for tokens in found]
        return [
            json.dumps({"text": line, "tokens": tokens}, ensure_ascii=False)
            for line, tokens in zip(lines, rounded, strict=True)
        ]


_HEADS: dict[str, type[PretrainingPredictor]] = {"next": NextSentences, "replaced": ReplacedTokens}
