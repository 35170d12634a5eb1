"""The task roles: the arguments of a predicate, as spans of words in IOB2; see `word_labels`.

Shi & Lin 2019 (arXiv:1904.05255): one predicate at a time, which each row repeats after the sentence (`tasks.tag.features`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nlptools import messages
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import UsageError, shown
from nlptools.formats.examples import PredicateSentence
from nlptools.json_types import JsonObject
from nlptools.tasks.labels import gold
from nlptools.tasks.tag import output
from nlptools.tasks.tag.word_labels import UNSEEN_HINT, Tagged, WordLabels
from nlptools.tasks.task import AUTO


@dataclass(frozen=True)
class Roles(WordLabels[PredicateSentence]):
    """See the module's docstring."""

    default_decoding: ClassVar[str] = "scheme"

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> WordLabels[PredicateSentence]:
        if files.scheme != AUTO:
            raise UsageError("--scheme cannot be combined with --task roles: roles have no scheme")
        return super().from_options(settings, files)

    def gold(self, example: PredicateSentence) -> tuple[str, ...]:
        return gold(example.roles)

    def predicates(self, examples: Sequence[PredicateSentence]) -> list[int]:
        return [e.predicate for e in examples]

    def check(self, examples: Sequence[PredicateSentence]) -> None:
        unseen = list(self.unseen(examples))
        if unseen:  # many roles are rare
            example, _, tag = unseen[0]
            fault = example.place.error(f"the tag {shown(tag)} was not seen in training", UNSEEN_HINT)
            words = "word" if len(unseen) == 1 else "words"
            messages.warn(f"{fault}; {len(unseen):,} {words} with such roles, counted as missed")

    def text_lines(
        self, predictions: Sequence[Tagged], examples: Sequence[PredicateSentence], settings: Predict, first: bool
    ) -> list[str]:
        return output.roles(examples, [p.tags for p in predictions], settings.columns)

    def as_json(self, prediction: Tagged, example: PredicateSentence, settings: Predict) -> dict[str, object]:
        roles = self.written_tags(prediction)
        return {"words": list(example.words), "predicate": example.predicate, "roles": roles}

    def own_settings(self) -> JsonObject:
        return {**super().own_settings(), "role_spans": self.options.role_spans}
