"""nlptools chat: a conversation with a language model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.chat import Chat

if TYPE_CHECKING:
    from nlptools.files.streams import LineBlock
    from nlptools.inference.conversation import Conversation

HELP = "/reset forgets the conversation, /save FILE writes it as JSON lines, /quit or the end of input leaves.\n"
EXPECTED = 'a line such as {"content": "Who are you?"}'  # on a pipe


@make_command(
    "chat",
    Chat,
    Compute,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str, inputs: tuple[str, ...], chat: Chat, compute: Compute, lines: LineOutput, common: Common
) -> None:
    """Talk to a language model.

    MODEL is a directory with a chat template; otherwise, --chat names one. Each prompt contains the conversation so
    far.
    """
    from nlptools import messages
    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.text.chat_templates import chat_template

    names = streams.check_inputs(inputs)
    template = chat_template(chat.chat or model)  # a model without one is refused before PyTorch is loaded
    from nlptools.inference import uses
    from nlptools.inference.conversation import Conversation
    from nlptools.inference.generation import folder_settings
    from nlptools.inference.loading import load

    chosen = chat.generation(())
    loaded = load(model, use=uses.CONTINUE, settings=chosen, compute=compute)
    folder_settings.note(loaded.bundle, chosen, Chat().generation(()))
    conversation = Conversation(loaded, template, chat, compute.seed)
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=True) as out:
        if list(names) == ["-"] and os.isatty(0) and lines.output == "-":
            messages.note(HELP.rstrip())
            talk(_typed(), conversation, out.write)
        else:
            blocks = text_lines.blocks(names, common.encoding_errors)
            out.write_lines(answers(blocks, conversation))


def _typed() -> Iterator[str]:
    """The lines that are typed at a prompt."""
    with_editing()
    while True:
        try:
            yield input("> ")
        except EOFError:
            return


def with_editing() -> None:
    """Let the terminal edit lines and remember them, where Python can."""
    try:
        import readline  # noqa: F401 - its import is what it does
    except ImportError:
        return


def talk(lines: Iterable[str], conversation: Conversation, write: Callable[[str], None]) -> None:
    """Answer typed lines, and obey commands."""
    from nlptools import messages
    from nlptools.errors import NlptoolsError

    for line in lines:
        name, _, rest = line.strip().partition(" ")
        if name == "/quit":
            return
        try:
            if name == "/reset":
                conversation.reset()
            elif name == "/save":
                save(conversation, rest.strip())
                write(f"{len(conversation.history)} messages in {rest.strip()}\n")
            elif name.startswith("/"):
                write(HELP)
            elif name:
                conversation.ask(line, write)
                write("\n")
        except NlptoolsError as error:
            messages.warn(str(error))


def save(conversation: Conversation, path: str) -> None:
    """Write the history as JSON lines. Raises UsageError without a path or if the file exists; StreamError."""
    import json

    from nlptools.errors import UsageError
    from nlptools.files import atomic

    if not path:
        raise UsageError("/save expects the name of a file")
    if os.path.exists(path):
        raise UsageError(f"{path} exists, expected a new file")
    atomic.write_whole(path, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in conversation.history))


def answers(blocks: Iterable[LineBlock], conversation: Conversation) -> Iterator[str]:
    """A JSON line for each message of the user. Raises DataError, with file and line, for other lines."""
    import json

    from nlptools.errors import DataError
    from nlptools.files.line_records import parse_json_object

    for block in blocks:
        for number, line in enumerate(block.lines, block.start):
            record = parse_json_object(line, block.path, number, EXPECTED)
            if record.get("reset") is True:
                conversation.reset()
                continue
            content = record.get("content")
            if not isinstance(content, str) or record.get("role", "user") != "user":
                message = 'expected a message of the user under "content"'
                raise DataError(message, path=block.path, line=number, hint=EXPECTED)
            try:
                answer = conversation.ask(content)
            except DataError as error:
                raise DataError(str(error), path=block.path, line=number) from None
            reply = {"role": "assistant", "content": answer.text, "finish": answer.finish}
            yield json.dumps(reply, ensure_ascii=False)
