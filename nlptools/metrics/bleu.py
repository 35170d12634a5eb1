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
from numpy.typing import NDArray

from nlptools import __version__
from nlptools.errors import DataError, UsageError
from nlptools.text.mteval_blocks import separate_13a, separate_spaces

Ints = NDArray[np.int64]

MAX_ORDER = 4
COLUMNS = 2 + 2 * MAX_ORDER  # of statistics: hypothesis length, reference length, matches by order, totals by order

_SEPARATE = {"13a": separate_13a, "none": separate_spaces}
_END = b"\xff"  # stands after each segment: a token that no UTF-8 text contains
_BLOCK = 2048  # segments counted at once: their words and n-grams fit into the cache
_LARGEST_KEY = 2**62


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
    ids = _Ids({_END: 0})
    streams = [_token_ids(lines, tokenize, ids) for lines in (hypotheses, *references)]
    ends = [np.flatnonzero(stream == 0) for stream in streams]
    lengths = np.stack([np.diff(end, prepend=-1) - 1 for end in ends])  # (1 + references, S)
    table = np.empty((len(hypotheses), COLUMNS), np.int64)
    table[:, 0] = lengths[0]
    table[:, 1] = _closest(lengths[0], lengths[1:])
    table[:, 2 : 2 + MAX_ORDER] = _matches(streams, len(ids), len(hypotheses))
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


# -- counting n-grams -------------------------------------------------------------------------------------------------


class _Ids(dict[bytes, int]):
    """Token -> number, given at the first look-up."""

    def __missing__(self, token: bytes) -> int:
        self[token] = number = len(self)
        return number


def _token_ids(lines: list[str], tokenize: str, ids: _Ids) -> Ints:
    """The numbers of all tokens of `lines`; a 0 after each line."""
    lines = [line.rstrip() for line in lines]  # 13a joins a word divided at a line end, but not with nothing
    tokens = _SEPARATE[tokenize](lines).replace(b"\n", b" " + _END + b" ").split()
    return np.fromiter(map(ids.__getitem__, tokens), np.int64, len(tokens))


def _matches(streams: list[Ints], num_ids: int, num_segments: int) -> Ints:
    """Clipped n-gram matches of the first of `streams` with the others, by segment and order: (S, MAX_ORDER).

    Each word type of each segment gets a rank, in which the segment is contained. An n-gram is the rank of its first
    word and the places of the others among the types of their segment, packed into one integer.
    """
    kept = [np.flatnonzero(stream) for stream in streams]
    types = [np.cumsum(stream == 0)[keep] * num_ids + stream[keep] for keep, stream in zip(kept, streams)]
    values, inverse = np.unique(np.concatenate(types), return_inverse=True)
    owner = values // num_ids  # rank -> segment
    first = np.searchsorted(owner, np.arange(num_segments + 1))  # segment -> its lowest rank
    width = int(np.diff(first).max())  # most types in one segment
    place = np.arange(len(owner)) - first[owner]  # rank -> place among the types of its segment
    ranks = np.split(inverse, np.cumsum([len(keep) for keep in kept])[:-1])

    counted = [np.bincount(rank, minlength=len(owner)) for rank in ranks]
    clipped = np.minimum(counted[0], np.max(counted[1:], axis=0))
    matches = np.zeros((num_segments, MAX_ORDER), np.int64)
    matches[:, 0] = np.bincount(owner, clipped, num_segments)
    # Only words that hypothesis and references share can be part of a match.
    grams = [
        _Grams(len(stream), keep, rank, clipped > 0, place)
        for stream, keep, rank in zip(streams, kept, ranks, strict=True)
    ]
    scale = 1  # key of an n-gram // scale -> rank of its first word
    for n in range(1, MAX_ORDER):
        if len(owner) * scale * width > _LARGEST_KEY:
            owner, scale = _renumber(grams, owner, scale), 1
        for gram in grams:
            gram.extend(n, width)
        scale *= width
        found, clipped = _clip([gram.keys for gram in grams])
        matches[:, n] = np.bincount(owner[found // max(scale, 1)], clipped, num_segments)
    return matches


class _Grams:
    """The n-grams of one stream that consist of shared words, for n = 1, then 2, and so on."""

    def __init__(self, length: int, kept: Ints, rank: Ints, shared: NDArray[np.bool_], place: Ints) -> None:
        good = shared[rank]
        self.starts, self.keys = kept[good], rank[good]
        self.shared = np.zeros(length, np.bool_)  # by position; False at the end of a segment: no n-gram crosses it
        self.shared[self.starts] = True
        self.place = np.zeros(length, np.int64)
        self.place[self.starts] = place[self.keys]

    def extend(self, n: int, width: int) -> None:
        """Make (n+1)-grams out of the n-grams."""
        good = self.shared[self.starts + n]
        self.starts = self.starts[good]
        self.keys = self.keys[good] * width + self.place[self.starts + n]


def _renumber(grams: list[_Grams], owner: Ints, scale: int) -> Ints:
    """Replace the keys by their ranks, so that they fit into 64 bits again; returns rank -> segment."""
    values, inverse = np.unique(np.concatenate([gram.keys for gram in grams]), return_inverse=True)
    for gram, keys in zip(grams, np.split(inverse, np.cumsum([len(gram.keys) for gram in grams])[:-1])):
        gram.keys = keys
    segment: Ints = owner[values // scale]
    return segment


def _clip(keys: list[Ints]) -> tuple[Ints, Ints]:
    """The distinct keys of the hypothesis (the first of `keys`), and how often each may count as a match."""
    values, counts = np.unique(keys[0], return_counts=True)
    limit = np.zeros_like(counts)
    if len(values):
        for reference in keys[1:]:
            others, times = np.unique(reference, return_counts=True)
            at = np.minimum(np.searchsorted(values, others), len(values) - 1)
            hit = values[at] == others
            limit[at[hit]] = np.maximum(limit[at[hit]], times[hit])
    return values, np.minimum(counts, limit)
