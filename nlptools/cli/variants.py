"""Options that depend on the value of one option: `train-lm --arch NAME` has the options of an architecture."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

from nlptools.errors import BundleError, UsageError

_OURS = "nlptools-"  # before the names of architectures in the config.json of layouts of our own


class _Grouped(Protocol):
    """The class of the settings of a value, with more groups of options."""

    groups: ClassVar[tuple[type, ...]]


@dataclasses.dataclass(frozen=True)
class Variants:
    """The settings classes that the values of an option choose.

    Attributes:
        option: the name of the field that chooses.
        title: of the list of values in the help.
        classes: value -> "module:Class": the settings class that takes the place of the first one of the command. Its docstring
            is a line about the value, and its attribute `groups` holds the other settings classes.
        implied: the value that other options imply, given the text of each by its name; "": none.
    """

    option: str
    title: str
    classes: Callable[[], Mapping[str, str]]
    implied: Callable[[Callable[[str], str]], str] = lambda given: ""

    def groups(self, value: str) -> tuple[type, ...]:
        """The settings classes of a value."""
        import pkgutil  # here and below: commands without variants start 5 ms earlier

        first: type[_Grouped] = pkgutil.resolve_name(self.classes()[value])
        return (first, *first.groups)

    def summaries(self) -> list[tuple[str, str]]:
        """Each value with a line about it."""
        values = [value for value in self.classes() if " " not in value]
        return [(value, (self.groups(value)[0].__doc__ or "").strip() + ".") for value in values]

    def variant(self, value: str, given: Callable[[str], str]) -> str:
        """The variant for a value, which may also depend on the texts of other options."""
        return value

    def arguments(self, value: str) -> tuple[str, ...]:
        """The arguments that choose a variant."""
        return (f"--{self.option}", value)

    def own_fields(self, base: type, *others: type) -> Iterator[tuple[list[str], list[dataclasses.Field[object]]]]:
        """The fields that only some values have, beyond the class `base`, and these values."""
        common = {field.name for field in dataclasses.fields(base)}
        found: dict[tuple[int, ...], tuple[list[str], list[dataclasses.Field[object]]]] = {}
        for value in self.classes():
            fields = [field for field in dataclasses.fields(self.groups(value)[0]) if field.name not in common]
            found.setdefault(tuple(map(id, fields)), ([], fields))[0].append(value)
        yield from ((values, fields) for values, fields in found.values() if fields)

    def having(self, name: str) -> list[str]:
        """The values that have the option `name`, a flag or a field."""
        wanted = name.removeprefix("--").removeprefix("no-").replace("-", "_")
        return [
            value
            for value in self.classes()
            for group in self.groups(value)
            for field in dataclasses.fields(group)
            if wanted in (field.name, str(field.metadata["flag"]).replace("-", "_"))
        ]

    def refuse(self, name: str, lead: str = "") -> None:
        """Raise UsageError if some values have the option `name`, a flag or a field; `lead` begins the message."""
        if having := self.having(name):
            flag = f"--{name.removeprefix('--').replace('_', '-')}"
            others = [value for value in self.classes() if value not in having]
            few = f"--{self.option} {', '.join(having)} only"
            most = f"every --{self.option} but {', '.join(others)}"
            raise UsageError(f"{lead}{flag} applies to {few if len(having) <= len(others) else most}")


def architectures(*families: str) -> Variants:
    """The values of --arch in a command that trains these families of `models.registry`."""

    def classes() -> dict[str, str]:
        from nlptools.models import registry

        return registry.options(*families)

    return Variants("arch", "Architectures", classes, initial_architecture)


def initial_architecture(given: Callable[[str], str]) -> str:
    """The value of --arch for the model directory that --init names; "" without one. `given`: the text of an option."""
    import json

    try:
        config = json.loads(Path(given("init"), "config.json").read_bytes()) if given("init") else {}
    except (OSError, ValueError):
        return ""  # the error message comes when the command opens the directory
    name = str(config.get("model_type", "")) if isinstance(config, dict) else ""
    if name and not name.startswith(_OURS):
        from nlptools.models.huggingface import directories

        with contextlib.suppress(BundleError):
            name = directories.config_from_hf(config)[0]
    return name.removeprefix(_OURS).removeprefix("seq2seq-")
