"""Models are built empty before their weights are read, without what only drawing or compiling needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import environment
from tiny_bundles import words_bundle
from torch import nn

from nlptools.layers.initial import empty_weights
from tests.tasks.tag.test_task import columns, sentences
from tests.tasks.tiny_tasks import encoder, train
from tests.test_bundle import ENCODER_DECODERS, TOKENS, pair_bundle

MODULES = {
    "embedding": lambda: nn.Embedding(5, 3, padding_idx=0),
    "linear": lambda: nn.Linear(3, 4),
    "convolution": lambda: nn.Conv1d(3, 4, 2),
    "lstm": lambda: nn.LSTM(3, 4, 2),
    "norm": lambda: nn.LayerNorm(3),
    "attention": lambda: nn.MultiheadAttention(4, 2),
}


@pytest.mark.parametrize("name", MODULES)
def test_empty_weights_have_shapes_and_nothing_else(name: str) -> None:
    state = torch.get_rng_state()
    with empty_weights():
        made = MODULES[name]()
    assert torch.equal(torch.get_rng_state(), state)
    whole = MODULES[name]()
    assert {n: p.shape for n, p in made.named_parameters()} == {n: p.shape for n, p in whole.named_parameters()}
    assert all(p.is_meta and p.requires_grad for p in made.parameters())
    assert not torch.equal(torch.get_rng_state(), state) or name == "norm", "outside, weights are drawn as ever"


@pytest.mark.sampled(law="a command imports what it needs")
def test_commands_that_read_a_model_do_not_load_pytorchs_compiler(tmp_path: Path) -> None:
    """Its import takes over a second."""
    (tmp_path / "text").write_text("w1 w2 w3\nw4\n")
    models = {arch: words_bundle(tmp_path / arch, arch) for arch in ("transformer", "lstm")}
    models |= {arch: pair_bundle(tmp_path / arch, arch, TOKENS) for arch in ENCODER_DECODERS}
    encoder(tmp_path / "encoder")
    train(tmp_path, columns(tmp_path / "tags", sentences(20)), task="tag", steps=1, crf=True)
    commands = [["score", str(models[arch])] for arch in ("transformer", "lstm")]
    commands += [["generate", str(path), "--max-new-tokens", "2"] for path in models.values()]
    commands += [["embed", str(tmp_path / "encoder"), "--to", "tsv"], ["embed", str(models["lstm"]), "--to", "tsv"]]
    commands += [["predict", str(tmp_path / "out"), "--layout", "lines"]]
    code = (
        "import json, sys\n"
        "from nlptools import cli\n"
        "for number, args in enumerate(json.loads(sys.argv[1])):\n"
        "    assert cli.run([*args, '--device', 'cpu', '-o', f'out{number}', 'text']) == 0, args\n"
        "    assert 'torch' in sys.modules and 'torch._dynamo' not in sys.modules, args\n"
    )
    command = [sys.executable, "-c", code, json.dumps(commands)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"out{len(commands) - 1}").read_text().count("\n") == 2
