"""Scores of systems as text, JSON and LaTeX, in the forms that sacrebleu prints."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from nlptools.metrics.metric import Items, signature_text
from nlptools.metrics.significance import Result
from nlptools.metrics.translation.metric import Score

_SHORT = {  # of keys in signatures; see `short_signature` for TER's tokenizer
    "nrefs": "#",
    "seed": "rs",
    "version": "v",
    "case": "c",
    "eff": "e",
    "smooth": "s",
    "order": "n",
    "space": "s",
    "norm": "nr",
    "punct": "pn",
    "asian": "as",
}
_SIGNIFICANT = 0.05


# -- one system -------------------------------------------------------------------------------------------------------


def signature(items: Items, short: bool = False) -> str:
    """A signature on one line; `short` abbreviates the keys."""
    names = {**_SHORT, "tok": "t"} if ("tok", "tercom") in items else _SHORT
    return signature_text((names.get(key, key), value) for key, value in items) if short else signature_text(items)


def line(
    score: Score, result: Result, items: Items, width: int = 1, *, score_only: bool = False, short: bool = False
) -> str:
    """`NAME|SIGNATURE = SCORE ...`."""
    number = _number(result, width)
    return number if score_only else replace(score, signature=signature(items, short)).line(number=number)


def aligned(lines: Sequence[str]) -> list[str]:
    """`lines` padded on the left so that their equals signs are aligned."""
    at = [text.find("=") - 1 for text in lines]
    if len(lines) < 2 or min(at) < 0:
        return list(lines)
    return [f"{text[:place]:>{max(at)}}{text[place:]}" for place, text in zip(at, lines)]


def as_json(score: Score, result: Result, items: Items, width: int = 1) -> dict[str, Any]:
    """The score with its interval, its parts and its signature, whose items are keys of their own."""
    record: dict[str, Any] = {
        "name": result.name,
        "score": float(f"{result.value:.{width}f}"),
        "signature": signature(items),
    }
    if result.mean is not None and result.mean > 0:
        record["confidence_mean"] = float(f"{result.mean:.{width}f}")
        record["confidence_var"] = float(f"{result.ci:.{width}f}")
        record["confidence"] = _interval(result, width)
    if score.verbose:
        record["verbose_score"] = score.verbose
    return {**record, **dict(items)}


def dump(records: Sequence[dict[str, Any]]) -> str:
    """One object, or an array of them."""
    texts = [json.dumps(record, indent=1, ensure_ascii=False) for record in records]
    return texts[0] if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]"


def compact(record: dict[str, Any]) -> str:
    """One object on one line."""
    return json.dumps(record, ensure_ascii=False)


def _number(result: Result, width: int) -> str:
    number = f"{result.value:.{width}f}"
    return f"{number} ({_interval(result, width)})" if result.mean is not None and result.mean > 0 else number


def _interval(result: Result, width: int) -> str:
    return f"μ = {result.mean:.{width}f} ± {result.ci:.{width}f}"


# -- several systems --------------------------------------------------------------------------------------------------

Columns = dict[str, list[Result]]  # name of a metric -> its result for each system


def systems_json(names: Sequence[str], columns: Columns, width: int) -> str:
    """One object for each system. Without a paired test the scores are text; with one they are objects of numbers."""
    records: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        record: dict[str, Any] = {"system": name}
        for metric, results in columns.items():
            record[metric] = _numbers(results[i]) if _tested(results) else _number(results[i], width)
        records.append(record)
    return json.dumps(records, indent=4)


def _numbers(result: Result) -> dict[str, Any]:
    numbers = {"score": result.value, "p_value": result.p_value, "mean": result.mean, "ci": result.ci}
    return {**numbers, "corrected": "holm"} if result.corrected else numbers


def systems_table(names: Sequence[str], columns: Columns, width: int, *, latex: bool = False) -> list[str]:
    """The lines of a table: a row for each system, a column for each metric."""
    rows = [["System", *(f"{m} (μ ± 95% CI)" if _resampled(columns) else m for m in columns)]]
    for i, name in enumerate(names):
        cells = [_cell(results[i], width, " " if latex else "\n") for results in columns.values()]
        rows.append([name, *cells])
    return _booktabs(rows) if latex else _grid(rows)


def _cell(result: Result, width: int, between: str) -> str:
    text = f"{result.value:.{width}f}"
    if result.mean is not None:
        text += f" ({result.mean:.{width}f} ± {result.ci:.{width}f})"
    if result.p_value is not None:
        text += f"{between}(p = {result.p_value:.4f})" + ("*" if result.p_value <= _SIGNIFICANT else "")
    return text


def _tested(results: Iterable[Result]) -> bool:
    return any(result.p_value is not None for result in results)


def _resampled(columns: Columns) -> bool:
    return any(result.mean is not None for results in columns.values() for result in results)


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in double lines, the first column aligned right, the others centred."""
    widths = _widths(rows)

    def rule(left: str, middle: str, right: str, stroke: str) -> str:
        return left + middle.join(stroke * width for width in widths) + right

    lines = [rule("╒", "╤", "╕", "═")]
    for number, row in enumerate(rows):
        height = max(cell.count("\n") for cell in row) + 1
        parts = [cell.split("\n") + [""] * (height - cell.count("\n") - 1) for cell in row]
        for k in range(height):
            cells = [_placed(parts[i][k], width, centred=i > 0) for i, width in enumerate(widths)]
            lines.append("│" + "│".join(cells) + "│")
        if number + 1 < len(rows):
            lines.append(rule("├", "┼", "┤", "─") if number else rule("╞", "╪", "╡", "═"))
    return [*lines, rule("╘", "╧", "╛", "═")]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column: its widest line, or two more than its heading; and a blank on each side."""
    cells = [(column[0] + "  ", *column[1:]) for column in zip(*rows)]
    return [2 + max(_columns(part) for cell in column for part in cell.split("\n")) for column in cells]


def _placed(text: str, width: int, centred: bool) -> str:
    """`text` with a blank on each side, padded to `width` columns."""
    room = width - 2 - _columns(text)
    left = room // 2 if centred else room
    return " " * (1 + left) + text + " " * (1 + room - left)


def _columns(text: str) -> int:
    """The width of `text` in terminal columns."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


