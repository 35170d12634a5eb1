"""Progress of filters through their input."""

from __future__ import annotations

import re

import pytest
from conftest import Run

from nlptools import messages
from nlptools.files import progress, streams


@pytest.fixture
def reports(monkeypatch):
    """Every report, however soon after the one before: (text, fraction)."""
    kept = []
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    monkeypatch.setattr(messages, "progress", lambda text, fraction: kept.append((text, fraction)))
    yield kept
    progress.start([])
    progress._meters.clear()


def start(*inputs):
    messages.settings.progress = "always"
    progress.start(inputs)


def test_blocks_of_a_file(reports, tmp_path):
    path = tmp_path / "text"
    path.write_text("a line\n" * 100)
    start(str(path))
    for _ in streams.blocks(path, size=70):
        pass
    fractions = [fraction for _, fraction in reports]
    assert fractions[0] is None and fractions[1:] == pytest.approx([n / 10 for n in range(1, 10)])
    assert re.fullmatch(r"90 lines  [\d,]+/s  0:00:00 left", reports[-1][0])


def test_lines_that_a_command_reports(reports, tmp_path):
    path = tmp_path / "text"
    path.write_text("a line\n" * 100)
    start(str(path))
    for _ in streams.batches([str(path)], 25):
        pass
    assert [fraction for _, fraction in reports[1:]] == [0.25, 0.5, 0.75, 1.0]


def test_lines_that_are_processed_together(reports, tmp_path):
    """A bar moves while a large window is computed, and its rate counts from the start of reading."""
    path = tmp_path / "text"
    path.write_text("a line\n" * 100)
    start(str(path))
    for number, _ in enumerate(streams.blocks(path, size=350)):
        for lines in (10, 30):
            progress.ahead(lines)
        progress.done(50)
        assert number < 2
    assert [text.split(" ")[0] for text, _ in reports[-6:]] == ["10", "30", "50", "60", "80", "100"]
    assert [fraction for _, fraction in reports[-6:]] == pytest.approx([0.1, 0.3, 0.5, 0.6, 0.8, 1.0])


def test_records_of_parquet(reports, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from nlptools.formats import records

    parquet.write_table(pyarrow.table({"text": ["a text"] * 2500}), tmp_path / "t.parquet", row_group_size=1024)
    start(str(tmp_path / "t.parquet"))
    for number, block in enumerate(records.texts([str(tmp_path / "t.parquet")], ["text"])):
        progress.done(len(block.lines))
        assert number < 3
    assert reports[-1][1] == 1.0 and reports[-1][0].startswith("2,500 lines  ")
    assert int(re.search(r"([\d,]+)/s", reports[-1][0])[1].replace(",", "")) > 2500, (
        "since it was read, not since the boot"
    )


def test_other_files_do_not_count(reports, tmp_path):
    for name in ("text", "vocabulary"):
        (tmp_path / name).write_text("a\n")
    start(str(tmp_path / "text"))
    assert list(streams.lines(tmp_path / "vocabulary")) == ["a"] and not reports
    list(streams.blocks(tmp_path / "vocabulary"))
    assert not reports


def test_the_size_of_a_pipe_is_unknown(reports, tmp_path):
    text = streams.hold_text(["a", "b"])
    start(text)
    list(streams.batches([text], 1))
    assert [fraction for _, fraction in reports] == [None] * 3 and reports[-1][0].startswith("2 lines  ")


def test_a_bar_of_a_command(call: Run, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    (tmp_path / "text").write_text("some words of a line\n" * 60_000)
    done = call("tokenize", "--progress", "always", "-t", "words", "text")
    assert "\r\x1b[Ktokenize  [==" in done.err and done.err.endswith("\r\x1b[K")
    assert len(done.lines) == 60_000
    for mode in ("auto", "never"):  # standard error is no terminal, and the command ends within a minute
        assert call("tokenize", "--progress", mode, "text").err == ""
    assert call("tokenize", "--progress", "always", "-q", "text").err == ""


def test_a_terminal_that_shows_the_output_gets_no_bar(monkeypatch, tmp_path):
    monkeypatch.setattr("os.isatty", lambda descriptor: True)
    messages.settings.progress = "auto"
    for output, shown in (("-", 0), (str(tmp_path / "out"), 1)):
        progress.start(["text"], output)
        assert len(progress._meters) == shown
    progress._meters.clear()


def test_plain_lines(monkeypatch, tmp_path, capsys):
    path = tmp_path / "text"
    path.write_text("a line\n" * 100)
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    progress.start([str(path)])
    list(streams.batches([str(path)], 50))
    progress._meters.clear()
    assert re.search(r"^50%  50 lines  [\d,]+/s  0:00:00 left$", capsys.readouterr().err, re.M)


def test_messages_stand_above_the_bar(capsys):
    messages.settings.progress = "always"
    messages.progress("1 lines", 0.5)
    messages.warn("what happened")
    messages.finish()
    assert capsys.readouterr().err == (
        "\r\x1b[K  [==========          ]  50%  1 lines\r\x1b[Knlptools: warning: what happened\n"
    )
