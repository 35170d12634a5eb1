"""Shell completions as static files for bash, zsh and fish: a Tab key must not wait for Python to start.

They complete the names of commands and options, and the values of options that are names; elsewhere the shell completes
file names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import click

from nlptools.cli import COMMANDS, group
from nlptools.cli.command import Command
from nlptools.cli.help import COMMON, MODELS, TOPICS
from nlptools.configs import bleu, metrics
from nlptools.configs.tasks.table import GLUE, TASKS

HEADER = "# Written by `python -m nlptools.cli.manual.pages`; changes are lost."


class Option(NamedTuple):
    """An option, as the completions need it."""

    names: tuple[str, ...]  # -o, --output; with the --no- form
    help: str
    takes_value: bool
    values: tuple[str, ...]  # names among its values, if any
    files: bool  # whether other values are files


def completions(commands: Mapping[str, Command]) -> dict[str, str]:
    """The completion files: name -> text."""
    tables = {name: _options(command) for name, command in commands.items()}
    return {"nlptools": _bash(tables), "_nlptools": _zsh(tables), "nlptools.fish": _fish(tables)}


def root() -> click.Context:
    """The click context of the command `nlptools` itself."""
    return click.Context(group, info_name="nlptools", **group.context_settings)


def _options(command: Command) -> list[Option]:
    context = click.Context(command, info_name=command.name, parent=root())
    open_names = _names()
    options = []
    for parameter in command.every_option(context):
        names = (*parameter.opts, *(name for name in parameter.secondary_opts if name.startswith("--")))
        choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
        values = choices or open_names.get(parameter.name or "", ())
        files = not choices and parameter.name not in ("device", "task", "layout", "metric", "metrics")
        takes_value = not parameter.is_flag and not parameter.count
        options.append(Option(names, parameter.help or "", takes_value, tuple(map(str, values)), files))
    return options


def _names() -> dict[str, tuple[str, ...]]:
    """Names among the values of options without a fixed set of values."""
    from nlptools.text.tokenizer import NAMES

    glue = tuple(f"{GLUE}{name}" for name in metrics.GROUPS["glue"].metrics)
    layouts = dict.fromkeys(name for entry in TASKS.values() for name in entry.layouts)
    return {
        **dict.fromkeys(("tokenizer", "target_tokenizer"), NAMES),
        "device": ("auto", "cpu", "cuda", "mps"),
        "layout": ("auto", *layouts),
        "metric": tuple(dict.fromkeys(name for group in metrics.GROUPS.values() for name in group.metrics)),
        "metrics": bleu.METRICS,
        "task": (*TASKS, *glue),
        "tokenize": bleu.TOKENIZERS,
    }


# -- bash -------------------------------------------------------------------------------------------------------------

_BASH = """\
_nlptools() {{
    local current previous command options values
    current="${{COMP_WORDS[COMP_CWORD]}}"
    previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    command="${{COMP_WORDS[1]}}"
    COMPREPLY=()
    # readline treats "=" as a separate word
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]]; then
        previous="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$current"))
        return
    fi
    values=""
    case "$command $previous" in
{values}
    esac
    if [[ -n $values ]]; then
        # in a list such as "f1,accu", the last name; without a match, readline completes file names
        local list=""
        [[ $current == *,* ]] && list="${{current%,*}},"
        COMPREPLY=($(compgen -P "$list" -W "$values" -- "${{current##*,}}"))
        return
    fi
    if [[ $current == -* ]]; then
        case "$command" in
{options}
            *) options="" ;;
        esac
        COMPREPLY=($(compgen -W "$options" -- "$current"))
        return
    fi
    if [[ $command == help ]]; then
        COMPREPLY=($(compgen -W "{commands} {topics}" -- "$current"))
    fi
}}
complete -o default -F _nlptools nlptools
"""


def _bash(tables: Mapping[str, list[Option]]) -> str:
    values, options = [], []
    for command, table in tables.items():
        for option in table:
            if option.values:
                patterns = "|".join(f'"{command} {name}"' for name in option.names)
                values.append(f'        {patterns}) values="{" ".join(option.values)}" ;;')
        names = " ".join(name for option in table for name in option.names)
        options.append(f'            {command}) options="{names}" ;;')
    body = _BASH.format(
        commands=" ".join(tables),
        topics=" ".join((*TOPICS, COMMON, MODELS)),
        values="\n".join(values),
        options="\n".join(options),
    )
    return f"# bash completion for nlptools\n{HEADER}\n{body}"


# -- zsh --------------------------------------------------------------------------------------------------------------

_ZSH = """\
_nlptools_names() {{
    compadd -- "$@"
    _files
}}

_nlptools() {{
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe -t commands command commands
        _arguments '(-h --help)'{{-h,--help}}'[Show help and exit.]' '--version[Show the version and exit.]'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
_nlptools "$@"
"""


def _zsh(tables: Mapping[str, list[Option]]) -> str:
    commands = [f"        '{name}:{_zsh_quote(COMMANDS[name][1])}'" for name in tables]
    cases = []
    for command, table in tables.items():
        lines = [f"                {spec}" for option in table for spec in _zsh_specs(option)]
        last = f"'*:topic:({' '.join((*tables, *TOPICS, COMMON, MODELS))})'" if command == "help" else "'*:file:_files'"
        cases.append("\n".join([f"        {command})", "            _arguments -s \\"]))
        cases.append(" \\\n".join([*lines, f"                {last}"]) + "\n            ;;")
    body = _ZSH.format(commands="\n".join(commands), cases="\n".join(cases))
    return f"#compdef nlptools\n{HEADER}\n{body}"


def _zsh_specs(option: Option) -> list[str]:
    value = ""
    if option.takes_value:
        names = " ".join(option.values)
        value = (
            ":value:_files"
            if not names
            else f":value: _nlptools_names {names}"
            if option.files
            else f":value:({names})"
        )
    return [
        f"'{name}{'=' if value and name.startswith('--') else ''}[{_zsh_quote(option.help)}]{value}'"
        for name in option.names
    ]


def _zsh_quote(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


# -- fish -------------------------------------------------------------------------------------------------------------


def _fish(tables: Mapping[str, list[Option]]) -> str:
    out = ["# fish completion for nlptools", HEADER]
    out.append("complete -c nlptools -n __fish_use_subcommand -f")
    out.append("complete -c nlptools -n __fish_use_subcommand -s h -l help -d 'Show help and exit.'")
    out.append("complete -c nlptools -n __fish_use_subcommand -l version -d 'Show the version and exit.'")
    for name in tables:
        summary = _fish_quote(COMMANDS[name][1])
        out.append(f"complete -c nlptools -n __fish_use_subcommand -a {name} -d {summary}")
    for command, table in tables.items():
        start = f"complete -c nlptools -n '__fish_seen_subcommand_from {command}'"
        for option in table:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if not option.takes_value else " -r" if option.files or not option.values else " -x"
            value += f" -a '{' '.join(option.values)}'" if option.values else ""
            out.append(f"{start} {names}{value} -d {_fish_quote(option.help)}")
    topics = " ".join((*tables, *TOPICS, COMMON, MODELS))
    out.append(f"complete -c nlptools -n '__fish_seen_subcommand_from help' -f -a '{topics}'")
    return "\n".join(out) + "\n"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
