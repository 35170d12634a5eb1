"""The task tag: a tag for each word, by itself or as a part of a span; see `word_labels`.

Argmax is the default of decoding: the labels of a foreign model do not show its scheme (B-X and I-X may be IOB1 or IOB2), and
decoding by the wrong scheme gives wrong tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import ClassVar, Self

from nlptools import bundle
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import UsageError, shown
from nlptools.files import streams
from nlptools.formats import tag_schemes
from nlptools.formats.conll import split_tabs
from nlptools.formats.examples import TaggedSentence
from nlptools.formats.universal import annotated, as_universal, column_of
from nlptools.json_types import JsonObject
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.labels import gold, listed
from nlptools.tasks.tag import output
from nlptools.tasks.tag.word_labels import UNSEEN_HINT, Tagged, WordLabels
from nlptools.tasks.task import AUTO, saved_setting


@dataclass(frozen=True)
class Tagging(WordLabels[TaggedSentence]):
    """See the module's docstring.

    Attributes:
        universal: the column of CoNLL-U that has the tags, "" in other files; learned.
    """

    universal: str = ""

    learns: ClassVar[tuple[str, ...]] = (*WordLabels.learns, "universal")

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Self:
        """See `WordLabels`. Raises UsageError for --to conllu if the tags do not come from a column of CoNLL-U."""
        universal = saved_setting(loaded.config, "universal", "")
        if settings.to == "conllu" and not universal:
            raise UsageError("--to conllu: the model was not trained on CoNLL-U", hint="--columns writes any columns")
        return replace(super().from_bundle(loaded, settings, files), universal=universal)

    def learn(self, examples: Sequence[TaggedSentence]) -> Self:
        column = self.options.label_column if examples[0].layout == "conllu" else None
        return replace(super().learn(examples), universal=column_of(column or ""))

    def own_settings(self) -> JsonObject:
        return {**super().own_settings(), "universal": self.universal}

    def gold(self, example: TaggedSentence) -> tuple[str, ...]:
        return gold(example.tags)

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[TaggedSentence]:
        if not labelled:
            return self._checked(names, errors)
        sentences, scheme = tag_schemes.as_iob2(
            super().read(names, True, errors), None if self.given == AUTO else self.given
        )
        return iter([replace(e, scheme=scheme) for e in sentences])

    def _checked(self, names: Sequence[str], errors: str) -> Iterator[TaggedSentence]:
        """The sentences of files with the columns of the training files, or of the layout in --layout. Raises DataError."""
        expected = (1, self.columns, self.columns - 1)  # words alone; all; all but the tags
        for name in streams.check_inputs(names):
            unknown = self.columns > 0 and self.options.layout == AUTO
            for e in super().read([name], False, errors):
                row = next((row for row in e.rows if row.word is not None), None)
                if unknown and row is not None and (width := len(split_tabs(row.text))) not in expected:
                    raise tag_schemes.place_of(e, 0).error(
                        f"{width} columns, the training files of the model had {self.columns}",
                        "--layout lines: a sentence per line; --layout conll: any columns",
                    )
                unknown = unknown and row is None
                yield e

    def written_in(self, examples: Sequence[TaggedSentence]) -> tuple[str, int]:
        first = examples[0]
        if len(examples) == 1 and 2 * sum(" " in word for word in first.words) > len(first.words):
            message = "one sentence, and most of its words contain spaces"
            hint = "--task classify takes texts with a label each; a blank line separates sentences"
            raise first.place.error(message, hint)
        columns = len(split_tabs(next(row.text for row in first.rows if row.word is not None)))
        return gold(first.scheme), columns

    def check(self, examples: Sequence[TaggedSentence]) -> None:
        for e, word, tag in self.unseen(examples):
            message = f"the tag {shown(tag)} was not seen in training (seen: {listed(self.labels)})"
            raise tag_schemes.place_of(e, word).error(message, UNSEEN_HINT)

    # -- prediction ---------------------------------------------------------------------------------------------------

    def text_lines(
        self, predictions: Sequence[Tagged], examples: Sequence[TaggedSentence], settings: Predict, first: bool
    ) -> list[str]:
        tags = list(map(self.written_tags, predictions))
        if settings.to != "conllu":
            return output.tags(examples, tags, settings.columns)
        universal = map(as_universal, examples)
        return [
            line for e, values in zip(universal, tags, strict=True) for line in annotated(e, {self.universal: values})
        ]

    def lines(
        self, predictions: Sequence[Tagged], examples: Sequence[TaggedSentence], settings: Predict, first: bool
    ) -> list[str]:
        """See `Task`. An example without words holds the lines after the last sentence of a file, unless each line is one."""
        if settings.objects:
            kept = [bool(e.words) or e.layout == "lines" for e in examples]
            predictions, examples = list(compress(predictions, kept)), list(compress(examples, kept))
        return super().lines(predictions, examples, settings, first)

    def as_json(self, prediction: Tagged, example: TaggedSentence, settings: Predict) -> dict[str, object]:
        tags = self.written_tags(prediction)
        if settings.to == "entities":
            mended = tag_schemes.mend(tags, self.written)
            return output.entities(example, tag_schemes.spans(mended, self.written)[0])
        return {"words": list(example.words), "tags": tags}
