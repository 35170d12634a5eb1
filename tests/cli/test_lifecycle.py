"""How every command begins, ends, is stopped, and is given again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run, environment

SIZES = ("--layers", "1", "--hidden", "8", "--heads", "1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a text, a table of labels, pairs, and their vocabularies."""
    (tmp_path / "text").write_text("one two three\ntwo three one four\n" * 30)
    (tmp_path / "labels.tsv").write_text("one two\tyes\nthree four\tno\n" * 6)
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\nthree\tdrei\n" * 6)
    words = ("one", "two", "three", "four", "eins", "zwei", "drei")
    (tmp_path / "words.tsv").write_text("<unk>\n<s>\n</s>\n" + "".join(f"{word}\n" for word in words))
    return tmp_path


@pytest.mark.parametrize("module", ["nlptools.cli", "click", "nlptools.cli.tokenize"])
def test_ctrl_c_while_a_command_is_imported_is_silent(module: str) -> None:
    code = f"""
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["nlptools", "tokenize"]
runpy.run_module("nlptools", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment(), stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
    ignoring = code.replace("signal.default_int_handler", "signal.SIG_IGN")
    done = subprocess.run([sys.executable, "-c", ignoring], capture_output=True, env=environment(), input=b"one\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\n", b""), "as in the background of a script"


def test_weights_of_an_unfinished_training_say_of_which_step(call: Run, data: Path) -> None:
    common = ("train-lm", "-t", "whitespace", "--vocab", "words.tsv", *SIZES, "--steps", 4, "-o", "lm", "text")
    steps = iter((False, True))  # the loop asks before each step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nlptools.training.engine.stop.Stop.requested", property(lambda stop: next(steps)))
        assert call(*common).code == 75
    said = "lm: the training is not finished; the weights are from step 1\n"
    for command in ("generate", "score", "embed"):
        done = call(command, "lm", *(("--to", "jsonl") if command == "embed" else ()), stdin="one\n")
        assert done.code == 0 and said in done.err, done.err
    assert call("score", "-q", "lm", stdin="one\n").err == ""
    assert call(*common).code == 0 and "finished" not in call("score", "lm", stdin="one\n").err


def test_a_model_without_chat_template_is_refused_before_it_is_loaded(data: Path) -> None:
    (data / "base").mkdir()
    (data / "base/tokenizer_config.json").write_text("{}")
    code = "import sys; from nlptools import cli; status = cli.run(['chat', 'base']); sys.exit(status + ('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=data, env=environment(), input=b"")
    assert done.returncode == 78 and b"base: has no chat template\n" in done.stderr


def test_no_epochs_are_no_steps_in_every_training_command(call: Run, data: Path) -> None:
    words = ("-t", "whitespace", "--vocab", "words.tsv", *SIZES)
    for command in (
        ("train-lm", *words, "text"),
        ("train-seq2seq", *words, "pairs.tsv"),
        ("finetune", "--task", "classify", "--scratch", "bag", "labels.tsv"),
        ("train-w2v", "--min-count", "1", "text"),
    ):
        name = command[0]
        done = call(*command, "--epochs", 0, "-o", name)
        assert done.code == 0, done.err
        metrics = json.loads((data / name / "training.json").read_text())["metrics"]
        assert metrics.get("steps", metrics.get("chunk")) == 0


def test_trainers_of_one_process_refuse_several(call: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for command in (
        ("train-lm", "--arch", "ngram", "-t", "whitespace", "text"),
        ("train-w2v", "--model", "glove", "text"),
    ):
        done = call(*command, "-o", "model")
        assert done.code == 2 and "runs in one process, but 2 were started" in done.err, done.err
        assert not (data / "model").exists()
