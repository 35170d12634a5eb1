"""The common part of the tasks classify, pair and regress: one text or two, and one prediction.

Devlin et al. 2019, section 4.1: a linear layer on the vector of the first token, in a GPT of the last (Radford et al. 2018).

With `both_orders` (the same, section 3.3), an example is two rows, and the head sees the sum of their vectors. In a GPT it is
linear without a bias, so that is the sum of their logits, which this module adds. Departure: each of the two has a dropout.
Shapes: N examples, K labels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeVar

import numpy as np
from torch import Tensor

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.images import ImageEncoding
from nlptools.batches.text_rows import TextEncoding
from nlptools.batches.weighted_tokens import NumberEncoding
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.table import GLUE
from nlptools.errors import InvalidText, UsageError
from nlptools.files.line_records import escape
from nlptools.formats.examples import Columns, TextExample
from nlptools.formats.glue import GLUE as GLUE_TASKS
from nlptools.formats.glue import find, glue_task, submission
from nlptools.formats.texts import columns_with, header_with
from nlptools.json_types import JsonObject
from nlptools.tasks.classify import training_labels
from nlptools.tasks.labels import gold
from nlptools.tasks.task import TaskOf, check_best, reading_options, saved_setting

P = TypeVar("P")
TextRows = Encoding | TextEncoding | NumberEncoding | ImageEncoding


@dataclass(frozen=True)
class TextTask(TaskOf[TextExample, P, TextRows]):
    """See the module's docstring.

    Attributes:
        glue: name of the GLUE task, or "".
        texts: texts per example; 0: as many as the file has.
        both_orders: whether two texts are read in both orders.
        text_column, label_column, width, delimiter: the columns of the first training file (`Columns`), learned.
    """

    glue: str = ""
    texts: int = 0
    both_orders: bool = False
    text_column: tuple[str, ...] = ()
    label_column: str = ""
    width: int = 0
    delimiter: str = ""

    not_remembered: ClassVar[tuple[str, ...]] = ("layout", "delimiter")  # `text_column` and so on are remembered

    @classmethod
    def chosen(cls, settings: Finetune, files: Files, multi_label: bool = False) -> Self:
        """The task with the fields of this class, for training. Raises UsageError."""
        name, glue = settings.task, ""
        if name.startswith(GLUE):
            glue = find(name.removeprefix(GLUE))
            name, files = glue_task(glue).task, replace(files, layout=GLUE + glue)
        options = replace(reading_options(files), multi_label=multi_label)
        return cls(name, options, settings.best, glue, both_orders=settings.both_orders)

    def checked(self, settings: Finetune) -> Self:
        """This task. Raises UsageError for a measure in --best that it lacks."""
        check_best(settings, self.numbers)
        return self

    @classmethod
    def saved(
        cls, name: str, loaded: bundle.Bundle[object], settings: Predict, files: Files, multi_label: bool = False
    ) -> Self:
        """The task with the fields of this class, for prediction. Raises UsageError, BundleError."""
        config = loaded.config
        texts = saved_setting(config, "texts", 2 if len(files.text_column) == 2 else 1)
        glue = saved_setting(config, "glue", "")
        if settings.submission and not glue:
            raise UsageError("--submission: expected a model of --task glue/NAME")
        if settings.submission:
            files = replace(files, layout=GLUE + glue)
        learned = training_labels.learned_columns(config)
        options = replace(reading_options(files), labelled=False, texts=texts, learned=learned, multi_label=multi_label)
        both_orders = saved_setting(config, "both_orders", False)
        return cls(name, options, glue=glue, texts=texts, both_orders=both_orders)

    def with_columns(self, read: Columns | None) -> Self:
        """The task that has learned the columns of the training data, if they have any."""
        if read is None:
            return self
        return replace(
            self, text_column=read.texts, label_column=read.label, width=read.width, delimiter=read.delimiter
        )

    @property
    @abstractmethod
    def own_numbers(self) -> tuple[str, ...]:
        """The `numbers` of a task outside GLUE."""

    @property
    def numbers(self) -> tuple[str, ...]:
        if not self.glue:
            return self.own_numbers
        metrics = GLUE_TASKS[self.glue].metrics
        return ("loss", *metrics, "mean") if len(metrics) > 1 else ("loss", *metrics)

    def features(
        self,
        examples: Sequence[TextExample],
        encoding: TextRows,
        labelled: bool,
    ) -> Features:
        texts = [e.texts for e in examples]
        if self.both_orders:
            self._check_two(examples)
            texts = [order for first, second in texts for order in ((first, second), (second, first))]
        try:
            rows = encoding.rows(texts)
        except InvalidText as error:
            raise examples[error.row].place.error(str(error), error.hint) from None
        if self.both_orders:
            rows = replace(rows, examples=np.arange(0, 2 * len(examples) + 1, 2), cut=-(-rows.cut // 2))
        return replace(rows, targets=self._targets_of_rows(examples)) if labelled else rows

    def _check_two(self, examples: Sequence[TextExample]) -> None:
        """Raise DataError for an example that is not two texts."""
        for e in examples:
            if len(e.texts) != 2:
                raise e.place.error(f"--both-orders: expected two texts, found {len(e.texts)}")

    def _targets_of_rows(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        """See `Features.targets`; the two rows of an example share its weight."""
        targets = self.targets(examples)
        if not self.both_orders:
            return targets
        rows = {name: np.repeat(array, 2, 0) for name, array in targets.items()}
        return {**rows, WEIGHT: rows[WEIGHT] / 2}

    def of_examples(self, logits: Tensor, targets: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The logits (N, K), targets and weights (N,) of examples, computed from their rows."""
        target, weight = targets
        if not self.both_orders:
            return logits, target, weight
        return logits.view(-1, 2, logits.shape[-1]).sum(1), target[::2], weight[::2] * 2

    def summed(self, outputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The logits (K,) of each example, from the logits of its rows."""
        if not self.both_orders:
            return outputs
        return [first + second for first, second in zip(outputs[::2], outputs[1::2], strict=True)]

    @abstractmethod
    def targets(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        """See `Features.targets`."""

    # -- prediction ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def fields(self, prediction: P, settings: Predict) -> dict[str, str | float]:
        """The columns of a prediction, by name."""

    def json_fields(self, prediction: P, settings: Predict) -> dict[str, object]:
        """The columns of a prediction in an object."""
        return {**self.fields(prediction, settings)}

    @abstractmethod
    def submitted(self, prediction: P) -> str | float:
        """A prediction in the file of a submission to GLUE."""

    def header(self, settings: Predict) -> list[str]:
        """The line before the predictions, if there is one."""
        return []

    def layout_written(self, example: TextExample, settings: Predict) -> str:
        layout = {"csv": "csv", "jsonl": "jsonl"}.get(example.layout, "text") if settings.columns else ""
        return layout or super().layout_written(example, settings)

    def text_lines(
        self, predictions: Sequence[P], examples: Sequence[TextExample], settings: Predict, first: bool
    ) -> list[str]:
        if settings.submission:
            predicted = map(self.submitted, predictions)
            return list(submission(self.glue, zip(map(_id, examples), predicted, strict=True)))[not first :]
        fields = [self.fields(p, settings) for p in predictions]
        if settings.columns:
            named = header_with(examples[0], list(fields[0])) if first else None
            lines = [columns_with(e, row) for e, row in zip(examples, fields, strict=True)]
            return lines if named is None else [named, *lines]
        lines = ["\t".join(escape(v) if isinstance(v, str) else f"{v:.6g}" for v in row.values()) for row in fields]
        return [*self.header(settings), *lines] if first else lines

    def as_json(self, prediction: P, example: TextExample, settings: Predict) -> dict[str, object]:
        fields = self.json_fields(prediction, settings)
        return fields if example.id is None else {"id": example.id, **fields}

    def own_settings(self) -> JsonObject:
        columns = {name: vars(self)[name] for name in training_labels.COLUMNS if self.text_column}
        orders = {"both_orders": True} if self.both_orders else {}
        return {"glue": self.glue, "texts": self.texts, **orders, **columns}


class NumberTask(TextTask[float]):
    """A task that predicts a number; the prediction of several models is their mean."""

    def combined(self, predictions: Sequence[Sequence[float]]) -> list[float]:
        return [float(np.mean(each)) for each in zip(*predictions, strict=True)]

    def fields(self, prediction: float, settings: Predict) -> dict[str, str | float]:
        return {"prediction": round(prediction, 6)}

    def submitted(self, prediction: float) -> float:
        return prediction


def gold_numbers(examples: Sequence[TextExample]) -> np.ndarray:
    """(N,) float64: the numbers of labelled examples."""
    return np.array([float(gold(e.label)) for e in examples])


def _id(example: TextExample) -> str:
    """The id of the example in a submission: its own, or its number in the file."""
    return example.id if example.id is not None else str(example.place.line - 1 - bool(example.header))
