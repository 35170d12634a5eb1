"""Scores of systems as text, JSON and LaTeX, in the forms that sacrebleu prints, and as TSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nlptools.configs.bleu import BleuReport, Significance
from nlptools.files.line_records import escape
from nlptools.metrics import tables
from nlptools.metrics.metric import Items, Table, signature_text
from nlptools.metrics.significance import SystemScore
from nlptools.metrics.translation.corpus import signature
from nlptools.metrics.translation.metric import CorpusMetric, CorpusScore, References
from nlptools.metrics.translation.segments import reference_counts
from nlptools.metrics.translation.systems import Systems

_SHORT = {  # of keys in signatures; see `_signature` for TER's tokenizer
    "nrefs": "#",
    "seed": "rs",
    "version": "v",
    "case": "c",
    "eff": "e",
    "clip": "cl",
    "smooth": "s",
    "order": "n",
    "space": "s",
    "norm": "nr",
    "punct": "pn",
    "asian": "as",
}
_SIGNIFICANT = 0.05


def lines(systems: Systems, report: BleuReport, tests: Significance, terminal: bool = False) -> list[str]:
    """One line for each metric, JSON, or a table of systems; on a `terminal` with a line that explains its intervals."""
    if report.format == "tsv" and not report.score_only:
        return [line for i in range(len(systems.names)) for line in _tsv(systems, i, report)]
    if len(systems.names) > 1:
        return _lines_of_systems(systems, report, tests, terminal)
    scored = [
        (score, result, systems.signatures[name])
        for (score,), (name, (result,)) in zip(systems.scores, systems.columns.items(), strict=True)
    ]
    if report.format == "json" and not report.score_only:
        texts = [json.dumps(_record(*one, report.width), indent=1, ensure_ascii=False) for one in scored]
        return texts if len(texts) == 1 else ["[\n" + ",\n".join(texts) + "\n]"]
    texts = [_line(*one, report) for one in scored]
    at = [text.find("=") - 1 for text in texts]  # the equals signs are aligned
    return [f"{text[:place]:>{max(at)}}{text[place:]}" for place, text in zip(at, texts)] if min(at) >= 0 else texts


def sentence_lines(metric: CorpusMetric, table: Table, references: References, report: BleuReport) -> list[str]:
    """A line for each segment (S, C)."""
    lines = []
    for row, count in zip(table, reference_counts(references), strict=True):
        items = signature(metric, count, version=report.signature)
        score = metric.score(row)
        result = SystemScore(score.name, score.score)
        if report.format == "json":
            lines.append(json.dumps(_record(score, result, items, report.width), ensure_ascii=False))
        else:
            lines.append(_line(score, result, items, report))
    return lines


# -- one system -------------------------------------------------------------------------------------------------------


def _line(score: CorpusScore, result: SystemScore, items: Items, report: BleuReport) -> str:
    """`NAME|SIGNATURE = SCORE ...`."""
    number = _number(result, report.width)
    return (
        number if report.score_only else replace(score, signature=_signature(items, report.short)).line(number=number)
    )


def _record(score: CorpusScore, result: SystemScore, items: Items, width: int) -> dict[str, object]:
    """The score with its interval, its parts and its signature with a key per item."""
    record: dict[str, object] = {
        "name": result.name,
        "score": float(f"{result.value:.{width}f}"),
        "signature": signature_text(items),
    }
    if result.mean is not None and result.mean > 0:
        record["confidence_mean"] = float(f"{result.mean:.{width}f}")
        record["confidence_var"] = float(f"{result.ci:.{width}f}")
        record["confidence"] = _interval(result, width)
    if score.verbose:
        record["verbose_score"] = score.verbose
    return {**record, **dict(items)}


def _signature(items: Items, short: bool) -> str:
    """A signature on one line; `short` abbreviates the keys."""
    names = {**_SHORT, "tok": "t"} if ("tok", "tercom") in items else _SHORT
    return signature_text((names.get(key, key), value) for key, value in items) if short else signature_text(items)


def _number(result: SystemScore, width: int) -> str:
    number = f"{result.value:.{width}f}"
    return f"{number} ({_interval(result, width)})" if result.mean is not None and result.mean > 0 else number


def _interval(result: SystemScore, width: int) -> str:
    return f"μ = {result.mean:.{width}f} ± {result.ci:.{width}f}"


def _tsv(systems: Systems, place: int, report: BleuReport) -> Iterator[str]:
    """System, metric, score and signature, by metric; mean and half width of an interval, and the p-value, if any."""
    for metric, results in systems.columns.items():
        result = results[place]
        numbers = [f"{number:.{report.width}f}" for number in (result.mean, result.ci) if number is not None]
        if any(other.p_value is not None for other in results):
            numbers.append("" if result.p_value is None else f"{result.p_value:.4f}")
        signature = _signature(systems.signatures[metric], report.short)
        score = f"{result.value:.{report.width}f}"
        yield "\t".join([escape(systems.names[place]), metric, score, signature, *numbers])


# -- several systems --------------------------------------------------------------------------------------------------


def _lines_of_systems(systems: Systems, report: BleuReport, tests: Significance, terminal: bool) -> list[str]:
    """The scores alone, JSON, or a table with a row for each system and a column for each metric."""
    names = [*systems.names]
    if tests.paired:
        names[0] = f"Baseline: {names[0]}"
    by_system = list(zip(names, zip(*systems.columns.values())))
    if report.score_only:
        return ["\t".join(f"{result.value:.{report.width}f}" for result in results) for _, results in by_system]
    if report.format == "json":
        return [_systems_json(systems, by_system, report.width, tests.paired)]
    latex = report.format == "latex"
    interval = " (μ ± 95% CI)" if tests.paired_bs else ""
    rows = [["System", *(name + interval for name in systems.columns)]]
    for name, results in by_system:
        rows.append([name, *(_cell(result, report.width, " " if latex else "\n") for result in results)])
    lines = [*(_booktabs(rows) if latex else _grid(rows)), ""]
    if tests.paired:
        lines += _explanation(names[0], tests)
        if tests.paired_bs and terminal:
            lines.append(
                " - μ ± 95% CI is the mean over the resamples, and half the width of the interval of 95% of them."
            )
        lines.append("")
    lines += _heading("Metric signatures")
    return lines + [f" - {name:<10} {_signature(items, report.short)}" for name, items in systems.signatures.items()]


def _systems_json(
    systems: Systems, by_system: Sequence[tuple[str, Sequence[SystemScore]]], width: int, tested: bool
) -> str:
    """One object for each system. Without a paired test the scores are text; with one they are objects of numbers."""
    records: list[dict[str, object]] = []
    for name, results in by_system:
        scores = {m: _numbers(r) if tested else _number(r, width) for m, r in zip(systems.columns, results)}
        records.append({"system": name, **scores})
    return json.dumps(records, indent=4)


def _numbers(result: SystemScore) -> dict[str, object]:
    numbers: dict[str, object] = {
        "score": result.value,
        "p_value": result.p_value,
        "mean": result.mean,
        "ci": result.ci,
    }
    return {**numbers, "corrected": "holm"} if result.corrected else numbers


def _cell(result: SystemScore, width: int, between: str) -> str:
    text = f"{result.value:.{width}f}"
    if result.mean is not None:
        text += f" ({result.mean:.{width}f} ± {result.ci:.{width}f})"
    if result.p_value is not None:
        text += f"{between}(p = {result.p_value:.4f})" + ("*" if result.p_value <= _SIGNIFICANT else "")
    return text


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
            cells = [_placed(parts[i][k], width, i) for i, width in enumerate(widths)]
            lines.append("│" + "│".join(cells) + "│")
        if number + 1 < len(rows):
            lines.append(rule("├", "┼", "┤", "─") if number else rule("╞", "╪", "╡", "═"))
    return [*lines, rule("╘", "╧", "╛", "═")]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column: its widest line, or two more than its heading; and a blank on each side."""
    cells = [(column[0] + "  ", *column[1:]) for column in zip(*rows)]
    return [2 + max(tables.width(part) for cell in column for part in cell.split("\n")) for column in cells]


