"""Prompts from records: zero-, one- and few-shot, as text or as conversations. Works without PyTorch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from nlptools import messages
from nlptools.configs.prompting import OUTPUT, Prompt, constant
from nlptools.errors import DataError, display, shown
from nlptools.formats import record_fields
from nlptools.formats.reading_options import Options
from nlptools.formats.record_fields import Record
from nlptools.json_types import Json, JsonObject
from nlptools.text.chat_answers import continued
from nlptools.text.chat_templates import Conversation, chat_template
from nlptools.text.prompt_templates import MissingField, Template, read_template

_DEFAULT = "plain"  # template of conversations


@dataclass(frozen=True)
class Solved:
    """An example with its answer."""

    prompt: str
    completion: str


class PromptBuilder:
    """Turns records into prompts.

    Raises:
        BundleError, Unavailable: the chat template cannot be used.
        DataError: the template is malformed, or its examples lack a field.
        InputError: no such file.
    """

    def __init__(self, settings: Prompt, options: Options, errors: str = "strict") -> None:
        self.settings, self.options, self.errors = settings, options, errors
        self.template: Template = read_template(settings.template or _DEFAULT, settings.answer)
        self.description = self.template.description if settings.description is None else settings.description
        own_separator = "\n\n" if self.template.multiline else "\n"
        self.separator = own_separator if settings.separator is None else settings.separator
        self.constants = dict(map(constant, settings.constants))
        self.chat: Conversation | None = None if settings.chat is None else chat_template(settings.chat)
        self.examples = self._examples()
        self.own = Counter(example.prompt for example in self.examples)

    def read(self, path: str, labelled: bool = False) -> Iterator[Record]:
        """The records of a file, with the words of labels and the constant fields filled in."""
        words = self.settings.label_words
        wanted = {name for name in self.template.fields if name not in self.constants}
        if not labelled and self.template.answer:
            wanted -= {field for paragraph in self.template.answer for _, field in paragraph if field is not None}
        options = replace(self.options, labelled=labelled)
        for record in record_fields.read(self.settings.task, path, wanted, options, self.errors):
            fields = {**self.constants, **record.fields}
            for name in {OUTPUT, "label", self.settings.answer} & fields.keys():
                fields[name] = words.get(fields[name], fields[name])
            yield Record(record.place, fields, record.value, record.choices)

    def _examples(self) -> list[Solved]:
        path = self.settings.examples
        if path is None or self.settings.shots == 0:
            return []
        if not self.template.answer:
            raise DataError(
                f"the template {display(self.template.name)} has no field {self.settings.answer!r} for the answers of"
                " examples",
                hint="--answer names another field",
            )
        examples = [Solved(*self._texts(record, completion=True)) for record in self.read(path, labelled=True)]
        if not examples:
            raise DataError("no examples", path=path)
        return examples

    def _texts(self, record: Record, completion: bool) -> tuple[str, str]:
        """The prompt of a record and what follows it; spaces between the two belong to the second."""
        try:
            prompt = self.template.text(record.fields)
            rest = self.template.completion(record.fields) if completion else ""
        except MissingField as missing:
            raise self._refusal(record, str(missing)) from None
        kept = prompt.rstrip(" ") if self.template.answer else prompt
        return kept, prompt[len(kept) :] + rest

    def _refusal(self, record: Record, field: str) -> DataError:
        names = ", ".join(shown(name) for name in record.fields) or "there are none"
        name = display(self.template.name)
        hint = "--text-column and --label-column name the columns of input and output; --set fills in a field"
        return record.place.error(f"no field {field!r}, which the template {name} needs: the fields are {names}", hint)

    def _drawn(self, query: str, record: Record, number: int) -> Sequence[Solved]:
        """The examples for record `number`, which has the prompt `query` itself."""
        shots = self.settings.shots
        if not shots:
            return self.examples
        own = self.own[query]
        if shots > len(self.examples) - own:
            count = messages.counted(len(self.examples) - own, "example")
            message = (
                f"cannot draw {shots} examples: {display(self.settings.examples or '')} has {count} besides this record"
            )
            raise record.place.error(message)
        drawn = random.Random(f"{self.settings.seed} {number}").sample(self.examples, shots + own)
        return [example for example in drawn if example.prompt != query][:shots]

    def count(self, names: Iterable[str]) -> int:
        """The number of records of some files."""
        return sum(1 for name in names for _ in self.read(name))

    def items(self, names: Iterable[str], first: int = 0, end: int | None = None) -> Iterator[JsonObject]:
        """The JSON object of each record of some files, see `item`; of records `first` to `end` (exclusive; None: all)."""
        records = chain.from_iterable(map(self.read, names))
        return (self.item(record, number) for number, record in islice(enumerate(records), first, end))

    def item(self, record: Record, number: int) -> JsonObject:
        """The JSON object of a record: "prompt", "completion" if it has an answer, and what else the settings ask for. Keys of
        a JSON record are kept.

        Args:
            number: of the record, from which, with the seed, its examples are drawn.

        Raises:
            DataError: the record lacks a field of the template, its answer is none of the choices, or the chat template
                refuses the conversation.
        """
        query, _ = self._texts(record, completion=False)
        drawn = self._drawn(query, record, number)
        answer = self._completion(record, record.fields.get(self.settings.answer))
        choices = [self._completion(record, choice) for choice in self._choices(record)]
        if self.settings.messages:
            turns: list[Json] = [{**turn} for turn in (*self._turns(query, drawn), *_reply(answer))]
            return {**record.value, "messages": turns}
        if self.chat is not None:
            prompt, (answer, *choices) = self._rendered(self._turns(query, drawn), [answer, *choices], record)
        else:
            prompt = self._joined(query, drawn)
        item = {**record.value, "prompt": prompt}
        if answer is not None:
            item["completion"] = answer
        if choices:
            if answer is not None and answer not in choices:
                listed = ", ".join(map(shown, self._choices(record)))
                raise record.place.error(f"the answer is none of the choices {listed}: {shown(answer.strip())}")
            item |= {"choices": [*choices], "answer": None if answer is None else choices.index(answer)}
        return item

    def _choices(self, record: Record) -> Sequence[str]:
        """The answers between which a model is to choose."""
        return (self.settings.candidates or record.choices) if self.settings.json and self.template.answer else ()

    def _completion(self, record: Record, answer: str | None) -> str | None:
        """The text after the prompt for this answer; None without an answer."""
        if answer is None or not self.settings.json or not self.template.answer:
            return None
        fields = {**record.fields, self.settings.answer: answer}
        return self._texts(Record(record.place, fields), completion=True)[1]

    def _joined(self, query: str, drawn: Sequence[Solved]) -> str:
        before = [self.description] if self.description else []
        return self.separator.join([*before, *(example.prompt + example.completion for example in drawn), query])

    def _turns(self, query: str, drawn: Sequence[Solved]) -> list[dict[str, str]]:
        """The messages up to the user's last one; the description is in the first message of the user."""
        turns = [] if self.settings.system is None else [{"role": "system", "content": self.settings.system}]
        for example in drawn:
            turns.append({"role": "user", "content": example.prompt.strip()})
            turns.append({"role": "assistant", "content": example.completion.strip()})
        turns.append({"role": "user", "content": query.strip()})
        if self.description:
            first = next(turn for turn in turns if turn["role"] == "user")
            first["content"] = self.description + self.separator + first["content"]
        return turns

    def _rendered(
        self, turns: list[dict[str, str]], completions: list[str | None], record: Record
    ) -> tuple[str, list[str | None]]:
        """The text of a conversation, and the rest of it for each last turn of the assistant."""
        assert self.chat is not None
        try:
            prompt, rests = continued(self.chat, turns, [text.strip() for text in completions if text is not None])
        except DataError as error:
            raise record.place.error(str(error)) from None
        rest = iter(rests)
        return prompt, [None if text is None else next(rest) for text in completions]


def _reply(answer: str | None) -> list[dict[str, str]]:
    """The last turn of a conversation, if the answer is known."""
    return [] if answer is None else [{"role": "assistant", "content": answer.strip()}]
