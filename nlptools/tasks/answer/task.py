"""The task answer: a place in a context that answers a question, yes, no, or no answer at all.

Devlin et al. 2019, sections 4.2 and 4.3: how well each token begins and ends the answer; one stands for none: the [CLS],
or the mark at the end of a GPT's row. Long contexts become windows, each learnt from by itself: see
`tasks.answer.features` and `tasks.answer.decoding`. Yes and no (`yes_no`): three classes of the token that stands for none,
as in Alberti et al. 2019 (arXiv:1901.08634).
Departures: the softmax is over that token and the context, not over question and padding. Training data in which no question
is without an answer make a model that always answers.
Shapes: N questions, R rows, B rows of a batch, T tokens of a row, C numbers of a token: 2, or 5 with yes and no.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle, messages
from nlptools.batches.encoder_rows import bounds_of, ranges
from nlptools.batches.features import WEIGHT, Encoding, Features, with_types
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.errors import DataError, UsageError
from nlptools.files.line_records import escape
from nlptools.formats.examples import Question
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.metrics import squad
from nlptools.metrics.criterion import Criterion
from nlptools.tasks import task as kind
from nlptools.tasks.answer.decoding import AnswerRecord, answers, best_spans, gold, tune_threshold
from nlptools.tasks.answer.features import IGNORED, AnswerFeatures, AnswerTargets, answer_features, answer_targets

_LENGTH = 384  # tokens of a window, unless --max-length says otherwise
_ROWS = 32  # rows whose answers are looked for together
_NONE = 2  # in `_places`: the token that stands for no answer


class Answered(NamedTuple):
    """What is said of a question, and the mean loss of its windows; nan where nobody asks for it."""

    record: AnswerRecord
    loss: float


@dataclass(frozen=True)
class Answers:
    """See the module's docstring; fulfils `kind.Kind`.

    Attributes:
        options: how files are read.
        best: the number to choose by, or auto.
        max_length, stride, max_question, max_answer: in pieces; see `answer_features`.
        yes_no: whether the model says yes and no.
        required: every question has an answer; learnt.
        threshold: of no answer: see `AnswerRecord.text`.
        candidates: answers that are kept of a question.
        measuring: whether predictions are to be measured.
    """

    options: Options
    best: str = "auto"
    max_length: int = _LENGTH
    stride: int = 128
    max_question: int = 64
    max_answer: int = 30
    yes_no: bool = False
    required: bool = False
    threshold: float = 0.0
    candidates: int = 20
    measuring: bool = True
    name: str = "answer"
    head: str = "spans"
    unit: str = "windows"
    num_labels: int = 2
    tuned: tuple[str, ...] = ("threshold",)

    @staticmethod
    def new(settings: Finetune, files: Files) -> Answers:
        """See `kind.new`."""
        if settings.class_weights != "none":
            raise UsageError("--class-weights does not go with --task answer")
        if settings.best not in ("auto", "loss", "exact", "f1"):
            raise UsageError(f"--best {settings.best}: expected one of auto, loss, exact, f1")
        length = settings.max_length or _LENGTH
        sizes = (length, settings.stride, settings.max_question, settings.max_answer)
        return Answers(kind.options(files), settings.best, *sizes, settings.yes_no, candidates=2)

    @staticmethod
    def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Answers:
        """See `kind.opened`. A model that is not ours always answers, unless --null-threshold is given."""
        model: Any = found.model
        config = found.config
        threshold = settings.null_threshold
        return Answers(
            kind.options(files, labelled=False),
            max_length=settings.max_length or kind.noted(config, "max_length", 0) or _LENGTH,
            stride=kind.noted(config, "stride", 128),
            max_question=kind.noted(config, "max_question", 64),
            max_answer=settings.max_answer or kind.noted(config, "max_answer", 30),
            yes_no="yes_no" in model.heads,
            required=threshold is None and kind.noted(config, "required", True),
            threshold=kind.noted(config, "threshold", 0.0) if threshold is None else threshold,
            candidates=settings.candidates,
            measuring=False,
        )

    @property
    def more_heads(self) -> tuple[str, ...]:
        """See `kind.more_heads`."""
        return ("yes_no",) if self.yes_no else ()

    @property
    def criterion(self) -> Criterion:
        name = "f1" if self.best == "auto" else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        chosen = self.criterion.name
        return (*(name for name in ("answers", "loss", "threshold", "exact", "f1") if name != chosen), chosen)

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        return read(self.name, names, replace(self.options, labelled=labelled), errors)

    def learn(self, examples: Sequence[Question]) -> Answers:
        said = sum(e.yes_no in ("yes", "no") for e in examples)
        if self.yes_no and not said:
            raise DataError("--yes-no: no question is answered by yes or no", path=examples[0].place.path)
        if said and not self.yes_no:
            told = messages.counted(said, "question is", "questions are")
            messages.warn(f"{told} answered by yes or no, which only --yes-no learns")
        if not said and not any(e.answers for e in examples):
            raise DataError("no question has an answer", path=examples[0].place.path)
        return replace(self, required=not any(e.impossible for e in examples))

    def learned(self) -> dict[str, Any]:
        return {"required": self.required}

    def restored(self, learned: Mapping[str, Any]) -> Answers:
        return replace(self, required=bool(learned["required"]))

    def check(self, examples: Sequence[Question]) -> None:
        seen: set[str] = set()
        for e in examples:
            if e.id in seen:
                told = f"a second question is called {e.id!r}: which answer belongs to which?"
                raise DataError(told, path=e.place.path, line=e.place.line)
            seen.add(e.id)
        if self.required and any(e.impossible for e in examples):
            messages.warn("some held-out questions have no answer, but all that are trained on have: it always answers")

    def features(self, examples: Sequence[Question], encoding: Encoding, labelled: bool) -> Features:
        length = min(self.max_length, encoding.max_length)
        found = answer_features(
            examples,
            encoding.tokenizer,
            max_length=length,
            max_question=max(1, min(self.max_question, length // 2 - 2)),
            step=self.stride,
            marks=encoding.marks,
            threads=encoding.threads,
        )
        rows = with_types(found.rows, encoding)
        if not labelled:
            bounds = bounds_of(np.bincount(found.question, minlength=len(examples)))
            return Features(rows, examples=bounds, cut=found.cut_questions, more=found)
        wanted = answer_targets(found, examples)
        _tell(found, wanted, len(examples))
        targets = {"place": _places(found), "start": wanted.start, "end": wanted.end}
        if self.yes_no:
            targets["yes_no"] = wanted.yes_no
        targets[WEIGHT] = np.ones(len(rows), np.float32)
        return Features(rows, targets, ("place",), cut=found.cut_questions)

    # -- learning and predicting --------------------------------------------------------------------------------------

    def begin(self, model: Any) -> None:
        """Nothing to do."""

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        place, start, end, *kinds, weight = targets
        each = _losses(logits, place, start, end, kinds[0] if kinds else None)
        return (each * weight).sum()

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any]) -> list[Any]:
        """What is said of each question: `Answered`."""
        found: AnswerFeatures = features.more
        wanted = answer_targets(found, examples) if self.measuring else None
        place, losses, batches = _places(found), np.full(len(outputs), math.nan), []
        order = np.argsort([len(row) for row in outputs], kind="stable")
        for begin in range(0, len(order), _ROWS):
            rows = order[begin : begin + _ROWS]
            logits, places = _padded([outputs[i] for i in rows]), _padded([place[_row(found, i)] for i in rows])
            kinds = logits[np.arange(len(rows)), found.null[rows], 2:] if self.yes_no else None
            sizes = {"n_best": self.candidates, "max_tokens": self.max_answer}
            batches.append(best_spans(found, rows, logits[:, :, :2], yes_no=kinds, **sizes))
            if wanted is not None:
                labels = [wanted.start, wanted.end, *((wanted.yes_no,) if self.yes_no else ())]
                each = (torch.from_numpy(array) for array in (logits, places, *(label[rows] for label in labels)))
                losses[rows] = _losses(*each).numpy()
        records = answers(found, [e.id for e in examples], batches, n_best=self.candidates, required=self.required)
        count = np.bincount(found.question, minlength=len(records))
        mean = np.bincount(found.question, losses, minlength=len(records)) / np.maximum(1, count)
        return [Answered(record, float(loss)) for record, loss in zip(records, mean, strict=True)]

    def measure(self, predictions: Sequence[Answered], examples: Sequence[Question]) -> dict[str, float]:
        """Exact match and F1 as SQuAD's scripts have them; where questions may have no answer, with the best threshold."""
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
            said = squad.squad(golds, texts, "1.1" if all(g.answers for g in golds) else "2.0").values()
            numbers |= {"exact": said.get("exact_match", said.get("exact", 0.0)), "f1": said["f1"]}
        return {"answers": float(len(set(texts.values()))), **numbers}

    def text(self, record: AnswerRecord) -> str:
        """The answer; empty for none."""
        return record.text(math.inf if self.required else self.threshold)

    def lines(
        self, predictions: Sequence[Answered], examples: Sequence[Question], settings: Predict, first: bool
    ) -> list[str]:
        if settings.to == "json":
            return [json.dumps(self._object(p.record), ensure_ascii=False) for p in predictions]
        return [escape(self.text(p.record)) for p in predictions]

    def _object(self, record: AnswerRecord) -> dict[str, Any]:
        text = self.text(record)
        probability = next((c.probability for c in record.nbest if c.text == text), 0.0)
        if record.yes_no:
            probability = record.yes_no_probability
        found = {"id": record.id, "prediction": text, "probability": round(probability, 6)}
        return found if self.required else {**found, "null_odds": round(record.null_odds, 6)}

    def config(self) -> dict[str, Any]:
        sizes = {"stride": self.stride, "max_question": self.max_question, "max_answer": self.max_answer}
        return {"nlptools": {"task": {"name": self.name, **sizes, "required": self.required}}}


