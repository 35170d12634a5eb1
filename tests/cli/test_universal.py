"""The examples of the manual pages for CoNLL-U, on generated files."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import environment

from nlptools.cli.manual.command_pages import command_page
from tests.tasks import tiny_trees
from tests.tasks.tiny_tasks import encoder


@pytest.mark.sampled(law="examples run")
def test_examples_of_the_manual_run(tmp_path: Path, fork_server: list[str]) -> None:
    encoder(tmp_path / "bert-base")
    for seed, name in enumerate(("train", "dev")):
        tiny_trees.file(tmp_path / f"{name}.conllu", 12, seed, extras=True)
    (tmp_path / "gold.conllu").write_text((tmp_path / "dev.conllu").read_text())
    program = tmp_path / "bin/nlptools"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(fork_server)} "$@"\n')
    program.chmod(0o755)
    run = [line for name in ("finetune", "predict") for _, line in command_page(name).examples if "parser/" in line]
    run.append("nlptools predict parser/ dev.conllu > predicted.conllu")
    run += [line for _, line in command_page("evaluate").examples if "conllu" in line]
    assert len(run) == 5
    for line in run:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=tmp_path,
            env=environment(PATH=f"{program.parent}:{os.environ['PATH']}"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        if "| nlptools evaluate" in line:
            names, values = zip(*(row.split("\t")[:2] for row in done.stdout.splitlines()), strict=True)
            assert names == ("upos", "feats", "uas", "las") and all(0 <= float(value) <= 1 for value in values)
    assert "Degree" in done.stdout and "support" in done.stdout
