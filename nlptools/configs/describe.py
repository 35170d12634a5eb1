"""Settings of `describe`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option


@dataclass(frozen=True)
class Describe:
    """Describe options"""

    to: str = option("text", "Output format.", choices=("text", "json"), was={"--json": "--to json"})
    status: bool = option(
        False,
        "Show only the state of the training run in MODEL, also as exit status: 0 finished, 75 to be continued, 73 running,"
        " 78 damaged.",
        excludes=("to json",),
    )
    verify: bool = option(
        False,
        "Only check the files of MODEL and of its checkpoints against the sums in their manifests, and list them.",
        excludes=("status", "to json"),
    )
