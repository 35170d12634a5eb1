"""Devices, precisions, threads and processes: no other module asks for them.

Data-parallel processes sum their gradients explicitly (`Backend.sum_gradients`). Losses are sums divided by global counts, so
the result is the gradient of the joint batch, also where processes have batches of different sizes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from nlptools.compute import memory
from nlptools.json_types import Json, JsonObject

memory.prepare()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from safetensors.torch import load, save  # noqa: E402

from nlptools import environment, messages  # noqa: E402
from nlptools.compute import cluster, contention, processor  # noqa: E402
from nlptools.compute.precision import fastest  # noqa: E402
from nlptools.compute.processor import has_bf16, has_slow_mkl  # noqa: E402
from nlptools.configs import Compute  # noqa: E402
from nlptools.errors import NlptoolsError, Unavailable, UsageError, exit_status  # noqa: E402

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
Model = TypeVar("Model")  # a protocol of modules
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_BUCKET = 1 << 25  # elements that are summed over processes in one message


class RunsIn16Bits(Protocol):
    """A model that knows whether a CPU can run it in 16 bits."""

    @property
    def runs_in_16_bits(self) -> bool: ...


@dataclass(frozen=True)
class Backend:
    """Where and how this process computes."""

    device: torch.device
    precision: str = "fp32"  # fp32, bf16, fp16
    threads: int = 1
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    precision_by: str = "option"  # why this precision: option, measurement, device, model, run (which it continues)

    @classmethod
    def detect(cls, compute: Compute | None = None) -> Backend:
        """The backend that `compute` asks for on this machine; joins the other processes under torchrun or SLURM.

        Raises:
            Unavailable: no such device, the device lacks the precision, or there are no other processes to join.
        """
        compute = compute or Compute()
        rank, local_rank, world_size = environment.ranks()
        device = _device(compute.device, local_rank)
        threads = compute.threads or environment.available_threads()
        torch.set_num_threads(threads)
        memory.give_threads_arenas(threads)
        if device.type == "cpu":
            contention.begin(threads)
        precision, precision_by = _precision(compute.precision, device)
        if compute.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
        if world_size > 1 and not dist.is_initialized():
            cluster.join(device, rank, world_size)
        backend = cls(device, precision, threads, rank, local_rank, world_size, precision_by)
        if compute.precision == "auto" and backend.sum([float(precision == "bf16")])[0] < world_size:
            return replace(backend, precision="fp32")  # one type for all processes, whatever each has measured
        return backend

    def for_model(self, *models: RunsIn16Bits) -> Backend:
        """This backend; in fp32 if it computes on a CPU and one of the models cannot be run in 16 bits there."""
        if self.device.type != "cpu" or self.precision == "fp32" or all(m.runs_in_16_bits for m in models):
            return self
        return replace(self, precision="fp32", precision_by="model")

    def continuing(self, before: Mapping[str, Json]) -> Backend:
        """This backend in the precision of the run that it continues, where `before` is what `describe` gave then.

        A device without bf16 instructions emulates bf16, which is slow.
        """
        precision = before.get("precision")
        if precision not in ("fp32", "bf16"):
            return self
        if precision == "bf16" != self.precision and not _has_bf16(self.device):
            messages.warn(
                f"the run began in bf16, which {self.device.type} has no instructions for here: it continues slowly"
            )
        return replace(self, precision=precision, precision_by=str(before.get("precision_by", "run")))

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights and activations that are computed with."""
        return _DTYPES[self.precision]

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports."""
        return self.rank == 0

    @property
    def exact_rows(self) -> bool:
        """Whether a row of a batch has the same numbers as alone, where all rows have one length: on a CPU in float32, and in
        bfloat16 nearly so. There, batches of equal lengths also need no padding. A GPU is faster with few large batches.
        """
        return self.device.type == "cpu"

    def put(self, array: np.ndarray) -> torch.Tensor:
        """A tensor on the device; pinned and asynchronous on a GPU."""
        contention.look()
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    # -- modules --------------------------------------------------------------------------------------------------

    def prepare_training(self) -> None:
        """Choose the kernels that training computes with. Raises Unavailable for fp16, which needs scaled losses."""
        if self.precision == "fp16":
            raise Unavailable("training in fp16 is not supported", hint="use --precision bf16 or fp32")
        _choose_float32_products()

    def for_inference(self, module: Model) -> Model:
        """`module` on the device, in the working type, without gradients."""
        moved = cast(torch.nn.Module, module).to(device=self.device, dtype=self.dtype)
        return cast(Model, moved.requires_grad_(False).eval())

    def compiled(self, module: torch.nn.Module) -> Callable[..., dict[str, torch.Tensor]]:
        """`module`, compiled.

        Raises:
            Unavailable: there is no C++ compiler for the CPU.
        """
        if self.device.type == "cpu" and not _has_compiler():
            raise Unavailable("--compile needs a C++ compiler on CPU", hint="install g++, or leave --compile out")
        logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # users can do nothing about graph breaks
        return torch.compile(module, dynamic=False)

    # -- processes: each method raises Stopped when another process has ended ---------------------------------------

    def sum(self, values: list[float]) -> list[float]:
        """Each of `values` summed over all processes; the identity in a single one."""
        if self.world_size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        with self._communication():
            dist.all_reduce(tensor)
        return [float(v) for v in tensor.tolist()]

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Sum the gradients over all processes, in messages of up to 128 MiB."""
        if self.world_size == 1:
            return
        bucket: list[torch.Tensor] = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            if sum(g.numel() for g in bucket) >= _BUCKET:
                self._sum_bucket(bucket)
                bucket = []
        if bucket:
            self._sum_bucket(bucket)

    def _sum_bucket(self, gradients: list[torch.Tensor]) -> None:
        flat = torch.cat([g.reshape(-1) for g in gradients])
        with self._communication():
            dist.all_reduce(flat)
        for gradient, part in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def broadcast(self, value: T | None) -> T:
        """The main process's `value` (made of plain JSON types) in every process."""
        box = [value]
        if self.world_size == 1:
            return cast(T, value)
        with self._communication():
            dist.broadcast_object_list(box, src=0)
        return cast(T, box[0])

    @property
    def processes(self) -> str:
        """The number of processes and machines for a message, empty for one process; all processes call this together."""
        if self.world_size == 1:
            return ""
        machines = int(self.sum([float(self.local_rank == 0)])[0])
        where = messages.counted(machines, "machine")
        return f" in {messages.counted(self.world_size, 'process', 'processes')} on {where}"

    def first(self, compute: Callable[[], T]) -> T:
        """Call `compute` in the main process and return its result, made of plain JSON types, in every process.

        Raises:
            Any exception of `compute`, in the main process; NlptoolsError without a message in the others.
        """
        if self.world_size == 1:
            return compute()
        box: dict[str, Any] = {}
        error: Exception | None = None
        if self.is_main:
            try:
                box["value"] = compute()
            except Exception as problem:
                error, box["exit_code"] = problem, exit_status(problem)
        box = self.broadcast(box)
        if error is not None:
            raise error
        if "value" not in box:
            ended = NlptoolsError("")
            ended.exit_code = box["exit_code"]
            raise ended
        value: T = box["value"]
        return value

    def gather(self, tensors: Mapping[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        """The `tensors` of each process, on the CPU, in every process; in a single one they stay where they are."""
        if self.world_size == 1:
            return [dict(tensors)]
        own = torch.frombuffer(
            bytearray(save({k: v.contiguous().cpu() for k, v in tensors.items()})), dtype=torch.uint8
        )
        sizes = [int(size) for size in self.sum([float(len(own)) * (r == self.rank) for r in range(self.world_size)])]
        padded = torch.zeros(max(sizes), dtype=torch.uint8, device=self.device)
        padded[: len(own)] = own.to(self.device)
        parts = [torch.empty_like(padded) for _ in sizes]
        with self._communication():
            dist.all_gather(parts, padded)
        return [load(part[:size].cpu().numpy().tobytes()) for part, size in zip(parts, sizes, strict=True)]

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            with self._communication():
                dist.barrier()

    def _communication(self) -> AbstractContextManager[None]:
        return cluster.communication(self.rank)

    def close(self) -> None:
        """Leave the group of processes; in a `finally` clause, the other processes learn that an error ends this one."""
        if self.world_size > 1:
            cluster.leave(exit_status(sys.exc_info()[1]))

    # -- random numbers -------------------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Seed all generators; each process gets its own stream, so that dropout differs between them."""
        random.seed(seed)
        torch.manual_seed(seed + 1_000_003 * self.rank)

    def random_state(self) -> dict[str, torch.Tensor]:
        """The state of the generators that training draws from."""
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def set_random_state(self, state: dict[str, torch.Tensor]) -> None:
        """Go back to a state that `random_state` gave."""
        if "cpu" in state:
            torch.set_rng_state(state["cpu"])
        if "cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)

    # -- measuring ------------------------------------------------------------------------------------------------

    def peak_memory(self) -> int:
        """Bytes at the peak: of the GPU where there is one, else of this process."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def describe(self) -> JsonObject:
        """The conditions of a measurement, for records: device, precision, threads, versions."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else processor.name()
        return {
            "device": str(self.device),
            "hardware": name,
            "precision": self.precision,
            "precision_by": self.precision_by,
            "threads": self.threads,
            "processes": self.world_size,
            "torch": torch.__version__,
        }


def _choose_float32_products() -> None:
    """Let oneDNN multiply float32 matrices on AMD's processors with AVX-512, where MKL is half as fast.

    PyTorch has no word for that but the one that permits bf16, which oneDNN rounds to only where it has units for matrices
    (AMX). Products of 4,096 x 768 x 3,072 on two cores of an EPYC: 174 GFLOP/s by MKL, 330 by oneDNN, as exact. An LSTM
    trains 1.3 times as fast, an RNN that translates 1.2 times. Inference has its products packed.
    """
    if has_slow_mkl():
        with contextlib.suppress(AttributeError):  # a PyTorch before 2.9
            torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]


def _has_compiler() -> bool:
    import shutil

    return shutil.which(os.environ.get("CXX", "g++")) is not None or shutil.which("clang++") is not None


def _device(name: str, local_rank: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise UsageError(f"no such device: {name}, expected auto, cpu, cuda, cuda:N or mps")
    if name.startswith("cuda"):
        if not torch.cuda.is_available():
            raise Unavailable("no CUDA device is available", hint="use --device cpu")
        if name == "cuda":
            name = f"cuda:{local_rank}"
        if int(name[5:]) >= torch.cuda.device_count():
            raise Unavailable(f"no device {name}: there are {torch.cuda.device_count()}")
        torch.cuda.set_device(name)
    if name == "mps" and not torch.backends.mps.is_available():
        raise Unavailable("no MPS device is available", hint="use --device cpu")
    return torch.device(name)


def _precision(name: str, device: torch.device) -> tuple[str, str]:
    """The type that `--precision` asks for on this device, and why (see `Backend.precision_by`)."""
    if name == "auto":
        if not _has_bf16(device):
            return "fp32", "device"
        return (fastest(), "measurement") if device.type == "cpu" else ("bf16", "device")
    if name == "bf16" and not _has_bf16(device):
        message = f"{device.type} has no bf16 arithmetic here, and emulating it is slower than fp32"
        raise Unavailable(message, hint="use --precision auto")
    if name == "fp16" and device.type != "cuda":
        raise Unavailable("fp16 needs a CUDA device", hint="use --precision auto")
    return name, "option"


def _has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products in bfloat16."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and has_bf16()