_LATEX = {c: "\\" + c for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\^{}", "\\": r"\textbackslash{}"}


def _booktabs(rows: Sequence[Sequence[str]]) -> list[str]:
    """A LaTeX table for the booktabs package."""
    widths = _widths(rows)
    lines = [rf"\begin{{tabular}}{{{'r' + 'c' * (len(widths) - 1)}}}", r"\toprule"]
    for number, row in enumerate(rows):
        cells = [_placed(cell, widths[i], centred=i > 0) for i, cell in enumerate(row)]
        lines.append("&".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r"\\")
        if not number:
            lines.append(r"\midrule")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def explanation(baseline: str, *, bootstrap: int = 0, randomization: int = 0, corrected: bool = False) -> list[str]:
    """A short explanation of a table with p-values."""
    kind, number = ("bootstrap resampling", bootstrap) if bootstrap else ("approximate randomization", randomization)
    title = f"Paired {kind} test with {number} {'resamples' if bootstrap else 'trials'}"
    lines = [
        "-" * len(title),
        title,
        "-" * len(title),
        f" - Each system is compared with {baseline}.",
        " - p is the probability of a difference at least as large if both systems were equally good (the null",
        "   hypothesis). With p <= 0.05, marked *, the difference is taken to be more than chance.",
        " - A p-value tells whether systems differ on other test sets of this kind, not which one is better.",
    ]
    return [*lines, " - p-values are corrected for the number of systems (Holm)."] if corrected else lines
