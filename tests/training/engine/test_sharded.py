"""`--shard-model`: each process keeps a part of the weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import rank_programs
import torch
from running import ended, processes

from nlptools.compute.backend import Backend
from nlptools.errors import StreamError
from nlptools.files.artifacts import load_tensors, verify
from nlptools.training.engine.checkpoint import Checkpoints

CASES = ("modern", "lstm", "xl", "pairs", "bert")


@dataclass(frozen=True)
class BackendWithout(Backend):
    """A process that finds a directory gone before it writes."""

    directory: Path = Path()

    def first(self, compute: Callable[[], Any]) -> Any:
        value = compute()
        if self.directory.is_dir():
            self.directory.rmdir()
        return value


def trained(server: list[str], directory: Path, *parts: tuple[int, int]) -> Path:
    """The directory of runs, each in so many processes up to a step, that each go on from the last."""
    directory.mkdir()
    for count, steps in parts:
        ended(processes(count, directory, rank_programs.__file__, "sharded", ".", steps, command=server))
    return directory


@pytest.mark.sampled(law="several processes train")
@pytest.mark.slow
def test_two_processes_that_divide_the_weights_end_with_the_weights_of_one(
    tmp_path: Path, fork_server: list[str]
) -> None:
    """Also when a run is stopped and goes on in one process, or in two after one."""
    one = trained(fork_server, tmp_path / "one", (1, 8))
    for name, parts in {"two": [(2, 8)], "fewer": [(2, 4), (1, 8)], "more": [(1, 4), (2, 8)]}.items():
        other = trained(fork_server, tmp_path / name, *parts)
        for case in CASES:
            expected, found = (load_tensors(place / case / "last.safetensors") for place in (one, other))
            assert expected.keys() == found.keys(), (name, case)
            for key, tensor in expected.items():
                # Adam divides by the size of gradients; those of the biases of keys are noise, which no output depends on
                most = 1e-2 if key.endswith(("key_value.bias", "distance.weight")) else 1e-5
                difference = float((found[key].double() - tensor).abs().mean())
                assert difference < most * max(1.0, float(tensor.abs().double().mean())), (name, case, key)
    checkpoint = tmp_path / "two/modern/checkpoints/step-000008"
    assert verify(checkpoint)
    for stem in ("weights", "state"):
        files = [f"{stem}-0000{rank}-of-00002.safetensors" for rank in (1, 2)]
        places = json.loads((checkpoint / f"{stem}.safetensors.index.json").read_text())["weight_map"]
        for file in files:
            assert {key for key, value in places.items() if value == file} == load_tensors(checkpoint / file).keys()
        sizes = [(checkpoint / file).stat().st_size for file in files]
        assert max(sizes) < 0.75 * sum(sizes), "each process writes its part"


def test_parts_that_cannot_be_written(tmp_path: Path) -> None:
    """The earlier checkpoint stays, and nothing is left of the new one."""
    backend, tensors = Backend(torch.device("cpu")), {"a": torch.arange(4.0)}
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save_part(backend, 1, tensors, {"b": torch.zeros(2)}, {"step": 1})
    with pytest.raises(StreamError, match="checkpoint of step 2 not saved: rank 0: "):
        backend = BackendWithout(backend.device, directory=checkpoints.directory / ".tmp-000002")
        checkpoints.save_part(backend, 2, tensors, {}, {"step": 2})
    assert [path.name for path in checkpoints.directory.iterdir()] == ["step-000001"]
    weights, state, record = checkpoints.load_last() or ({}, {}, {})
    assert torch.equal(weights["a"], tensors["a"]) and state.keys() == {"b"} and record == {"step": 1}
