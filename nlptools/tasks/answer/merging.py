"""The answer of several models to a question: their n best answers merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from nlptools.tasks.answer.decoding import AnswerRecord, Candidate


def merged(records: Sequence[AnswerRecord], n_best: int) -> AnswerRecord:
    """The record of an ensemble, from the records of its models for one question.

    The probability of a text is the mean over all models, 0 where it is not among the n best; its logits are the means over the
    models that have it. The odds of no answer, and the probabilities of yes and no, are means over all models.
    """
    found: dict[str, list[Candidate]] = {}
    for record in records:
        for candidate in record.nbest:
            found.setdefault(candidate.text, []).append(candidate)
    candidates = [_mean(same, len(records)) for same in found.values()]
    candidates.sort(key=lambda candidate: -candidate.probability)
    texts = [candidate for candidate in candidates if candidate.text][:n_best]
    kept = [candidate for candidate in candidates if not candidate.text or candidate in texts]
    odds = float(np.mean([record.null_odds for record in records]))
    yes, no = np.mean([record.yes_no_shares for record in records], axis=0).tolist()
    return AnswerRecord(records[0].id, (texts or kept)[0], tuple(kept), odds, (yes, no))


def _mean(same: Sequence[Candidate], models: int) -> Candidate:
    """The candidate with the text of all of `same`, each of another one of so many models."""
    first = same[0]
    begin, end = (float(np.mean([cast(float, each[i]) for each in same])) for i in (2, 3))
    return first._replace(probability=sum(each.probability for each in same) / models, start_logit=begin, end_logit=end)
