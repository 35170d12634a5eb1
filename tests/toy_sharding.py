"""The one file that another way to keep the weights takes: each process holds a part of the rows of each tensor between steps.

As a program, it trains a tiny model: `toy_sharding.py DIRECTORY STEPS`, in one process or in several.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from tiny_models import tiny
from torch import Tensor, nn

from nlptools.batches.source import Share
from nlptools.batches.windows import ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.files import artifacts
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.loop import fit
from nlptools.training.engine.sharded import ShardedWeights
from nlptools.training.engine.weights import Weights
from nlptools.training.objectives import CausalLM


class Shards(Weights):
    """Float32 weights of which each process keeps, and updates, a part of the rows."""

    norm = ShardedWeights.norm

    def __init__(self, objective: nn.Module, backend: Backend) -> None:
        super().__init__(objective, backend)
        self.used = self.parameters
        self.rows = {name: len(p) for name, p in self.used.items()}
        self.parameters = {name: nn.Parameter(self._part(name, p.detach())) for name, p in self.used.items()}
        self._drop()

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        for name, parameter in self.used.items():
            parameter.data = self._joined(name, self.parameters[name].detach())
        try:
            yield self.model
        finally:
            self._drop()

    def collect(self) -> None:
        for name, parameter in self.used.items():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            own, part = self.parameters[name], self._part(name, parameter.grad)
            own.grad = part if own.grad is None else own.grad + part
            parameter.grad = None

    def reduce(self) -> None:
        pass

    def publish(self) -> None:
        pass

    def state_dict(self) -> dict[str, Tensor]:
        with self.whole():
            return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        with self.whole():
            self.model.load_state_dict(weights)
            for name, parameter in self.parameters.items():
                parameter.copy_(self._part(name, self.used[name]))

    def gathered(self, state: dict[str, Tensor]) -> Iterable[tuple[str, Tensor]]:
        return {key: self._joined(key.split(".", 2)[2], tensor) for key, tensor in state.items()}.items()

    def scattered(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        moments = {key: tensor for key, tensor in state.items() if key.startswith("optimizer.")}
        return {key: self._part(key.split(".", 2)[2], tensor) for key, tensor in moments.items()}

    def release(self) -> None:
        for name, parameter in self.used.items():
            parameter.data = self._joined(name, self.parameters[name].detach())

    def _drop(self) -> None:
        for parameter in self.used.values():
            parameter.data = parameter.data.new_empty(0)

    def _bounds(self, name: str) -> list[int]:
        return [self.rows[name] * rank // self.backend.world_size for rank in range(self.backend.world_size + 1)]

    def _part(self, name: str, whole: Tensor) -> Tensor:
        begin, end = self._bounds(name)[self.backend.rank : self.backend.rank + 2]
        return whole[begin:end].clone()

    def _joined(self, name: str, part: Tensor) -> Tensor:
        """The rows of all processes: each adds its own to zeros."""
        bounds = self._bounds(name)
        whole = part.new_zeros(bounds[-1], *part.shape[1:])
        whole[bounds[self.backend.rank] : bounds[self.backend.rank + 1]] = part
        dist.all_reduce(whole)
        return whole


def train(directory: Path, steps: int) -> None:
    """Train into `directory`, and print how many numbers of weights this process held after the last step."""
    backend = Backend.detect(Compute(device="cpu", precision="fp32", threads=1))
    ids = np.random.default_rng(0).integers(2, 50, 400).astype("uint16")
    source = ShuffledWindows(
        Corpus(directory, ids, TextCounts(tokens=399), ""), 8, 4, seed=1, share=Share(backend.rank, backend.world_size),
    )  # fmt: skip
    run = Training(output="", steps=steps, lr=1e-2, warmup=0, schedule="constant", valid_every="4", save_every="never")
    model, held = tiny("modern"), []

    class Watched(Shards if backend.world_size > 1 else Weights):  # type: ignore[misc]
        def publish(self) -> None:
            super().publish()
            parts = {tensor.data_ptr(): tensor.numel() for tensor in (*self.parameters.values(), *model.parameters())}
            held.append(sum(parts.values()))

    def evaluate(model: nn.Module, stop: object) -> dict[str, float]:
        return {"loss": float(sum(p.square().sum() for p in model.parameters()))}

    fit(
        CausalLM(model), source, backend, run, evaluate=evaluate, checkpoints=Checkpoints(directory, 2), weights=Watched
    )
    if backend.is_main:
        artifacts.save_tensors(directory / "last.safetensors", dict(model.state_dict()))
    backend.close()
    print(held[-1])


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
