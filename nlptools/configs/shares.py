"""The share of the input that a process reads: options of all commands that read lines."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from nlptools.configs import option
from nlptools.errors import UsageError

_ARRAY = "SLURM_ARRAY_TASK_"


def shard(text: str) -> tuple[int, int]:
    """The part and the number of parts that --shard names; `array`: the number of this task in a SLURM job array.

    Raises:
        UsageError: neither.
    """
    if text == "array":
        return _array_task()
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"not a shard: {text!r}, expected I/N with I from 1 to N, or array")
    return int(found[1]), int(found[2])


def _array_task() -> tuple[int, int]:
    """The place of this task in its job array, from 1, and the number of tasks."""
    names = ("ID", "MIN", "STEP", "COUNT")
    texts = [os.environ.get(_ARRAY + name, {"STEP": "1"}.get(name, "")) for name in names]
    if not all(re.fullmatch("[0-9]{1,9}", text) for text in texts):
        raise UsageError("--shard array needs a SLURM job array (sbatch --array=1-N)")
    number, first, step, count = map(int, texts)
    part = (number - first) // max(1, step) + 1
    if not 1 <= part <= count:
        raise UsageError(f"--shard array: task {number} is none of {count} tasks from {first}")
    return part, count


@dataclass(frozen=True)
class Shares:
    """Input options"""

    shard: str | None = option(
        None,
        "Read only part I of N (from 1) of the input lines. The outputs of all parts can be concatenated. array: take I and N"
        " from the SLURM job array.",
        metavar="I/N|array",
        check=shard,
    )
    skip_done: bool = option(
        False,
        "Continue after the lines that the output file already contains. If the output does not have one line per input"
        " line, skip the command if the file exists.",
        excludes=("force",),
    )
