"""Devices, precisions, threads and processes are found as the environment says, and refused when they are not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from nlptools import environment, errors
from nlptools.compute import backend, precision, processor
from nlptools.compute.backend import Backend
from nlptools.configs import Compute

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_ID",
             "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_CPUS_PER_TASK",
             "SLURM_LAUNCH_NODE_IPADDR", "SLURM_STEP_TASKS_PER_NODE", "NLPTOOLS_EMULATE_BF16",
             "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID")  # fmt: skip


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_one_process_without_a_launcher() -> None:
    assert environment.ranks() == (0, 0, 1)


def test_ranks_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "5"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    assert environment.ranks() == (5, 1, 8)


def test_ranks_from_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"STEP_ID": "0", "STEP_NUM_TASKS": "4", "PROCID": "3", "LOCALID": "1", "JOB_ID": "123456",
            "LAUNCH_NODE_IPADDR": "10.0.0.7", "STEP_TASKS_PER_NODE": "2(x2)"}  # fmt: skip
    for name in ("MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"):  # so that what is set here is taken back
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    for name, value in said.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert environment.ranks() == (3, 1, 4)
    assert os.environ["MASTER_ADDR"] == "10.0.0.7" and os.environ["LOCAL_WORLD_SIZE"] == "2"
    assert os.environ["MASTER_PORT"] == str(20000 + 123456 % 20000)
    # a batch script by itself is one process
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert environment.ranks() == (0, 0, 1)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WORLD_SIZE", "two"),
        ("RANK", ""),
        ("LOCAL_RANK", "-1"),
        ("SLURM_STEP_NUM_TASKS", "2x"),
        ("LOCAL_WORLD_SIZE", "x"),
    ],
)
def test_wrong_numbers_of_the_launcher(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    if variable != "SLURM_STEP_NUM_TASKS":
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv(variable, value)
    with pytest.raises(errors.UsageError, match=f"^environment variable {variable}: '{value}' is not a whole number$"):
        Backend.detect(Compute(device="cpu"))


def test_processes_on_one_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = environment.available_threads()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(whole))
    assert environment.available_threads() == 1
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert environment.available_threads() == 1


def test_threads_are_as_omp_num_threads_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "available_cores", lambda: 8)
    for value, expected in (("", 8), ("3", 3), ("4,2", 4), ("64", 8), ("0", 1), ("many", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert environment.available_threads() == expected, value
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert Backend.detect(Compute(device="cpu", precision="fp32")).threads == 1
    assert Backend.detect(Compute(device="cpu", precision="fp32", threads=2)).threads == 2, "the flag comes first"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # torchrun sets 1 for each of several processes
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert environment.available_threads() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert environment.available_threads() == 2


def test_cores_are_those_of_the_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5}, raising=False)
    assert environment.available_cores() == environment.available_threads() == 1


def test_auto_never_emulates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "cpuinfo", lambda key: "fpu sse avx512f avx512_vnni")
    cpu = torch.device("cpu")
    assert backend._precision("auto", cpu) == ("fp32", "device")
    with pytest.raises(errors.Unavailable, match="no bf16"):
        backend._precision("bf16", cpu)
    with pytest.raises(errors.Unavailable, match="CUDA"):
        backend._precision("fp16", cpu)
    for flag in ("amx_bf16", "avx512_bf16"):
        monkeypatch.setattr(processor, "cpuinfo", lambda key, flag=flag: f"fpu {flag} sse")
        for faster in ("fp32", "bf16"):
            monkeypatch.setattr(backend, "fastest", lambda faster=faster: faster)
            assert backend._precision("auto", cpu) == (faster, "measurement")
            assert backend._precision("bf16", cpu) == ("bf16", "option")
            assert backend._precision("fp32", cpu) == ("fp32", "option")


@pytest.mark.parametrize(("rates", "expected"), [((160, 84), "fp32"), ((231, 436), "bf16")])
def test_the_measured_format_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rates: tuple[int, int], expected: str
) -> None:
    monkeypatch.setenv("NLPTOOLS_EMULATE_BF16", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(precision, "measure", lambda: dict(zip(("fp32", "bf16"), rates, strict=True)))
    found = Backend.detect(Compute(device="cpu"))
    assert found.precision == expected
    assert {"precision": expected, "precision_by": "measurement"}.items() <= found.describe().items()
    model = torch.nn.Module()
    model.runs_in_16_bits = True
    assert found.for_model(model) is found
    model.runs_in_16_bits = False
    in_fp32 = found.for_model(model).describe()
    assert (in_fp32["precision"], in_fp32["precision_by"]) == ("fp32", "model" if expected == "bf16" else "measurement")


def test_a_continued_run_keeps_its_format(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    here = Backend(torch.device("cpu"), "fp32", precision_by="measurement")
    assert here.continuing({}) is here
    monkeypatch.setattr(processor, "cpuinfo", lambda key: "fpu avx512_bf16")
    kept = here.continuing({"precision": "bf16", "precision_by": "measurement"})
    assert (kept.precision, kept.precision_by) == ("bf16", "measurement")
    old = here.continuing({"precision": "bf16"})  # a record that does not say why
    assert (old.precision, old.precision_by) == ("bf16", "run") and capsys.readouterr().err == ""
    monkeypatch.setattr(processor, "cpuinfo", lambda key: "fpu")
    assert here.continuing({"precision": "bf16"}).precision == "bf16"
    assert "the run began in bf16, which cpu has no instructions for here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("AuthenticAMD", "fpu avx2 avx512bw avx512_bf16", "bf16"),
        ("AuthenticAMD", "fpu avx2", "ieee"),
        ("AuthenticAMD", "fpu avx512bw amx_tile amx_bf16", "ieee"),  # there it would not be float32
        ("GenuineIntel", "fpu avx512bw", "ieee"),
        ("", "", "ieee"),
    ],
)
def test_who_multiplies_float32_matrices(
    monkeypatch: pytest.MonkeyPatch, float32_products: Any, vendor: str, flags: str, expected: str
) -> None:
    monkeypatch.setattr(processor, "cpuinfo", {"vendor_id": vendor, "flags": flags}.__getitem__)
    Backend(torch.device("cpu")).prepare_training()
    assert float32_products.fp32_precision == expected


@pytest.mark.parametrize(("M", "K", "N"), [(1, 8, 8), (3, 17, 5), (64, 512, 96), (300, 768, 256), (7, 4096, 33)])
def test_training_in_fp32_multiplies_in_float32(float32_products: Any, M: int, K: int, N: int) -> None:
    Backend(torch.device("cpu")).prepare_training()
    random = torch.Generator().manual_seed(M)
    x, w, b = (torch.randn(*shape, generator=random) for shape in ((M, K), (K, N), (N,)))
    batch = torch.randn(5, K, M, generator=random)
    close = {"rtol": 0, "atol": 1e-5 * K**0.5}  # bf16 would be hundreds of times as far off
    torch.testing.assert_close((x @ w).double(), x.double() @ w.double(), **close)
    torch.testing.assert_close(torch.addmm(b, x, w).double(), torch.addmm(b.double(), x.double(), w.double()), **close)
    torch.testing.assert_close(torch.bmm(x.expand(5, -1, -1), batch).double(), x.double() @ batch.double(), **close)


@pytest.mark.parametrize(
    ("name", "kind"), [("tpu", errors.UsageError), ("cuda:x", errors.UsageError), ("mps", errors.Unavailable)]
)
def test_devices_that_are_not_there(name: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        backend._device(name, 0)


def test_the_random_state_comes_back() -> None:
    here = Backend.detect(Compute(device="cpu", precision="fp32", threads=1))
    here.seed(3)
    state, first = here.random_state(), torch.rand(4)
    torch.rand(10)
    here.set_random_state(state)
    assert torch.equal(torch.rand(4), first)
    assert here.sum([1.5, 2.0]) == [1.5, 2.0] and here.broadcast({"a": 1}) == {"a": 1} and here.is_main
    assert here.describe()["precision"] == "fp32" and here.peak_memory() > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_training_on_a_gpu_equals_training_on_the_cpu(tmp_path, english) -> None:  # type: ignore[no-untyped-def]
    import json

    import nlptools
    from nlptools.configs import Training
    from nlptools.configs.architectures.transformer import TransformerOptions

    (tmp_path / "t.txt").write_text("\n".join(english[:300]) + "\n")
    words = sorted({word for line in english[:300] for word in line.split()})
    (tmp_path / "v.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{word}\t1\n" for word in words))
    settings = TransformerOptions(tokenizer=str(tmp_path / "v.tsv"), layers=2, hidden=32, heads=2, context=32)
    losses = []
    for device in ("cpu", "cuda"):
        run = Training(output=str(tmp_path / device), steps=10, log_every="1")
        nlptools.train_lm([str(tmp_path / "t.txt")], settings, run, Compute(device=device, precision="fp32"))
        rows = [json.loads(line) for line in (tmp_path / device / "log.jsonl").read_text().split("\n") if line]
        losses.append([row["loss"] for row in rows if row["kind"] == "train"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
