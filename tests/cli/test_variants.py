"""cli/variants.py: options that depend on --arch, from every source of its value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Run

from nlptools.cli import group
from nlptools.cli.command import Command
from nlptools.cli.manual.completions import root
from nlptools.configs.architectures.recurrent import LSTMOptions
from nlptools.configs.lm import TrainLM
from nlptools.models import registry

TRAIN = ("train-lm", "-t", "words", "-o", "lm")
RECURRENT = "--initial-range"  # an option of recurrent networks


def shown(text: str) -> set[str]:
    """The options in a help, without those that every command has."""
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text.partition("Common options:")[0], flags=re.MULTILINE))


def dumped(text: str) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in text.splitlines())


def test_a_help_shows_the_options_of_its_architecture(call: Run) -> None:
    plain = call("train-lm", "--help").text
    shared = shown(plain)
    for arch, place in registry.options("language", "bidirectional", "n-gram").items():
        options = shown(call("train-lm", "--arch", arch, "--help").text)
        assert 15 < len(options) <= 65, (arch, len(options))
        assert re.search(rf"^  {arch} +\S", plain, flags=re.MULTILINE), arch
        assert place.endswith("Options")
        if arch not in ("elmo", "ngram"):
            assert shared - {"--preset"} <= options, arch
    assert {"--layers", "--lr", "--arch"} <= shared and not {RECURRENT, "--heads", "--order"} & shared
    for arch in ("transformer", "rnn", "convolution"):
        options = shown(call("train-seq2seq", "--arch", arch, "--help").text)
        assert ("--heads" in options, "--cell" in options) == (arch == "transformer", arch == "rnn")


def test_every_source_of_the_architecture(call: Run, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('arch = "lstm"\n')
    (tmp_path / "init").mkdir()
    (tmp_path / "init/config.json").write_text(json.dumps({"model_type": "nlptools-lstm"}))
    sources: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("--arch", "lstm"), {}),
        (("--arch=lstm",), {}),
        (("--config", "run.toml"), {}),
        (("--preset", "awd-lstm"), {}),
        (("--init", "init"), {}),
        ((), {"NLPTOOLS_TRAIN_LM_ARCH": "lstm"}),
    ]
    for arguments, env in sources:
        done = call(*TRAIN, *arguments, RECURRENT, "0.2", "--dump-config", env=env)
        values = dumped(done.text)
        assert (done.code, values["arch"], values["initial_range"]) == (0, '"lstm"', "0.2"), (arguments, done.err)
        assert "heads" not in values
        refused = call(*TRAIN, *arguments, "--heads", 2, env=env)
        said = "--heads applies to --arch transformer, modern, transformer-xl only\n"
        assert (refused.code, refused.err) == (2, f"nlptools train-lm: {said}"), arguments
    first = call(
        *TRAIN, "--config", "run.toml", "--arch", "gru", "--dump-config", env={"NLPTOOLS_TRAIN_LM_ARCH": "rnn"}
    )
    assert dumped(first.text)["arch"] == '"gru"'


def test_options_of_other_architectures(call: Run, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("cells = 4\n")
    for arguments, message in (
        (("--cells", 4), "--cells applies to --arch elmo only"),
        (("--arch", "elmo", "--carry"), "--carry applies to every --arch but elmo, ngram"),
        (("--arch", "ngram", "--lr", 1), "--lr applies to every --arch but ngram"),
        (("--config", "run.toml"), "run.toml: --cells applies to --arch elmo only"),
        (("--arch", "lstm", "--preset", "gpt2"), "--preset gpt2: --heads applies to --arch transformer, modern"),
        (("--sells", 4), "no such option: --sells"),
        (("--arch", "none"), "--arch: 'none' is not one of transformer, modern"),
    ):
        done = call(*TRAIN, *arguments, "text")
        assert done.code == 2 and message in done.err.split("\n")[0], done.err
    # a variable is for all commands of a shell: those of other architectures have no effect
    done = call(*TRAIN, "--arch", "lstm", "--dump-config", env={"NLPTOOLS_TRAIN_LM_CELLS": "4"})
    assert (done.code, done.err) == (0, "") and "cells" not in done.text


def test_completions_and_manual_have_the_options_of_all(call: Run) -> None:
    command = group.get_command(root(), "train-lm")
    assert isinstance(command, Command)
    context = command.context_class(command, info_name="train-lm", parent=root())
    names = [option.name for option in command.every_option(context)]
    assert len(names) == len(set(names)) and {"cells", "order", "heads", "initial_range", "lr"} <= set(names)
    titles = [title for title, _ in command.all_option_groups(context)]
    assert "Options of --arch rnn, lstm, gru" in titles and "Options of --arch ngram" in titles


def test_settings_in_python() -> None:
    assert LSTMOptions("words").arch == "lstm"
    with pytest.raises(TypeError, match="cells"):
        LSTMOptions("words", cells=3)  # type: ignore[call-arg]
    shared = TrainLM("words", arch="lstm", hidden=8).shared
    assert registry.options_class("lstm", TrainLM)(**shared) == LSTMOptions("words", hidden=8)
