"""nlptools help: manual pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

from nlptools.cli.manual.command_pages import command_page, markdown, sections
from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.errors import UsageError

_GUIDES = Path(__file__).parent / "manual" / "guides"  # Markdown, a file per topic
TOPICS = {
    path.stem: f"nlptools-{path.stem}.{5 if path.stem == 'formats' else 7}" for path in sorted(_GUIDES.glob("*.md"))
}

COMMON = "common"  # the topic of the options that every command has
MODELS = "models"  # the topic of the families of published models


@make_command("help", exit_codes=(0, 2))
@click.argument("topic", required=False, metavar="[COMMAND|TOPIC]")
@click.argument("section", required=False)
def command(topic: str | None, section: str | None, common: Common) -> None:
    """Show the manual page of a command or a topic.

    Without an argument, shows the page of nlptools itself, which lists the commands. SECTION shows one section only: the
    formats or the examples of a command, or a section of a guide.

    Topics: alignment (instructions, preferences), common (options of every command), encoders (BERT, vectors of lines,
    fine-tuning), evaluation, formats (what the commands read and write), language-models, models (the families of published
    models, and the commands that take them), pipelines, training (stopping, continuing, clusters), translation (and
    summaries), word-vectors.
    """
    from nlptools.cli import COMMANDS, group

    context = click.get_current_context()
    if topic == COMMON:
        click.echo(common_options(context))
        return
    if topic == MODELS:
        from nlptools.inference import families

        click.echo(families.shown())
        return
    if topic is not None and topic not in COMMANDS and topic not in TOPICS:
        topic = _resolved(topic, [*COMMANDS, *TOPICS, COMMON, MODELS], "command or topic")
    if topic is not None and section is not None:
        parts = sections(guide(topic) if topic in TOPICS else markdown(topic))
        names = {heading.lower(): heading for heading in parts}
        heading = names[_resolved(section.lower(), list(names), f"section of {topic}")]
        click.echo(re.sub(r"^<!--.*?-->\n", "", parts[heading], flags=re.MULTILINE))
        return
    page = _page(TOPICS.get(topic or "", f"nlptools-{topic}.1" if topic else "nlptools.1"))
    if page is not None and shutil.which("man"):
        if sys.stdout.isatty():
            sys.exit(subprocess.run(["man", "-l", str(page)]).returncode)
        rendered = subprocess.run(["man", "-l", str(page)], capture_output=True)
        if rendered.returncode == 0:
            click.echo(rendered.stdout.decode("utf-8", "replace"), nl=False)
            return
    if topic in TOPICS:
        click.echo(guide(topic), nl=False)
        return
    shown = group if topic is None else group.get_command(context, topic)
    assert shown is not None and context.parent is not None
    parent = context.parent if topic is None else click.Context(shown, info_name=topic, parent=context.parent)
    click.echo(shown.get_help(parent))
    if topic is not None and (formats := command_page(topic).formats):
        click.echo(f"\nFormats:\n\n{formats}")


def _resolved(text: str, names: list[str], what: str) -> str:
    """The only one of `names` that begins with `text`, or differs from it by a final s. Raises UsageError."""
    possible = [text] if text in names else [n for n in names if n.startswith(text) or n == text.rstrip("s")]
    if len(possible) != 1:
        from difflib import get_close_matches

        close = ", ".join(possible or get_close_matches(text, names))
        listed = "'nlptools help' lists the commands and topics" if what == "command or topic" else ", ".join(names)
        raise UsageError(f"no such {what}: {text}", hint=f"did you mean {close}?" if close else listed or None)
    return possible[0]


def _page(name: str) -> Path | None:
    """The manual page in a checkout or an installation, or None."""
    section = name.rsplit(".", 1)[1]
    checkout = Path(__file__).resolve().parents[2] / "man" / name
    installed = Path(sys.prefix) / "share" / "man" / f"man{section}" / name
    return next((path for path in (checkout, installed) if path.is_file()), None)


def common_options(context: click.Context) -> str:
    """The options that every command has, also `help`."""
    formatter = context.make_formatter()
    options = [option for option in context.command.get_params(context) if isinstance(option, click.Option)]
    formatter.write_dl([row for option in options if (row := option.get_help_record(context))])
    return formatter.getvalue().rstrip("\n")


def guide(topic: str) -> str:
    """The text of a topic, in Markdown."""
    return (_GUIDES / f"{topic}.md").read_text(encoding="utf-8")
