"""Lines with a query and a text that may answer it, in groups of the same query: what `rerank` reads and writes.

    table    `query TAB text`, perhaps with more fields, which are kept
    jsonl    objects with keys for both; other keys are kept
Neighboring lines with the same query are a group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nlptools.errors import DataError
from nlptools.files.line_records import fields, parse_json_object
from nlptools.files.streams import LineBlock
from nlptools.json_types import JsonObject


@dataclass(frozen=True)
class RankedLine:
    """A query and a text.

    Attributes:
        line: as it was read.
        value: of JSON lines: the object; None in a table.
    """

    query: str
    text: str
    line: str
    value: JsonObject | None = None

    def with_score(self, score: float) -> str:
        """The line with a score after its fields, or under the key `score`."""
        if self.value is None:
            return f"{self.line}\t{score:.6g}"
        return json.dumps({**self.value, "score": round(score, 6)}, ensure_ascii=False)


def groups(blocks: Iterable[LineBlock], layout: str, columns: Sequence[str]) -> Iterator[list[RankedLine]]:
    """The lines of each query.

    Args:
        layout: table or jsonl.
        columns: the keys of query and text.

    Raises:
        DataError: a line without a text.
    """
    read = _of_object if layout == "jsonl" else _of_table
    lines = (
        read(line, block.path, number, columns)
        for block in blocks
        for number, line in enumerate(block.lines, block.start)
    )
    for _, group in groupby(lines, key=lambda line: line.query):
        yield list(group)


def _of_table(line: str, path: str, number: int, columns: Sequence[str]) -> RankedLine:
    query, *others = fields(line)
    if not others:
        hint = "a line is the query, a tab and the text; --layout jsonl reads objects"
        raise DataError("expected two fields, found one", path=path, line=number, hint=hint)
    return RankedLine(query, others[0], line)


def _of_object(line: str, path: str, number: int, columns: Sequence[str]) -> RankedLine:
    value = parse_json_object(line, path, number)
    texts = [value.get(key) for key in columns]
    for key, text in zip(columns, texts, strict=True):
        if not isinstance(text, str):
            message = f"no text under {key!r}, the keys are {', '.join(value)}"
            raise DataError(message, path=path, line=number, hint="--columns QUERY,TEXT names the keys")
    query, text = map(str, texts)
    return RankedLine(query, text, line, value)
