"""cli/earlier_names.py: what was renamed still works, and says so."""

from __future__ import annotations

import click
import pytest
from conftest import Run

from nlptools.cli import group
from nlptools.cli.command import Command
from nlptools.cli.earlier_names import renamed, table
from nlptools.errors import UsageError

EARLIER = {
    "--json": "--to jsonl",
    "--format json": "--to jsonl",
    "--format": "--to",
    "-f": "--to",
    "--gone": "--new NAME",
}
VALUED = ("--to", "--text")


def test_arguments() -> None:
    for args, expected in {
        "a --json b": "a --to jsonl b",
        "--format json x": "--to jsonl x",
        "--format=json x": "--to jsonl x",
        "--format text": "--to text",
        "--format=text": "--to=text",
        "-f tsv": "--to tsv",
        "--format": "--to",
        "--jsonish --to text -- --json": "--jsonish --to text -- --json",
        "--text --json --json": "--text --json --to jsonl",  # the value of another option
        "--format --json --json": "--to --json --to jsonl",
        "--text -- --json": "--text -- --to jsonl",
        "--text=--json --format json": "--text=--json --to jsonl",
    }.items():
        assert " ".join(renamed(args.split(), EARLIER, VALUED)[0]) == expected
    assert renamed(["--json"], EARLIER, VALUED)[1] == [
        "--json is now --to jsonl; the earlier name works in this version only"
    ]
    with pytest.raises(UsageError, match="--gone is now --new NAME"):
        renamed(["--gone"], EARLIER, VALUED)


def test_every_command_has_what_replaces_an_earlier_name() -> None:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        earlier = table(command.groups) if isinstance(command, Command) else {}
        known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)} if command else set()
        for old, now in earlier.items():
            assert now.split()[0] in known and old not in known, f"{name} {old}"


def test_commands(run: Run) -> None:
    new = run("evaluate", "-m", "accuracy", "-r", "gold", "--to", "jsonl", stdin="a\nb\n")
    assert new.code == 66  # there is no such file, and no complaint about options
    for form in (("--format", "json"), ("-f", "json"), ("--to", "jsonl")):
        done = run("evaluate", "-m", "bleu", "-r", "-", *form, "/dev/null")
        assert done.code != 2, done.err
    done = run("describe", "--json", "nowhere")
    assert done.code == 66 and done.err.startswith(
        "--json is now --to json; the earlier name works in this version only\n"
    )
    assert "is now" not in run("describe", "-q", "--json", "nowhere").err
    assert run("tokenize", "-t", "char", "--text", "--json").text == "- - j s o n\n"
    done = run("generate", "nowhere", "--json-input", "--text", "--json")
    assert done.code == 66 and "--json-input is now --layout jsonl" in done.err and "--json is now" not in done.err
    done = run("align-vectors", "a", "b", "--json")
    assert done.code == 2 and "--json is now --report NAME.jsonl" in done.err
