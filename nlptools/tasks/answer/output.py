"""SQuAD's official output files: predictions, n best answers, odds of no answer; a JSON object each, keyed by question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from nlptools.configs.finetuning import Predict
from nlptools.files import streams
from nlptools.formats.questions import json_object
from nlptools.tasks.answer.decoding import AnswerRecord
from nlptools.tasks.answer.task import Answered, QuestionAnswering


class AnswerFiles:
    """The files that `settings` names, written question by question. Use as a context manager.

    Raises:
        OutputError: a file exists and `force` is not set, or cannot be created.
        StreamError: a write failed.
    """

    def __init__(self, task: QuestionAnswering, settings: Predict, force: bool = False) -> None:
        values: tuple[tuple[str | None, Callable[[AnswerRecord], Any]], ...] = (
            (settings.predictions, task.text),
            (settings.nbest, AnswerRecord.nbest_json),
            (settings.null_odds, lambda record: record.null_odds),
        )
        self._files, self._stack, self._first = [], ExitStack(), True
        with ExitStack() as stack:
            for path, value in values:
                if path is not None:
                    self._files.append((stack.enter_context(streams.Output(path, force=force)), value))
            self._stack = stack.pop_all()

    def add(self, predictions: Sequence[Answered]) -> None:
        """Write the answers to some more questions."""
        for file, value in self._files:
            for number, (record, _) in enumerate(predictions):
                inner = "\n".join(list(json_object([(record.id, value(record))]))[1:-1])
                file.write(("{\n" if self._first and not number else ",\n") + inner)
        self._first &= not predictions

    def __enter__(self) -> AnswerFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for file, _ in self._files:
                file.write("{}\n" if self._first else "\n}\n")
        self._stack.__exit__(kind, error, trace)
