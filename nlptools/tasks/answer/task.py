"""The task answer: a span of a context that answers a question, yes, no, or no answer at all.

Devlin et al. 2019, sections 4.2 and 4.3: each token has a score for the beginning and one for the end of the answer. One
token stands for no answer: the [CLS], or the mark at the end of a GPT's row. Long contexts become windows, each a training
row by itself: see `tasks.answer.features` and `tasks.answer.decoding`. Yes and no (`yes_no`): three classes of the token for
no answer, as in Alberti et al. 2019 (arXiv:1901.08634).
Departures: the softmax is over that token and the context, without question and padding. If all training questions
have an answer, the model always answers.
Shapes: N questions, R rows, B rows of a batch, T tokens of a row, C scores of a token: 2, or 5 with yes and no.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from nlptools import bundle, messages
from nlptools.batches.encoder_rows import bounds_of, ranges
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.windows import NO_TARGET
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError
from nlptools.files.line_records import escape
from nlptools.formats.examples import Question
from nlptools.json_types import JsonObject
from nlptools.metrics import squad
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.answer.decoding import AnswerRecord, answers, best_spans, gold, tune_threshold
from nlptools.tasks.answer.features import AnswerFeatures, AnswerTargets, answer_features, answer_targets
from nlptools.tasks.answer.merging import merged
from nlptools.tasks.answer.output import answer_files
from nlptools.tasks.task import AUTO, TaskOf, check_best, reading_options, saved_setting

_LENGTH = 384  # tokens of a window, unless --max-length says otherwise
_MAX_QUESTION, _MAX_ANSWER = 64, 30  # pieces, as in BERT's script
_CANDIDATES = 20  # answers in --nbest-file, as in BERT's script
_ROWS = 32  # rows decoded together
_NONE = 2  # in `_places`: the token that stands for no answer


class Answered(NamedTuple):
    """The answer to a question, and the mean loss of its windows; nan unless predictions are measured."""

    record: AnswerRecord
    loss: float


@dataclass(frozen=True)
class QuestionAnswering(TaskOf[Question, Answered, Encoding]):
    """See the module's docstring.

    Attributes:
        max_length, stride: in pieces; see `answer_features`.
        yes_no: the model can answer yes and no, as some training question is; learned.
        required: every question has an answer; learned.
        threshold: of no answer: see `AnswerRecord.text`.
        candidates: number of answers kept per question.
        measuring: whether predictions are measured.
    """

    max_length: int = _LENGTH
    stride: int = 128
    yes_no: bool = False
    required: bool = False
    threshold: float = 0.0
    candidates: int = _CANDIDATES
    measuring: bool = True

    unit: ClassVar[str] = "windows"
    learns: ClassVar[tuple[str, ...]] = ("required", "yes_no")
    tuned: ClassVar[tuple[str, ...]] = ("threshold",)
    in_common: ClassVar[tuple[str, ...]] = ("required", "yes_no")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> QuestionAnswering:
        best = check_best(settings, ("loss", "exact", "f1"))
        return cls(
            "answer", reading_options(files), best, settings.max_length or _LENGTH, settings.stride, candidates=2
        )

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> QuestionAnswering:
        """See `Task`. A model that is not ours always answers, unless --null-threshold is given."""
        config = loaded.config
        threshold = settings.null_threshold
        return cls(
            "answer",
            replace(reading_options(files), labelled=False),
            AUTO,
            max_length=settings.max_length or saved_setting(config, "max_length", 0) or _LENGTH,
            stride=saved_setting(config, "stride", 128),
            yes_no="yes_no" in loaded.model.heads,
            required=threshold is None and saved_setting(config, "required", True),
            threshold=saved_setting(config, "threshold", 0.0) if threshold is None else threshold,
            measuring=False,
        )

    @property
    def extra_heads(self) -> tuple[str, ...]:
        return ("yes_no",) if self.yes_no else ()

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", "threshold", "exact", "f1")

    # -- examples -----------------------------------------------------------------------------------------------------

    def learn(self, examples: Sequence[Question]) -> QuestionAnswering:
        yes_no = any(e.yes_no in ("yes", "no") for e in examples)
        if not yes_no and not any(e.answers for e in examples):
            raise DataError("no question has an answer", path=examples[0].place.path)
        return replace(self, required=not any(e.impossible for e in examples), yes_no=yes_no)

    def check(self, examples: Sequence[Question]) -> None:
        seen: set[str] = set()
        for e in examples:
            if e.id in seen:
                raise e.place.error(f"a second question has the id {e.id!r}")
            seen.add(e.id)
        if self.required and any(e.impossible for e in examples):
            messages.warn(
                "some held-out questions have no answer, but all training questions do: the model always answers"
            )

    def features(self, examples: Sequence[Question], encoding: Encoding, labelled: bool) -> Features:
        length = min(self.max_length, encoding.max_length)
        windows = answer_features(
            examples,
            replace(encoding, max_length=length),
            max_question=max(1, min(_MAX_QUESTION, length // 2 - 2)),
            step=self.stride,
        )
        if not labelled:
            bounds = bounds_of(np.bincount(windows.question, minlength=len(examples)))
            return Features(windows.rows, examples=bounds, cut=windows.cut_questions, more=windows)
        wanted = answer_targets(windows, examples)
        _report(windows, wanted, len(examples))
        targets = {"place": _places(windows), "start": wanted.start, "end": wanted.end}
        if self.yes_no:
            targets["yes_no"] = wanted.yes_no
        targets[WEIGHT] = np.ones(len(windows.rows), np.float32)
        return Features(windows.rows, targets, ("place",), cut=windows.cut_questions)

    # -- training and prediction --------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        place, start, end, *yes_no, weight = targets
        each = _losses(logits, place, start, end, *yes_no)
        return (each * weight).sum()

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Question]) -> list[Answered]:
        """The answer to each question: `Answered`."""
        windows: AnswerFeatures = features.more
        wanted = answer_targets(windows, examples) if self.measuring else None
        places = np.split(_places(windows), windows.rows.bounds[1:-1])
        losses, batches = np.full(len(outputs), math.nan), []
        order = np.argsort([len(row) for row in outputs], kind="stable")
        for begin in range(0, len(order), _ROWS):
            rows = order[begin : begin + _ROWS]
            logits, place = (
                pad_sequence([torch.from_numpy(arrays[i]) for i in rows], batch_first=True)
                for arrays in (outputs, places)
            )
            scores = logits.numpy()
            yes_no = scores[np.arange(len(rows)), windows.null[rows], 2:] if self.yes_no else None
            sizes = {"n_best": self.candidates, "max_tokens": _MAX_ANSWER}
            batches.append(best_spans(windows, rows, scores[:, :, :2], yes_no=yes_no, **sizes))
            if wanted is not None:
                labels = [wanted.start, wanted.end, *((wanted.yes_no,) if self.yes_no else ())]
                losses[rows] = _losses(logits, place, *(torch.from_numpy(label[rows]) for label in labels)).numpy()
        records = answers(windows, [e.id for e in examples], batches, n_best=self.candidates, required=self.required)
        count = np.bincount(windows.question, minlength=len(records))
        mean = np.bincount(windows.question, losses, minlength=len(records)) / np.maximum(1, count)
        return [Answered(record, float(loss)) for record, loss in zip(records, mean, strict=True)]

    def ensemble(self, tasks: Sequence[TaskOf[Question, Answered, Encoding]]) -> QuestionAnswering:
        every = [cast(QuestionAnswering, task).threshold for task in tasks]
        return replace(self, threshold=float(np.mean(every)))

    def combined(self, predictions: Sequence[Sequence[Answered]]) -> list[Answered]:
        records = ([answered.record for answered in each] for each in zip(*predictions, strict=True))
        return [Answered(merged(each, self.candidates), math.nan) for each in records]

    def measure(self, predictions: Sequence[Answered], examples: Sequence[Question]) -> dict[str, float]:
        """Exact match and F1 of SQuAD's scripts; where questions may have no answer, with the best threshold."""
        records = [p.record for p in predictions]
        numbers = {"loss": float(np.mean([p.loss for p in predictions]))}
        threshold = math.inf
        if not self.required:
            best = tune_threshold(examples, records)
            threshold = best.threshold
            numbers |= {"threshold": threshold, "exact": best.exact, "f1": best.f1}
        texts = {record.id: record.text(threshold) for record in records}
        if self.required:
            golds = [gold(e) for e in examples]
            scores = squad.squad(golds, texts, "1.1" if all(g.answers for g in golds) else "2.0").values()
            numbers |= {"exact": scores.get("exact_match", scores.get("exact", 0.0)), "f1": scores["f1"]}
        return {"answers": float(len(set(texts.values()))), **numbers}

    def text(self, record: AnswerRecord) -> str:
        """The answer; empty for none."""
        return record.text(math.inf if self.required else self.threshold)

    @contextmanager
    def files(self, settings: Predict, force: bool) -> Iterator[Callable[[Sequence[Answered]], None]]:
        values = (
            (settings.predictions, self.text),
            (settings.nbest, AnswerRecord.nbest_json),
            (settings.null_odds, attrgetter("null_odds")),
        )
        with answer_files(values, force) as add:
            yield lambda predictions: add(p.record for p in predictions)

    def text_lines(
        self, predictions: Sequence[Answered], examples: Sequence[Question], settings: Predict, first: bool
    ) -> list[str]:
        return [escape(self.text(p.record)) for p in predictions]

    def as_json(self, prediction: Answered, example: Question, settings: Predict) -> dict[str, object]:
        record = prediction.record
        text = self.text(record)
        probability = next((c.probability for c in record.nbest if c.text == text), 0.0)
        if record.yes_no:
            probability = record.yes_no_probability
        values: dict[str, object] = {"id": record.id, "prediction": text, "probability": round(probability, 6)}
        return values if self.required else {**values, "null_odds": round(record.null_odds, 6)}

    def own_settings(self) -> JsonObject:
        return {"stride": self.stride, "required": self.required}


