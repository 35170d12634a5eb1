"""The batch scripts of the guide on training, with real processes and with stand-ins for SLURM's programs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import slurm_stand_in
import torch
from conftest import ROOT, environment
from running import rows

from nlptools.files import artifacts

GUIDE = ROOT / "nlptools/cli/manual/guides/training.md"
SRUN, TORCHRUN = re.findall(r"^```sh\n(#!/bin/bash\n#SBATCH.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
SIZES = {"LAYERS": 1, "HIDDEN": 8, "HEADS": 1, "CONTEXT": 4, "BATCH_SIZE": 2, "THREADS": 1, "DEVICE": "cpu"}
SIZES |= {"LOG_EVERY": 1, "STEPS": 1_000_000}


class Cluster:
    """A directory with a corpus, and programs that stand for SLURM's."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "corpus.txt").write_text("a b c d e f\n" * 50)
        (place / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{letter}\t1\n" for letter in "abcdef"))
        (place / "bin").mkdir()
        srun, nlptools = [sys.executable, slurm_stand_in.__file__], [sys.executable, "-m", "nlptools"]
        for name, words in {"srun": srun, "nlptools": nlptools, "scontrol": ["echo", "scontrol"]}.items():
            (place / "bin" / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            (place / "bin" / name).chmod(0o755)

    def submit(self, script: str, **sizes: object) -> subprocess.Popen[str]:
        """Start a script as a job of two tasks of one process each."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        changes = {
            "29500": str(port),
            "pieces.model": "vocab.tsv",
            "$(hostname)": "localhost",
            "--nproc-per-node 4": "",
        }
        for before, after in changes.items():
            script = script.replace(before, after)
        programs = os.pathsep.join([str(self.place / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {f"NLPTOOLS_TRAIN_LM_{name}": str(value) for name, value in {**SIZES, **sizes}.items()}
        job = {"SLURM_NTASKS": "2", "SLURM_NNODES": "2", "SLURM_JOB_ID": str(port), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.place,
            env=environment(**own, **job, PATH=programs),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def steps(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return max(row.get("step", 0) for row in rows(self.place / "lm"))
        return 0

    def stop_after_a_step(self, job: subprocess.Popen[str]) -> None:
        """Wait for another step of the run, then send SIGTERM to `srun`."""
        before, until = self.steps(), time.monotonic() + 120
        while self.steps() <= before:
            assert job.poll() is None and time.monotonic() < until, job.communicate()
            time.sleep(0.05)
        [srun] = [pid for pid in slurm_stand_in.descendants({job.pid}) if b"slurm_stand_in" in command_line(pid)]
        os.kill(srun, signal.SIGTERM)


def command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.slow
def test_srun(cluster: Cluster) -> None:
    """A job that is stopped is queued again, and one that is finished is not."""
    job = cluster.submit(SRUN)
    cluster.stop_after_a_step(job)
    out, err = job.communicate(timeout=120)
    assert out.startswith("scontrol requeue "), err
    done = cluster.steps()
    assert f"stopped by SIGTERM after step {done}, everything is saved in lm\n" in err
    assert err.count("nlptools train-lm: ") == 1, "the main process alone reports the end"
    out, err = cluster.submit(SRUN, STEPS=done + 2).communicate(timeout=120)
    assert (out, cluster.steps()) == ("", done + 2), err


@pytest.mark.slow
def test_torchrun(cluster: Cluster) -> None:
    out, err = cluster.submit(TORCHRUN.replace("11h30m", "1s")).communicate(timeout=240)
    assert out.startswith("status\tto be continued\nscontrol requeue "), err
    assert "Traceback" not in err and "stopped by time limit" in err
    job = cluster.submit(TORCHRUN)
    cluster.stop_after_a_step(job)
    out, err = job.communicate(timeout=240)
    assert out.startswith("status\tto be continued\nscontrol requeue "), err
    done = cluster.steps()
    assert f"stopped by SIGTERM after step {done}, everything is saved in lm\n" in err
    out, err = cluster.submit(TORCHRUN, STEPS=done + 2).communicate(timeout=240)
    assert (out, cluster.steps()) == ("status\tfinished\n", done + 2), err


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_a_machine_that_is_lost_is_done_without(tmp_path: Path) -> None:
    """Two machines train; one is killed, and torchrun starts the run again on the other one, with the same batches."""
    (tmp_path / "corpus.txt").write_text("".join(f"a b c d e f {'abc'[i % 3]}\n" for i in range(300)))
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{letter}\t1\n" for letter in "abcdef"))
    # half of the joint batch at a time: a sum of two gradients has one value in any number of processes
    sizes = {**SIZES, "GLOBAL_BATCH": 8, "BATCH_SIZE": 4, "SAVE_EVERY": 20, "STEPS": 400}
    options = [f"--{name.lower().replace('_', '-')}={value}" for name, value in sizes.items()]
    train = ["nlptools", "train-lm", "-t", "vocab.tsv", *options, "corpus.txt", "-o"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    elastic = {"rdzv-backend": "c10d", "rdzv-endpoint": f"localhost:{port}", "local-addr": "127.0.0.1", "nnodes": "1:2"}
    elastic |= {"rdzv-conf": "last_call_timeout=15,keep_alive_interval=1,keep_alive_max_attempt=2", "max-restarts": "3"}
    launcher = ["torch.distributed.run", *(f"--{name}={value}" for name, value in elastic.items()), "-m"]

    def start(*command: str) -> subprocess.Popen[str]:
        words, log = [sys.executable, "-m", *command], tmp_path / "log"
        with log.open("a") as stream:
            return subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=stream, stderr=stream, text=True)

    machines, until = [start(*launcher, *train, "lm")], time.monotonic() + 120
    try:
        while not _listens(port):  # the first machine holds what both meet by
            assert machines[0].poll() is None and time.monotonic() < until
            time.sleep(0.05)
        machines.append(start(*launcher, *train, "lm"))
        while not (tmp_path / "lm/checkpoints/step-000040").is_dir():
            assert machines[0].poll() is None and time.monotonic() < until
            time.sleep(0.05)
        for pid in slurm_stand_in.descendants({machines[1].pid}):
            os.kill(pid, signal.SIGKILL)
        assert machines[0].wait(120) == 0
    finally:
        for machine in machines:
            machine.kill()
            machine.wait()
    said = (tmp_path / "log").read_text()
    for each in ("in 2 processes on 2 machines", "(host ", "continuing at step "):
        assert each in said
    assert [row["step"] for row in rows(tmp_path / "lm") if row["kind"] == "train"] == list(range(1, 401))
    assert start(*train, "alone").wait(120) == 0
    one, other = (artifacts.load_tensors(tmp_path / name / "model.safetensors") for name in ("lm", "alone"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
