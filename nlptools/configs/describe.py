"""Settings of `describe`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option


@dataclass(frozen=True)
class Describe:
    """Describe options"""

    to: str = option("text", "Output format.", choices=("text", "json"), was={"--json": "--to json"})
