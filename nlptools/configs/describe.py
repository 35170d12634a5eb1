"""Settings of `describe`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option


@dataclass(frozen=True)
class Describe:
    """Describe options"""

    json: bool = option(False, "Write a JSON object.")
