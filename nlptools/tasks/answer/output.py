"""SQuAD's official output files: predictions, n best answers, odds of no answer; a JSON object each, keyed by question."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from nlptools.files import streams
from nlptools.tasks.answer.decoding import AnswerRecord


@contextmanager
def answer_files(
    values: Sequence[tuple[str | None, Callable[[AnswerRecord], object]]], force: bool = False
) -> Iterator[Callable[[Iterable[AnswerRecord]], None]]:
    """Files of a value per question, by their paths (None: no file); yields a function that writes values of more questions.

    Raises:
        OutputError: a file exists and `force` is not set, or cannot be created.
        StreamError: a write failed.
    """
    opening = "{\n"

    def add(records: Iterable[AnswerRecord]) -> None:
        nonlocal opening
        for record in records:
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
