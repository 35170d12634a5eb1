"""Translation edit rate (TER): the edits that turn a translation into a reference, per word of the reference.

Snover et al. 2006, "A study of translation edit rate with targeted human annotation" (2006.amta-papers.25). Scores
equal those of sacrebleu (Post 2018, W18-6319), which follows tercom, to the last bit. Lower is better; a translation that
is longer than its reference can exceed 100.
As in sacrebleu, references are normalized twice and hypotheses once. This matters where the first round leaves something
to normalize: before a tab, for instance, `'s` stays attached to its word in a hypothesis.
Departure: none in the result; `ter_shifts` explains how the search is made fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.metrics.metric import Floats, Items, Score, Table
from nlptools.metrics.ngrams import Ids
from nlptools.metrics.translation import ter_shifts
from nlptools.metrics.translation.segments import check_segments, score_type
from nlptools.text.ter_tokens import split_ter


@dataclass(frozen=True)
class Ter:
    """Translation edit rate; the options are those of the tokenizer, `nlptools.text.ter_tokens.split_ter`."""

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

    def statistics(self, hypotheses: list[str], references: Sequence[Sequence[str | None]]) -> Table:
        """Edits to the nearest reference, and mean length of the references in words, of each segment: (S, 2), float64.

        References are one list each; None stands where a segment has no such reference. With three or more references
        a mean may not be exact in binary: sums in another order than that of the segments may differ in the last bit.

        Raises:
            DataError: the numbers of segments differ, or a segment has no reference at all.
            UsageError: no references.
        """
        check_segments(hypotheses, references)
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
        options = {
            "normalized": self.normalized,
            "no_punct": self.no_punct,
            "asian_support": self.asian_support,
            "case_sensitive": self.case_sensitive,
        }
        tokens = split_ter(list(lines), **options)
        for _ in range(1, times):
            tokens = split_ter([" ".join(line) for line in tokens], **options)
        return [[ids[token] for token in line] for line in tokens]

    def score(self, total: Table) -> Score:
        """The rate in percent, from one segment's statistics or a sum of them (2,).

        Without words in the references it is 100, or 0 without edits.
        """
        return Score(self.name, float(self.scores(np.asarray(total)[None])[0]))

    def scores(self, totals: Table) -> Floats:
        """See `metric.CorpusMetric`."""
        edits, length = np.asarray(totals, score_type(totals)).T
        rates: Floats = 100 * np.where(length > 0, edits / np.where(length > 0, length, 1.0), edits > 0)
        return rates

    def signature(self) -> Items:
        """See `metric.CorpusMetric`."""
        return (
            ("case", "mixed" if self.case_sensitive else "lc"),
            ("tok", "tercom"),
            ("norm", _yes(self.normalized)),
            ("punct", _yes(not self.no_punct)),
            ("asian", _yes(self.asian_support)),
        )


def _yes(value: bool) -> str:
    return "yes" if value else "no"
