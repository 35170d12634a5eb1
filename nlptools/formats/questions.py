"""Files of questions about a context, with a span of it, yes, no, or no answer: the task answer.

Layouts:
    squad    SQuAD 1.1 and 2.0, see `nlptools.formats.squad`; `plausible_answers` are ignored. Questions may have
             `yes_no_answer`: "YES", "NO" or "NONE".
    jsonl    an object per line: `{id, question, context, answers}` with answers as in SQuAD or as `{"text": [...],
             "answer_start": [...]}`; or BoolQ's `{question, passage, answer: true|false}` (N19-1300); or the simplified
             form of Natural Questions (Q19-1026), see below
    parquet  a table of Parquet, its columns as the keys of jsonl
    table    `question TAB context`, for training `question TAB context TAB answer`; an empty answer means that there is
             none, others are searched for in the context
    csv      the same between commas, with quotes; perhaps with a header of these three names
    qamr     QAMR's TSV; see `nlptools.formats.qamr`
The suffix determines the layout (`layouts`), otherwise the first line: a whole object means jsonl, the beginning of an object
squad, nine columns qamr, anything else table. Questions without id have their line number as id.
Natural Questions, `{example_id, document_text, question_text, annotations[].{short_answers[].{start_token, end_token},
yes_no_answer}}`: the context is `document_text` unchanged, its tokens are separated by single spaces. Each
short answer of each annotation is an answer; yes or no is the majority of the annotations with either; a question without
both has no answer. Test files have no annotations.
A file of SQuAD is one JSON value and is held in memory; all others are read line by line.
Departure: an answer that is not at the given offset is moved to the nearest occurrence of its text, and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from nlptools import messages
from nlptools.errors import display, shown
from nlptools.formats import records
from nlptools.formats.examples import AnswerSpan, Place, Question
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines, header_names
from nlptools.formats.qamr import COLUMNS, read_qamr
from nlptools.formats.reading_options import Options
from nlptools.formats.squad import At, JsonFile, walk
from nlptools.json_types import Json, JsonObject

_YES_NO = {"yes": "yes", "no": "no", "none": "none", "true": "yes", "false": "no"}
_NAMES = ("question", "context", "answer")  # the columns of a table


def read_questions(path: str, options: Options, errors: str = "strict") -> Iterator[Question]:
    """The questions of a file.

    Raises:
        DataError: not JSON, not of the expected form, an answer that does not occur in its context, or, with
            `options.labelled`, a question that neither has an answer nor is marked impossible; with file, line,
            question and hint. And the errors of `streams.blocks` and `records.objects`.
        UsageError: a layout that the task does not have.
    """
    lines = InputLines(path, errors)
    layout = layout_of("answer", path, options.layout, options.delimiter)
    if layout == "table" and options.layout == "auto":
        layout = _recognized(lines.first() or "")
    moved: Counter[str] = Counter()
    if layout == "qamr":
        yield from read_qamr(lines, options, errors)
    elif layout == "squad":
        file = JsonFile(lines, "--layout jsonl for one question per line, table for columns")
        for question, context, at in walk(file):
            yield _question(question, context, at, options, moved)
    elif layout in records.OBJECTS:
        for number, value in records.objects(lines, layout):
            yield _of_object(value, At(path, number), options, moved)
    else:
        yield from _of_rows(lines, records.delimiter_of(layout, options.delimiter), options, moved)
    if moved:
        count, lost = messages.counted(moved["moved"], "answer"), moved["lost"]
        messages.warn(
            f"{display(path)}: {count} moved to the nearest place with that text, {lost:,} not in the context and skipped"
        )


def _recognized(first: str) -> str:
    """The layout of a file with this first line."""
    if not first.startswith("{"):
        return "qamr" if first.count("\t") + 1 == COLUMNS else "table"
    try:
        return "squad" if "data" in json.loads(first) else "jsonl"
    except (ValueError, RecursionError):
        return "squad"


def _of_rows(lines: InputLines, delimiter: str, options: Options, moved: Counter[str]) -> Iterator[Question]:
    """The questions in a table of question, context and perhaps answer."""
    places: Sequence[int] = range(len(_NAMES))
    for count, (number, fields) in enumerate(records.rows(lines, delimiter)):
        named = [name.strip().lower() for name in fields]
        if not count and set(_NAMES[:2]) <= set(named):
            header_names(fields, lines.path)
            places = [named.index(name) for name in _NAMES if name in named]
            continue
        if fields == [""]:
            continue
        at = At(lines.path, number)
        if len(fields) < 2 + options.labelled or len(fields) <= max(places[:2]):
            wanted = " TAB ".join(_NAMES[: 2 + options.labelled])
            at.refuse(
                f"{messages.counted(len(fields), 'column')}, expected {wanted}", "--layout squad or jsonl for JSON"
            )
        row = dict(zip(_NAMES, (fields[place] for place in places if place < len(fields))))
        value: JsonObject = {"id": str(number), "question": row["question"], "is_impossible": False}
        if "answer" in row:
            answers: list[Json] = [{"text": row["answer"], "answer_start": 0}]
            value |= {"is_impossible": True} if not row["answer"] else {"answers": answers}
        yield _question(value, row["context"], at, options, Counter())


# -- one question -----------------------------------------------------------------------------------------------------


def _question(value: Mapping[str, Json], context: str, at: At, options: Options, moved: Counter[str]) -> Question:
    """A question in the form of SQuAD. `moved` counts answers that were moved, or lost, since they are not at their offset."""
    id = at.id(value)
    impossible = value.get("is_impossible")
    if impossible is not None and not isinstance(impossible, bool):
        at.refuse("'is_impossible' is neither true nor false")
    yes_no = _yes_no(value, at)
    raw = _pairs(value, at)
    answers = () if impossible else _placed(raw, context, id, at, options, moved)
    if options.labelled and not raw and not impossible and yes_no not in ("yes", "no"):
        if value.get("answers") is not None and impossible is None and isinstance(value["answers"], dict):
            impossible = True  # in this form an empty list means that
        else:
            at.refuse(f"question {shown(id)} has no answer", 'mark a question without one with "is_impossible": true')
    return Question(id, at.text(value, "question"), context, answers, impossible, Place(at.path, at.line or 1), yes_no)


def _yes_no(value: Mapping[str, Json], at: At) -> str | None:
    raw = value.get("yes_no_answer")
    if raw is None:
        return None
    if str(raw).lower() not in _YES_NO:
        at.refuse(f"'yes_no_answer' is {shown(str(raw))}, expected YES, NO or NONE")
    return _YES_NO[str(raw).lower()]


def _pairs(value: Mapping[str, Json], at: At) -> list[tuple[str, int]]:
    """Text and offset of each answer, in either form."""
    raw = value.get("answers")
    if raw is None:
        return []
    if isinstance(raw, dict):
        texts, starts = raw.get("text"), raw.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            at.refuse("'answers' has no lists 'text' and 'answer_start' of equal length")
    else:
        objects = at.objects(value, "answers")
        texts, starts = ([answer.get(key) for answer in objects] for key in ("text", "answer_start"))
    pairs: list[tuple[str, int]] = []
    for text, start in zip(texts, starts):
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            at.refuse("an answer has no 'text' or no whole number 'answer_start'")
        pairs.append((text, start))
    return pairs


def _placed(
    raw: Sequence[tuple[str, int]], context: str, id: str, at: At, options: Options, moved: Counter[str]
) -> tuple[AnswerSpan, ...]:
    """The answers, each at its place."""
    answers = []
    for text, start in raw:
        if text and start >= 0 and context.startswith(text, start):
            answers.append(AnswerSpan(text, start))
            continue
        if not options.labelled:  # answers are optional
            continue
        place = nearest(context, text, start)
        if place is None:
            moved["lost"] += 1
        else:
            moved["moved"] += 1
            answers.append(AnswerSpan(text, place))
    if raw and not answers and options.labelled:
        at.refuse(f"the answer {shown(raw[0][0])} of question {shown(id)} does not occur in the context")
    return tuple(answers)


def nearest(context: str, text: str, start: int) -> int | None:
    """The offset nearest to `start` of `text` in `context`, the first of two equally near; None if it does not occur."""
    if not text:
        return None
    before = context.rfind(text, 0, max(start, 0) + len(text))
    after = context.find(text, max(start, 0))
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - start), default=None)


# -- one object per line ----------------------------------------------------------------------------------------------


def _of_object(value: Mapping[str, Json], at: At, options: Options, moved: Counter[str]) -> Question:
    if "document_text" in value:
        return _natural(value, at, options)
    if "passage" in value:
        return _boolean(value, at, options)
    return _question({"id": str(at.line), **value}, at.text(value, "context"), at, options, moved)


def _boolean(value: Mapping[str, Json], at: At, options: Options) -> Question:
    """A question of BoolQ; without id, its line number is the id."""
    raw = value.get("answer", value.get("label"))
    if options.labelled and (raw is None or str(raw).lower() not in _YES_NO):
        at.refuse("'answer' is missing, expected true or false")
    yes_no = None if raw is None else _YES_NO.get(str(raw).lower())
    id = str(value.get("id", value.get("idx", at.line)))
    text, context = at.text(value, "question"), at.text(value, "passage")
    return Question(id, text, context, (), None if yes_no is None else False, Place(at.path, at.line or 1), yes_no)


def _natural(value: Mapping[str, Json], at: At, options: Options) -> Question:
    """A question of the simplified Natural Questions."""
    context = at.text(value, "document_text")
    text = at.text(value, "question_text")
    id = str(value.get("example_id", at.line))
    if value.get("annotations") is None:
        if options.labelled:
            at.refuse("'annotations' is missing", "use the training or the development file, not the test file")
        return Question(id, text, context, (), None, Place(at.path, at.line or 1))
    notes = at.objects(value, "annotations")
    # the offset of each token, separated by single spaces, and of the one after the last
    starts = list(accumulate((len(token) + 1 for token in context.split(" ")), initial=0))
    answers: dict[AnswerSpan, None] = {}
    yes_or_no: Counter[str] = Counter()
    for note in notes:
        yes_or_no[_yes_no(note, at) or "none"] += 1
        for short in at.objects(note, "short_answers"):
            first, end = short.get("start_token"), short.get("end_token")
            if not isinstance(first, int) or not isinstance(end, int) or not 0 <= first < end < len(starts):
                at.refuse(f"a short answer from token {first} to {end}, but there are {len(starts) - 1}")
            answers[AnswerSpan(context[starts[first] : starts[end] - 1], starts[first])] = None
    either = {answer: count for answer, count in yes_or_no.items() if answer != "none"}
    yes_no = max(either, key=lambda answer: either[answer]) if either else "none"
    impossible = not answers and yes_no == "none"
    return Question(id, text, context, tuple(answers), impossible, Place(at.path, at.line or 1), yes_no)
