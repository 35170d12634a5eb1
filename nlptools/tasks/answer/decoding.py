"""From the scores of tokens to answers, their probabilities and the threshold of no answer.

The score of tokens i to j of a row is start[i] + end[j] (Rajpurkar et al. 2016, D16-1264; Devlin et al. 2019,
arXiv:1810.04805). All pairs i <= j within the maximum length are compared, in the row that is responsible for i. The score of
no answer is the score of the token for no answer (the [CLS]; see `answer_features`) with itself, the lowest of several rows. A
question is left unanswered when that exceeds the best answer's score by more than a threshold, which is tuned on held-out
questions.
Departures from BERT's script: not the n best starts with the n best ends, but the n best of all pairs; a probability is
the share among all pairs of the question's rows and no answer, so that it does not depend on n; texts are spans of the
context. The threshold is the midpoint between the two odds that it separates, and never separates equal ones.
Shapes: B rows of a batch, T tokens, K best, N questions, A longest answer, C candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nlptools.errors import DataError, UsageError
from nlptools.formats.examples import Question
from nlptools.json_types import JsonObject
from nlptools.metrics import squad
from nlptools.tasks.answer.features import NO, YES, AnswerFeatures


class RowAnswers(NamedTuple):
    """The best answers of B rows, all that is kept of their logits."""

    rows: np.ndarray  # (B,) int64
    scores: np.ndarray  # (B, K) float64, descending; -inf where there is no pair
    start: np.ndarray  # (B, K) int64, place of the first token
    end: np.ndarray  # (B, K) int64, place of the last token, inclusive
    start_logits: np.ndarray  # (B, K) float64
    end_logits: np.ndarray  # (B, K) float64
    total: np.ndarray  # (B,) float64, log of the sum of exp(score) over all pairs; -inf where there is none
    null: np.ndarray  # (B, 2) float64, start and end logit of no answer
    yes_no: np.ndarray  # (B, 3) float64, logits of SPAN, YES, NO; or (B, 0)


class Candidate(NamedTuple):
    """One answer: the characters a to b of the context, or no answer (a and b are -1)."""

    text: str
    probability: float
    start_logit: float
    end_logit: float
    a: int
    b: int


@dataclass(frozen=True)
class AnswerRecord:
    """The answer to a question, and the candidates.

    Attributes:
        best: the best candidate with text; its text is empty where the context has no pieces.
        nbest: the n best candidates, best first, without duplicate texts; and no answer as one more candidate, unless
            answers are required.
        null_odds: score of no answer minus score of `best`; 0 where there is no text.
        yes_no_shares: the probabilities of yes and no; 0 where the model has no such classes.
    """

    id: str
    best: Candidate
    nbest: tuple[Candidate, ...]
    null_odds: float
    yes_no_shares: tuple[float, float] = (0.0, 0.0)

    @property
    def yes_no(self) -> str:
        """ "yes" or "no" where the two together have a probability above 0.5, else ""."""
        yes, no = self.yes_no_shares
        return "" if yes + no <= 0.5 else "yes" if yes >= no else "no"

    @property
    def yes_no_probability(self) -> float:
        """The probability of the likelier of yes and no."""
        return max(self.yes_no_shares)

    def text(self, threshold: float = 0.0) -> str:
        """The answer; empty where `null_odds` exceed the threshold (inf: never)."""
        return self.yes_no or ("" if self.null_odds > threshold else self.best.text)

    def nbest_json(self) -> list[JsonObject]:
        """The value in the official n-best file; the values in the other two are `text(threshold)` and `null_odds`."""
        return [dict(zip(Candidate._fields[:4], each)) for each in self.nbest]


def best_spans(
    features: AnswerFeatures,
    rows: np.ndarray,
    logits: np.ndarray,
    *,
    n_best: int = 20,
    max_tokens: int = 30,
    yes_no: np.ndarray | None = None,
) -> RowAnswers:
    """The best answers in the rows (B,) of a batch.

    Args:
        logits: (B, T, 2), the scores of each token as beginning and end; T may exceed the lengths of the rows.
        max_tokens: longest answer in pieces; 0: no limit.
        yes_no: (B, 3), logits of SPAN, YES and NO of each row.

    Raises:
        UsageError: `n_best` below 1, or a longest answer below 0.
        DataError: a logit of the context or of no answer is not finite.
    """
    if n_best < 1 or max_tokens < 0:
        raise UsageError(f"{n_best} best answers of at most {max_tokens} pieces")
    rows = np.asarray(rows, np.int64)
    start, end = (np.asarray(logits[:, :, side], np.float64) for side in (0, 1))
    T = start.shape[1]
    begin = features.begin[rows][:, None]
    stop = begin + features.length[rows][:, None]
    places = np.arange(T)
    allowed_start = (places >= features.owned_begin[rows][:, None]) & (places < features.owned_end[rows][:, None])
    allowed_end = (places >= begin) & (places < stop)
    null = features.null[rows]
    if not np.isfinite(logits[allowed_end | (places == null[:, None])]).all():
        raise DataError("the model's scores of an answer are not finite numbers")
    longest = min(max_tokens or T, T)
    # (B, T, longest): from token i to token i + k
    ends = np.pad(np.where(allowed_end, end, -np.inf), ((0, 0), (0, longest - 1)), constant_values=-np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(ends, longest, axis=1)
    flat = (np.where(allowed_start, start, -np.inf)[:, :, None] + ends).reshape(len(rows), -1)
    chosen, best = _top(flat, n_best)
    first = chosen // longest
    last = np.minimum(first + chosen % longest, T - 1)
    return RowAnswers(
        rows,
        best,
        first,
        last,
        np.take_along_axis(start, first, axis=1),
        np.take_along_axis(end, last, axis=1),
        _log_sum(flat),
        np.stack([side[np.arange(len(rows)), null] for side in (start, end)], axis=1),
        np.zeros((len(rows), 0)) if yes_no is None else np.asarray(yes_no, np.float64),
    )


def answers(
    features: AnswerFeatures,
    ids: Sequence[str],
    row_answers: Iterable[RowAnswers],
    *,
    n_best: int = 20,
    required: bool = False,
) -> list[AnswerRecord]:
    """The answers to the N questions `ids`, from the rows of all batches in any order.

    Args:
        required: every question has an answer (SQuAD 1.1): no answer is not a candidate and has probability 0.

    Raises:
        ValueError: rows are missing, or there are too many.
    """
    batches = list(row_answers)
    if not batches:
        if ids:
            raise ValueError("no rows")
        return []
    fields = [np.concatenate(parts) for parts in zip(*batches)]
    order = np.argsort(fields[0], kind="stable")
    table = RowAnswers(*(field[order] for field in fields))
    if not np.array_equal(table.rows, np.arange(len(features.rows))):
        raise ValueError(f"{len(table.rows)} rows have answers, expected each of {len(features.rows)} once")
    bounds = np.searchsorted(features.question, np.arange(len(ids) + 1))
    records = []
    for n, name in enumerate(ids):
        rows = slice(int(bounds[n]), int(bounds[n + 1]))
        records.append(_record(features, name, table, rows, n_best, required))
    return records


def _record(
    features: AnswerFeatures, name: str, table: RowAnswers, rows: slice, n_best: int, required: bool
) -> AnswerRecord:
    """The answer to one question, from its rows."""
    scores = table.scores[rows]
    null = table.null[rows][table.null[rows].sum(axis=1).argmin()]
    total = _log_sum(table.total[rows][None])[0]
    if not required:
        total = np.logaddexp(total, null.sum())
    texts: dict[str, Candidate] = {}
    flat = scores.ravel()
    for place in np.argsort(-flat, kind="stable"):
        if len(texts) == n_best or flat[place] == -np.inf:
            break
        row, k = rows.start + place // scores.shape[1], place % scores.shape[1]
        a, b = features.characters(row, int(table.start[row, k]), int(table.end[row, k]))
        text = features.contexts[features.question[row]][a:b]
        if text and text not in texts:
            logits = float(table.start_logits[row, k]), float(table.end_logits[row, k])
            texts[text] = Candidate(text, float(np.exp(flat[place] - total)), *logits, a, b)
    nothing = Candidate(
        "", 0.0 if required else float(np.exp(null.sum() - total)), float(null[0]), float(null[1]), -1, -1
    )
    nbest = list(texts.values())
    best = nbest[0] if nbest else nothing
    odds = float(null.sum()) - (best.start_logit + best.end_logit)
    if not required:
        nbest.insert(sum(text.start_logit + text.end_logit >= null.sum() for text in nbest), nothing)
    return AnswerRecord(name, best, tuple(nbest or [nothing]), odds, _yes_no(table.yes_no[rows]))


def _yes_no(logits: np.ndarray) -> tuple[float, float]:
    """The probabilities of yes and no, from the most confident row: logits (rows, 3 or 0)."""
    if not logits.size:
        return 0.0, 0.0
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    row = shares[int(shares[:, [YES, NO]].sum(axis=1).argmax())]
    return float(row[YES]), float(row[NO])


def _log_sum(scores: np.ndarray) -> np.ndarray:
    """log(sum(exp(scores))) over the last axis; -inf where all are."""
    top = scores.max(axis=1)
    safe = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        total: np.ndarray = safe + np.log(np.exp(scores - safe[:, None]).sum(axis=1))
    return total


def _top(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and values of the largest of (B, M), the first of equal ones: (B, count) each; 0 and -inf where there are fewer.

    Ties are broken by place: 16-bit logits often tie, and padding must not matter.
    """
    least = np.partition(scores, max(scores.shape[1] - count, 0), axis=1)[:, max(scores.shape[1] - count, 0)]
    row, place = np.nonzero((scores >= least[:, None]) & (scores > -np.inf))
    order = np.lexsort((-scores[row, place], row))
    row, place = row[order], place[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    row, place, rank = (values[rank < count] for values in (row, place, rank))
    places, values = np.zeros((len(scores), count), np.int64), np.full((len(scores), count), -np.inf)
    places[row, rank], values[row, rank] = place, scores[row, place]
    return places, values


# -- the threshold of no answer ---------------------------------------------------------------------------------------


class NullThreshold(NamedTuple):
    """The best threshold of `AnswerRecord.text` for some questions, and the scores there, from 0 to 100."""

    threshold: float
    f1: float
    exact: float


def gold(question: Question) -> squad.GoldAnswers:
    """A question as the metric takes it; yes and no become the answers `yes` and `no`."""
    if question.yes_no in ("yes", "no"):
        return squad.GoldAnswers(question.id, (question.yes_no,))
    texts = () if question.impossible else tuple(answer.text for answer in question.answers)
    return squad.GoldAnswers(question.id, texts)


def tune_threshold(questions: Sequence[Question], records: Sequence[AnswerRecord]) -> NullThreshold:
    """The threshold with the highest F1 of SQuAD 2.0; of equally good ones the lowest.

    Every threshold that separates questions is tried: below all odds, between each two neighbours, above all.
    """
    by_id = {record.id: record for record in records}
    pairs = [(gold(question), by_id[question.id]) for question in questions]
    answered, unanswered = (  # exact match and F1 of each question, from 0 to 1: (N, 2)
        np.array([squad.scores(question, record.text(threshold), "2.0") for question, record in pairs])
        for threshold in (np.inf, -np.inf)
    )
    odds = np.array([record.null_odds for _, record in pairs])
    order = np.argsort(odds, kind="stable")
    gains = np.concatenate([[[0.0, 0.0]], (answered - unanswered)[order]]).cumsum(axis=0) + unanswered.sum(axis=0)
    odds = odds[order]
    places = np.flatnonzero(np.concatenate([[True], odds[1:] > odds[:-1], [True]]))  # how many are answered
    place = int(places[(gains[places, 1]).round(9).argmax()])
    if place == 0:
        threshold = odds[0] - 1
    elif place == len(odds):
        threshold = odds[-1] + 1
    else:
        threshold = (odds[place - 1] + odds[place]) / 2
        threshold = odds[place - 1] if threshold >= odds[place] else threshold
    exact, f1 = 100 * gains[place] / len(questions)
    return NullThreshold(float(threshold), float(f1), float(exact))
