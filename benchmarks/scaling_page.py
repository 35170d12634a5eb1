"""The page scaling.md: tables of the records of `scaling`, and those of the model in `cluster_costs`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cluster_costs
from records import FOLDER
from scaling_filters import WITHOUT

PAGE = FOLDER / "scaling.md"
MORE = 16  # MiB that a filter may take for a large stream besides that for a small one
HEAD = """# Cost as work grows

Written by `benchmarks/run scaling`. Each row is a whole process on a text of invented words: the 20,000 most frequent ones follow
Zipf's law, and longer texts have ever more different words, as Heaps' law says (150,000 in 10 MB, 370,000 in 50 MB). `neighbors`
searches rows of 100 dimensions for 1,000 queries. *Growth* is the exponent of time from the size before: 1 is linear, less
means that starting still counts. *Own memory* is what all processes of the command have written to, at the same moment; *with
files* adds the pages of files that they have mapped, which the kernel can take back. *MiB per million* is what own memory has
grown by since the size before, per million bytes (or rows). *Disk* is the output with temporary files. A size in brackets was
not measured, because it would have taken too long: its time continues the last two.
"""
SIDES = """All other tools are called as a user would call them: NLTK's Treebank tokenizer, `sort | uniq -c`, lmplz with half the
memory, gensim from a file, sacrebleu, SentencePiece in a loop over lines, sentence-transformers on all lines at once, NumPy's
product of matrices, hnswlib with M 16 and ef 200 (approximate). A tool without rows was not installed.
"""


def predicted(found: Sequence[tuple[float, float]], size: float) -> float:
    """The seconds at a size, from (size, seconds) of smaller ones: as the last two go on, by a line or a power of the size."""
    found = sorted(pair for pair in found if pair[0] < size)
    if not found:
        return 0.0
    (last, seconds) = found[-1]
    if len(found) == 1:
        return seconds * size / last
    before, earlier = found[-2]
    line = seconds + max(0.0, seconds - earlier) / (last - before) * (size - last)
    return max(line, seconds * (size / last) ** max(0.0, exponent(found[-2], found[-1])))


def exponent(small: tuple[float, float], large: tuple[float, float]) -> float:
    """Of the power of the size that the figure grows with."""
    return math.log(large[1] / small[1]) / math.log(large[0] / small[0])


def amount(job: str, size: float) -> str:
    """A size: bytes of text, or rows."""
    if job == "neighbors":
        return f"{size:,.0f} rows"
    return f"{size / 1e9:,.3g} GB" if size >= 1e9 else f"{size / 1e6:,.3g} MB"


def render(rows: Sequence[dict[str, Any]]) -> str:
    """The page, from the records of `scaling`; `place` of a record names the kind of processor, `mark` follows its time."""
    parts = [HEAD]
    for place in dict.fromkeys(row["place"] for row in rows):
        here = [row for row in rows if row["place"] == place]
        threads = sorted({row["threads"] for row in here})
        parts.append(f"## Measured on {place}; threads: {', '.join(map(str, threads))}\n\n{SIDES}")
        jobs = dict.fromkeys(
            row["job"] for row in here if row["job"] != "ranks" and not row["job"].startswith("memory of")
        )
        parts += [_growth(job, [row for row in here if row["job"] == job]) for job in jobs]
        parts += [*_ranks([row for row in here if row["job"] == "ranks"])]
        parts += [*_memory([row for row in here if row["job"].startswith("memory of ")])]
    return "\n".join(
        [*parts, f"## Many GPUs: a model\n\n{cluster_costs.__doc__.split(chr(10), 2)[2]}", cluster_costs.markdown()]
    )


def _latest(rows: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """(side, record): the last of each side and size; ours first, by size."""
    found = {(side, row["size"]): (side, row) for row in rows for side in row["sides"]}
    return [found[key] for key in sorted(found, key=lambda key: (key[0] != "nlptools", key[0], key[1]))]


def _growth(job: str, rows: Sequence[dict[str, Any]]) -> str:
    """The table of a command."""
    heads = "| | size | s | growth | own memory, MiB | MiB per million | with files, MiB | disk, MiB |"
    out, found = [f"### {job}\n", heads, "|---" * 8 + "|"], _latest(rows)
    largest = max(row["size"] for _, row in found)
    for side in dict.fromkeys(side for side, _ in found):
        name = f"**{side}**" if side == "nlptools" else side
        times: list[tuple[float, float]] = []
        memory = 0.0
        for row in (row for other, row in found if other == side):
            times.append((row["size"], row["sides"][side]))
            growth = f"{exponent(*times[-2:]):.2f}" if len(times) > 1 else ""
            slope = _figure((row["memory"] - memory) / (times[-1][0] - times[-2][0]) * 1e6) if growth else ""
            memory = row["memory"]
            cells = [amount(job, row["size"]), _figure(times[-1][1]) + row["mark"], growth, _figure(memory), slope]
            out.append(f"| {' | '.join([name, *cells, _figure(row['mapped']), _figure(row['disk'])])} |")
        if times[-1][0] < largest:
            expected = _figure(predicted(times, largest))
            out.append(f"| {name} | ({amount(job, largest)}) | ({expected}) | | | | | |")
    return "\n".join(out) + "\n"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ranks(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    table = [f"| {name.removeprefix('nlptools, ')} | {_figure(value)} |" for name, value in rows[-1]["sides"].items()]
    about = (
        f"`train-lm` of 4 layers of 256 dimensions, {rows[-1]['size']:,.0f} bytes of text a step (--global-batch), a thread for"
        f" each process, on {rows[-1]['cores']} cores."
    )
    return [f"### One and two processes\n\n{about}\n", "| | ms a step |", "|---|---|", *table, ""]


def _memory(rows: Sequence[dict[str, Any]]) -> list[str]:
    out = [
        f"### Memory of filters\n\nAn endless stream may take {MORE} MiB more than a short one.\n",
        "| | short stream | own memory, MiB | long stream | own memory, MiB | more, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for job in dict.fromkeys(row["job"] for row in rows):
        found = sorted((row for row in rows if row["job"] == job), key=lambda row: row["size"])
        small, large = found[0], found[-1]
        cells = [amount(job, small["size"]), _figure(small["memory"]), "", "", ""]
        if large is not small:
            more = large["memory"] - small["memory"]
            judged = f"{more:.1f}{'' if more <= MORE else ' TOO MUCH'}"
            cells[2:] = amount(job, large["size"]), _figure(large["memory"]), judged
        out.append(f"| {' | '.join([job.removeprefix('memory of '), *cells])} |")
    reasons = [f"* `{name}`: {why}." for name, why in WITHOUT.items()]
    return [*out, "", "Not measured:\n", *reasons, ""] if rows else []
