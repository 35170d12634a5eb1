"""The task tag with several columns of CoNLL-U: a label of each word in each column, by one model.

A linear layer on the token that represents each word (`tasks.tag.features`) has the labels of all columns, and a softmax for
each column; the loss is the sum over the columns. A morphology (FEATS) is one label: the whole of its attributes.
Shapes: N sentences, W words, B rows of a batch, T tokens of a row, K labels of all columns, C columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle, messages
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.spelled_words import WordEncoding
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError, DataError, UsageError, shown
from nlptools.files import streams
from nlptools.formats.conll import CONLLU
from nlptools.formats.examples import UniversalSentence
from nlptools.formats.reading_options import TagColumns
from nlptools.formats.tag_schemes import place_of
from nlptools.formats.universal import annotated, label_columns, read_universal
from nlptools.json_types import JsonObject
from nlptools.layers.biaffine import DependencyHead
from nlptools.metrics import universal
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.labels import id2label, labels_of
from nlptools.tasks.tag.features import WordFeatures, word_features
from nlptools.tasks.tag.word_labels import SPLITS, UNSEEN_HINT
from nlptools.tasks.task import AUTO, TaskOf, check_best, reading_options, saved_setting


class Annotated(NamedTuple):
    """The prediction for a sentence.

    Attributes:
        columns: the values (W,) of columns of CoNLL-U, by name.
        loss: the sum of the losses of its words, as far as their labels are known.
    """

    columns: dict[str, list[str]]
    loss: float = 0.0


@dataclass(frozen=True)
class ColumnTags(TaskOf[UniversalSentence, Annotated, Encoding | WordEncoding]):
    """See the module's docstring.

    Attributes:
        columns: (C,) names of columns.
        labels: (K,) `column=value`, the columns in order; learned.
    """

    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    unit: ClassVar[str] = "words"
    reads_words: ClassVar[bool] = True
    learns: ClassVar[tuple[str, ...]] = ("labels",)
    bests: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    trees: ClassVar[bool] = False  # whether the task learns from dependency trees

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> ColumnTags:
        if files.layout not in (AUTO, "conllu"):
            raise UsageError(f"--layout {files.layout}: several columns, and trees, are learned from CoNLL-U")
        given = {"--crf": settings.crf, "--scheme": files.scheme != AUTO, "--text-column": files.text_column}
        for flag, value in given.items():
            if value:
                raise UsageError(f"{flag} cannot be combined with several columns or --task parse")
        columns = label_columns(files.label_column) if files.label_column else ()
        best = check_best(settings, cls.bests)
        return cls(settings.task, replace(reading_options(files), trees=cls.trees), best, columns)

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Self:
        """See `Task`. Raises UsageError for options of models with one tag per word."""
        model = loaded.model
        refused = {"--columns": settings.columns, "--decoding": settings.decoding, "--label-column": files.label_column}
        for flag, value in {**refused, "--to entities": settings.to == "entities"}.items():
            if value:
                raise UsageError(f"{flag}: the model fills columns of CoNLL-U, and writes the whole file")
        name, columns = saved_setting(loaded.config, "name", ""), saved_columns(loaded)
        labels = labels_of(loaded.config, model.num_labels) if "tokens" in model.heads else ()
        order = [label.partition("=")[0] for label in labels]
        if list(dict.fromkeys(order)) != columns or order != sorted(order, key=columns.index):
            raise BundleError(f"config.json: id2label does not have the labels of the columns {columns!r:.80}")
        known = TagColumns(len(CONLLU), frozenset())
        options = replace(reading_options(files), labelled=False, tagged=known, words_of=SPLITS[settings.split])
        return cls(name, options, columns=tuple(columns), labels=labels)

    @property
    def num_labels(self) -> int:
        return len(self.labels) or super().num_labels  # without columns there is no head "tokens"

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", *self.columns, "accuracy")

    @cached_property
    def values(self) -> dict[str, list[str]]:
        """The values of each column that have a label, in the order of the labels."""
        values: dict[str, list[str]] = {name: [] for name in self.columns}
        for label in self.labels:
            column, _, value = label.partition("=")
            values[column].append(value)
        return values

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[UniversalSentence]:
        options = replace(self.options, labelled=labelled)
        paths = streams.check_inputs(names)
        return chain.from_iterable(read_universal(path, options, errors) for path in paths)

    def learn(self, examples: Sequence[UniversalSentence]) -> Self:
        labels: list[str] = []
        for name in self.columns:
            values = sorted({value for e in examples for value in e.column(CONLLU.index(name))})
            if len(values) < 2:
                message = f"only one class: every {name} is {shown(values[0])}"
                raise DataError(message, path=examples[0].place.path, hint="--label-column names other columns")
            labels += (f"{name}={value}" for value in values)
        return replace(self, labels=tuple(labels))

    def count_labels(self, examples: Sequence[UniversalSentence]) -> Counter[str]:
        """The labels of the first column."""
        number = CONLLU.index(self.columns[0]) if self.columns else None
        return Counter() if number is None else Counter(value for e in examples for value in e.column(number))

    def known(self) -> Mapping[str, Sequence[str]]:
        """The values of columns that the training data has."""
        return self.values

    def check(self, examples: Sequence[UniversalSentence]) -> None:
        """Warn of values that were not seen in training: rare morphology is common."""
        for name, values in self.known().items():
            number, seen = CONLLU.index(name), set(values)
            unseen = [(e, word) for e in examples for word, value in enumerate(e.column(number)) if value not in seen]
            if unseen:
                example, word = unseen[0]
                value = shown(example.fields[word][number])
                fault = place_of(example, word).error(f"{name} {value} was not seen in training", UNSEEN_HINT)
                messages.warn(f"{fault}; {messages.counted(len(unseen), 'word')} with such {name}, counted as wrong")

    def features(
        self, examples: Sequence[UniversalSentence], encoding: Encoding | WordEncoding, labelled: bool
    ) -> Features:
        words = word_features([e.words for e in examples], encoding)
        starts = np.searchsorted(words.words[:-1], words.sentences)  # the first row of each sentence
        tables = encoding.tables(chain.from_iterable(e.words for e in examples))
        features = Features(words.rows, examples=starts, cut=words.cut_words, tables=tables, more=words)
        if not labelled:
            return features
        of_words = {name: words.piece_labels(numbers) for name, numbers in self.targets(examples).items()}
        of_rows = self.row_targets(words)
        of_words[WEIGHT] = (next(iter(of_words.values())) != NO_TARGET).astype(np.float32)
        return replace(features, targets={**of_rows, **of_words}, per_token=tuple(of_words))

    def targets(self, examples: Sequence[UniversalSentence]) -> dict[str, np.ndarray]:
        """The targets of the words of all sentences: (W,) int64 each, NO_TARGET for values without a label."""
        return {name: numbered(examples, name, values) for name, values in self.values.items()}

    def row_targets(self, words: WordFeatures) -> dict[str, np.ndarray]:
        """The targets of whole rows: none."""
        return {}

    # -- training and prediction --------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor, arcs: DependencyHead | None = None) -> Tensor:
        *labels, weight = targets
        total = logits.new_zeros(())
        sizes = [len(values) for values in self.values.values()]
        for scores, label in zip(torch.split(logits, sizes, -1), labels, strict=True):
            each = F.cross_entropy(scores.transpose(1, 2), label, reduction="none", ignore_index=NO_TARGET)
            total = total + (each * weight).sum()
        return total

    def decode(
        self,
        outputs: Sequence[np.ndarray],
        features: Features,
        examples: Sequence[UniversalSentence],
        arcs: DependencyHead | None = None,
    ) -> list[Annotated]:
        scores = word_outputs(outputs, features)
        return self.tagged(scores, features.more.sentences, examples)

    def tagged(
        self, scores: np.ndarray, sentences: np.ndarray, examples: Sequence[UniversalSentence]
    ) -> list[Annotated]:
        """The best value of each word (W, K) in each column, by sentence (N + 1,)."""
        found: dict[str, list[str]] = {}
        losses = np.zeros(len(scores))
        labelled = all(e.fields for e in examples if e.words)
        begin = 0
        for name, values in self.values.items():
            part = scores[:, begin : begin + len(values)]
            begin += len(values)
            found[name] = [values[i] for i in part.argmax(axis=1)]
            if labelled:
                losses += losses_of(torch.from_numpy(part), torch.from_numpy(numbered(examples, name, values))).numpy()
        return [
            Annotated({name: values[a:b] for name, values in found.items()}, float(losses[a:b].sum()))
            for a, b in pairwise(sentences.tolist())
        ]

    def measure(self, predictions: Sequence[Annotated], examples: Sequence[UniversalSentence]) -> dict[str, float]:
        predicted = [with_columns(e, p.columns) for e, p in zip(examples, predictions, strict=True)]
        words = sum(len(e.words) for e in examples)
        answers = {row for p in predictions for row in zip(*p.columns.values())}
        numbers = {"answers": float(len(answers)), "loss": sum(p.loss for p in predictions) / max(1, words)}
        for name in self.columns:
            numbers[name] = universal.share(examples, predicted, (name,))
        return {**numbers, **self.more_measures(examples, predicted)}

    def more_measures(
        self, examples: Sequence[UniversalSentence], predicted: Sequence[UniversalSentence]
    ) -> dict[str, float]:
        """The share of words with all columns right."""
        return {"accuracy": universal.share(examples, predicted, self.columns)}

    def lines(
        self, predictions: Sequence[Annotated], examples: Sequence[UniversalSentence], settings: Predict, first: bool
    ) -> list[str]:
        """See `Task`. As JSON, without the lines after the last sentence of a file."""
        if settings.objects:
            kept = [(p, e) for p, e in zip(predictions, examples, strict=True) if e.words or e.layout == "lines"]
            predictions, examples = [p for p, _ in kept], [e for _, e in kept]
        return super().lines(predictions, examples, settings, first)

    def text_lines(
        self, predictions: Sequence[Annotated], examples: Sequence[UniversalSentence], settings: Predict, first: bool
    ) -> list[str]:
        return [line for p, e in zip(predictions, examples, strict=True) for line in annotated(e, p.columns)]

    def as_json(self, prediction: Annotated, example: UniversalSentence, settings: Predict) -> dict[str, object]:
        return {"words": list(example.words), **prediction.columns}

    def label_settings(self) -> JsonObject:
        return id2label(self.labels) if self.labels else {}

    def own_settings(self) -> JsonObject:
        return {"annotates": list(self.columns)}


def saved_columns(loaded: bundle.Bundle[object]) -> list[str]:
    """The columns that a model fills in addition to the columns of trees. Raises BundleError."""
    empty: list[str] = []
    return saved_setting(loaded.config, "annotates", empty)


def numbered(examples: Sequence[UniversalSentence], column: str, values: Sequence[str]) -> np.ndarray:
    """The index in `values` of each word's value in a column: (W,) int64; NO_TARGET for a value that is not there."""
    numbers, place = {value: number for number, value in enumerate(values)}, CONLLU.index(column)
    return np.array([numbers.get(value, NO_TARGET) for e in examples for value in e.column(place)], np.int64)


def word_outputs(outputs: Sequence[np.ndarray], features: Features) -> np.ndarray:
    """The outputs of the tokens that represent the words, from the outputs of all tokens by row: (W, ...)."""
    words: WordFeatures = features.more
    return np.concatenate(outputs)[words.tokens] if outputs else np.zeros((0, 0), np.float32)


def losses_of(scores: Tensor, labels: Tensor) -> Tensor:
    """The loss of each word, 0 where the label is NO_TARGET: (W, K) and (W,) -> (W,)."""
    return F.cross_entropy(scores, labels, reduction="none", ignore_index=NO_TARGET)


def with_columns(example: UniversalSentence, columns: Mapping[str, Sequence[str]]) -> UniversalSentence:
    """The sentence with these values (W,) in its columns."""
    fields = [list(row) for row in example.fields]
    for name, values in columns.items():
        for row, value in zip(fields, values, strict=True):
            row[CONLLU.index(name)] = value
    return replace(example, fields=tuple(map(tuple, fields)))
