"""A run that is stopped after any of its steps, and continued, ends as one that never stopped, bit for bit."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random

import pytest
from conftest import Record, within
from stopped_toys import RUNS, command, end, stopped
from toy_trainers import data

STEPS = 50


def different(place: Path, name: str, steps: list[int]) -> list[int]:
    """The steps after which a run of the trainer was stopped and, continued, ended otherwise."""
    data(place)
    run = place / "stopped"
    assert within(place, *command(name, run, STEPS)).code == 0
    whole, found = end(run), []
    for step in steps:
        shutil.rmtree(run)
        stopped(place, name, step, STEPS)
        done = within(place, *command(name, run, STEPS))
        if done.code != 0 or end(run) != whole:
            found.append(step)
    return found


def test_one_step_of_one_trainer(tmp_path: Path) -> None:
    month = Random(time.strftime("%Y-%m"))
    name = month.choice([*RUNS])
    assert not different(tmp_path, name, [month.randrange(1, STEPS)]), name


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_every_step_of_every_trainer(tmp_path: Path, name: str, record_property: Record) -> None:
    record_property("count", STEPS - 1)
    assert not different(tmp_path, name, list(range(1, STEPS)))
