"""Several processes of which one is killed: the others name it, and end with the status of a run that can go on."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest
from running import processes, rows

from nlptools import errors
from nlptools.compute import cluster

TALK = """
import os, signal, sys, time
from nlptools.compute import backend
from nlptools import cli, configs
from nlptools.errors import Stopped
here = backend.Backend.detect(configs.Compute(device="cpu", precision="fp32", threads=1))
try:
    while True:
        here.sum([1.0])
        here.broadcast({"step": 1})
        print("talks", flush=True)
        time.sleep(0.01)
        if os.environ["RANK"] == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGKILL)
except Stopped as error:
    print(error, file=sys.stderr)
    here.close()
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("killed", [0, 2])
def test_the_rank_that_ended_is_named(tmp_path: Path, fork_server: list[str], killed: int) -> None:
    (tmp_path / "talk.py").write_text(TALK)
    started = processes(3, tmp_path, "talk.py", killed, command=fork_server)
    for rank, process in enumerate(started):
        out, err = process.communicate(timeout=60)
        assert out.startswith("talks\n")
        if rank == killed:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode == 75, err
            assert f"rank {rank}: the connection to rank {killed} (host {socket.gethostname()}) is lost" in err


@pytest.mark.sampled(law="signals and failures")
def test_a_run_of_two_processes_of_which_one_is_killed_goes_on(tmp_path: Path, fork_server: list[str]) -> None:
    (tmp_path / "train.txt").write_text("a b c d e f\n" * 50)
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{letter}\t1\n" for letter in "abcdef"))
    args = ("train-lm", "-t", "vocab.tsv", "--layers", "1", "--hidden", "8", "--heads", "1",
            "--context", "4", "--batch-size", "2", "--threads", "1", "--device", "cpu", "--log-every", "1",
            "--save-every", "5", "-o", "lm", "train.txt")  # fmt: skip
    main, other = processes(2, tmp_path, *args, "--steps", "1000000", command=fork_server)
    while not (tmp_path / "lm/checkpoints/step-000005").is_dir():
        assert main.poll() is None
        time.sleep(0.02)
    other.kill()
    _, err = main.communicate(timeout=60)
    other.communicate()
    assert main.returncode == 75, err
    assert (
        f"train-lm: rank 0: the connection to rank 1 (host {socket.gethostname()}) is lost\n  hint: the same command"
        in err
    )
    assert "internal error" not in err and not (tmp_path / "lm/.lock").exists()
    step = max(int(path.name[5:]) for path in (tmp_path / "lm/checkpoints").glob("step-*"))
    again = processes(2, tmp_path, *args, "--steps", str(step + 3), command=fork_server)
    for process in again:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert [row["step"] for row in rows(tmp_path / "lm")] == list(range(1, step + 4))


def test_joining_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.Unavailable, match=r"rank 0 cannot join the other processes: .*MASTER_ADDR"):
        cluster.join(torch.device("cpu"), 0, 2)
    assert "MASTER_ADDR" not in os.environ
