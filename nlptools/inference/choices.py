"""Which of several choices a language model prefers, by likelihood, and how often it is right.

Five ways to choose: by the sum of log-probabilities (`acc` of lm-evaluation-harness), by the mean per token (Brown et al.
2020), per byte of a choice without white space around it, per character of the unchanged choice (`acc_norm`), and by the
difference to the log-probability without the context (`acc_mutual_info`; Brown et al. 2020). Where several choices have the
highest value, none is chosen: such a tie is never right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from nlptools import messages
from nlptools.configs.scoring import Score
from nlptools.errors import shown
from nlptools.formats import values
from nlptools.formats.choices import PROMPT, read_records
from nlptools.formats.examples import Choice, Place
from nlptools.formats.reading_options import Options
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.likelihoods import Likelihood
from nlptools.json_types import Json, JsonObject

WINDOW = 512  # records that are scored at a time

Record = tuple[Mapping[str, Json], Choice]


@dataclass
class Accuracy:
    """How often the answer is chosen, by each way to choose."""

    records: int = 0
    answered: int = 0
    right: dict[str, int] = field(default_factory=dict)
    ties: dict[str, int] = field(default_factory=dict)  # among the records with an answer

    def add(self, answer: int | None, best: Mapping[str, int | None]) -> None:
        """Count a record; its answer may be unknown."""
        self.records += 1
        if answer is not None:
            self.answered += 1
            for way, choice in best.items():
                self.right[way] = self.right.get(way, 0) + (choice == answer)
                self.ties[way] = self.ties.get(way, 0) + (choice is None)

    @property
    def values(self) -> dict[str, float]:
        """The share of answers that are right, by way to choose."""
        return {way: count / self.answered for way, count in self.right.items()}

    def describe(self) -> dict[str, object]:
        """Counts and accuracies."""
        return {"records": self.records, "answered": self.answered, "accuracy": self.values, "ties": self.ties}

    def note(self, name: str = "accuracy") -> None:
        """Write the accuracies to standard error, if there are answers."""
        if self.answered:
            listed = ", ".join(f"{value:.4f} by {way}" for way, value in self.values.items())
            ties = ", ".join(f"{messages.counted(n, 'tie')} by {way}" for way, n in self.ties.items() if n)
            counts = f"{messages.counted(self.answered, 'record')} with an answer" + (f"; {ties}" if ties else "")
            messages.note(f"{name}: {listed}; {counts}")


class ChoiceScorer:
    """Scores records of a context and choices.

    Attributes:
        accuracy: counts the records so far.
        by: the same for the records with each value of the column `Score.by`.
    """

    def __init__(self, model: TextLanguageModel, settings: Score) -> None:
        self.model, self.settings, self.accuracy = model, settings, Accuracy()
        self.by: dict[str, Accuracy] = {}

    def objects(self, names: Iterable[str], errors: str = "strict", window: int = WINDOW) -> Iterator[list[JsonObject]]:
        """The JSON objects of the records of some files, some at a time; see `_object`.

        Raises:
            DataError: see `formats.choices.read_choices` and `TextLanguageModel.likelihoods`.
        """
        options = Options(labelled=False)
        for name in names:
            records = read_records(name, options, errors)
            while batch := list(islice(records, window)):
                yield self._window(batch)

    def _window(self, records: Sequence[Record]) -> list[JsonObject]:
        pairs = [pair for record, choice in records for pair in self._pairs(record, choice, choice.context)]
        places = [choice.place for _, choice in records for _ in choice.endings]
        scores = iter(self._likelihoods(pairs, places))
        alone: Iterator[Likelihood] | None = None
        if self.settings.unconditional is not None:
            without = [
                p for record, choice in records for p in self._pairs(record, choice, self.settings.unconditional)
            ]
            alone = iter(self._likelihoods(without, places))
        out = []
        for record, choice in records:
            count = len(choice.endings)
            given = list(islice(scores, count))
            out.append(self._object(record, choice, given, None if alone is None else list(islice(alone, count))))
        return out

    def _likelihoods(self, pairs: Sequence[tuple[str, str]], places: Sequence[Place]) -> list[Likelihood]:
        settings = self.settings
        return self.model.likelihoods(pairs, batch_tokens=settings.batch_tokens, strict=settings.strict, places=places)

    def _pairs(self, record: Mapping[str, Json], choice: Choice, context: str) -> Iterator[tuple[str, str]]:
        """The context and each choice, with the delimiter before it."""
        delimited = PROMPT not in record and context and not context[-1].isspace()
        for text in choice.endings:
            yield context, self.settings.target_delimiter + text if delimited and not text[:1].isspace() else text

    def _object(
        self, record: Mapping[str, Json], choice: Choice, scores: list[Likelihood], alone: list[Likelihood] | None
    ) -> JsonObject:
        """The keys of the record; "log_probability" (nats), "tokens", "bytes", "characters" and "greedy" of each choice;
        with that option "unconditional", its log-probability without the context; and "best": the number of the choice
        by each way to choose, None for a tie.
        """
        sums = [score.log_probability for score in scores]
        lengths = [max(1, len(text.strip().encode())) for text in choice.endings]
        characters = [max(1, len(text)) for text in choice.endings]
        ways = {
            "sum": sums,
            "token": [score.log_probability / score.tokens for score in scores],
            "byte": [value / length for value, length in zip(sums, lengths, strict=True)],
            "character": [value / length for value, length in zip(sums, characters, strict=True)],
        }
        item: JsonObject = {
            **record,
            "log_probability": [round(value, 6) for value in sums],
            "tokens": [score.tokens for score in scores],
            "bytes": [*lengths],
            "characters": [*characters],
            "greedy": [score.greedy for score in scores],
        }
        if alone is not None:
            without = [score.log_probability for score in alone]
            ways["unconditional"] = [value - other for value, other in zip(sums, without, strict=True)]
            item["unconditional"] = [round(value, 6) for value in without]
        best = {way: _only_best(each) for way, each in ways.items()}
        item["best"] = {**best}
        self.accuracy.add(choice.label, best)
        if self.settings.by is not None:
            if self.settings.by not in record:
                raise choice.place.error(f"no column {shown(self.settings.by)}: there are {', '.join(record)}")
            group = values.text(record[self.settings.by])
            self.by.setdefault(group, Accuracy()).add(choice.label, best)
        return item

    def note(self) -> None:
        """Write the accuracies to standard error: of all records, and of those with each value of the column."""
        self.accuracy.note()
        for group, accuracy in self.by.items():
            accuracy.note(f"{self.settings.by} {group}")

    def total(self) -> dict[str, object]:
        """The accuracies of all records so far, and how they were measured."""
        settings, model = self.settings, self.model
        by = {group: accuracy.describe() for group, accuracy in self.by.items()}
        return {
            **self.accuracy.describe(),
            **({} if settings.by is None else {"by": {settings.by: by}}),
            "protocol": {
                "context": model.model.max_context,
                "longer_contexts": "refused" if settings.strict else "cut from the left",
                "tokens": "context and choice together",
                "delimiter": settings.target_delimiter,
                "unconditional": settings.unconditional,
                "bytes": "UTF-8, without white space around a choice",
                "characters": "of the unchanged choice, as acc_norm of lm-evaluation-harness counts them",
                "ties": "never right",
                **model.backend.describe(),
            },
        }


def _only_best(scores: Sequence[float]) -> int | None:
    """The place of the highest value; None if there are several."""
    best = max(scores)
    return scores.index(best) if scores.count(best) == 1 else None
