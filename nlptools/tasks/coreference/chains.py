"""The task chains: the mentions of a document that are the same entity, from CoNLL-2012's columns.

Lee et al. 2017 (D17-1018): spans are scored as mentions, and pairs of them as mention and antecedent, over the whole document
(`tasks.coreference.ranking`). As in Joshi et al. 2019 (D19-1588), a document that is longer than a row is encoded in several
rows; here they overlap, and the vector of a word comes from the row in which it has most context. transformers has no such
head and leaves it out when it opens the directory.
Shapes: N documents, W words of all documents, R rows, B rows of a batch, T length, F size of a projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nlptools import bundle, messages
from nlptools.batches.encoder_rows import bounds_of
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError
from nlptools.formats.chains import with_chains
from nlptools.formats.examples import Chain, CoreferenceDocument
from nlptools.layers.chains import LONGEST, ChainHead
from nlptools.metrics.coreference import coreference
from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.coreference.ranking import document_chains, document_loss, number_kept, number_of_spans
from nlptools.tasks.labels import gold
from nlptools.tasks.tag.features import WordFeatures, word_features
from nlptools.tasks.task import TaskOf, check_best, reading_options

_NUMBERS = {"muc": "muc", "b_cubed": "b-cubed", "ceaf_e": "ceaf-e", "lea": "lea", "conll": "conll"}


class Linked(NamedTuple):
    """The chains of a document, each of two or more spans. If predictions are measured, the loss and the spans that it is of."""

    chains: list[Chain]
    loss: float = 0.0
    spans: int = 0


@dataclass(frozen=True)
class CoreferenceChains(TaskOf[CoreferenceDocument, Linked, Encoding]):
    """See the module's docstring. `measuring`: whether predictions are measured."""

    measuring: bool = True

    unit: ClassVar[str] = "spans"
    window: ClassVar[int] = 32
    bests: ClassVar[tuple[str, ...]] = ("loss", "conll", "lea")
    not_remembered: ClassVar[tuple[str, ...]] = ("layout", "text_column")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> CoreferenceChains:
        return cls("chains", reading_options(files), check_best(settings, cls.bests))

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> CoreferenceChains:
        return cls("chains", replace(reading_options(files), labelled=False), measuring=False)

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", *_NUMBERS)

    # -- examples -----------------------------------------------------------------------------------------------------

    def learn(self, examples: Sequence[CoreferenceDocument]) -> CoreferenceChains:
        if not any(len(chain) > 1 for e in examples for chain in gold(e.chains)):
            hint = "the last column has the chains: (7 where a mention of chain 7 begins, 7) where it ends"
            raise DataError("no chain has two mentions", path=examples[0].place.path, hint=hint)
        return self

    def features(self, examples: Sequence[CoreferenceDocument], encoding: Encoding, labelled: bool) -> Features:
        words = word_features([e.words for e in examples], encoding)
        starts = np.searchsorted(words.words[:-1], words.sentences)  # the first row of each document
        features = Features(words.rows, examples=starts, cut=words.cut_words, more=words)
        if not labelled:
            return features
        mentions = [_learned(e) for e in examples]
        _report_left_out(examples, mentions)
        weight = np.zeros(len(words.rows), np.float32)
        for n, (e, some) in enumerate(zip(examples, mentions, strict=True)):
            if e.words:
                weight[starts[n]] = number_kept(len(e.words), _number_of_spans(e), len(some))
        targets = {
            "document": np.repeat(np.arange(len(examples)), np.diff(starts)),
            "mentions": _by_row(mentions, words),
            "sentence": words.piece_labels(np.concatenate([_sentence_numbers(e) for e in examples])),
            WEIGHT: weight,
        }
        return Features(words.rows, targets, ("sentence",), starts, words.cut_words, more=words)

    # -- training and prediction --------------------------------------------------------------------------------------

    def layers_of(self, model: TaskHeads) -> dict[str, nn.Module]:
        assert model.chains is not None
        return {"chains": model.chains}

    def loss(self, logits: Tensor, *targets: Tensor, chains: ChainHead | None = None) -> Tensor:
        """(B, T, 4 F) projections of the words of some documents -> the sum over the spans that are kept."""
        assert chains is not None
        document, mentions, sentence, weight = targets
        total = logits.new_zeros(())
        for number in dict.fromkeys(document.tolist()):
            rows = document == number
            real = sentence[rows] != NO_TARGET
            of_document = mentions[rows].view(-1, 3)
            of_document = of_document[of_document[:, 0] >= 0]
            loss = document_loss(chains, logits[rows][real], sentence[rows][real], of_document)
            total = total + loss * (weight[rows].sum() > 0)
        return total

    def decode(
        self,
        outputs: Sequence[np.ndarray],
        features: Features,
        examples: Sequence[CoreferenceDocument],
        chains: ChainHead | None = None,
    ) -> list[Linked]:
        assert chains is not None
        words: WordFeatures = features.more
        rows = bounds_of(features.lengths)
        predictions = []
        device = chains.distance.device
        for n, (first, last) in enumerate(pairwise(words.sentences.tolist())):
            if first == last:
                predictions.append(Linked([]))
                continue
            begin, end = np.searchsorted(words.words[:-1], (first, last)).tolist()
            places = words.tokens[first:last] - rows[begin]
            vectors = torch.from_numpy(np.concatenate(outputs[begin:end])[places]).to(device)
            sentences = torch.from_numpy(_sentence_numbers(examples[n])).to(device)
            found = document_chains(chains, vectors, sentences)
            loss, spans = self._measured(examples[n], chains, vectors, sentences) if self.measuring else (0.0, 0)
            predictions.append(Linked(found, loss, spans))
        return predictions

    @torch.inference_mode()
    def _measured(
        self, example: CoreferenceDocument, head: ChainHead, vectors: Tensor, sentences: Tensor
    ) -> tuple[float, int]:
        """The loss of a document, and the number of its spans that are kept."""
        some = _learned(example)
        mentions = torch.tensor(some, dtype=torch.long, device=vectors.device).view(-1, 3)
        spans = number_kept(len(example.words), _number_of_spans(example), len(some))
        return float(document_loss(head, vectors, sentences, mentions)), spans

    def measure(self, predictions: Sequence[Linked], examples: Sequence[CoreferenceDocument]) -> dict[str, float]:
        values = coreference([gold(e.chains) for e in examples], [p.chains for p in predictions]).values()
        numbers = {"loss": sum(p.loss for p in predictions) / max(1, sum(p.spans for p in predictions))}
        numbers |= {name: values[metric] for name, metric in _NUMBERS.items()}
        return {"answers": float(len({tuple(p.chains) for p in predictions})), **numbers}

    # -- output -------------------------------------------------------------------------------------------------------

    def lines(
        self, predictions: Sequence[Linked], examples: Sequence[CoreferenceDocument], settings: Predict, first: bool
    ) -> list[str]:
        """See `Task`. An example without name holds the lines after the last document of a file."""
        if settings.to != "text":
            some = [(p, e) for p, e in zip(predictions, examples, strict=True) if e.name]
            predictions, examples = [p for p, _ in some], [e for _, e in some]
        return super().lines(predictions, examples, settings, first)

    def text_lines(
        self, predictions: Sequence[Linked], examples: Sequence[CoreferenceDocument], settings: Predict, first: bool
    ) -> list[str]:
        return [line for p, e in zip(predictions, examples, strict=True) for line in with_chains(e, p.chains)]

    def as_json(self, prediction: Linked, example: CoreferenceDocument, settings: Predict) -> dict[str, object]:
        chains = [
            [{"text": " ".join(example.words[a : b + 1]), "first": a, "last": b} for a, b in chain]
            for chain in prediction.chains
        ]
        return {"document": example.name, "chains": chains}


