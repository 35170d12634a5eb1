"""atomic.py: files under temporary names, and what becomes of them when a signal ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import environment

from nlptools.files import atomic

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def start(folder: Path, *args: str, **options: object) -> subprocess.Popen[bytes]:
    """A process of Python with pipes, in which no signal is ignored, whatever the suite has inherited."""
    return subprocess.Popen(
        [sys.executable, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment(),
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in ENDING],
        **options,  # type: ignore[call-overload]
    )


def library(folder: Path, code: str) -> subprocess.Popen[bytes]:
    """`code`, which says a word when it is ready for the signal."""
    head = "import os, signal, threading, time\nfrom pathlib import Path\nfrom nlptools.files import atomic\n"
    child = start(folder, "-c", head + code)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n", child.communicate()
    return child


def wait_for(folder: Path, child: subprocess.Popen[bytes], count: int) -> None:
    """Until `count` hidden files stand in `folder`."""
    start = time.monotonic()
    while len(list(folder.glob(".*"))) < count:
        assert time.monotonic() - start < 60, f"{names(folder)}: no {count} hidden files"
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)


# -- temporary names ------------------------------------------------------------------------------------------------------


def test_a_temporary_file_stands_beside_its_name(tmp_path):
    handle, name = atomic.temporary_file(tmp_path / "out")
    other, second = atomic.temporary_file(tmp_path / "out")
    os.close(other)
    with open(handle, "wb") as stream:
        stream.write(b"x")
    assert name != second and all(n.startswith(".out.") and len(n) == 13 for n in names(tmp_path))
    atomic.publish(name, tmp_path / "out")
    atomic.discard(second)
    atomic.discard(name)  # gone already
    assert names(tmp_path) == ["out"] and (tmp_path / "out").read_bytes() == b"x"


def test_a_name_that_is_taken_is_not_used(tmp_path, monkeypatch):
    drawn = iter([b"aaaa", b"aaaa", b"bbbb"])
    monkeypatch.setattr(os, "urandom", lambda _: next(drawn))
    first = atomic.temporary_directory(tmp_path / "out")
    second = atomic.temporary_directory(tmp_path / "out")
    assert names(tmp_path) == [".out.61616161", ".out.62626262"]
    atomic.discard(first)
    atomic.discard(second)
    assert names(tmp_path) == [] and not atomic.unfinished


def test_what_cannot_be_made_is_not_remembered(tmp_path):
    with pytest.raises(FileNotFoundError):
        atomic.temporary_file(tmp_path / "nowhere" / "out")
    assert not atomic.unfinished


def test_a_scratch_directory_goes_with_all_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError), atomic.scratch_directory("made-") as scratch:
        (scratch / "inner").mkdir()
        (scratch / "inner" / "file").write_text("x")
        raise RuntimeError
    assert names(tmp_path) == [] and not atomic.unfinished


def test_what_a_killed_process_leaves_is_swept_by_the_next(tmp_path):
    code = """
inside = atomic.temporary_directory("out")
Path(inside, "half").write_text("x")
handle, name = atomic.temporary_file("out")
child = os.fork()  # a worker, which ends with its parent
if not child:
    os.read(0, 1)
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""
    child = library(tmp_path, code)
    left = names(tmp_path)
    (tmp_path / ".out.20261130").write_text("x")
    (tmp_path / ".out.20261130").chmod(0o600)  # more likely a date than eight random characters
    (tmp_path / ".out.abcdef12").write_text("x")
    (tmp_path / ".out.abcdef12").chmod(0o644)  # somebody's own
    os.symlink(tmp_path / ".out.abcdef12", tmp_path / ".out.abcdef34")
    own = names(tmp_path)
    atomic.sweep(tmp_path / "out")
    assert names(tmp_path) == own, "the process still fills them"
    child.kill()
    child.communicate(timeout=30)
    atomic.write_whole(tmp_path / "other", "x")
    assert names(tmp_path) == [*own, "other"], "those of another name stay"
    atomic.write_whole(tmp_path / "out", "x")
    assert names(tmp_path) == [*sorted(set(own) - set(left)), "other", "out"]
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- signals --------------------------------------------------------------------------------------------------------------


def test_a_library_leaves_signals_alone(tmp_path):
    before = [signal.getsignal(number) for number in ENDING]
    handle, name = atomic.temporary_file(tmp_path / "out")
    os.close(handle)
    assert [signal.getsignal(number) for number in ENDING] == before
    atomic.discard(name)


def test_signals_are_handled_only_while_something_is_unfinished(tmp_path):
    code = """
atomic.remove_on_signals(signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
signal.signal(signal.SIGINT, mine := lambda *_: None)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
first, second = atomic.temporary_directory("a"), atomic.temporary_directory("b")
def now(): return [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
assert now() == [atomic._end, signal.SIG_IGN, mine]
atomic.discard(first)
assert now()[0] == atomic._end
signal.signal(signal.SIGTERM, mine)  # as training does, which puts back what it found
atomic.discard(second)
assert now() == [mine, signal.SIG_IGN, mine]
signal.signal(signal.SIGTERM, signal.SIG_DFL)
thread = threading.Thread(target=atomic.write_whole, args=("c", "x"))
thread.start(), thread.join()
assert now()[0] == signal.SIG_DFL
atomic.write_whole("d", "x")
assert now()[0] == signal.SIG_DFL
print("ready", flush=True)
"""
    child = library(tmp_path, code)
    assert child.communicate(timeout=30) == (b"", b"") and child.returncode == 0
    assert names(tmp_path) == ["c", "d"]


