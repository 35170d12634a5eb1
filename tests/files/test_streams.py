"""streams.py: lines as they are in files, compression, parallel lines, outputs that are whole or not there."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from conftest import ROOT, environment, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.configs import Common
from nlptools.configs.units import size
from nlptools.errors import DataError, InputError, OutputError, StreamError, UsageError
from nlptools.files import atomic, compression, streams
from nlptools.files.streams import LineWriter


def put(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def read(path: str, **options) -> list[str]:
    return list(streams.lines(path, **options))


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\na", ["", "", "a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n\rc\n\r\r\n", ["a\rb", "\rc", "\r"]),
        (b"a\r", ["a"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"\xef\xbb\xbf", []),
        (b"a\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("a\u2028b\u0085c\x0bd\x0ce\x1c\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce\x1c"]),
        (b"a\0b\n", ["a\0b"]),
        ("日本\nü\n".encode(), ["日本", "ü"]),
    ],
)
def test_lines(tmp_path, data, lines):
    assert read(put(tmp_path / "f", data)) == lines


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.text(st.sampled_from("aü日\r\u2028 "), max_size=6), max_size=30), st.integers(1, 9), st.booleans())
def test_block_size_does_not_matter(tmp_path_factory, lines, size, last_newline):
    text = "\n".join(lines) + ("\n" if last_newline and lines else "")
    path = put(tmp_path_factory.getbasetemp() / "sizes", text.encode())
    whole = read(path)
    blocks = list(streams.blocks(path, size=size))
    assert [line for block in blocks for line in block.lines] == whole
    number = 1
    for block in blocks:
        assert (block.path, block.start) == (path, number)
        number += len(block.lines)
    expected = text.split("\n")
    if not expected[-1]:
        expected.pop()
    assert whole == [line.removesuffix("\r") for line in expected]


def test_a_line_longer_than_a_block(tmp_path):
    long = "x" * 100_000
    path = put(tmp_path / "f", f"a\n{long}\nb".encode())
    assert [line for block in streams.blocks(path, size=64) for line in block.lines] == ["a", long, "b"]


def test_a_character_on_a_block_boundary(tmp_path):
    path = put(tmp_path / "f", ("é" * 50 + "\n").encode() * 20)
    assert [line for block in streams.blocks(path, size=7) for line in block.lines] == ["é" * 50] * 20


def test_invalid_utf8_names_its_place(tmp_path):
    path = put(tmp_path / "f", b"fine\n" * 1000 + b"bad \xc3( here\n")
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value) == f"{path}:1001: invalid UTF-8 at byte 5 of the line (0xc3)"
    with pytest.raises(DataError, match=r":1001: invalid UTF-8 at byte 5 "):
        list(streams.blocks(path, size=16))
    assert read(path, errors="replace")[-1] == "bad \ufffd( here"
    assert read(path, errors="ignore")[-1] == "bad ( here"
    with pytest.raises(DataError, match=r":2: invalid UTF-8 at byte 1 "):
        read(put(tmp_path / "g", b"\xef\xbb\xbfok\n\xff"))
    with pytest.raises(DataError, match=r":1: invalid UTF-8 at byte 1 "):
        read(put(tmp_path / "h", "\ud800".encode("utf-8", "surrogatepass")))


# -- long lines ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def limit():
    """Sets the longest line that is read, for one test."""
    yield streams.limit_lines
    streams.limit_lines(streams.MAX_LINE)


def test_the_longest_line_is_the_default_of_the_option():
    assert size(Common().max_line) == streams.MAX_LINE == 64 << 20


@pytest.mark.parametrize("block", [1, 3, 16, 1 << 20])
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"a\nbb\nccccc\n", 0),
        (b"ccccc", 0),
        (b"cccccc", 1),
        (b"cccccc\na", 1),
        (b"a\nbb\ncccccc\nd\n", 3),
        (b"a\n\n\ncccccccccccccccccc", 4),
    ],
)
def test_a_line_beyond_the_limit(tmp_path, limit, data, place, block):
    limit(5)
    path = put(tmp_path / "f", data)
    if not place:
        assert [line for b in streams.blocks(path, size=block) for line in b.lines] == data.decode().split()
        return
    with pytest.raises(DataError, match="--max-line") as caught:
        list(streams.blocks(path, size=block))
    assert str(caught.value).startswith(f"{path}:{place}: a line of more than 5 bytes")


def test_other_ends_of_pieces_count_too(tmp_path, limit):
    limit(5)
    text8 = b"four five six\n" * 50
    for block in (1, 7, 4096):
        assert b"".join(streams.line_chunks(put(tmp_path / "f", text8), block, (b"\n", b" "))) == text8
    with pytest.raises(DataError, match=":2: a line of more than 5 bytes"):
        list(streams.line_chunks(put(tmp_path / "g", b"a b\nc eleven d\n"), 4096, (b"\n", b" ")))


def test_no_more_than_the_limit_is_held(tmp_path, limit):
    limit(1 << 20)
    path = str(tmp_path / "f.gz")
    with gzip.open(path, "wb") as packed:
        packed.write(b"a\n")
        for _ in range(64):
            packed.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=":2: a line of more than 1,048,576 bytes"):
            list(streams.blocks(path))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# -- files ------------------------------------------------------------------------------------------------------------

CODECS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture(params=[*CODECS, "zst"])
def packed(request):
    """A suffix and the function that compresses for it."""
    if request.param == "zst":
        return "zst", pytest.importorskip("zstandard").ZstdCompressor().compress
    return request.param, CODECS[request.param]


def test_compressed(tmp_path, packed):
    suffix, compress = packed
    data = "".join(f"line {i} ü\n" for i in range(50_000)).encode()
    path = put(tmp_path / f"f.{suffix}", compress(data))
    assert read(path) == data.decode().split("\n")[:-1]
    assert read(put(tmp_path / f"empty.{suffix}", compress(b""))) == []
    parts = b"".join(compress(b"%d\n" % i * 1000) for i in range(9))  # as cat makes of several files
    assert read(put(tmp_path / f"parts.{suffix}", parts)) == [str(i) for i in range(9) for _ in range(1000)]


def test_damaged_compressed_files(tmp_path, packed):
    suffix, compress = packed
    whole = compress(os.urandom(200_000).hex().encode() + b"\n")
    path = put(tmp_path / f"f.{suffix}", whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged compressed data"):
        read(path)
    with pytest.raises(DataError, match="damaged compressed data"):
        read(put(tmp_path / f"g.{suffix}", b"not compressed at all\n"))


@pytest.mark.sampled(2)
def test_compressed_content_without_a_suffix(tmp_path, packed, run):
    """A file, a named pipe and standard input, known by their first bytes; what only looks alike is text."""
    suffix, compress = packed
    data = "".join(f"line {i} ü\n" for i in range(50_000)).encode()
    for name in ("f", f"f.{suffix}.txt"):
        path = put(tmp_path / name, compress(data))
        assert compression.is_compressed(path) and read(path) == data.decode().split("\n")[:-1]
    assert read(put(tmp_path / "empty", compress(b""))) == []
    done = run("tokenize", "-t", "whitespace", stdin=compress(data))
    assert (done.code, done.out, done.err) == (0, data, "")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(compress(data)))
    writer.start()
    assert read(str(pipe)) == data.decode().split("\n")[:-1]
    writer.join()
    assert read(put(tmp_path / f"plain.{suffix}.txt", b"abc\n")) == ["abc"]
    assert read(put(tmp_path / "alike", b"BZh9 is text\n(")) == ["BZh9 is text", "("]
    done = run("tokenize", stdin=compress(data)[:-9])
    assert (done.code, "<stdin>" in done.err) == (65, True)


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: no such file or directory"):
        read(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="is a directory"):
        read(str(tmp_path))
    with pytest.raises(UsageError, match="only once"):
        streams.check_inputs(["-", "a", "-"])
    with pytest.raises(InputError, match="no such file"):
        streams.check_inputs([str(tmp_path / "nowhere")])
    assert streams.check_inputs([]) == ["-"]
    name = str(tmp_path / "with\nnewline")
    with pytest.raises(InputError, match=r"with\\nnewline: no such"):
        read(name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    path = put(tmp_path / "f", b"")
    os.chmod(path, 0)
    with pytest.raises(InputError, match="permission denied"):
        read(path)


# -- parallel lines ---------------------------------------------------------------------------------------------------


def test_parallel_lines(tmp_path):
    a = put(tmp_path / "a", b"".join(b"%d\n" % i for i in range(1000)))
    b = put(tmp_path / "b", b"".join(b"%d%s\n" % (i, b"x" * i) for i in range(1000)))
    groups = list(streams.zip_blocks([a, b]))
    rows = [row for group in groups for row in zip(*group, strict=True)]
    assert rows == [(str(i), str(i) + "x" * i) for i in range(1000)]


@pytest.mark.parametrize("counts", [(0, 1), (2, 1), (3, 3, 4), (5, 0, 2), (1, 100_000)])
def test_unequal_numbers_of_lines_are_all_named(tmp_path, counts):
    paths = [put(tmp_path / f"f{i}", b"some line\n" * count) for i, count in enumerate(counts)]
    told = ", ".join(f"{path} has {count}" for path, count in zip(paths, counts, strict=True))
    with pytest.raises(DataError) as caught:
        list(streams.zip_blocks(paths))
    assert str(caught.value) == f"unequal numbers of lines: {told}"


def test_nothing_in_parallel(tmp_path):
    empty = put(tmp_path / "empty", b"")
    assert list(streams.zip_blocks([empty, empty])) == []
    assert list(streams.zip_blocks([])) == []


# -- outputs ----------------------------------------------------------------------------------------------------------


def test_output_is_whole_or_not_there(tmp_path):
    path = tmp_path / "out"
    with LineWriter(str(path)) as out:
        out.write_lines(["a", "ü"])
        out.write_lines([])
        out.write_lines([""])
        assert not path.exists()
    assert path.read_bytes() == "a\nü\n\n".encode()
    with pytest.raises(RuntimeError), LineWriter(str(tmp_path / "broken")) as out:
        out.write("half")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["out"]


def test_output_exists(tmp_path):
    path = put(tmp_path / "out", b"old")
    with pytest.raises(OutputError, match="exists") as caught:
        LineWriter(path)
    assert caught.value.hint == "--force replaces it"
    with pytest.raises(RuntimeError), LineWriter(path, force=True) as out:
        out.write("new")
        raise RuntimeError
    assert Path(path).read_bytes() == b"old"
    with LineWriter(path, force=True) as out:
        out.write("new")
    assert Path(path).read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_output_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with LineWriter(str(tmp_path / "out")) as out:
            out.write("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "out").st_mode) == 0o640


def test_output_through_a_link(tmp_path):
    put(tmp_path / "real", b"old")
    (tmp_path / "link").symlink_to("real")
    with LineWriter(str(tmp_path / "link"), force=True) as out:
        out.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_compressed_output(tmp_path, packed):
    path = str(tmp_path / f"out.{packed[0]}")
    with LineWriter(path) as out:
        out.write_lines(["one", "two"])
    assert read(path) == ["one", "two"]
    assert Path(path).read_bytes()[:3] != b"one"


def test_output_that_cannot_be_made(tmp_path):
    with pytest.raises(OutputError, match="is a directory"):
        LineWriter(str(tmp_path))
    with pytest.raises(OutputError, match="no such file or directory"):
        LineWriter(str(tmp_path / "nowhere" / "out"))
    (tmp_path / "loop").symlink_to("loop")
    for force in (False, True):
        with pytest.raises(OutputError, match="loop: too many levels of symbolic links"):
            LineWriter(str(tmp_path / "loop"), force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk():
    with (
        pytest.raises(StreamError, match="/dev/full: write failed: no space left on device"),
        LineWriter("/dev/full") as out,
    ):
        out.write("x")


def test_write_whole(tmp_path):
    atomic.write_whole(tmp_path / "f", "text ü")
    atomic.write_whole(tmp_path / "f", b"bytes")
    assert (tmp_path / "f").read_bytes() == b"bytes"
    assert os.listdir(tmp_path) == ["f"]
    with pytest.raises(StreamError, match="write failed"):
        atomic.write_whole(tmp_path / "nowhere" / "f", b"")


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "publish", fail)
    with pytest.raises(StreamError, match="no space left"), LineWriter(str(tmp_path / "out")) as out:
        out.write("x")
    assert os.listdir(tmp_path) == []


# -- processes --------------------------------------------------------------------------------------------------------


def process(code: str, **options) -> subprocess.CompletedProcess[bytes]:
    code = "from nlptools.files import standard, streams\n" + code
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, **options)


def test_standard_input():
    done = process("print([b.lines for b in streams.all_blocks([])], list(streams.lines('-')))", input=b"a\r\nb\n")
    assert done.stdout == b"[['a', 'b']] []\n", done.stderr


def test_answers_come_while_the_pipe_is_open():
    code = (
        "from nlptools.files import streams\n"
        "with streams.LineWriter() as out:\n"
        "    for block in streams.blocks('-'): out.write_lines(block.lines)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment()
    ) as child:
        assert child.stdin and child.stdout
        for text in (b"first\n", b"second\n"):
            child.stdin.write(text)
            child.stdin.flush()
            assert child.stdout.readline() == text
        child.stdin.close()


def test_broken_pipe():
    code = (
        "import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_IGN)\n"
        "r, w = os.pipe(); os.close(r); os.dup2(w, 1)\n"
        "try:\n"
        "    streams.LineWriter().write('x' * 100000)\n"
        "except BrokenPipeError: os._exit(7)"
    )
    assert process(code).returncode == 7


def test_closed_standard_streams():
    code = (
        "import os, sys; os.close(0); os.close(1); standard.plug_closed()\n"
        "from nlptools.errors import InputError, StreamError\n"
        "try: list(streams.lines('-'))\n"
        "except InputError: pass\n"
        "else: os._exit(3)\n"
        "try: streams.LineWriter()\n"
        "except StreamError: pass\n"
        "else: os._exit(4)\n"
        "os._exit(0 if os.open('/dev/null', os.O_RDONLY) > 2 else 5)"
    )
    assert process(code).returncode == 0