def _report(windows: AnswerFeatures, wanted: AnswerTargets, count: int) -> None:
    """Report the windows of the training questions, and answers that cannot be learned exactly."""
    messages.note(f"{messages.counted(count, 'question')} in {messages.counted(len(windows.rows), 'window')}")
    if wanted.inexact:
        answers = messages.counted(wanted.inexact, "answer does", "answers do")
        messages.warn(
            f"{answers} not begin and end with pieces: trained on is the shortest run of pieces around, if there is one"
        )
    if wanted.outside:
        answers = messages.counted(wanted.outside, "answer is", "answers are")
        messages.warn(f"{answers} whole in no window, and not trained on")


def _places(windows: AnswerFeatures) -> np.ndarray:
    """(tokens of all rows,) int8: 1 in the context, where an answer can be, _NONE at the token for no answer, else 0."""
    place = np.zeros(len(windows.rows.ids), np.int8)
    starts = windows.rows.bounds[:-1]
    place[ranges(starts + windows.begin, windows.length)] = 1
    place[starts + windows.null] = _NONE
    return place


def _losses(logits: Tensor, place: Tensor, start: Tensor, end: Tensor, yes_no: Tensor | None = None) -> Tensor:
    """(B,) the loss of each row: the mean of the losses of beginning and end, plus the loss of yes and no where known.

    logits (B, T, C), place (B, T) of `_places`, start and end (B,) places, yes_no (B,) classes.
    """
    scores = logits[:, :, :2].masked_fill((place <= 0)[:, :, None], -math.inf)
    each = (
        F.cross_entropy(scores[:, :, 0], start, reduction="none")
        + F.cross_entropy(scores[:, :, 1], end, reduction="none")
    ) / 2
    if yes_no is not None:
        rows = torch.arange(len(logits), device=logits.device)
        classes = logits[rows, (place == _NONE).int().argmax(1), 2:]
        each = each + F.cross_entropy(classes, yes_no, reduction="none", ignore_index=NO_TARGET)
    return each