def test_files_and_directories_are_removed_and_others_stay(tmp_path):
    (tmp_path / "out").write_text("old")
    code = """
atomic.remove_on_signals(signal.SIGTERM)
inside = atomic.temporary_directory("made")
atomic.write_whole(Path(inside) / "whole", "x")
atomic.temporary_file(Path(inside) / "half")
atomic.temporary_file("out")
atomic.write_whole("done", "x")
print("ready", flush=True)
time.sleep(60)
"""
    child = library(tmp_path, code)
    assert len(names(tmp_path)) == 4
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=30) == (b"", b"") and child.returncode == -signal.SIGTERM
    assert names(tmp_path) == ["done", "out"] and (tmp_path / "out").read_text() == "old"


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_commands_of_the_process(tmp_path, number):
    code = """
import subprocess
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the command line does
atomic.remove_on_signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
line = "trap '' TERM INT HUP; sleep 60 & echo; wait"
command = subprocess.Popen(line, shell=True, stdout=subprocess.PIPE, start_new_session=True)
command.stdout.readline()
with atomic.with_group(command.pid):
    print("ready", command.pid, flush=True)
    time.sleep(60)
"""
    child = start(tmp_path, "-c", "import os, signal, time\nfrom nlptools.files import atomic\n" + code)
    assert child.stdout is not None
    group = int(child.stdout.readline().split()[1])
    child.send_signal(number)
    assert child.communicate(timeout=30)[1] == b"" and child.returncode == -number
    until = time.monotonic() + 30
    while any(state != "Z" for state in states(group)):
        assert time.monotonic() < until, "something of the command still runs"
        time.sleep(0.02)


def states(group: int) -> list[str]:
    """The states of the processes of a group; Z: it has ended, and nobody has asked how."""
    found = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
    return [fields[0] for fields in found if int(fields[2]) == group]


def test_a_forked_process_removes_nothing_of_its_parent(tmp_path):
    code = """
atomic.remove_on_signals(signal.SIGTERM)
handle, name = atomic.temporary_file("out")
reader, writer = os.pipe()
if not (child := os.fork()):
    os.write(writer, b"x")  # a signal before this is lost: Python forgets those that come while it forks
    time.sleep(60)
    os._exit(1)
os.read(reader, 1)
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
os.write(handle, b"whole")
atomic.publish(name, "out")
print("ready", flush=True)
"""
    child = library(tmp_path, code)
    assert child.communicate(timeout=30) == (b"", b"") and child.returncode == 0
    assert names(tmp_path) == ["out"] and (tmp_path / "out").read_bytes() == b"whole"


# -- commands ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ENDING)
def test_a_filter_that_a_signal_ends_leaves_nothing(tmp_path, number):
    child = start(tmp_path, "-m", "nlptools", "tokenize", "-o", "out.gz")
    assert child.stdin is not None
    child.stdin.write(b"a line\n")
    child.stdin.flush()
    wait_for(tmp_path, child, 1)
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (-number, b"", b"")  # a shell shows 128 + number
    assert names(tmp_path) == []


def test_two_files_go_while_the_old_ones_stay(tmp_path):
    """An array and its index, while a thread waits for more to read."""
    (tmp_path / "v.txt").write_text("2 2\ncat 1 2\ndog 2 1\n")
    (tmp_path / "v.npy").write_bytes(b"old")
    output = ("--unit", "word", "--index", "index.tsv", "-o", "v.npy")
    child = start(tmp_path, "-m", "nlptools", "embed", "v.txt", "--force", *output)
    assert child.stdin is not None
    child.stdin.write(b"cat\n")
    child.stdin.flush()
    wait_for(tmp_path, child, 2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (-signal.SIGINT, b"", b"")
    assert names(tmp_path) == ["v.npy", "v.txt"] and (tmp_path / "v.npy").read_bytes() == b"old"


def test_a_closed_pipe_leaves_no_other_file(tmp_path):
    """The vectors go to a pipe that nobody reads, the index to a file."""
    (tmp_path / "v.txt").write_text("2 2\ncat 1 2\ndog 2 1\n")
    child = start(
        tmp_path, "-m", "nlptools", "embed", "v.txt", "--unit", "word", "--index", "index.tsv", "--line-buffered"
    )
    assert child.stdin and child.stdout and child.stderr
    wait_for(tmp_path, child, 1)
    child.stdout.close()
    child.stdin.write(b"cat dog\n" * 9)
    child.stdin.flush()
    assert child.wait(timeout=30) == -signal.SIGPIPE
    with child.stdin, child.stderr:
        assert child.stderr.read() == b""
    assert names(tmp_path) == ["v.txt"]
