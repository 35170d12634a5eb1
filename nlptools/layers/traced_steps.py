"""Decoding steps without Python: traced in TorchScript, and then begun by one call.

From step to step, only the number of past tokens changes. The operations that depend on it, or on a number in a tensor, are
functions in TorchScript (`compute.kernels.step_attention`, `scripted.Products`), so a trace of the model's own code is valid for
every step, with the same results. One step of the SmolLM 135M shape in int8 on two cores of an AMD EPYC of the third generation
takes 11 ms instead of 20, and tracing 170 ms.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.attention import FEW_QUERIES
from nlptools.compute.kernels.linear import Derived
from nlptools.compute.kernels.scripted import as_written
from nlptools.layers.cache import KeyValues, TracedKeyValues
from nlptools.layers.linear import traceable

AFTER = 16  # steps of a kind: from there on, tracing takes less time than it saves
MOST = 8  # kinds that are traced at a time; drafts of six tokens and fewer take six

Optionals = Sequence[Tensor | None]
Step = Callable[[Optionals, Optionals, Sequence[KeyValues]], Tensor]  # inputs, masks, caches -> hidden (B, T, D)


class TracedSteps(Derived):
    """The traced steps of a model. Copies and pickles begin without any."""

    def __init__(self) -> None:
        self._counts: Counter[object] = Counter()
        self._traced: dict[object, Callable[..., Tensor]] = {}
        self._refused: set[object] = set()

    def clear(self) -> None:
        """See `Derived`."""
        self._counts.clear()
        self._traced.clear()
        self._refused.clear()

    def __reduce__(self) -> tuple[type[TracedSteps], tuple[()]]:
        return TracedSteps, ()

    def run(
        self, model: nn.Module, step: Step, inputs: Optionals, masks: Optionals, caches: Sequence[KeyValues]
    ) -> Tensor | None:
        """The hidden states (B, T, D) of a step in inference; None: Python has to compute it.

        Steps of a kind agree in the first two dimensions of the first input, in the number of dimensions of each (None: it is
        missing), and in the layers that share a mask. `step` does the same operations in all of them.
        """
        first = inputs[0]
        if first is None or first.shape[1] > FEW_QUERIES or not caches[0].steps():
            return None
        distinct = {id(mask): mask for mask in masks if mask is not None}
        places = [*distinct]
        which = tuple(None if mask is None else places.index(id(mask)) for mask in masks)
        kind = (tuple(first.shape[:2]), tuple(None if each is None else each.dim() for each in inputs), which)
        self._counts[kind] += 1
        if kind not in self._traced and not self._is_worth_it(kind):
            return None
        used, T = torch.tensor(caches[0].size), first.shape[1]
        buffers = [cache.with_slots(T) for cache in caches]
        given = [each for each in (*inputs, *distinct.values(), used, *buffers) if each is not None]
        with as_written():
            if kind not in self._traced:
                self._trace(model, _Traced(step, [each is None for each in inputs], which), kind, given)
            if kind in self._traced:
                return self._traced[kind](*given)
        for cache in caches:
            cache.forget(T)
        return None

    def _is_worth_it(self, kind: object) -> bool:
        """Whether to trace steps of a kind; it may take the place of a rarer one."""
        rarest = min(self._traced, key=self._counts.__getitem__) if len(self._traced) == MOST else None
        least = AFTER + (0 if rarest is None else self._counts[rarest])
        if kind in self._refused or self._counts[kind] <= least:
            return False
        self._traced.pop(rarest, None)
        return True

    def _trace(self, model: nn.Module, traced: _Traced, kind: object, given: Sequence[Tensor]) -> None:
        """Trace steps of a kind, if that is possible."""
        with warnings.catch_warnings(), traceable(model) as products:
            warnings.simplefilter("ignore")  # the end of TorchScript, and sizes that become constants
            traced.products = nn.ModuleList(products)
            try:
                self._traced[kind] = torch.jit.trace(traced, tuple(given), check_trace=False)  # type: ignore[no-untyped-call]
            except (AttributeError, RuntimeError):
                self._refused.add(kind)


class _Traced(nn.Module):
    """The module to trace. It contains the products, because packed weights cannot be constants of a trace."""

    def __init__(self, step: Step, missing: Sequence[bool], which: Sequence[int | None]) -> None:
        """`missing`: inputs that are None. `which`: the mask of each layer, among the distinct ones."""
        super().__init__()
        self.step, self.missing, self.which = step, missing, which

    def forward(self, *given: Tensor) -> Tensor:
        """Inputs, distinct masks, the number of slots in use, and the buffers of all layers -> hidden (B, T, D)."""
        each = iter(given)
        inputs = [None if missing else next(each) for missing in self.missing]
        distinct = [next(each) for _ in {*self.which} - {None}]
        used, masks = next(each), [None if place is None else distinct[place] for place in self.which]
        return self.step(inputs, masks, [TracedKeyValues(used, buffer) for buffer in each])
