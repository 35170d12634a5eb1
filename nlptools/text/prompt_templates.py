"""Templates of prompts: text with the names of fields between braces, `{input} => {output}`.

* The prompt ends before the first field of the answer; examples with a known answer include the rest.
* Spaces at the end of a prompt become the beginning of the answer: most tokenizers have them in the first token of a word.
* A paragraph (between blank lines) with fields is omitted if all of them are empty, unless it contains the answer.
* Braces as text are doubled: `{{`, `}}`.
* In a file, a line `---` ends a description of the task, which prompts begin with.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nlptools.configs.prompting import TEMPLATES
from nlptools.errors import DataError, InputError, display
from nlptools.files import streams
from nlptools.files.line_records import unescape

_RULE = "---"
_MARK = "\n\n"  # between paragraphs

Piece = tuple[str, str | None]  # text, and the field after it


class MissingField(Exception):
    """A record lacks a field of the template; the argument is its name."""


@dataclass(frozen=True)
class Template:
    """A template that has been read.

    Attributes:
        name: of the template, or its file, for messages.
        prompt: paragraphs of the prompt; the last one ends where the answer begins.
        answer: paragraphs of the answer; the first one goes on where the prompt ends. Empty without a field of the answer.
    """

    name: str
    description: str
    prompt: tuple[tuple[Piece, ...], ...]
    answer: tuple[tuple[Piece, ...], ...]
    multiline: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields."""
        pieces = [piece for paragraph in (*self.prompt, *self.answer) for piece in paragraph]
        return tuple(dict.fromkeys(field for _, field in pieces if field is not None))

    def text(self, fields: Mapping[str, object]) -> str:
        """The prompt of a record. Raises MissingField."""
        *whole, last = self.prompt
        parts = [_filled(paragraph, fields) for paragraph in whole if not _is_empty(paragraph, fields)]
        if self.answer or not _is_empty(last, fields):
            parts.append(_filled(last, fields))
        return _MARK.join(parts)

    def completion(self, fields: Mapping[str, object]) -> str:
        """The text after the prompt. Raises MissingField."""
        first, *others = self.answer
        parts = [_filled(paragraph, fields) for paragraph in others if not _is_empty(paragraph, fields)]
        return _MARK.join([_filled(first, fields), *parts])


def read_template(name: str, answer: str) -> Template:
    """The template in a file, or a known template by name; answers begin with the field `answer`.

    Raises:
        DataError: the file is not a template.
        InputError: no such file.
    """
    if name in TEMPLATES:
        return parse(TEMPLATES[name], name, answer)
    if name != "-" and not os.path.exists(name):
        if "{" in name:  # the text itself; \n is a line end, as in records
            return parse(unescape(name), name, answer)
        raise InputError(
            f"{display(name)}: no such template",
            hint=f"a file, a text with a field such as {{input}}, or one of {', '.join(TEMPLATES)}",
        )
    lines = [line for block in streams.blocks(name) for line in block.lines]
    rule = lines.index(_RULE) if _RULE in lines else -1
    template = parse("\n".join(lines[rule + 1 :]), name, answer, rule + 1)
    return replace(template, description="\n".join(lines[: max(rule, 0)]))


def parse(text: str, name: str, answer: str, before: int = 0) -> Template:
    """The template in `text`, which begins after line `before` of the file `name`.

    Raises:
        DataError: a brace without a partner, or more than a name between braces.
    """
    paragraphs, line = [], before + 1
    for paragraph in text.split(_MARK):
        try:
            pieces = tuple(_pieces(paragraph))
        except ValueError as error:
            hint = "a field is a name between braces; braces as text are doubled: {{ and }}"
            raise DataError(f"not a template: {error}", path=name, line=line, hint=hint) from None
        paragraphs.append(pieces)
        line += paragraph.count("\n") + 2
    for number, pieces in enumerate(paragraphs):
        place = next((i for i, (_, field) in enumerate(pieces) if field == answer), None)
        if place is not None:
            prompt = (*paragraphs[:number], (*pieces[:place], (pieces[place][0], None)))
            rest = ((("", answer), *pieces[place + 1 :]), *paragraphs[number + 1 :])
            return Template(name, "", prompt, rest, "\n" in text)
    return Template(name, "", tuple(paragraphs), (), "\n" in text)


def _pieces(paragraph: str) -> list[Piece]:
    pieces: list[Piece] = []
    for text, field, format_, conversion in string.Formatter().parse(paragraph):
        if field is not None and (not field or format_ or conversion):
            extra = (f"!{conversion}" if conversion else "") + (f":{format_}" if format_ else "")
            raise ValueError(f"expected a name between braces, found {field + extra!r}")
        pieces.append((text, field))
    return pieces


def _is_empty(paragraph: tuple[Piece, ...], fields: Mapping[str, object]) -> bool:
    names = [field for _, field in paragraph if field is not None]
    return bool(names) and not any(_value(field, fields) for field in names)


def _filled(paragraph: tuple[Piece, ...], fields: Mapping[str, object]) -> str:
    return "".join(text + ("" if field is None else _value(field, fields)) for text, field in paragraph)


def _value(field: str, fields: Mapping[str, object]) -> str:
    if (value := fields.get(field)) is None:
        raise MissingField(field)
    return str(value)
