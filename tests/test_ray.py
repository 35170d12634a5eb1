"""Jobs on a Ray cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, environment
from tiny_encoders import encoder_bundle

import nlptools

pytest.importorskip("ray", reason="needs the extra ray")

SCRIPT = ROOT / "examples/ray/embed.py"
LINES = [f"the cat sat {'on ' * (i % 5)}{i}" for i in range(600)]
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",  # on a busy machine
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two nodes on this machine."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        node = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
        nodes = Cluster(initialize_head=True, head_node_args=node)
        try:
            nodes.add_node(**node)
            yield nodes.address
        finally:
            nodes.shutdown()


def actors() -> list[int]:
    """The processes of actors that compute parts."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if re.match(rb"ray::MapWorker\(MapBatches\(_Actor\)", path.read_bytes()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def rows(directory: Path) -> list[dict[str, object]]:
    """The rows of all parts, in order."""
    parts = sorted(directory.glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text().split("\n") if line]


@pytest.mark.slow
def test_a_worker_is_killed(tmp_path: Path, cluster: str) -> None:
    """No row is lost or written twice, bad rows have their errors, and a second start skips what is complete."""
    encoder_bundle(tmp_path / "model")
    lines = [json.dumps({"id": i, "text": line}) for i, line in enumerate(LINES)]
    lines[17], lines[400] = '{"id": 17, "text": 5}', "{"
    (tmp_path / "corpus.jsonl").write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, str(SCRIPT), "corpus.jsonl", "-m", "model", "-o", "out", "--part-bytes", "300"]
    command += ["--address", cluster]
    job = subprocess.Popen(
        command, cwd=tmp_path, env=environment(RAY_DATA_DISABLE_PROGRESS_BARS="1"), stdout=-1, stderr=-1, text=True
    )
    until = time.monotonic() + 600
    while len(list(tmp_path.glob("out/part-*.json"))) < 5:
        if job.poll() is not None or time.monotonic() > until:
            job.kill()
            pytest.fail(f"the job does not begin: {job.communicate()}")
        time.sleep(0.01)
    killed = actors()[0]
    os.kill(killed, signal.SIGKILL)
    out, err = job.communicate(timeout=600)
    parts = len(list(tmp_path.glob("out/part-*.json")))
    assert job.returncode == 1, (out, err)
    # Ray reports the dead actor on stdout, before or after the counts
    assert f"600 rows, 2 with errors, {parts} parts, 0 complete before" in out.split("\n")
    found = rows(tmp_path / "out")
    assert [row.get("id") for row in found] == [*range(400), None, *range(401, 600)]
    assert found[17]["error"] == "no text under the key 'text'" and "not valid JSON" in str(found[400]["error"])
    good = [row for row in found if "error" not in row]
    expected = nlptools.load(tmp_path / "model", precision="fp32").embed([str(row["text"]) for row in good])
    np.testing.assert_allclose(np.array([row["embedding"] for row in good]), expected, atol=1e-6)
    for part in (tmp_path / "out").glob("part-00000[1-3].json"):
        part.unlink()
    again = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert again.stdout == f"600 rows, 2 with errors, {parts} parts, {parts - 3} complete before\n", again.stderr
    assert rows(tmp_path / "out") == found
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_a_job_that_cannot_begin_ends(tmp_path: Path, cluster: str) -> None:
    (tmp_path / "corpus.txt").write_text("a\n")
    command = [sys.executable, str(SCRIPT), "corpus.txt", "-m", "missing", "-o", "out", "--address", cluster]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (66, "")
    assert "embed.py: missing: no such model directory" in done.stderr
