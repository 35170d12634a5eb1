"""The commands in the README run, in order, in one directory; those of the manual pages have options that exist."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from conftest import ROOT, environment

from nlptools.cli import COMMANDS
from nlptools.cli.options import Command

README = ROOT / "README.md"
RUNNABLE = re.compile(r"^<!-- run(?: with pairs)? -->\n+```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def paragraphs() -> list[str]:
    """English that every Python ships, a paragraph per line."""
    from pydoc_data.topics import topics as pages

    joined = (" ".join(part.split()) for text in pages.values() for part in text.split("\n\n"))
    return [part for part in joined if len(part) > 60]


# A translator as small as it can be, and a search that ends soon: what is not a flag in the README.
SMALL = {"TRAIN_SEQ2SEQ_STEPS": "4", "TRAIN_SEQ2SEQ_LAYERS": "1", "TRAIN_SEQ2SEQ_HIDDEN": "16"}
SMALL |= {"TRAIN_SEQ2SEQ_INTERMEDIATE": "16", "BUILD_VOCAB_SIZE": "150", "GENERATE_MAX_NEW_TOKENS": "20"}


def write_pairs(folder: Path) -> None:
    """Sentences of two invented languages, a text of one of them alone, and mails with their subjects."""
    words = (("man", "woman", "child", "dog"), ("sees", "likes", "takes"), ("ball", "house", "bird", "hat"))
    english = [f"A {who} {does} the {what}." for who, does, what in itertools.product(*words)]
    german = [" ".join(word[::-1] for word in line[:-1].split()) + "." for line in english]
    for name, rows in {"train": slice(0, 40), "valid": slice(40, 44), "test": slice(44, 48)}.items():
        for language, lines in (("en", english), ("de", german)):
            (folder / f"{name}.{language}").write_text("\n".join(lines[rows]) + "\n", encoding="utf-8")
    (folder / "mono.de").write_text("\n".join(german[40:]) + "\n", encoding="utf-8")
    for name, rows in {"train": slice(0, 30), "valid": slice(30, 33), "test": slice(33, 36)}.items():
        parts = [(english[i : i + 4], english[i + 1]) for i in range(36)][rows]
        mails = [f"Dear Ann,\\n\\n{' '.join(body)} See C:\\\\new.\t{subject}" for body, subject in parts]
        (folder / f"{name}.tsv").write_text("\n".join(mails) + "\n", encoding="utf-8")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A directory with text to train and to measure on, and `nlptools` in a directory of its own."""
    english = paragraphs()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.txt").write_text("\n".join(english[:300]) + "\n", encoding="utf-8")
    (tmp_path / "work/held-out.txt").write_text("\n".join(english[300:330]) + "\n", encoding="utf-8")
    write_pairs(tmp_path / "work")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/nlptools"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m nlptools "$@"\n')
    program.chmod(0o755)
    return tmp_path


def test_the_commands_of_the_readme_run(scratch: Path) -> None:
    blocks = RUNNABLE.findall(README.read_text(encoding="utf-8")) if README.is_file() else []
    assert blocks, "README.md shows no commands to run: ```sh blocks after a line <!-- run -->"
    programs = os.pathsep.join([str(scratch / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    for block in blocks:
        done = subprocess.run(
            # this head reads on to the end, so that the command before it is not ended by a closed pipe
            ["bash", "-c", 'set -euo pipefail; head() { command head "$@"; cat > /dev/null; }\n' + block],
            cwd=scratch / "work",
            env=environment(PATH=programs, **{f"NLPTOOLS_{name}": value for name, value in SMALL.items()}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{block}\n-> {done.returncode}\n{done.stderr}"


# -- manual pages -----------------------------------------------------------------------------------------------------


def command(name: str) -> Command:
    found = __import__(f"nlptools.cli.{name.replace('-', '_')}", fromlist=["command"]).command
    assert isinstance(found, Command)
    return found


def options(name: str) -> set[str]:
    shown = {"--help", "-h"}
    for parameter in command(name).params:
        if isinstance(parameter, click.Option):
            shown |= {*parameter.opts, *parameter.secondary_opts}
    return shown


def calls(line: str) -> list[list[str]]:
    """The nlptools commands in a line of shell, each with its words: COMMAND WORD..."""
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars="|;&<>()\n")
    lexer.whitespace, lexer.whitespace_split = " \t", True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|;&()\n"):
            found.append([])
        else:
            found[-1].append(word)
    return [words[words.index("nlptools") + 1 :] for words in found if "nlptools" in words[:-1]]


def unknown(line: str) -> list[str]:
    """Options in a line of shell that their commands do not have."""
    wrong = []
    for name, *words in calls(line):
        assert name in COMMANDS or name.startswith("-"), f"no such command: {name}"
        if name in COMMANDS:
            given = [word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
            wrong += [f"{name} {word}" for word in given if word not in options(name)]
    return wrong


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_examples_of_manual_pages(name: str) -> None:
    if name == "help":
        return
    examples = command(name).examples
    assert examples, "a manual page without examples"
    for _, line in examples:
        assert any(call[0] == name for call in calls(line)), line
        assert unknown(line) == [], line


def test_pipelines_of_the_manual() -> None:
    page = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "man").glob("*.[57]")))
    shown = re.findall(r"^\.EX\n(.*?)^\.EE$", page, re.MULTILINE | re.DOTALL)
    lines = [text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\").replace("\\&", "") for text in shown]
    assert sum("nlptools" in text for text in lines) > 3
    for text in lines:
        assert unknown(text) == [], text


def test_commands_of_the_readme_have_their_options() -> None:
    text = README.read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        assert unknown(re.sub(r"#.*", "", block)) == [], block


def test_wrong_options_are_found() -> None:
    assert unknown("cat x | nlptools score lm/ --pear total | head -1") == ["score --pear"]
    assert unknown("nlptools bleu a \\\n  --fail-under 3 || exit 1; nlptools plot --oops") == ["plot --oops"]
    assert unknown("nlptools generate lm --no-echo --seed=3 < x > y") == []