def _placed(text: str, width: int, column: int) -> str:
    """`text` with a blank on each side, padded to `width`."""
    return f" {tables.pad(text, width - 2, '^' if column else '>')} "


_LATEX = {c: "\\" + c for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\^{}", "\\": r"\textbackslash{}"}


def _booktabs(rows: Sequence[Sequence[str]]) -> list[str]:
    """A LaTeX table for the booktabs package."""
    widths = _widths(rows)
    lines = [rf"\begin{{tabular}}{{{'r' + 'c' * (len(widths) - 1)}}}", r"\toprule"]
    for number, row in enumerate(rows):
        cells = [_placed(cell, widths[i], i) for i, cell in enumerate(row)]
        lines.append("&".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r"\\")
        if not number:
            lines.append(r"\midrule")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _explanation(baseline: str, tests: Significance) -> list[str]:
    """A short explanation of a table with p-values."""
    kind = f"bootstrap resampling test with {tests.paired_bs} resamples"
    if tests.paired_ar:
        kind = f"approximate randomization test with {tests.paired_ar} trials"
    lines = [
        *_heading(f"Paired {kind}"),
        f" - Each system is compared with {baseline}.",
        " - p is the probability of a difference at least as large if both systems were equally good (the null",
        "   hypothesis). With p <= 0.05, marked *, the difference is taken to be more than chance.",
        " - A p-value tells whether systems differ on other test sets of this kind, not which one is better.",
    ]
    return [*lines, " - p-values are corrected for the number of systems (Holm)."] if tests.holm else lines


def _heading(title: str) -> list[str]:
    return ["-" * len(title), title, "-" * len(title)]
