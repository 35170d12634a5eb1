"""Shares of an input's lines, and going on where an earlier run has stopped."""

from __future__ import annotations

import gzip
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, OutputError, UsageError
from nlptools.files import input_parts, streams
from nlptools.files.line_ranges import lines_from
from nlptools.files.streams import LineBlock

texts = st.lists(st.lists(st.text("ab\r\x0b\u2028\ufeff ", max_size=3), max_size=7), min_size=1, max_size=3)


def lines_of(names: list[str]) -> list[str]:
    return [line for block in streams.all_blocks(names) for line in block.lines]


def written(folder: str | Path, files: list[list[str]], end: bool) -> list[str]:
    names = []
    for i, lines in enumerate(files):
        data = "".join(f"{line}\n" for line in lines).encode()
        names.append(str(Path(folder) / f"{i}.txt.gz") if i == 1 else str(Path(folder) / f"{i}.txt"))
        data = data if end else data.removesuffix(b"\n")
        Path(names[-1]).write_bytes(gzip.compress(data) if i == 1 else data)
    return names


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(texts, st.integers(1, 9), st.booleans(), st.sampled_from([3, 1 << 20]), st.integers(0, 4))
@example(files=[["\ufeff"], ["", ""]], number=2, end=False, size=3, done=0)  # a mark alone is no line
@example(files=[["\ufeff"], ["", ""]], number=1, end=False, size=3, done=1)
def test_the_shards_are_all_lines_once_and_in_order(
    files: list[list[str]], number: int, end: bool, size: int, done: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_parts, "PIECE", size)
        names = written(folder, files, end)
        whole, found = lines_of(names), list[str]()
        for part in range(1, number + 1):
            names_of_part = input_parts.shard(names, part, number)
            lines = lines_of(names_of_part)
            if lines:
                assert input_parts.lines_before(names, names_of_part) == len(found)
                rest = input_parts.after(names_of_part, done)
                assert lines_of(rest) == lines[done:]
                assert input_parts.lines_before(names, rest) == len(found) + done or not lines[done:]
            found += lines
        assert found == whole
        assert lines_of(input_parts.after(names, done)) == whole[done:]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(*[st.text("ab\r ", max_size=4)] * 2), max_size=9), st.integers(1, 5), st.booleans())
def test_parallel_shards_have_the_same_lines(pairs: list[tuple[str, str]], number: int, end: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = written(folder, [[a for a, _ in pairs], [b + "x" for _, b in pairs]], end or not pairs)
        if len(lines_of(names[:1])) != len(pairs):  # a last line that is empty and has no end is no line
            with pytest.raises(DataError, match="unequal numbers of lines"):
                input_parts.parallel_shard(names, 1, number)
            return
        parts = [input_parts.parallel_shard(names, part, number) for part in range(1, number + 1)]
        for side in (0, 1):
            rows = [lines_of([part[side]]) for part in parts]
            assert [line for each in rows for line in each] == lines_of([names[side]])
            assert max(map(len, rows)) - min(map(len, rows)) <= 1


def test_parts_are_nearly_equal_and_read_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"{i:04}\n" for i in range(1000)))
    parts = [input_parts.shard([str(tmp_path / "f")], k, 8) for k in range(1, 9)]
    sizes = [len(lines_of(part)) for part in parts]
    assert sum(sizes) == 1000 and max(sizes) - min(sizes) <= 1
    with streams.open_bytes(parts[3][0]) as stream:
        assert stream.read() == (tmp_path / "f").read_bytes()[1875:2500]


def test_errors_name_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\n" * 50 + b"\xff\n" + b"b\n" * 49)
    [part] = input_parts.shard([str(tmp_path / "f")], 2, 3)
    with pytest.raises(DataError, match=r"/f:51: invalid UTF-8"):
        lines_of([part])


def test_standard_input_has_no_shards() -> None:
    for share in (input_parts.shard, input_parts.parallel_shard):
        with pytest.raises(UsageError, match="standard input"):
            share(["-"], 1, 2)
    with pytest.raises(UsageError, match="must be the last"):
        input_parts.after(["-", "f"], 1)


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 12), st.one_of(st.none(), st.integers(0, 14)))
def test_lines_from_is_a_slice(sizes: list[int], first: int, end: int | None) -> None:
    lines = [str(i) for i in range(sum(sizes))]
    bounds = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    blocks = [LineBlock("f", begin + 1, lines[begin:after]) for begin, after in pairwise(bounds)]
    found = list(lines_from(iter(blocks), first, end))
    assert [line for _, block in found for line in block.lines] == lines[first:end]
    for place, block in found:
        assert block.lines and str(place) == block.lines[0] and block.start == place + 1


def test_nothing_is_read_beyond_the_range() -> None:
    def blocks():  # type: ignore[no-untyped-def]
        yield LineBlock("f", 1, ["a", "b"])
        yield LineBlock("f", 3, ["c"])
        raise AssertionError

    assert [b.lines for _, b in lines_from(blocks(), 1, 2)] == [["b"]]


@pytest.mark.parametrize("piece", [1, 2, 1 << 20])
@pytest.mark.parametrize(
    ("data", "count", "kept"),
    [
        (b"", 0, b""),
        (b"abc", 0, b""),
        (b"abc\n", 1, b"abc\n"),
        (b"abc\nde", 1, b"abc\n"),
        (b"\n\nx\n\nhalf \xe2\x80", 4, b"\n\nx\n\n"),
        (b"a\r\nb\x0bc\n\xe2\x80\xa8\n", 3, b"a\r\nb\x0bc\n\xe2\x80\xa8\n"),
    ],
)
def test_half_a_line_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, count: int, kept: bytes, piece: int
) -> None:
    monkeypatch.setattr(input_parts, "PIECE", piece)
    out = tmp_path / "out.txt"
    out.write_bytes(data)
    assert input_parts.done_lines(str(out)) == count
    assert out.read_bytes() == kept
    assert input_parts.done_lines(str(out)) == count


def test_outputs_that_cannot_be_gone_on_with(tmp_path: Path) -> None:
    assert input_parts.done_lines(str(tmp_path / "none")) == 0
    assert not (tmp_path / "none").exists()
    for name in ("-", "out.gz", "out.zst", "out.xz", "out.bz2"):
        with pytest.raises(UsageError, match="--skip-done needs an output file"):
            input_parts.done_lines(name)
    with pytest.raises(OutputError, match="Is a directory"):
        input_parts.done_lines(str(tmp_path))
