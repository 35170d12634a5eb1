"""Manual pages and shell completions, written from the commands: `python -m nlptools.cli.manual.pages MAN [COMPLETIONS]`.

The pages use the man macros of roff (groff_man(7)). Pages and completions are committed; a test checks that they are up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from nlptools.cli import COMMANDS, group
from nlptools.cli.command import Command
from nlptools.cli.help import TOPICS, guide
from nlptools.cli.manual.completions import completions, root
from nlptools.version import __version__

EXIT_STATUS = {
    0: "Success.",
    1: "A requested check failed.",
    2: "Wrong option or combination of options.",
    3: "Training diverged: loss or gradient was not finite several steps running.",
    65: "Bad data: a malformed line, unequal numbers of lines, invalid UTF-8, empty input.",
    66: "No such input, a directory, or unreadable.",
    69: "A device or an optional package is not available.",
    70: "Internal error; the message names a crash log.",
    73: "The output exists (and --force is not given), cannot be created, or is locked by another run.",
    74: "Input or output error: disk full, standard output closed, read error.",
    75: "Stopped by a signal, by --max-time, or because another process of the run ended: the same command continues. Under"
    " torchrun, a run that is stopped with everything saved ends with 0.",
    78: "Bad model directory, tokenizer or configuration.",
    130: "Ended by Ctrl-C.",
    141: "Ended because the reader of the output closed the pipe.",
    143: "Ended by SIGTERM with nothing to save.",
}
_BEFORE_START = "Ctrl-C while the Python interpreter starts, before nlptools does, may print a traceback."


def pages() -> dict[str, str]:
    """All manual pages: file name -> roff."""
    context = root()
    result = {"nlptools.1": _main_page(context)}
    for name in COMMANDS:
        result[f"nlptools-{name}.1"] = _command_page(name, load(name), context)
    return result | {page: _guide(page, guide(topic)) for topic, page in TOPICS.items()}


def write(man: Path, completion: Path) -> None:
    """Write all pages into the directory `man`, and the completions into `completion`."""
    for directory, files in ((man, pages()), (completion, completions({name: load(name) for name in COMMANDS}))):
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")


def load(name: str) -> Command:
    """The command of this name."""
    command = group.get_command(root(), name)
    assert isinstance(command, Command)
    return command


# -- pages ------------------------------------------------------------------------------------------------------------


def _main_page(context: click.Context) -> str:
    out = [_head("nlptools", 1, "the coreutils of neural NLP")]
    out += [".SH SYNOPSIS", r".B nlptools", r".I COMMAND", r"[\fIOPTION\fR]... [\fIARGUMENT\fR]..."]
    out += [".SH DESCRIPTION", *_paragraphs(group.help or "")]
    out += _paragraphs(
        "Every command reads standard input if no file is named, writes data to standard output and messages to "
        "standard error, and ends with a meaningful exit status, so that commands can be piped, scripted and "
        "run on clusters. No command prompts, changes the directory or uses the network."
    )
    out.append(".SH COMMANDS")
    section = ""
    for name, (title, summary) in COMMANDS.items():
        if title != section:
            out.append(f".SS {_text(title)}")
            section = title
        out += [".TP", f".BR nlptools\\-{_text(name)} (1)", _text(summary)]
    out += [".SH OPTIONS", *_options(group.get_params(context), context)]
    out += _paragraphs("Each command also has --help and the common options listed in its page.")
    out += [".SH CONFIGURATION"]
    out += _paragraphs(
        "The value of an option comes from the first of these sources that sets it: the command line; the environment "
        "variable NLPTOOLS_<COMMAND>_<OPTION> (capitals, underscores for hyphens); the TOML file of --config; a preset; "
        "the default. --dump-config prints all values as a TOML file. The file holds OPTION = VALUE lines, at the top or "
        "in a table named after the command."
    )
    out += _environment("COMMAND") + _exit_status(sorted(EXIT_STATUS)) + [".PP", _text(_BEFORE_START)]
    topics = [page.replace(".", "(") + ")" for page in TOPICS.values()]
    out += [".SH SEE ALSO", _references([*(f"nlptools-{name}(1)" for name in COMMANDS), *topics])]
    return _page(out)


def _command_page(name: str, command: Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    summary, _, rest = (command.help or "").partition("\n")
    out = [_head(f"nlptools-{name}", 1, summary[:1].lower() + summary[1:].rstrip("."))]
    out += [".SH SYNOPSIS", rf".B nlptools {_text(name)}", _synopsis(command, context)]
    out += [".SH DESCRIPTION", *_paragraphs(summary + "\n" + rest)]
    out.append(".SH OPTIONS")
    for title, options in command.all_option_groups(context):
        out += [f".SS {_text(title)}", *_options(options, context)]
    if command.published:
        out += [".SH PUBLISHED MODELS", *_paragraphs(command.published)]
    if command.page.formats:
        out += [".SH FORMATS", *_markdown(command.page.formats)]
    if command.page.examples:
        out.append(".SH EXAMPLES")
        for what, line in command.page.examples:
            out += _example(what, line)
    out += _exit_status(command.exit_codes) + _environment(name)
    section = COMMANDS[name][0]
    near = [f"nlptools-{other}(1)" for other, (title, _) in COMMANDS.items() if title == section and other != name]
    out += _see_also(["nlptools(1)", *near])
    return _page(out)


def _guide(page: str, text: str) -> str:
    """The page of a guide: a title and its text."""
    title, _, body = text.removeprefix("# ").partition("\n")
    name, section = page.rsplit(".", 1)
    out = [_head(name, int(section), title[:1].lower() + title[1:]), ".SH DESCRIPTION"]
    out += _markdown(body)
    topics = [topic.replace(".", "(") + ")" for topic in TOPICS.values() if topic != page]
    return _page([*out, ".SH SEE ALSO", _references(["nlptools(1)", *topics])])


def _markdown(text: str) -> Iterator[str]:
    """Headings, paragraphs, lists with `* ` and fenced code."""
    for i, part in enumerate(re.split(r"^```\w*\n(.*?)\n```$", text, flags=re.MULTILINE | re.DOTALL)):
        if i % 2:
            yield from _code(part)
        else:
            for block in re.split(r"\n\s*\n", part.strip()):
                yield from _prose(block)


def _prose(block: str) -> Iterator[str]:
    """A heading, a list or a paragraph; comments and empty blocks are left out."""
    if block.startswith("## "):
        yield f".SH {_text(block[3:].upper())}"
    elif block.startswith("### "):
        yield f".SS {_text(block[4:])}"
    elif block.startswith("* "):
        for item in re.split(r"^\* ", block, flags=re.MULTILINE)[1:]:
            term = re.match(r"\*\*(.*?)\*\*: ", item)
            yield from (".TP", f".B {_text(term[1])}") if term else (".IP \\(bu 2",)
            yield _inline(item[term.end() :] if term else item)
    elif block and not block.startswith("<!--"):
        yield from (".PP", _inline(block))


def _inline(text: str) -> str:
    """One line of roff: `code` in bold, links as their text."""
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", " ".join(text.split()))
    return re.sub(r"`(.+?)`", r"\\fB\1\\fR", _text(text))


# -- parts ------------------------------------------------------------------------------------------------------------


def _head(name: str, number: int, summary: str) -> str:
    title = f'.TH {_text(name.upper())} {number} "" "nlptools {__version__}" "nlptools manual"'
    return f"{title}\n.SH NAME\n{_text(name)} \\- {_text(summary)}"


def _synopsis(command: Command, context: click.Context) -> str:
    required = [p for p in command.params if isinstance(p, click.Option) and p.required]
    pieces = [f"{_flags(p.opts[-1])} {_metavar(p.make_metavar(context))}" for p in required]
    arguments = [_metavar(p.make_metavar(context)) for p in command.params if isinstance(p, click.Argument)]
    return " ".join([r"[\fIOPTION\fR]...", *pieces, *arguments])


def _options(options: Iterable[click.Parameter], context: click.Context) -> Iterator[str]:
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            names, text = record
            yield ".TP"
            yield _flags(names)
            yield _text(" ".join(text.split()))


def _flags(names: str) -> str:
    """The flags of an option in bold, its metavar in italics."""
    match = re.fullmatch(r"((?:-[\w-]+, )*-[\w-]+(?: / -[\w-]+)?)(?: (.*))?", names)
    assert match is not None
    flags, value = match.groups("")
    bold = re.sub(r"--?[A-Za-z][\w-]*", lambda m: rf"\fB{_text(m.group())}\fR", flags)
    return f"{bold} {_metavar(value)}".rstrip()


def _metavar(text: str) -> str:
    """Names in italics, brackets and dots upright; a long list of names may be broken into lines."""
    italic = re.sub(r"[^\[\]|.]+(?:\.\w+)*", lambda m: rf"\fI{_text(m.group())}\fR", text)
    return italic.replace("|", r"|\:\%")


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs separated by empty lines; one that begins with a line \\b keeps its line breaks."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.strip().split("\n")]
        if lines[0] == "\b":
            yield from (".PP", ".EX", *map(_text, lines[1:]), ".EE")
        else:
            yield from (".PP", _text(" ".join(lines)))


def _example(what: str, lines: str) -> list[str]:
    return [".PP", _text(what.rstrip(".:")) + ":", *_code(lines)]


def _code(lines: str) -> list[str]:
    return [".RS 4", ".EX", *map(_text, lines.split("\n")), ".EE", ".RE"]


def _exit_status(codes: Iterable[int]) -> list[str]:
    codes = sorted({*codes, 70})  # any command can have an internal error
    return [".SH EXIT STATUS", *(line for code in codes for line in (".TP", f".B {code}", _text(EXIT_STATUS[code])))]


def _environment(name: str) -> list[str]:
    upper = name.upper().replace("-", "_")
    table = {
        f"NLPTOOLS_{upper}_OPTION": "The value of an option that is not on the command line, such as "
        f"NLPTOOLS_{upper}_ENCODING_ERRORS=replace.",
        "NLPTOOLS_DEBUG": "If 1, errors print their traceback, as with --debug.",
        "NO_COLOR": "If not empty, --color auto means never.",
    }
    return [".SH ENVIRONMENT", *(line for key, text in table.items() for line in (".TP", f".B {key}", _text(text)))]


def _see_also(names: list[str]) -> list[str]:
    return [".SH SEE ALSO", _references([*names, "nlptools-formats(5)", "nlptools-pipelines(7)"])]


def _references(names: list[str]) -> str:
    rows = [f".BR {_text(name[:-3])} {name[-3:]}" for name in names]
    return ",\n".join(rows).replace(",\n", " ,\n").replace(" ,", ",")


def _text(text: str) -> str:
    """`text` with the special characters of roff escaped."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    return r"\&" + text if text.startswith((".", "'")) else text


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    man = Path(sys.argv[1] if len(sys.argv) > 1 else "man")
    write(man, Path(sys.argv[2]) if len(sys.argv) > 2 else man.parent / "completions")
