"""The options of `finetune`, which depend on --task and on the reader of its texts (--scratch, --features)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import click

from nlptools.cli.variants import Variants
from nlptools.configs.tasks import readers
from nlptools.errors import UsageError


class TaskVariants(Variants):
    """Tasks, each alone and with the option that chooses another reader, see `configs.tasks.readers`."""

    def groups(self, value: str) -> tuple[type, ...]:
        """The settings classes of a variant."""
        return readers.groups(value)

    def variant(self, value: str, given: Callable[[str], str]) -> str:
        """The variant for a value of --task."""
        return readers.variant(value, given)

    def arguments(self, value: str) -> tuple[str, ...]:
        """The arguments that choose a variant."""
        task, _, reader = value.partition(" --")
        field = next((field for field in dataclasses.fields(self.groups(value)[0]) if field.name == reader), None)
        return (
            (f"--{self.option}", task)
            if field is None
            else (f"--{self.option}", task, f"--{reader}", field.metadata["choices"][0])
        )

    def own_fields(self, base: type, *others: type) -> Iterator[tuple[list[str], list[dataclasses.Field[object]]]]:
        """The fields that only some variants have and `base` and `others` do not, with a title of these variants."""
        shared = {field.name for group in (base, *others) for field in dataclasses.fields(group)}
        having: dict[str, list[str]] = {}
        found: dict[str, dataclasses.Field[object]] = {}
        for value in self.classes():
            for field in (field for group in self.groups(value) for field in dataclasses.fields(group)):
                if field.name not in shared:
                    found.setdefault(field.name, field)
                    having.setdefault(field.name, []).append(value)
        titled: dict[str, list[dataclasses.Field[object]]] = {}
        for name, values in having.items():
            titled.setdefault(_title(values), []).append(found[name])
        yield from (([title], fields) for title, fields in titled.items())

    def refuse(self, name: str, lead: str = "") -> None:
        """Raise UsageError if some variants have the option `name`, a flag or a field; `lead` begins the message."""
        having = self.having(name)
        if not having:
            return
        flag = f"--{name.removeprefix('--').replace('_', '-')}"
        task, _, reader = click.get_current_context().meta.get("nlptools.chosen", "").partition(" ")
        other_readers = [value.partition(" ")[2] for value in having if value.split(" ")[0] == task]
        if "" in other_readers:
            raise UsageError(f"{lead}{flag} cannot be combined with {reader}")
        if other_readers:
            raise UsageError(f"{lead}{flag} requires {' or '.join(other_readers)}")
        raise UsageError(f"{lead}{flag} applies to --{self.option} {_title(having)} only")


def _title(values: list[str]) -> str:
    """Variants in few words: `classify, tag with --scratch`."""
    tasks = dict.fromkeys(value.split(" ")[0] for value in values)
    options = dict.fromkeys(value.partition(" ")[2] for value in values)
    return ", ".join(tasks) if "" in options else f"{', '.join(tasks)} with {' or '.join(options)}"
