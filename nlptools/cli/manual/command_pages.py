"""The formats and examples of a command: `commands/COMMAND.md`, read only where a help or a manual page shows them."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

_COMMANDS = Path(__file__).parent / "commands"  # Markdown, a file per command


class CommandPage(NamedTuple):
    """The content of a file in `commands`.

    Attributes:
        formats: the section Formats, in Markdown.
        examples: title and shell lines of each example in the section Examples.
    """

    formats: str = ""
    examples: tuple[tuple[str, str], ...] = ()


@cache
def command_page(name: str) -> CommandPage:
    """The page of the command `name`; an empty one if it has no file."""
    found = sections(markdown(name))
    examples = re.findall(r"^(\S.*?)\n\n```sh\n(.*?)\n```$", found.get("Examples", ""), re.MULTILINE | re.DOTALL)
    return CommandPage(found.get("Formats", ""), tuple((" ".join(title.split()), lines) for title, lines in examples))


def markdown(name: str) -> str:
    """The file of the command `name`, with each {{MODULE:CONSTANT}} replaced by its value; empty if there is no file."""
    path = _COMMANDS / f"{name}.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return re.sub(r"\{\{([\w.]+):(\w+)\}\}", lambda m: str(getattr(import_module(f"nlptools.{m[1]}"), m[2])), text)


def sections(text: str) -> dict[str, str]:
    """Heading -> text of the sections of a Markdown text, without what comes before the first."""
    _, *parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return {heading: part.strip("\n") for heading, part in zip(parts[::2], parts[1::2], strict=True)}
