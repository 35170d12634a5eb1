"""Translation edit rate (TER): the edits that turn a translation into a reference, per word of the reference.

Snover et al. 2006, "A study of translation edit rate with targeted human annotation" (2006.amta-papers.25). Scores
equal sacrebleu's (Post 2018, W18-6319), which follows tercom, to the last bit. Lower is better; a translation that
is longer than its reference can exceed 100.
As in sacrebleu, references are normalized twice and hypotheses once. This matters where the first round leaves something
to normalize: before a tab, for instance, `'s` stays attached to its word in a hypothesis.
Departure: none in the result; `ter_shifts` explains how the search is made fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nlptools.metrics.metric import Floats, Items, Table
from nlptools.metrics.ngrams import Ids
from nlptools.metrics.translation import ter_shifts
from nlptools.metrics.translation.metric import CorpusMetric, References, score_type
from nlptools.metrics.translation.ter_tokens import split_ter


@dataclass(frozen=True)
class Ter(CorpusMetric):
    """Translation edit rate; for the options see the tokenizer, `nlptools.metrics.translation.ter_tokens.split_ter`."""

    segments_at_once: ClassVar[int] = 1 << 40  # `ter_shifts` divides the work itself

    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False

    @property
    def name(self) -> str:
        return "TER"

    @property
    def columns(self) -> tuple[str, ...]:
        return "edits", "reference_length"

    def _count(self, hypotheses: Sequence[str], references: References) -> Table:
        """Edits to the nearest reference, and mean length of the references in words, of each segment: (S, 2), float64.

        With three or more references a mean may not be exact in binary: sums in another order of the segments may
        differ in the last bit.
        """
        ids = Ids()
        words = self._words(hypotheses, ids)
        pairs: list[tuple[ter_shifts.Words, ter_shifts.Words]] = []
        owners: list[Sequence[int]] = []
        for reference in references:
            given = [i for i, line in enumerate(reference) if line is not None]
            owners.append(given)
            segments = self._words([line for line in reference if line is not None], ids, times=1 + self.normalized)
            pairs += zip([words[i] for i in given], segments)
        owner = np.concatenate([np.array(given, np.int64) for given in owners])
        edits = np.full(len(words), np.iinfo(np.int64).max)
        np.minimum.at(edits, owner, ter_shifts.edits(pairs))
        lengths = np.bincount(owner, [len(reference) for _, reference in pairs], len(words))
        return np.stack([edits, lengths / np.bincount(owner, minlength=len(words))], axis=1)

    def _words(self, lines: Sequence[str], ids: Ids, times: int = 1) -> list[ter_shifts.Words]:
        """The ids of the words of each line, which is tokenized `times` times."""
        tokens = split_ter(list(lines), **vars(self))
        for _ in range(1, times):
            tokens = split_ter([" ".join(line) for line in tokens], **vars(self))
        return [[ids[token] for token in line] for line in tokens]

    def scores(self, totals: Table) -> Floats:
        """Rates in percent. Without words in the references the rate is 100, or 0 without edits."""
        edits, length = np.asarray(totals, score_type(totals)).T
        rates: Floats = 100 * np.where(length > 0, edits / np.where(length > 0, length, 1.0), edits > 0)
        return rates

    def signature(self) -> Items:
        return (
            ("case", "mixed" if self.case_sensitive else "lc"),
            ("tok", "tercom"),
            ("norm", _yes(self.normalized)),
            ("punct", _yes(not self.no_punct)),
            ("asian", _yes(self.asian_support)),
        )


def _yes(value: bool) -> str:
    return "yes" if value else "no"
