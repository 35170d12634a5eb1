"""BLEU of a corpus, with its signature.

Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation" (P02-1040); smoothing "exp" is
that of mteval-v13a.pl (Chen & Cherry 2014, W14-3346, method 3). Scores equal those of sacrebleu (Post 2018, W18-6319)
to the last bit.
Departure: n-grams are counted with numpy over a block of segments at a time. A corpus is the sum of its segments'
statistics, so that blocks, files or shards can be counted apart and added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from nlptools import __version__
from nlptools.errors import DataError, UsageError
from nlptools.metrics.ngrams import END, Ids, Ints, matches
from nlptools.text.mteval_blocks import separate_13a, separate_spaces

MAX_ORDER = 4
COLUMNS = 2 + 2 * MAX_ORDER  # of statistics: hypothesis length, reference length, matches by order, totals by order

_SEPARATE = {"13a": separate_13a, "none": separate_spaces}
_END = b"\xff"  # stands after each segment: a token that no UTF-8 text contains
_BLOCK = 2048  # segments counted at once: their words and n-grams fit into the cache


@dataclass(frozen=True)
class BleuScore:
    """A score and what it is made of; lengths and counts are in tokens and n-grams, precisions in percent."""

    score: float
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    precisions: tuple[float, ...]
    bp: float
    sys_len: int
    ref_len: int
    signature: str

    def line(self, width: int = 1) -> str:
        """The score with `width` decimals, its signature and its parts, as sacrebleu prints them."""
        precisions = "/".join(f"{p:.1f}" for p in self.precisions)
        ratio = self.sys_len / self.ref_len if self.ref_len else 0.0
        return (
            f"BLEU|{self.signature} = {self.score:.{width}f} {precisions} "
            f"(BP = {self.bp:.3f} ratio = {ratio:.3f} hyp_len = {self.sys_len} ref_len = {self.ref_len})"
        )


def corpus_bleu(hypotheses: Iterable[str], references: Sequence[Iterable[str]], *, tokenize: str = "13a") -> BleuScore:
    """BLEU of `hypotheses` against one or several `references`, each an iterable of as many segments.

    Args:
        references: one iterable per reference, not one list of references per segment.
        tokenize: "13a", or "none" for text whose tokens are separated by white space.

    Raises:
        DataError: the numbers of segments differ, or there are none.
        UsageError: no references, a string where an iterable of segments is expected, or no such tokenizer.
    """
    if isinstance(hypotheses, str) or isinstance(references, str) or any(isinstance(r, str) for r in references):
        raise UsageError("expected hypotheses as a list of segments, and references as a list of such lists")
    total = total_statistics(_blocks(hypotheses, references), tokenize)
    return score(total, num_references=len(references), tokenize=tokenize)


def _blocks(hypotheses: Iterable[str], references: Sequence[Iterable[str]]) -> Iterator[list[list[str]]]:
    """Parallel blocks of the segments; the last may be ragged, which `statistics` refuses."""
    sources = [iter(hypotheses), *map(iter, references)]
    while True:
        block = [list(islice(source, _BLOCK)) for source in sources]
        if not any(block):
            return
        yield block


def total_statistics(blocks: Iterable[Sequence[list[str]]], tokenize: str = "13a") -> Ints:
    """The sum of the statistics of all segments: (COLUMNS,).

    Each block holds the hypotheses first, then each reference, as lists of one length.

    Raises:
        DataError: there are no segments.
    """
    total = np.zeros(COLUMNS, np.int64)
    segments = 0
    for hypotheses, *references in blocks:
        for start in range(0, len(hypotheses), _BLOCK):
            part = slice(start, start + _BLOCK)
            total += statistics(hypotheses[part], [reference[part] for reference in references], tokenize).sum(axis=0)
        segments += len(hypotheses)
    if not segments:
        raise DataError("no segments: hypotheses and references are empty")
    return total


def statistics(hypotheses: list[str], references: Sequence[list[str]], tokenize: str = "13a") -> Ints:
    """Sufficient statistics of each of S segments: (S, COLUMNS).

    Raises:
        DataError: the numbers of segments differ.
        UsageError: no references, or no such tokenizer.
    """
    if tokenize not in _SEPARATE:
        raise UsageError(f"no such tokenizer: {tokenize!r}, expected one of {', '.join(_SEPARATE)}")
    if not references:
        raise UsageError("expected at least one reference")
    counts = [len(hypotheses), *map(len, references)]
    if len(set(counts)) > 1:
        raise DataError(f"unequal numbers of segments: {counts[0]} hypotheses, references {counts[1:]}")
    if not hypotheses:
        return np.zeros((0, COLUMNS), np.int64)
    ids = Ids({_END: END})
    streams = [_token_ids(lines, tokenize, ids) for lines in (hypotheses, *references)]
    ends = [np.flatnonzero(stream == END) for stream in streams]
    lengths = np.stack([np.diff(end, prepend=-1) - 1 for end in ends])  # (1 + references, S)
    table = np.empty((len(hypotheses), COLUMNS), np.int64)
    table[:, 0] = lengths[0]
    table[:, 1] = _closest(lengths[0], lengths[1:])
    table[:, 2 : 2 + MAX_ORDER] = matches(streams, len(ids), len(hypotheses), MAX_ORDER)
    for n in range(1, MAX_ORDER + 1):
        table[:, 1 + MAX_ORDER + n] = np.maximum(lengths[0] - n + 1, 0)
    return table


def score(total: Ints, num_references: int = 1, tokenize: str = "13a") -> BleuScore:
    """The score of summed statistics (COLUMNS,), equations (1) to (3) of the paper.

    An order without matches counts as half a match, the next such order as a quarter, and so on; without any match
    the score is 0. The order of the operations is that of sacrebleu: a perfect match gives 100.00000000000004.
    """
    sys_len, ref_len, *rest = (int(value) for value in total)
    counts, totals = tuple(rest[:MAX_ORDER]), tuple(rest[MAX_ORDER:])
    bp = 1.0
    if sys_len < ref_len:
        bp = math.exp(1 - ref_len / sys_len) if sys_len else 0.0
    precisions = [0.0] * MAX_ORDER
    value = 0.0
    if any(counts):
        misses = 1.0
        for n, (match, possible) in enumerate(zip(counts, totals)):
            if not possible:
                break
            if not match:
                misses *= 2
            precisions[n] = 100.0 * match / possible if match else 100.0 / (misses * possible)
        value = bp * math.exp(sum(_log(p) for p in precisions) / MAX_ORDER)
    signature = f"nrefs:{num_references}|case:mixed|eff:no|tok:{tokenize}|smooth:exp|version:nlptools-{__version__}"
    return BleuScore(value, counts, totals, tuple(precisions), bp, sys_len, ref_len, signature)


def _log(p: float) -> float:
    """Logarithm; of nothing, a number so small that its exponential is 0."""
    return math.log(p) if p else -9999999999


def _closest(length: Ints, references: Ints) -> Ints:
    """The reference length (R, S) next to the hypothesis length (S,); of two as near, the shorter."""
    order = np.lexsort((references, np.abs(references - length)), axis=0)[0]  # (S,)
    closest: Ints = np.take_along_axis(references, order[None], axis=0)[0]
    return closest


def _token_ids(lines: list[str], tokenize: str, ids: Ids) -> Ints:
    """The numbers of all tokens of `lines`; END after each line."""
    lines = [line.rstrip() for line in lines]  # 13a joins a word divided at a line end, but not with nothing
    tokens = _SEPARATE[tokenize](lines).replace(b"\n", b" " + _END + b" ").split()
    return np.fromiter(map(ids.__getitem__, tokens), np.int64, len(tokens))
