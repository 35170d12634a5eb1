"""The weights of a run, for the optimizer and for the module that computes.

Mixed precision keeps float32 masters: the module computes in 16 bits, its gradients are added up in float32, and after each
update it gets the new weights. Autocast casts a weight at every use; this casts it once per step. Pure bf16 training loses
updates that are too small for 8 bits of mantissa; the masters keep them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from nlptools.compute.backend import Backend
from nlptools.errors import UsageError
from nlptools.layers import lora

M = TypeVar("M", covariant=True)


class OfModel(nn.Module, Generic[M]):
    """A module that computes with a model of type M, which has all weights."""

    model: M

    def __init__(self, model: M) -> None:
        super().__init__()
        self.model = model


class Weights(Generic[M]):
    """The whole weights in every process.

    In float32 the module computes with the weights themselves. In 16 bits it is converted, and the float32 weights are
    separate tensors. A subclass keeps the weights in another way, for example a part of them in each process.

    Attributes:
        parameters: the float32 weights that the optimizer updates, by their names in the objective. After `reduce`, their
            `grad` is the gradient of the whole step.
        dtype: the type that the module computes in.
        divided: whether each process writes a part of a checkpoint.
    """

    divided: ClassVar[bool] = False

    def __init__(self, objective: OfModel[M], backend: Backend) -> None:
        """Raises Unavailable for a precision that cannot train."""
        backend.prepare_training()
        self.objective, self.backend, self.dtype = objective, backend, backend.dtype
        self.model = objective.get_submodule("model")
        self.base = lora.frozen(self.model)  # weights that are not in checkpoints
        learned = {name: p for name, p in objective.named_parameters() if p.requires_grad}
        self.parameters: dict[str, nn.Parameter] = learned
        self._computing: list[nn.Parameter] = []  # the parameters of the module, where they are not `parameters`
        self._exact: dict[str, Tensor] = {}  # all float32 tensors of a converted module
        self._state: dict[str, Tensor] = {}  # and the state_dict of its model, which shares their memory
        if self.dtype != torch.float32:
            self._exact = {name: tensor.detach() for name, tensor in _tensors(objective)}
            self._state = dict(self.model.state_dict())
            self.parameters = {name: nn.Parameter(self._exact[name]) for name in learned}
            objective.to(self.dtype)
            self._computing = list(learned.values())

    def whole(self) -> AbstractContextManager[M]:
        """Context with a model that has all weights, to validate with."""
        return nullcontext(self.objective.model)

    def computing(self) -> AbstractContextManager[object]:
        """Context of the forward and backward passes of a step, which the module computes."""
        return self.whole()

    def collect(self) -> None:
        """Add the gradients that the module has just computed to the `grad` of `parameters`."""
        for master, computing in zip(self.parameters.values(), self._computing, strict=False):
            if computing.grad is not None:
                gradient = computing.grad.float()
                master.grad = gradient if master.grad is None else master.grad.add_(gradient)
                computing.grad = None

    def reduce(self) -> None:
        """Sum the gradients over all processes."""
        self.backend.sum_gradients(self.parameters.values())

    def refuse_divided(self, what: str) -> None:
        """Raise UsageError if processes have parts of the weights; `what` needs whole ones."""
        if self.divided:
            raise UsageError(f"--shard-model cannot be combined with {what}")

    def norm(self) -> float:
        """The norm of all gradients together."""
        norms = torch._foreach_norm([p.grad for p in self.parameters.values() if p.grad is not None])
        return float(torch.linalg.vector_norm(torch.stack(norms)))

    def clear(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """Bring the module up to date after an update of `parameters`."""
        if self._computing:
            torch._foreach_copy_([*self._computing], [*self.parameters.values()])

    # -- checkpoints: all processes call these together ------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """The whole weights of the model in float32, by their names in the model."""
        return dict(self._state or self.model.state_dict())

    def tensors(self) -> Iterable[tuple[str, Tensor]]:
        """The items of `state_dict`, perhaps one at a time."""
        return self.state_dict().items()

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set the weights to a `state_dict()`, which may lack the weights of `base`."""
        own = self.state_dict()
        self.model.load_state_dict({**{name: own[name] for name in self.base}, **weights})
        for name in self._state.keys() & weights.keys():
            self._state[name].copy_(weights[name])

    def gathered(self, state: dict[str, Tensor]) -> Iterable[tuple[str, Tensor]]:
        """The items of the optimizer's state for the whole weights, from its state in each process."""
        return state.items()

    def scattered(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """The optimizer's state for `parameters`, from its state for the whole weights."""
        return state

    def release(self) -> None:
        """Give the module its float32 weights back, at the end of training."""
        for name, tensor in _tensors(self.objective) if self._exact else ():
            tensor.data = self._exact[name]


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]
