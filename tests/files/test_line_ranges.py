"""Shares of an input's lines, and going on where an earlier run has stopped."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlptools.errors import OutputError, UsageError
from nlptools.files import line_ranges, streams
from nlptools.files.streams import LineBlock

texts = st.lists(st.lists(st.text("ab\r\x0b\u2028 ", max_size=3), max_size=7), min_size=1, max_size=3)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(texts, st.integers(1, 9), st.booleans(), st.sampled_from([3, 1 << 20]))
def test_the_shares_are_all_lines_once_and_in_order(files: list[list[str]], number: int, end: bool, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_ranges, "PIECE", size)
        names = []
        for i, lines in enumerate(files):
            data = "".join(f"{line}\n" for line in lines).encode()
            names.append(str(Path(folder) / f"{i}.txt.gz") if i == 1 else str(Path(folder) / f"{i}.txt"))
            data = data if end else data.removesuffix(b"\n")
            Path(names[-1]).write_bytes(gzip.compress(data) if i == 1 else data)
        whole = [line for block in streams.all_blocks(names) for line in block.lines]
        bounds = [line_ranges.share(names, part, number) for part in range(1, number + 1)]
        assert bounds[0][0] == 0 and bounds[-1][1] == len(whole)
        found: list[str] = []
        for (first, last), (following, _) in zip(bounds, [*bounds[1:], bounds[-1][::-1]], strict=True):
            assert last == following and len(whole) // number <= last - first <= -(-len(whole) // number)
            for place, block in line_ranges.lines_from(streams.all_blocks(names), first, last):
                assert place == len(found)
                found += block.lines
            assert len(found) == last
        assert found == whole


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 12), st.one_of(st.none(), st.integers(0, 14)))
def test_lines_from_is_a_slice(sizes: list[int], first: int, end: int | None) -> None:
    lines = [str(i) for i in range(sum(sizes))]
    blocks = []
    for i, size in enumerate(sizes):
        begin = sum(sizes[:i])
        blocks.append(LineBlock("f", begin + 1, lines[begin : begin + size]))
    found = list(line_ranges.lines_from(iter(blocks), first, end))
    assert [line for _, block in found for line in block.lines] == lines[first:end]
    for place, block in found:
        assert block.lines and str(place) == block.lines[0] and block.start == place + 1


def test_nothing_is_read_beyond_the_share() -> None:
    def blocks():  # type: ignore[no-untyped-def]
        yield LineBlock("f", 1, ["a", "b"])
        yield LineBlock("f", 3, ["c"])
        raise AssertionError

    assert [b.lines for _, b in line_ranges.lines_from(blocks(), 1, 2)] == [["b"]]


def test_a_last_line_without_end_counts_and_an_empty_file_has_none(tmp_path: Path) -> None:
    for data, count in ((b"", 0), (b"\n", 1), (b"a", 1), (b"a\nb", 2), (b"a\nb\n", 2), (b"\n\n", 2)):
        (tmp_path / "f").write_bytes(data)
        assert line_ranges.share([str(tmp_path / "f")], 1, 1) == (0, count)
    assert line_ranges.share([str(tmp_path / "f")] * 2, 2, 3) == (1, 2)


def test_standard_input_has_no_shares() -> None:
    with pytest.raises(UsageError, match="standard input"):
        line_ranges.share(["-"], 1, 2)


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
    monkeypatch.setattr(line_ranges, "PIECE", piece)
    out = tmp_path / "out.txt"
    out.write_bytes(data)
    assert line_ranges.done_lines(str(out)) == count
    assert out.read_bytes() == kept
    assert line_ranges.done_lines(str(out)) == count


def test_outputs_that_cannot_be_gone_on_with(tmp_path: Path) -> None:
    assert line_ranges.done_lines(str(tmp_path / "none")) == 0
    assert not (tmp_path / "none").exists()
    for name in ("-", "out.gz", "out.zst", "out.xz", "out.bz2"):
        with pytest.raises(UsageError, match="--skip-done needs an output file"):
            line_ranges.done_lines(name)
    with pytest.raises(OutputError, match="Is a directory"):
        line_ranges.done_lines(str(tmp_path))
