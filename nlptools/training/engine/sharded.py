"""Weights divided over processes between their uses: `--shard-model`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn

from nlptools.compute import sharding
from nlptools.compute.backend import Backend
from nlptools.layers import lora
from nlptools.layers.transformer import Block
from nlptools.training.engine.weights import M, OfModel, Weights

T = TypeVar("T")
_MODEL = "model."  # prefix of names in an objective


class ShardedWeights(Weights[M]):
    """Float32 weights divided by rows: each process keeps and updates some rows; see `compute.sharding`.

    A Transformer has the whole weights of one block at a time, in the type that it computes in; embeddings and output during
    the whole step. Other models have all weights during a step. Validations compute with a copy of the whole model.
    """

    divided = True

    def __init__(self, objective: OfModel[M], backend: Backend) -> None:
        """See `Weights`. Raises Unavailable for an older PyTorch."""
        backend.prepare_training()
        self.objective, self.backend, self.dtype = objective, backend, backend.dtype
        self.model = objective.get_submodule("model")
        self.base = lora.frozen(self.model)
        self._places = sharding.places(self.model)
        self._exact = {name: buffer.detach() for name, buffer in self.model.named_buffers()}
        for buffer in self.model.buffers():
            buffer.data = buffer.to(backend.dtype) if buffer.is_floating_point() else buffer
        self._whole = _shell(objective.model)
        assert isinstance(self._whole, nn.Module)
        self._whole_places = sharding.places(self._whole)
        blocks = [module for module in self.model.modules() if isinstance(module, Block) and module.separate]
        sharding.shard(objective, blocks, ("run",), backend)
        self._sharded = dict(objective.named_parameters())
        learned = {name: p for name, p in self._sharded.items() if p.requires_grad}
        self.parameters = {name: nn.Parameter(sharding.local(p)) for name, p in learned.items()}

    def computing(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def whole(self) -> Iterator[M]:
        for name, places in self._whole_places.items():
            tensor = self._gathered(name).to(self.dtype)
            for module, attribute in places:
                module._parameters[attribute] = nn.Parameter(tensor, requires_grad=False)
        assert isinstance(self._whole, nn.Module)
        self._whole.eval()
        try:
            yield self._whole
        finally:
            for module, attribute in (place for places in self._whole_places.values() for place in places):
                module._parameters[attribute] = None

    def collect(self) -> None:
        for name, parameter in self.parameters.items():
            computed = self._sharded[name]
            if computed.grad is not None:
                gradient = sharding.local(computed.grad).float()
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
                computed.grad = None

    def reduce(self) -> None:
        pass

    def norm(self) -> float:
        squares = sum(float(p.grad.double().square().sum()) for p in self.parameters.values() if p.grad is not None)
        return float(self.backend.sum([squares])[0] ** 0.5)

    def publish(self) -> None:
        pass

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name in self._places:
            yield name, self._gathered(name)
        saved = self.model.state_dict().keys()
        yield from ((name, buffer) for name, buffer in self._exact.items() if name in saved)

    def state_dict(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in self.tensors()}

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        for name in self._places.keys() & weights.keys():
            sharding.local(self._sharded[_MODEL + name]).copy_(sharding.part_of(weights[name], self.backend))
        for name in self._exact.keys() & weights.keys():
            self._exact[name].copy_(weights[name])
            self.model.get_buffer(name).copy_(weights[name])

    def gathered(self, state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        for key, part in state.items():
            yield key, sharding.gathered(part, self._sharded[_parameter_of(key)])

    def scattered(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        moments = {key: tensor for key, tensor in state.items() if key.startswith("optimizer.")}
        return {key: sharding.part_of(tensor, self.backend) for key, tensor in moments.items()}

    def release(self) -> None:
        for name, places in self._places.items():
            parameter = nn.Parameter(self._gathered(name), self._sharded[_MODEL + name].requires_grad)
            for module, attribute in places:
                module._parameters[attribute] = parameter
        for name, buffer in self.model.named_buffers():
            buffer.data = self._exact[name]

    def _gathered(self, name: str) -> Tensor:
        """A whole weight of the model. All processes call this together."""
        parameter = self._sharded[_MODEL + name]
        return sharding.gathered(sharding.local(parameter), parameter)


def _shell(model: T) -> T:
    """A copy of a module with its buffers, and without its weights."""
    assert isinstance(model, nn.Module)
    weights = {id(p): nn.Parameter(p.detach().to("meta"), p.requires_grad) for p in model.parameters()}
    buffers = {id(buffer): buffer for buffer in model.buffers()}
    return copy.deepcopy(model, {**weights, **buffers})


def _parameter_of(key: str) -> str:
    """The parameter of a tensor of the optimizer's state: `optimizer.mean.NAME`."""
    return key.split(".", 2)[2]
