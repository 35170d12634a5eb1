"""A stand-in for `srun`: `slurm_stand_in.py COMMAND...` starts SLURM_NTASKS tasks, each as SLURM starts it.

SIGTERM to it goes to all processes of the tasks, as `--signal` has SLURM do. It ends with the largest status of a task.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys


def descendants(parents: set[int]) -> set[int]:
    """These processes, and all that they have started, in whatever session."""
    lines = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout.split("\n")
    pairs = [tuple(map(int, line.split())) for line in lines if line]
    found = set(parents)
    while more := {pid for pid, parent in pairs if parent in found} - found:
        found |= more
    return found


def main(command: list[str]) -> int:
    tasks = int(os.environ["SLURM_NTASKS"])
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}
    step["SLURM_STEP_TASKS_PER_NODE"] = str(tasks)
    started = []

    def passed_on(number: int, frame: object) -> None:
        for pid in descendants({process.pid for process in started}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    signal.signal(signal.SIGTERM, passed_on)
    for task in range(tasks):
        own = {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task), "SLURM_NODEID": str(task)}
        started.append(subprocess.Popen(command, env={**os.environ, **step, **own}))
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
