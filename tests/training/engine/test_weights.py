"""The weights of a run: whole in every process, or in parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import toy_sharding
from running import processes
from tiny_models import tiny
from torch import Tensor

from nlptools.compute.backend import Backend
from nlptools.files.artifacts import load_tensors
from nlptools.training.engine.weights import Weights
from nlptools.training.objectives import CausalLM


def trained(server: list[str], directory: Path, count: int, *steps: int) -> tuple[dict[str, Tensor], list[int]]:
    """The last weights of runs of so many processes, each of which goes on from the last, and what each process held."""
    directory.mkdir()
    for end in steps:
        started = processes(count, directory, toy_sharding.__file__, ".", str(end), command=server)
        outputs = [process.communicate(timeout=120) for process in started]
        assert [process.returncode for process in started] == [0] * count, outputs
    return load_tensors(directory / "last.safetensors"), [int(out) for out, _ in outputs]


@pytest.mark.sampled(law="several processes train")
def test_a_way_to_shard_is_one_file(tmp_path: Path, fork_server: list[str]) -> None:
    """Two processes that keep half of the weights each end with the weights of one, also when they stop and continue."""
    whole, (all_held,) = trained(fork_server, tmp_path / "whole", 1, 8)
    shards, held = trained(fork_server, tmp_path / "shards", 2, 8)
    parts, _ = trained(fork_server, tmp_path / "parts", 2, 4, 8)
    assert sum(held) == all_held and max(held) < 0.51 * all_held
    assert whole.keys() == shards.keys()
    for name, tensor in whole.items():
        # Adam divides by the size of gradients, so noise in tiny ones can move single weights
        assert float((shards[name] - tensor).abs().mean()) < 1e-5, name
        assert torch.equal(shards[name], parts[name]), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_module_has_its_float32_weights_back_after_training(precision: str) -> None:
    model = tiny("modern")
    before = {name: tensor.clone() for name, tensor in [*model.state_dict().items(), *model.named_buffers()]}
    weights = Weights(CausalLM(model), Backend(torch.device("cpu"), precision))
    assert next(model.parameters()).dtype == weights.dtype
    with torch.no_grad():
        weights.parameters["model.norm.weight"].add_(2**-12)  # lost in bf16
    weights.publish()
    weights.release()
    after = dict([*model.state_dict().items(), *model.named_buffers()])
    assert all(after[name].dtype == tensor.dtype for name, tensor in before.items())
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"norm.weight"}
    assert torch.equal(after["norm.weight"], before["norm.weight"] + 2**-12)
