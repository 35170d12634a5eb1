"""Files of learned phrases, as readable text.

A file has one section per pass. The first line of a section is `# phrases`, a tab, and the settings as JSON:

    # phrases	{"version": 1, "words": 7, "entries": 12, "scoring": "default", "threshold": 10.0, ...}

All other lines are TOKENS, a tab, COUNT. A single token is a word; tokens separated by spaces are a pair, with the
connectors inside it. Words come before pairs; both are sorted by decreasing count. Pairs below the least count, and words
without a pair, are left out, since no threshold joins them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

import numpy as np

from nlptools.configs.sequences import THRESHOLDS
from nlptools.errors import BundleError, DataError, UsageError, display
from nlptools.files import line_records, streams
from nlptools.json_types import JsonObject
from nlptools.sequences.bigrams import LINE_END, BigramWords, Packing
from nlptools.sequences.phrases import PhraseCounts, Rule

_MARK = "# phrases"
_VERSION = 1
_T = TypeVar("_T")


def save(output: streams.LineWriter, models: Sequence[tuple[Rule, PhraseCounts]]) -> None:
    """Write the results of all passes. Raises StreamError if the disk is full."""
    for rule, counts in models:
        output.write_lines(_section(rule, counts))


def _section(rule: Rule, counts: PhraseCounts) -> list[str]:
    header = {"version": _VERSION, "words": counts.total, "entries": counts.entries, **asdict(rule)}
    kept = counts.pairs >= rule.min_count
    keys, pairs = counts.keys[kept], counts.pairs[kept]
    first, second = counts.packing.first(keys), counts.packing.second(keys)
    texts = list(map(line_records.escape, counts.ids))
    words = np.unique(np.concatenate([first, second])).tolist()
    singles = [(-int(counts.words[word]), texts[word]) for word in words]
    spelled = (" ".join([texts[id] for id in ids]) for ids in counts.packing.ids(keys))
    both = [(-number, text) for number, text in zip(pairs.tolist(), spelled, strict=True)]
    rows = [*sorted(singles), *sorted(both)]
    return [f"{_MARK}\t{json.dumps(header, ensure_ascii=False)}", *(f"{text}\t{-number}" for number, text in rows)]


def load(path: str, scoring: str | None = None, threshold: float | None = None) -> list[tuple[Rule, PhraseCounts]]:
    """The results of all passes.

    Args:
        scoring, threshold: replace those in the file.

    Raises:
        InputError: no such file, a directory, unreadable.
        BundleError: not a file of phrases, or a damaged one; names the line.
        UsageError: the threshold is not valid for the scoring.
    """
    try:
        sections = [_read_section(path, rows) for rows in list(_sections(path))]
    except DataError as error:
        raise BundleError(str(error)) from None
    if not sections:
        raise BundleError(f"{display(path)}: empty, expected a file of phrases")
    return [(_changed(rule, scoring, threshold), counts) for rule, counts in sections]


def _changed(rule: Rule, scoring: str | None, threshold: float | None) -> Rule:
    if threshold is None:
        threshold = rule.threshold if scoring in (None, rule.scoring) else THRESHOLDS[scoring or rule.scoring]
    return replace(rule, scoring=scoring or rule.scoring, threshold=threshold)


Row = tuple[int, str, str]  # number of the line, and its two fields


def _sections(path: str) -> Iterator[list[Row]]:
    """The lines of each section. Raises DataError."""
    rows: list[Row] = []
    for block in streams.blocks(path):
        for number, line in enumerate(block.lines, block.start):
            text, tab, value = line.partition("\t")
            if text == _MARK and value.startswith("{"):
                if rows:
                    yield rows
                rows = []
            elif not rows:
                raise DataError(f"not a file of phrases: expected a line '{_MARK} TAB settings'", path=path, line=1)
            if not tab or "\t" in value:
                raise DataError(f"expected TOKENS TAB COUNT, found {line[:80]!r}", path=path, line=number)
            rows.append((number, text, value))
    if rows:
        yield rows


def _read_section(path: str, rows: list[Row]) -> tuple[Rule, PhraseCounts]:
    """Rule and counts of a section. Raises DataError."""
    number, _, header = rows[0]
    rule, total, entries = _read_header(line_records.parse_json_object(header, path, number), path, number)
    words = BigramWords()
    connectors = [words.ids[word] for word in rule.connectors]
    singles: dict[int, int] = {}
    pairs: list[tuple[int, int, list[int]]] = []
    for number, text, value in rows[1:]:
        count = _count(value, total, path, number)
        tokens = list(map(line_records.unescape, text.split(" ")))
        if not all(tokens) or "\n" in tokens:
            raise DataError("an empty token, or one that is a line end", path=path, line=number)
        ids = [words.ids[token] for token in tokens]
        if len(ids) == 1:
            if ids[0] in singles or ids[0] in connectors:
                reason = "is repeated" if ids[0] in singles else "is a connector"
                raise DataError(f"the word {tokens[0]!r} {reason}", path=path, line=number)
            singles[ids[0]] = count
        else:
            if ids[0] not in singles or ids[-1] not in singles or any(id not in connectors for id in ids[1:-1]):
                raise DataError(
                    "a pair of words without counts, or with other tokens than connectors inside",
                    path=path,
                    line=number,
                )
            if count > min(singles[ids[0]], singles[ids[-1]]):
                raise DataError("a pair is more frequent than its words", path=path, line=number)
            pairs.append((number, count, ids))
    packing = Packing(len(words), connectors)
    # one line each: every third place begins a pair, the others lead to and from the end of its line
    stream = np.fromiter((id for _, _, ids in pairs for id in (*ids, LINE_END)), np.int64)
    keys = packing.pairs(stream, grow=True)[1][::3]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        raise DataError("a repeated pair", path=path, line=pairs[order[twice[0] + 1]][0])
    table = np.zeros(len(words), np.int64)
    table[list(singles)] = list(singles.values())
    counts = np.array([count for _, count, _ in pairs], np.int64)[order]
    return rule, PhraseCounts(words.ids, packing, table, keys, counts, total, entries)


def _read_header(settings: JsonObject, path: str, number: int) -> tuple[Rule, int, int]:
    """Rule, words and entries. Raises DataError."""

    def value(name: str, *kinds: type[_T]) -> _T:
        setting = settings.get(name)
        if not isinstance(setting, kinds) or isinstance(setting, bool):
            raise DataError(
                f"the setting {name!r} is missing or not of type {kinds[0].__name__}", path=path, line=number
            )
        return setting

    if value("version", int) != _VERSION:
        raise DataError(f"version {settings['version']}, expected {_VERSION}", path=path, line=number)
    sums = [value("words", int), value("entries", int)]
    connectors = value("connectors", list)
    if not all(0 < total < 1 << 62 for total in sums) or not all(isinstance(word, str) for word in connectors):
        raise DataError("expected counts under 'words' and 'entries', words under 'connectors'", path=path, line=number)
    try:
        rule = Rule(
            value("scoring", str),
            float(value("threshold", float, int)),
            value("min_count", int),
            value("delimiter", str),
            tuple(connectors),
        )
    except (UsageError, OverflowError) as error:
        raise DataError(str(error), path=path, line=number) from None
    return rule, sums[0], sums[1]


def _count(text: str, total: int, path: str, number: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or not 0 < int(text) <= total:
        raise DataError(f"not a count: {text[:40]!r}, expected a number from 1 to {total}", path=path, line=number)
    return int(text)
