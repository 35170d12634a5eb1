"""files/hub_cache.py: what a missing model says, through each command that opens one."""

from __future__ import annotations

import pytest
from conftest import Run

from nlptools.files import hub_cache

OPENS = {
    "score": (), "generate": (), "embed": (), "predict": (), "describe": (), "serve": (),
    "export": ("-o", "x.onnx"), "chat": ("--chat", "chatml", "--text", "a"),
}  # fmt: skip


@pytest.mark.parametrize("command", OPENS)
def test_a_model_that_is_not_there(call: Run, command: str) -> None:
    done = call(command, "some-lab/some-model", *OPENS[command], stdin="a\n")
    assert done.code == 66 and "hint: hf download some-lab/some-model fetches it" in done.err
    done = call(command, "runs/of/mine", *OPENS[command], stdin="a\n")
    assert done.code == 66 and f"hint: {hub_cache.DOWNLOAD} fetches a published model" in done.err


@pytest.mark.parametrize(
    "command", [*OPENS, "finetune", "train-reward", "train-ppo", "neighbors", "prompt", "train-lm"]
)
def test_the_help_says_where_models_come_from(call: Run, command: str) -> None:
    assert hub_cache.DOWNLOAD in call(command, "--help").text
