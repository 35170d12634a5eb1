"""Signals that stop a training run."""

from __future__ import annotations

import select
import signal
import subprocess
import sys

import pytest
from conftest import environment

# an operation in C during which Python calls no handlers of signals
CODE = """
import hashlib, os, sys
from nlptools.training.engine.stop import Stop
with Stop() as stop:
    print("running", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 4_000_000)
    print(stop.requested, stop.reason, flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 400_000)
print("saved", flush=True)
"""


@pytest.fixture
def child():
    process = subprocess.Popen(
        [sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), bufsize=0
    )
    assert process.stdout.readline() == b"running\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.sampled(law="signals and failures")
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (signal.SIGINT, b"stopping after this step; press Ctrl-C again to quit without saving\n"),
        (signal.SIGTERM, b"stopping after this step; a second signal quits without saving\n"),
    ],
)
def test_a_signal_is_acknowledged_at_once(child, number, text):
    child.send_signal(number)
    assert child.stderr.readline() == text
    assert not select.select([child.stdout], [], [], 0)[0], "the operation has ended before the answer"
    out, err = child.communicate(timeout=60)
    assert out.decode().split("\n")[:2] == [f"True {signal.Signals(number).name}", "saved"]
    assert (child.returncode, err) == (0, b"")


def test_a_second_signal_ends_the_process(child):
    child.send_signal(signal.SIGINT)
    child.stderr.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (-signal.SIGINT, b"", b"")
