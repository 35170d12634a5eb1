"""The JSON files of SQuAD: questions, predicted answers, and odds of no answer.

Rajpurkar et al. 2016, D16-1264 (version 1.1); Rajpurkar et al. 2018, P18-2124 (version 2.0). Questions:
`data[].paragraphs[].{context, qas[].{id, question, answers[].{text, answer_start}, is_impossible}}`. Predictions: one object,
id -> text; empty text means no answer. Odds: one object, id -> number.
Each file is one JSON value and is held in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from nlptools.errors import DataError
from nlptools.formats.examples import Place
from nlptools.formats.lines import InputLines
from nlptools.json_types import Json, JsonObject


@dataclass(frozen=True)
class At(Place):
    """A place in a file of JSON.

    Attributes:
        line: 0 if not known.
        name: the path of a value in the JSON of a file, such as `data[0].paragraphs[3].qas[1]`; "" for the whole.
    """

    line: int = 0
    name: str = ""

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        """Raises DataError."""
        raise self.error(f"{self.name}: {message}" if self.name else message, hint)

    def refuse_value(self, key: str, value: Json, expected: str) -> NoReturn:
        """Raises DataError for the value under a key."""
        name = f"{self.name}.{key}" if self.name else key
        raise self.error(f"{name} is {kind(value)}, expected {expected}")

    def text(self, holder: Mapping[str, Json], key: str) -> str:
        """The text under a key."""
        value = holder.get(key)
        if not isinstance(value, str):
            self.refuse_value(key, value, "text")
        return value

    def id(self, question: Mapping[str, Json]) -> str:
        """The id of a question: text or a number."""
        value = question.get("id")
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            self.refuse_value("id", value, "text")
        return str(value)

    def objects(self, holder: Mapping[str, Json], key: str) -> list[JsonObject]:
        """The objects of the list under a key."""
        value = holder.get(key)
        if not isinstance(value, list):
            self.refuse_value(key, value, "a list")
        objects: list[JsonObject] = []
        for i, item in enumerate(value):
            if not isinstance(item, dict):
                self.refuse_value(f"{key}[{i}]", item, "an object")
            objects.append(item)
        return objects


class JsonFile:
    """A file that holds one JSON object.

    Raises:
        DataError: not JSON, or not an object.
        InputError, StreamError: see `streams.blocks`.
    """

    def __init__(self, lines: InputLines, hint: str | None = None) -> None:
        self.path = lines.path
        self.text = "\n".join(line for _, line in lines)
        try:
            root = json.loads(self.text)
        except json.JSONDecodeError as error:
            raise DataError(f"not valid JSON: {error.msg}", path=self.path, line=error.lineno, hint=hint) from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"not valid JSON: {error}", path=self.path, hint=hint) from None
        if not isinstance(root, dict):
            At(self.path, 1).refuse(f"expected a JSON object, found {kind(root)}", hint)
        self.root: JsonObject = root
        self._position, self._line = 0, 1

    def at(self, key: Json, name: str = "") -> At:
        """The place where `key` is written next, after the keys asked for before; the line of the last one if not found."""
        position = self.text.find(json.dumps(key, ensure_ascii=False), self._position)
        if key is not None and position >= 0:
            self._line += self.text.count("\n", self._position, position)
            self._position = position
        return At(self.path, self._line, name)


def walk(file: JsonFile, contexts: bool = True) -> Iterator[tuple[JsonObject, str, At]]:
    """(question, context, place) of all questions of a file; without `contexts`, these are not required and not returned.

    Raises:
        DataError: an object, a list or a context is missing; names its place in the file.
    """
    at = At(file.path, 1)
    for a, article in enumerate(at.objects(file.root, "data")):
        for p, paragraph in enumerate(At(at.path, at.line, f"data[{a}]").objects(article, "paragraphs")):
            name = f"data[{a}].paragraphs[{p}]"
            inside = At(at.path, at.line, name)
            context = inside.text(paragraph, "context") if contexts else ""
            for q, question in enumerate(inside.objects(paragraph, "qas")):
                at = file.at(question.get("id"), f"{name}.qas[{q}]")
                yield question, context, at


class GoldAnswers(NamedTuple):
    """The id of a question and the texts of its answers; no answers if the question cannot be answered."""

    id: str
    answers: tuple[str, ...]


def gold_answers(path: str | Path, errors: str = "strict") -> Iterator[GoldAnswers]:
    """The questions of a file; contexts and places of answers may be missing.

    Raises:
        DataError: not JSON, not of the expected form (names the place in the file), or no questions.
    """
    file = JsonFile(InputLines(str(path), errors))
    empty = True
    for question, _, at in walk(file, contexts=False):
        id = at.id(question)
        answers = at.objects(question, "answers")
        texts = [
            At(at.path, at.line, f"{at.name}.answers[{i}]").text(answer, "text") for i, answer in enumerate(answers)
        ]
        yield GoldAnswers(id, tuple(texts))
        empty = False
    if empty:
        At(file.path).refuse("no questions")


def read_predictions(path: str | Path, errors: str = "strict") -> dict[str, str]:
    """Answers by question: a JSON object, id -> text; empty text means no answer.

    Raises:
        DataError: not JSON, or not of that form; names the question.
    """
    file = JsonFile(InputLines(str(path), errors))
    predictions: dict[str, str] = {}
    for id, text in file.root.items():
        if not isinstance(text, str):
            file.at(id).refuse(f"the prediction of question {id!r} is {kind(text)}, expected text")
        predictions[id] = text
    return predictions


def read_no_answer(path: str | Path, errors: str = "strict") -> dict[str, float]:
    """Probabilities of no answer, or null odds, by question: a JSON object, id -> number.

    Raises:
        DataError: not JSON, not of that form, or a number that is not finite; names the question.
    """
    file = JsonFile(InputLines(str(path), errors))
    odds = {}
    for id, number in file.root.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            file.at(id).refuse(f"the odds of question {id!r} are {kind(number)}, expected a number")
        try:
            odds[id] = float(number)
        except OverflowError:
            odds[id] = math.inf
        if not math.isfinite(odds[id]):
            file.at(id).refuse(f"the odds of question {id!r} are not a finite number")
    return odds


def kind(value: Json) -> str:
    """The kind of a JSON value, in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")
