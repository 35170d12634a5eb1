"""BLEU: the share of a translation's n-grams that occur in its references.

Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation" (P02-1040); smoothings: Chen &
Cherry 2014 (W14-3346), "exp" is their method 3, also in mteval-v13a.pl. Scores equal sacrebleu's (Post 2018,
W18-6319) to the last bit: a perfect match gives 100.00000000000004 there and here.
Departure: n-grams are counted with numpy over a block of segments at a time.
Shapes: S segments, B resamples, R references, N orders of n-grams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from nlptools.errors import UsageError
from nlptools.metrics.metric import Floats, Ints, Items, Table
from nlptools.metrics.ngrams import END, Ids, matches
from nlptools.metrics.translation.metric import CorpusMetric, CorpusScore, References, score_type
from nlptools.text import mecab
from nlptools.text.bleu_blocks import SEPARATE

Separate = Callable[[list[str]], bytes]

SMOOTH_VALUES: dict[str, float | None] = {"exp": None, "floor": 0.1, "add-k": 1.0, "none": None}
_END = b"\xff"  # follows each segment: a token that no UTF-8 text contains
MOST_IDS = 1 << 20  # tokens remembered from block to block
_FAR = 1 << 40  # the length of a missing reference: never the nearest
_LOG_OF_NOTHING = -9999999999.0  # so small that its exponential is 0
# From the C library; numpy's may differ in the last bit.
_log = np.vectorize(lambda value: math.log(value) if value else _LOG_OF_NOTHING, otypes=[np.float64])
_exp = np.vectorize(math.exp, otypes=[np.float64])


@dataclass(frozen=True)
class BleuScore(CorpusScore):
    """BLEU and its parts; lengths are in tokens, counts and totals in n-grams, precisions in percent."""

    counts: tuple[float, ...] = ()
    totals: tuple[float, ...] = ()
    precisions: tuple[float, ...] = ()
    bp: float = 1.0
    sys_len: int = 0
    ref_len: int = 0

    def steps(self) -> list[str]:
        """How the score comes about, a line for each step: n-grams by order, their mean, the brevity penalty, the product."""
        lines = [
            f"{n}-grams: {count:g} of {total:g} match, {precision:.2f}%" + (" (smoothed)" if smoothed else "")
            for n, (count, total, precision) in enumerate(zip(self.counts, self.totals, self.precisions), 1)
            for smoothed in [total > 0 and not math.isclose(100 * count / total, precision, abs_tol=1e-9)]
        ]
        mean = self.score / self.bp if self.bp else 0.0
        long = self.sys_len >= self.ref_len
        formula = "not shorter" if long or not self.sys_len else f"exp(1 - {self.ref_len}/{self.sys_len})"
        return [
            *lines,
            f"geometric mean of the precisions: {mean:.2f}",
            f"brevity penalty: {self.bp:.4f}, {formula}: {self.sys_len} tokens, of the nearest references {self.ref_len}",
            f"BLEU = {self.bp:.4f} x {mean:.2f} = {self.score:.2f}",
        ]


@dataclass(frozen=True)
class Bleu(CorpusMetric):
    """BLEU with its options.

    Attributes:
        order: N, the longest n-grams.
        effective_order: leave out orders for which the translation is too short to have n-grams; for single segments.
        tokenize: a name in `text.bleu_blocks.SEPARATE` or `text.mecab.NAMES`, or the path of a SentencePiece model.
        smooth: treatment of orders without matches: "exp" counts the first such order as half a match, the next as a
            quarter; "floor" as `smooth_value` matches; "add-k" adds `smooth_value` to the matches and n-grams of all
            orders but the first; "none".
        smooth_value: None for 0.1 with "floor", 1 with "add-k".
        lowercase: ignore case. The text is lower-cased before it is tokenized, unlike with mteval's -c.
        clip: count an n-gram at most as often as in one reference; False shows why BLEU does.

    Raises:
        UsageError: no such tokenizer or smoothing, an order below 1, a value for a smoothing that takes none.
        InputError, BundleError: `tokenize` is a path and the file is missing or no SentencePiece model.
        Unavailable: the packages of ja-mecab or ko-mecab are not installed.
    """

    order: int = 4
    effective_order: bool = False
    tokenize: str = "13a"
    smooth: str = "exp"
    smooth_value: float | None = None
    lowercase: bool = False
    clip: bool = True
    _ids: Ids = field(default_factory=lambda: Ids({_END: END}), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.order < 1:
            raise UsageError(f"expected n-grams of 1 token or more, got {self.order}")
        if self.smooth not in SMOOTH_VALUES:
            raise UsageError(f"no such smoothing: {self.smooth!r}, expected one of {', '.join(SMOOTH_VALUES)}")
        if self.smooth_value is not None and SMOOTH_VALUES[self.smooth] is None:
            raise UsageError(f"smoothing {self.smooth!r} takes no value")
        _ = self._tokenizer  # raises here if it is unknown

    @classmethod
    def without_tokenizer(cls, name: str, options: dict[str, Any]) -> Bleu:
        """BLEU of statistics that were counted elsewhere, with a tokenizer called `name` in the signature."""
        metric = cls(**{**options, "tokenize": "none"})
        object.__setattr__(metric, "tokenize", options["tokenize"])
        vars(metric)["_tokenizer"] = (name, SEPARATE["none"])
        return metric

    @cached_property
    def _tokenizer(self) -> tuple[str, Separate]:
        """(its name in the signature, the function)"""
        if self.tokenize in SEPARATE:
            return self.tokenize, SEPARATE[self.tokenize]
        if self.tokenize in mecab.NAMES:
            return mecab.signature(self.tokenize), partial(mecab.separate, self.tokenize)
        return _sentencepiece(self.tokenize)

    @property
    def _value(self) -> float | None:
        """The parameter of the smoothing; None if it has none."""
        return SMOOTH_VALUES[self.smooth] if self.smooth_value is None else self.smooth_value

    @property
    def name(self) -> str:
        return "BLEU"

    @property
    def columns(self) -> tuple[str, ...]:
        orders = range(1, self.order + 1)
        return ("hyp_len", "ref_len", *(f"match{n}" for n in orders), *(f"total{n}" for n in orders))

    def signature(self) -> Items:
        value = self._value
        items = [
            ("case", "lc" if self.lowercase else "mixed"),
            ("eff", "yes" if self.effective_order else "no"),
            ("tok", self._tokenizer[0]),
            ("smooth", self.smooth if value is None else f"{self.smooth}[{value:.2f}]"),
        ]
        order = [("order", str(self.order))] if self.order != 4 else []
        return (*items, *order, *([] if self.clip else [("clip", "no")]))

    def _count(self, hypotheses: Sequence[str], references: References) -> Ints:
        """Length, nearest reference length, matches and n-grams by order of each segment: (S, 2 + 2 N)."""
        if len(self._ids) > MOST_IDS:
            self._ids.clear()
            self._ids[_END] = END
        streams = [self._token_ids(lines) for lines in (hypotheses, *references)]
        ends = [np.flatnonzero(stream == END) for stream in streams]
        lengths = np.stack([np.diff(end, prepend=-1) - 1 for end in ends])  # (1 + R, S)
        n = np.arange(self.order)
        table = np.empty((len(hypotheses), 2 + 2 * self.order), np.int64)
        table[:, 0] = lengths[0]
        table[:, 2 : 2 + self.order] = matches(streams, len(self._ids), len(hypotheses), self.order, self.clip)
        table[:, 2 + self.order :] = np.maximum(lengths[0][:, None] - n, 0)
        for r, lines in enumerate(references, 1):
            lengths[r][[line is None for line in lines]] = _FAR
        table[:, 1] = _nearest(lengths[0], lengths[1:])
        return table

    def _token_ids(self, lines: Sequence[str | None]) -> Ints:
        """The ids of all tokens of `lines`, END after each line; nothing else for a missing line."""
        if self.lowercase:
            lines = [line and line.lower() for line in lines]
        # 13a joins a word hyphenated at a line end with what follows; at the end of a segment nothing follows
        stripped = list(map(str.rstrip, [line or "" for line in lines]))
        tokens = self._tokenizer[1](stripped).replace(b"\n", b" " + _END + b" ").split()
        return np.fromiter(map(self._ids.__getitem__, tokens), np.int64, len(tokens))

    def score(self, total: Table) -> BleuScore:
        """The score of summed statistics (2 + 2 N,), equations (1) to (3) of the paper."""
        totals = np.asarray(total)[None]
        sys_len, ref_len, *rest = (int(value) for value in total)
        counts: list[float] = [*rest[: self.order]]
        possible: list[float] = [*rest[self.order :]]
        precisions = [0.0] * self.order
        if any(counts):
            smoothed, smoothed_possible, percent, _ = self._precisions(totals)
            precisions = percent[0].tolist()
            if self.smooth == "add-k":
                counts, possible = smoothed[0].tolist(), smoothed_possible[0].tolist()
        penalty = float(_penalties(*np.array([[sys_len], [ref_len]], np.float64))[0])
        ratio = sys_len / ref_len if ref_len else 0.0
        verbose = "/".join(f"{p:.1f}" for p in precisions) + (
            f" (BP = {penalty:.3f} ratio = {ratio:.3f} hyp_len = {sys_len} ref_len = {ref_len})"
        )
        parts = (tuple(counts), tuple(possible), tuple(precisions), penalty, sys_len, ref_len)
        return BleuScore(self.name, float(self.scores(totals)[0]), verbose, "", *parts)

    def scores(self, totals: Table) -> Floats:
        # the same order of operations as in sacrebleu, for its last digit
        _, _, precisions, reached = self._precisions(totals)
        effective = np.maximum(reached.sum(axis=1), 1) if self.effective_order else np.full(len(totals), self.order)
        logs = np.zeros(len(totals))
        for n in range(self.order):
            logs += np.where(n < effective, _log(precisions[:, n]), 0.0)
        lengths = np.asarray(totals[:, :2], np.float64).T
        matched = totals[:, 2 : 2 + self.order].any(axis=1)
        scores: Floats = _penalties(*lengths) * _exp(logs / effective) * matched
        return scores

    def _precisions(self, totals: Table) -> tuple[Floats, Floats, Floats, Floats]:
        """Smoothed matches and n-grams, precisions in percent, and whether the sums have n-grams of an order: (B, N) each."""
        kind = score_type(totals)
        counts: Floats = np.array(totals[:, 2 : 2 + self.order], kind)
        possible: Floats = np.array(totals[:, 2 + self.order :], kind)
        if self.smooth == "add-k":
            counts[:, 1:] += kind(self._value or 0.0)
            possible[:, 1:] += kind(self._value or 0.0)
        reached = np.logical_and.accumulate(possible > 0, axis=1)
        missed = reached & (counts == 0)
        below = np.where(reached, possible, 1)
        precisions = 100 * counts / below
        if self.smooth == "exp":
            precisions = np.where(missed, 100 / (kind(2) ** np.cumsum(missed, axis=1).astype(kind) * below), precisions)
        elif self.smooth == "floor":
            precisions = np.where(missed, kind(100.0 * (self._value or 0.0)) / below, precisions)
        return counts, possible, precisions * reached, reached


def _penalties(sys_len: Floats, ref_len: Floats) -> Floats:
    """Brevity penalties (B,)."""
    lack = np.divide(ref_len, sys_len, out=np.where(ref_len > 0, np.inf, 1.0), where=sys_len > 0)
    penalties: Floats = _exp(np.minimum(0.0, 1 - lack))
    return penalties


def _sentencepiece(path: str) -> tuple[str, Separate]:
    """The pieces of a SentencePiece model as tokens; the model's SHA-256 is its name."""
    import hashlib
    from pathlib import Path

    from nlptools.errors import InputError, display, reason
    from nlptools.files import run_paths
    from nlptools.text.mteval_blocks import separate_spaces
    from nlptools.text.pieces import SentencePiece

    if not path.endswith(".model"):
        raise UsageError(
            f"no such tokenizer: {path!r}, expected one of {', '.join(SEPARATE)} or the path of a SentencePiece .model"
        )
    try:
        run_paths.restore(path)
        model = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{display(path)}: {reason(error)}") from None
    pieces = SentencePiece(model, path)
    return "spm-" + hashlib.sha256(model).hexdigest(), partial(_separate_pieces, pieces.tokens_lines, separate_spaces)


def _separate_pieces(
    tokens_lines: Callable[[list[str]], list[list[str]]], separate: Separate, lines: list[str]
) -> bytes:
    return separate([" ".join(tokens) for tokens in tokens_lines(lines)])


def _nearest(length: Ints, references: Ints) -> Ints:
    """The reference length (R, S) nearest to the hypothesis length (S,), the shorter of two equally near: (S,)."""
    order = np.lexsort((references, np.abs(references - length)), axis=0)[0]  # (S,)
    nearest: Ints = np.take_along_axis(references, order[None], axis=0)[0]
    return nearest
