"""The formats and examples of a command: `commands/COMMAND.md`, read only where a help or a manual page shows them."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

_COMMANDS = Path(__file__).parent / "commands"  # Markdown, a file per command


class CommandPage(NamedTuple):
    """What a file of `commands` holds.

    Attributes:
        formats: the section Formats, in Markdown.
        examples: what each example does, and its lines of shell.
    """

    formats: str = ""
    examples: tuple[tuple[str, str], ...] = ()


@cache
def command_page(name: str) -> CommandPage:
    """The page of the command `name`; an empty one if it has no file."""
    path = _COMMANDS / f"{name}.md"
    if not path.is_file():
        return CommandPage()
    _, *parts = re.split(r"^## (.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    formats = re.sub(r"\{\{([\w.]+):(\w+)\}\}", _inserted, sections.get("Formats", ""))
    examples = re.findall(r"^(\S.*?)\n\n```sh\n(.*?)\n```$", sections["Examples"], re.MULTILINE | re.DOTALL)
    return CommandPage(formats.strip(), tuple((" ".join(what.split()), lines) for what, lines in examples))


def _inserted(match: re.Match[str]) -> str:
    """The value of {{MODULE:NAME}}: a constant of a module of the package."""
    return str(getattr(import_module(f"nlptools.{match[1]}"), match[2]))
