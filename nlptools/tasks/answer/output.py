"""SQuAD's official output files: predictions, n best answers, odds of no answer; a JSON object each, keyed by question."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from nlptools.configs.finetuning import Predict
from nlptools.files import streams
from nlptools.tasks.answer.decoding import AnswerRecord
from nlptools.tasks.answer.task import Answered, QuestionAnswering


@contextmanager
def answer_files(
    task: QuestionAnswering, settings: Predict, force: bool = False
) -> Iterator[Callable[[Sequence[Answered]], None]]:
    """The files that `settings` names; yields a function that writes the answers to some more questions.

    Raises:
        OutputError: a file exists and `force` is not set, or cannot be created.
        StreamError: a write failed.
    """
    values: tuple[tuple[str | None, Callable[[AnswerRecord], object]], ...] = (
        (settings.predictions, task.text),
        (settings.nbest, AnswerRecord.nbest_json),
        (settings.null_odds, lambda record: record.null_odds),
    )
    opening = "{\n"

    def add(predictions: Sequence[Answered]) -> None:
        nonlocal opening
        for record, _ in predictions:
            for file, value in files:
                member = json.dumps({record.id: value(record)}, indent=4, ensure_ascii=False)[2:-2]
                file.write(opening + member)
            opening = ",\n"

    with ExitStack() as stack:
        outputs = [(path, value) for path, value in values if path is not None]
        files = [
            (stack.enter_context(streams.LineWriter(path, force=force, layout="json")), value)
            for path, value in outputs
        ]
        yield add
        for file, _ in files:
            file.write("{}\n" if opening == "{\n" else "\n}\n")
