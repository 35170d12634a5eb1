"""Questions about a text, answered by a place in it, by yes or no, or not at all.

Layouts (`layout_of` says which a file has):
    squad    SQuAD 1.1 and 2.0, see `nlptools.formats.squad`; `plausible_answers` are ignored. Questions may have
             `yes_no_answer`: "YES", "NO" or "NONE".
    jsonl    an object per line: `{id, question, context, answers}` with answers as in SQuAD or as `{"text": [...],
             "answer_start": [...]}`; or BoolQ's `{question, passage, answer: true|false}` (N19-1300); or the simplified
             form of Natural Questions (Q19-1026), see below
    qamr     QAMR's TSV; see `nlptools.formats.qamr`
Natural Questions, `{example_id, document_text, question_text, annotations[].{short_answers[].{start_token, end_token},
yes_no_answer}}`: the context is `document_text` as it is, of which tokens are what stands between single spaces. Each
short answer of each annotation is an answer; yes or no is what most annotations say that say either; a question without
both has no answer. Test files have no annotations.
A file of SQuAD is one JSON value and is held in memory; all others are read line by line.
Departure: an answer that does not stand where the file says is an error, or is moved and counted (`Options`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nlptools import messages
from nlptools.errors import UsageError, display
from nlptools.files import line_records, streams
from nlptools.formats.examples import Answer, Place, Question
from nlptools.formats.lines import Lines, shown
from nlptools.formats.qamr import read_qamr
from nlptools.formats.reading_options import Options
from nlptools.formats.squad import At, JsonFile, walk

LAYOUTS = ("squad", "jsonl", "qamr")
_YES_NO = {"yes": "yes", "no": "no", "none": "none", "true": "yes", "false": "no"}
_MOVE = "--move-answers takes the nearest place where it stands, and counts"


def read_questions(path: str, options: Options, errors: str = "strict") -> Iterator[Question]:
    """The questions of a file.

    Raises:
        DataError: not JSON, not of the form expected, an answer that does not stand where the file says, or, with
            `options.labelled`, a question that has neither an answer nor says that it has none; names file, line,
            question and cure. And what `streams.blocks` raises.
        UsageError: a layout that the task does not have.
    """
    layout = layout_of(path, options)
    if layout == "qamr":
        yield from read_qamr(path, options, errors)
        return
    moved = _Moved()
    yield from (_squad if layout == "squad" else _json_lines)(path, errors, options, moved)
    if moved.moved or moved.lost:
        counted = messages.counted(moved.moved, "answer")
        messages.warn(
            f"{display(path)}: {counted} moved to the nearest place with that text, {moved.lost:,} found nowhere and left out"
        )


def layout_of(path: str, options: Options) -> str:
    """The layout, by `options.layout` or the file's name: `.jsonl` and `.ndjson`, `.tsv` (qamr), else squad.

    Raises:
        UsageError: a layout that questions do not have.
    """
    if options.layout != "auto":
        if options.layout not in LAYOUTS:
            raise UsageError(f"questions have no layout {options.layout!r}, expected auto, {', '.join(LAYOUTS)}")
        return options.layout
    path = streams.without_compression(path)
    if path.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return "qamr" if path.endswith(".tsv") else "squad"


@dataclass
class _Moved:
    """How many answers did not stand where the file says."""

    moved: int = 0
    lost: int = 0


# -- SQuAD ------------------------------------------------------------------------------------------------------------


def _squad(path: str, errors: str, options: Options, moved: _Moved) -> Iterator[Question]:
    file = JsonFile(path, errors, _LAYOUT_HINT)
    for question, context, at in walk(file):
        yield _question(question, context, at, options, moved)


_LAYOUT_HINT = "--layout jsonl for one question per line, qamr for QAMR's TSV"


# -- one question -----------------------------------------------------------------------------------------------------


def _question(value: Mapping[str, Any], context: str, at: At, options: Options, moved: _Moved) -> Question:
    """A question as SQuAD has it."""
    id = at.id(value)
    impossible = value.get("is_impossible")
    if impossible is not None and not isinstance(impossible, bool):
        at.refuse("'is_impossible' is neither true nor false")
    yes_no = _yes_no(value, at)
    raw = _pairs(value, at)
    answers = () if impossible else _placed(raw, context, id, at, options, moved)
    if options.labelled and not raw and not impossible and yes_no not in ("yes", "no"):
        if value.get("answers") is not None and impossible is None and isinstance(value["answers"], dict):
            impossible = True  # in this form an empty list says it
        else:
            at.refuse(f"question {id!r} has no answer", 'a question without one has "is_impossible": true')
    return Question(id, at.text(value, "question"), context, answers, impossible, _place(at), yes_no)


def _place(at: At) -> Place:
    return Place(at.path, at.line or 1)


def _yes_no(value: Mapping[str, Any], at: At) -> str | None:
    raw = value.get("yes_no_answer")
    if raw is None:
        return None
    if str(raw).lower() not in _YES_NO:
        at.refuse(f"'yes_no_answer' is {shown(str(raw))}, expected YES, NO or NONE")
    return _YES_NO[str(raw).lower()]


def _pairs(value: Mapping[str, Any], at: At) -> list[tuple[str, int]]:
    """Text and place of each answer, in either form."""
    raw = value.get("answers")
    if raw is None:
        return []
    if isinstance(raw, dict):
        texts, starts = raw.get("text"), raw.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            at.refuse("'answers' has no lists 'text' and 'answer_start' of equal length")
    else:
        found = at.objects(value, "answers")
        texts, starts = ([answer.get(key) for answer in found] for key in ("text", "answer_start"))
    for text, start in zip(texts, starts):
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            at.refuse("an answer has no 'text' or no whole number 'answer_start'")
    return list(zip(texts, starts))


def _placed(
    raw: Sequence[tuple[str, int]], context: str, id: str, at: At, options: Options, moved: _Moved
) -> tuple[Answer, ...]:
    """The answers, each where it stands."""
    answers = []
    for text, start in raw:
        if text and start >= 0 and context.startswith(text, start):
            answers.append(Answer(text, start))
            continue
        if not options.move_answers:
            if not options.labelled:  # nobody asked for answers
                continue
            here = shown(context[max(start, 0) : max(start, 0) + len(text)])
            at.refuse(f"answer {shown(text)} of question {id!r} does not stand at {start}, where {here} is", _MOVE)
        place = nearest(context, text, start)
        if place is None:
            moved.lost += 1
        else:
            moved.moved += 1
            answers.append(Answer(text, place))
    return tuple(answers)


def nearest(context: str, text: str, start: int) -> int | None:
    """The place nearest to `start` where `text` stands in `context`, the first of two as near; None if nowhere."""
    if not text:
        return None
    before = context.rfind(text, 0, max(start, 0) + len(text))
    after = context.find(text, max(start, 0))
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - start)) if found else None


# -- one object per line ----------------------------------------------------------------------------------------------


def _json_lines(path: str, errors: str, options: Options, moved: _Moved) -> Iterator[Question]:
    for number, line in Lines(path, errors):
        if not line.strip():
            continue
        value = line_records.parse_json_object(line, path, number)
        at = At(path, number)
        if "document_text" in value:
            yield _natural(value, at, options)
        elif "passage" in value:
            yield _boolean(value, at, options)
        else:
            yield _question(value, at.text(value, "context"), at, options, moved)


def _boolean(value: Mapping[str, Any], at: At, options: Options) -> Question:
    """A question of BoolQ, numbered by its line if it has no id."""
    raw = value.get("answer", value.get("label"))
    if options.labelled and (raw is None or str(raw).lower() not in _YES_NO):
        at.refuse("'answer' is missing, expected true or false")
    yes_no = None if raw is None else _YES_NO.get(str(raw).lower())
    id = str(value.get("id", value.get("idx", at.line)))
    text, context = at.text(value, "question"), at.text(value, "passage")
    return Question(id, text, context, (), None if yes_no is None else False, _place(at), yes_no)


def _natural(value: Mapping[str, Any], at: At, options: Options) -> Question:
    """A question of the simplified Natural Questions."""
    context = at.text(value, "document_text")
    text = at.text(value, "question_text")
    id = str(value.get("example_id", at.line))
    if value.get("annotations") is None:
        if options.labelled:
            at.refuse("'annotations' is missing", "a test file? take the training or the development file")
        return Question(id, text, context, (), None, _place(at))
    notes = at.objects(value, "annotations")
    starts = _token_starts(context)
    answers: dict[Answer, None] = {}
    said: Counter[str] = Counter()
    for note in notes:
        said[_yes_no(note, at) or "none"] += 1
        for short in at.objects(note, "short_answers"):
            first, end = short.get("start_token"), short.get("end_token")
            if not isinstance(first, int) or not isinstance(end, int) or not 0 <= first < end < len(starts):
                at.refuse(f"a short answer from token {first} to {end}, but there are {len(starts) - 1}")
            answers[Answer(context[starts[first] : starts[end] - 1], starts[first])] = None
    either = {answer: count for answer, count in said.items() if answer != "none"}
    yes_no = max(either, key=lambda answer: either[answer]) if either else "none"
    impossible = not answers and yes_no == "none"
    return Question(id, text, context, tuple(answers), impossible, _place(at), yes_no)


def _token_starts(context: str) -> list[int]:
    """Where each token begins, what stands between single spaces; last, where the next one would: (T + 1,)."""
    starts, position = [], 0
    for token in context.split(" "):
        starts.append(position)
        position += len(token) + 1
    return [*starts, position]


# -- back -------------------------------------------------------------------------------------------------------------


def json_object(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The lines of a JSON object with these keys and values, one at a time, as `json.dumps(..., indent=4)` has them.

    The official predictions (`id: text`, "" for no answer), the null odds (`id: number`) and the n-best answers (`id:
    [candidate(...), ...]`) are such objects. Keys are not checked for being different.
    """
    last = "{"
    for key, value in items:
        yield last if last == "{" else last + ","
        body = json.dumps(value, indent=4, ensure_ascii=False).split("\n")
        body[0] = f"{json.dumps(key, ensure_ascii=False)}: {body[0]}"
        yield from (f"    {line}" for line in body[:-1])
        last = f"    {body[-1]}"
    yield from ("{}",) if last == "{" else (last, "}")


def candidate(text: str, probability: float, start_logit: float, end_logit: float) -> dict[str, Any]:
    """One of the n best answers, as the official n-best file has it."""
    return {"text": text, "probability": probability, "start_logit": start_logit, "end_logit": end_logit}