def _tell(found: AnswerFeatures, wanted: AnswerTargets, count: int) -> None:
    """Say what became of the questions that are trained on."""
    messages.note(f"{messages.counted(count, 'question')} in {messages.counted(len(found.rows), 'window')}")
    if wanted.inexact:
        told = messages.counted(wanted.inexact, "answer does", "answers do")
        learnt = "learnt is the shortest run of pieces around, if there is one"
        messages.warn(f"{told} not begin and end where pieces do: {learnt}")
    if wanted.outside:
        told = messages.counted(wanted.outside, "answer is", "answers are")
        messages.warn(f"{told} whole in no window, and not learnt")


def _places(found: AnswerFeatures) -> np.ndarray:
    """(tokens of all rows,) int8: 1 where an answer can be, in the context, _NONE at the token for none; else 0."""
    place = np.zeros(len(found.rows.ids), np.int8)
    starts = found.rows.bounds[:-1]
    place[ranges(starts + found.begin, found.length)] = 1
    place[starts + found.null] = _NONE
    return place


def _row(found: AnswerFeatures, row: int) -> slice:
    return slice(int(found.rows.bounds[row]), int(found.rows.bounds[row + 1]))


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of several lengths, filled up with 0: (B, T, ...)."""
    out = np.zeros((len(rows), max(map(len, rows)), *rows[0].shape[1:]), rows[0].dtype)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def _losses(logits: Tensor, place: Tensor, start: Tensor, end: Tensor, kinds: Tensor | None = None) -> Tensor:
    """(B,) the loss of each row: the mean of those of beginning and end, and that of yes and no, where it is known.

    logits (B, T, C), place (B, T) as of `_places`, start and end (B,) places, kinds (B,) classes.
    """
    judged = logits[:, :, :2].masked_fill((place <= 0)[:, :, None], -math.inf)
    each = (
        F.cross_entropy(judged[:, :, 0], start, reduction="none")
        + F.cross_entropy(judged[:, :, 1], end, reduction="none")
    ) / 2
    if kinds is not None:
        rows = torch.arange(len(logits), device=logits.device)
        judged = logits[rows, (place == _NONE).int().argmax(1), 2:]
        each = each + F.cross_entropy(judged, kinds, reduction="none", ignore_index=IGNORED)
    return each