def _sentence_numbers(example: CoreferenceDocument) -> np.ndarray:
    """(W,) int64, the number of the sentence of each word of a document."""
    numbers: np.ndarray = np.searchsorted(example.sentences, np.arange(len(example.words)), side="right") - 1
    return numbers


def _number_of_spans(example: CoreferenceDocument) -> int:
    return number_of_spans(np.diff([*example.sentences, len(example.words)]))


def _learned(example: CoreferenceDocument) -> list[tuple[int, int, int]]:
    """First word, last word and chain of the mentions that the model can predict: in one sentence, not too long, and not alone
    in their chain.
    """
    sentence = _sentence_numbers(example)
    return [
        (a, b, number)
        for number, chain in enumerate(gold(example.chains))
        for a, b in chain
        if len(chain) > 1 and b - a < LONGEST and sentence[a] == sentence[b]
    ]


def _report_left_out(examples: Sequence[CoreferenceDocument], mentions: Sequence[Sequence[object]]) -> None:
    every = sum(len(chain) for e in examples for chain in gold(e.chains))
    alone = sum(len(chain) == 1 for e in examples for chain in gold(e.chains))
    if alone:
        messages.note(f"{messages.counted(alone, 'chain')} of one mention: not learned")
    if left_out := every - alone - sum(map(len, mentions)):
        messages.warn(
            f"{messages.counted(left_out, 'mention')} of more than {LONGEST} words or one sentence: not learned"
        )


def _by_row(mentions: Sequence[Sequence[tuple[int, int, int]]], words: WordFeatures) -> np.ndarray:
    """(R, 3 K) the mentions of each document, in the row of their first word, then -1; K: the most of a row."""
    rows: list[list[int]] = [[] for _ in range(len(words.rows))]
    for first, some in zip(words.sentences[:-1].tolist(), mentions, strict=True):
        for a, b, chain in some:
            rows[int(np.searchsorted(words.words, first + a, side="right")) - 1] += [a, b, chain]
    width = max(3, *map(len, rows)) if rows else 3
    return np.array([row + [-1] * (width - len(row)) for row in rows], np.int64).reshape(-1, width)
