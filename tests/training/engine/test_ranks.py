"""What several processes of a run decide together."""

from __future__ import annotations

from pathlib import Path

import rank_programs
from running import ended, processes


def test_the_clock_of_the_main_process_decides_when_to_validate(tmp_path: Path, fork_server: list[str]) -> None:
    outputs = ended(processes(2, tmp_path, rank_programs.__file__, "clocks", command=fork_server))
    assert [out for out, _ in outputs] == ["4 7 8\n", "4 7 8\n"]
