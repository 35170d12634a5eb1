"""Filters of the part `memory` of `scaling`: those that read gigabytes in minutes, and why the others are not measured."""

from __future__ import annotations

from typing import NamedTuple


class Filter(NamedTuple):
    """A filter.

    Attributes:
        line: of bash; it reads standard input. `{again}` writes the same text once more.
        change: of bash, what makes its input out of the text.
    """

    line: str
    change: str = ""


FILTERS = {
    "tokenize -t words": Filter("{nlptools} tokenize -q -t words"),
    "tokenize --decode": Filter("{nlptools} tokenize -q --decode"),
    "tokenize -t pieces.model --to ids": Filter("{nlptools} tokenize -q -t {pieces} --to ids"),
    "build-vocab": Filter("{nlptools} build-vocab -q"),
    "bleu": Filter("{nlptools} bleu -q <({again})"),
    "score (3-grams)": Filter("{nlptools} score -q {ngrams}"),
    "embed (word vectors)": Filter("{nlptools} embed -q {vectors}.bin --to tsv"),
    "split": Filter("{nlptools} split -q"),
    "phrases --model": Filter("{nlptools} phrases -q --model {phrases}"),
    "prompt": Filter("{nlptools} prompt -q -t 'TL;DR: {{input}}'"),
    "extract": Filter("{nlptools} extract -q"),
    "neighbors": Filter("{nlptools} neighbors -q {vectors}.bin -k 2", " | tr -s ' .,' '\\n' | sed 's/.*/w1/'"),
}
HOURS = "reads some thousand lines a second at most, so that 2 GB take hours; a test reads 1 and 8 MB"
WITHOUT = {
    "generate": HOURS,
    "predict": HOURS,
    "fill": HOURS,
    "attend": HOURS,
    "chat": "a conversation has an end",
    "rerank": "keeps the lines of a query, to sort them",
    "cluster": "keeps the vectors of all lines",
    "dedupe": "keeps a summary of each line",
    "walks": "keeps the graph",
}
