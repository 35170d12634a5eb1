"""Names in foreign files may hold control characters: none reaches the terminal, and a message stays one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Finished, Run
from safetensors.torch import load_file, save_file
from tiny_bundles import words_bundle

EVIL = "w\n\x1b[2J\x9b31m\x07\x7f\u202e\u2028"  # clears a screen, colors it, rings, turns the line around
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")


def refused(done: Finished) -> None:
    assert done.code in (65, 66, 78), done.err
    lines = done.err.removesuffix("\n").split("\n")
    assert len(lines) == 1 + lines[-1].startswith("  hint: "), done.err
    assert not CONTROL.search(done.err), done.err
    assert "\\x1b[2J" in done.err, done.err


@pytest.mark.parametrize("kind", ["transformer", "modern", "lstm"])
def test_the_name_of_a_weight(call: Run, tmp_path: Path, kind: str) -> None:
    path = words_bundle(tmp_path / "lm", kind, num_hidden_layers=1)
    (path / "manifest.json").unlink()
    tensors = load_file(path / "model.safetensors")
    save_file({**tensors, EVIL * 100: torch.zeros(1)}, path / "model.safetensors")
    done = call("score", "lm", stdin="w1\n")
    refused(done)
    assert len(done.err) < 1000


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_names_in_json(call: Run, tmp_path: Path) -> None:
    path = words_bundle(tmp_path / "lm", num_hidden_layers=1)
    kept = {name: (path / name).read_text() for name in ("manifest.json", "config.json", "nlptools_tokenizer.json")}
    for name, changes in (
        ("manifest.json", {"format": 1, "files": {EVIL: {"size": 1, "sha256": ""}}}),
        ("config.json", {"model_type": EVIL}),
        ("config.json", {"activation_function": EVIL}),
        ("nlptools_tokenizer.json", {"kind": EVIL}),
    ):
        edit(path / name, **changes)
        if name != "manifest.json":
            (path / "manifest.json").unlink()
        refused(call("score", "lm", stdin="w1\n"))
        for each, text in kept.items():
            (path / each).write_text(text)


def test_names_of_files(call: Run, tmp_path: Path) -> None:
    (tmp_path / EVIL).write_bytes(b"\xff\n")
    refused(call("tokenize", EVIL))
    refused(call("score", "no" + EVIL, stdin="w1\n"))


def test_what_a_directory_holds(call: Run, tmp_path: Path) -> None:
    path = words_bundle(tmp_path / "lm", num_hidden_layers=1)
    (path / "manifest.json").unlink()
    edit(path / "config.json", **{EVIL: 3, "id2label": {"0": EVIL}, "nlptools": {"task": {"name": EVIL}}})
    for args in ((), ("--to", "json")):
        done = call("describe", "lm", *args)
        assert done.code == 0 and "\\u001b[2J" in done.text, done.err
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.text)
    assert json.loads(done.text)["task"]["labels"] == [EVIL]


def test_a_curve(call: Run, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        "".join(json.dumps({"kind": "train", "step": i, "loss": 2, "a\x1b[2J": 1}) + "\n" for i in (1, 2))
    )
    done = call("plot", "log.jsonl", "-m", "all")
    assert "\x1b" not in done.text + done.err
