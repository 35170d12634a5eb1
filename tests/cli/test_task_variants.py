"""cli/task_variants.py: the options of finetune depend on the task and on the reader of its texts."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import Run

from nlptools.configs.tasks.table import TASKS

MOST = 55  # options in the help of a task, besides those that every command has


def test_the_help_shows_the_options_of_a_task(call: Run) -> None:
    shared = call("finetune", "--help").text
    assert "Semantic roles: who does what to whom." in shared and "\n  --crf" not in shared
    for task in TASKS:
        shown = re.findall(r"^  (?:-\w, )?--([\w-]+)(?: |$)", call("finetune", "--task", task, "--help").text, re.M)
        assert {"task", "model", "lr", "output"} <= set(shown) and len(shown) <= MOST, task
        assert ("crf" in shown) == (task in ("tag", "roles")) and "hidden-size" not in shown, task
    scratch = call("finetune", "--task", "tag", "--scratch", "lstm", "--help").text
    assert "--hidden-size" in scratch and "\n  --layer-decay" not in scratch
    assert "--task tag" in scratch and "--task classify" not in scratch


def test_options_of_others_are_refused(call: Run) -> None:
    for arguments, message in {
        "--task classify --crf": "--crf applies to --task tag, roles only",
        "--task glue/rte --multi-label": "--multi-label applies to --task classify only",
        "--task tag --dim 4": "--dim requires --scratch or --features",
        "--task tag --scratch lstm --lora 4": "--lora cannot be combined with --scratch",
        "--task tag --features input --lora 4": "--lora cannot be combined with --features",
        "--task roles --scratch lstm": "--scratch applies to --task classify, pair, regress, tag only",
        "--task instruct --no-header": "--no-header applies to --task classify, pair, regress, rank, similarity, answer",
    }.items():
        done = call("finetune", *arguments.split(), "-o", "x", "train.tsv")
        assert done.code == 2 and message in done.err, done.err


def test_from_every_source(call: Run, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('task = "tag"\nscratch = "lstm"\ncrf = true\n')
    env = {"NLPTOOLS_FINETUNE_TASK": "tag", "NLPTOOLS_FINETUNE_SCRATCH": "lstm", "NLPTOOLS_FINETUNE_CRF": "1"}
    arguments = ["--task", "tag", "--scratch=lstm", "--crf"]
    found = {
        call("finetune", *given, "-o", "x", "--dump-config", env=variables).text
        for given, variables in ((["--config", "run.toml"], {}), ([], env), (arguments, {}))
    }
    assert len(found) == 1 and "hidden_size = 200\n" in found.pop()
    (tmp_path / "wrong.toml").write_text('task = "pair"\ncrf = true\n')
    done = call("finetune", "--config", "wrong.toml", "-o", "x", "train.tsv")
    assert done.code == 2 and "wrong.toml: --crf applies to --task tag, roles only" in done.err
