"""nlptools plot, and the curves and drawings behind it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest

from nlptools.errors import DataError, InputError, Unavailable, UsageError
from nlptools.plots import braille, curves
from nlptools.plots.curves import Panel, Series


def log(directory, steps=40, every=10, **changes):
    """A run of `steps` reports, and a validation after each ten."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "log.jsonl", "w") as stream:
        for i in range(1, steps + 1):
            row = {"kind": "train", "step": i * every, "loss": 2 + 4 * math.exp(-i / 10), "lr": 1e-3 / i}
            row |= {"tokens": i * 4096, "tokens_per_second": 12000.0 + i, "seconds": i * 1.5}
            row |= {"time": f"2026-01-01T00:{i // 60:02}:{i % 60:02}+00:00"} | changes
            stream.write(json.dumps(row) + "\n")
            if i % 10 == 0:
                stream.write(json.dumps({"kind": "valid", "step": i * every, "loss": 3.0, "perplexity": 20.0}) + "\n")
    return directory


def test_terminal(run, tmp_path):
    log(tmp_path / "lm")
    done = run("plot", "lm")
    assert (done.code, done.err) == (0, "")
    for text in ("loss", "learning rate", "tokens per second", "step", "train", "valid", "└", "┤"):
        assert text in done.text
    assert any(0x2800 < ord(c) < 0x2900 for c in done.text)
    assert max(map(len, done.lines)) <= 80
    assert "\x1b" not in done.text
    assert run("plot", "lm/log.jsonl").out == done.out
    assert "\x1b[34m" in run("plot", "lm", "--color", "always").text


def test_ascii(run, tmp_path):
    log(tmp_path / "lm")
    done = run("plot", "lm", "--ascii", "--width", "60", "--height", "5", "--metric", "loss")
    assert done.out.isascii()
    assert max(map(len, done.lines)) <= 60
    assert len(done.lines) == 1 + 5 + 3 + 1  # title, rows, axis, legend
    assert run("plot", "lm", env={"LC_ALL": "C"}).out.isascii()


def test_several_runs_share_panels(call, tmp_path):
    log(tmp_path / "a" / "lm")
    log(tmp_path / "b" / "lm", steps=20)
    done = call("plot", "a/lm", "b/lm", "--metric", "loss", "--x", "tokens")
    for text in ("a/lm", "a/lm valid", "b/lm", "b/lm valid", "tokens", "k"):
        assert text in done.text


def test_a_log_that_is_being_written(call, tmp_path):
    with open(log(tmp_path / "lm") / "log.jsonl", "a") as stream:
        stream.write('[1]\n{"kind": "train"}\n{"kind": "odd", "step": 3}\n{"kind": "tra')
    done = call("plot", "lm")
    assert done.code == 0
    assert done.err == "lm/log.jsonl: skipped lines that are not JSON objects: 2\n"
    assert call("plot", "lm", "-q").err == ""


def test_refusals(call, tmp_path):
    log(tmp_path / "lm")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").write_text("{\n")
    assert call("plot").code == 2
    assert call("plot", "nowhere").code == 66
    assert "no log.jsonl in this directory" in call("plot", "empty").err
    assert "broken: no reports in this log" in call("plot", "broken").err
    done = call("plot", "lm", "--metric", "los")
    assert done.code == 65
    assert "no los in the logs, which have: loss, lr, perplexity" in done.err
    done = call("plot", "lm", "-o", "a.gif")
    assert (done.code, "ends in .png, .svg, .pdf" in done.err) == (2, True)


@pytest.mark.sampled(law="pictures are drawn")
@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_images(call, tmp_path, name, magic):
    pytest.importorskip("matplotlib")
    log(tmp_path / "lm")
    log(tmp_path / "lm2")
    done = call("plot", "lm", "lm2", "-o", name, "--x", "time")
    assert (done.code, done.out, done.err) == (0, b"", "")
    data = (tmp_path / name).read_bytes()
    assert data.startswith(magic)
    assert call("plot", "lm", "-o", name).code == 73
    assert (tmp_path / name).read_bytes() == data
    assert call("plot", "lm", "lm2", "-o", name, "--x", "time", "--force").code == 0
    assert (tmp_path / name).read_bytes() == data  # no date in it


def test_image_size(tmp_path):
    pytest.importorskip("matplotlib")
    panels = curves.panels(curves.read_runs([str(log(tmp_path / "lm"))]), ["loss"])
    data = curves.image(panels, ".png", width=4, height=3)
    assert (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")) == (600, 450)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(Unavailable) as caught:
        curves.check_image("a.png")
    assert caught.value.hint == "in the checkout of nlptools: pip install '.[plot]'"
    with pytest.raises(UsageError):
        curves.check_image("a")


def test_no_display_no_pyplot_no_torch(tmp_path):
    pytest.importorskip("matplotlib")
    log(tmp_path / "lm")
    code = (
        "import sys; from nlptools.plots import curves as p;"
        "p.image(p.panels(p.read_runs(['lm']), ['loss']), '.png');"
        "print([m for m in ('torch', 'matplotlib.pyplot') if m in sys.modules])"
    )
    path = os.pathsep.join([str(curves.Path(curves.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True
    )
    assert done.stdout == b"[]\n", done.stderr


def points(tmp_path, rows, metric="loss", x="step"):
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = curves.panels(curves.read_runs([str(tmp_path)]), [metric], x)
    return {series.kind: series.points for series in made[0].series}


def test_missing_keys_and_odd_values(tmp_path):
    rows = [
        {"kind": "train", "step": 10, "loss": 5.0},
        {"kind": "train", "loss": 4.5},
        {"kind": "train", "step": 20, "loss": math.nan},
        {"kind": "train", "step": 30, "loss": "4"},
        {"kind": "train", "step": 40, "loss": True},
        {"kind": "train", "step": 50, "lr": 1},
        {"kind": "valid", "loss": 4},
        {"kind": "train", "step": 60, "loss": 10**400},
    ]
    assert points(tmp_path, rows) == {"train": [(10, 5.0), (10, 4.5)], "valid": [(50, 4)]}
    with pytest.raises(DataError, match="no ppl in the logs"):
        points(tmp_path, rows, "ppl")


def test_a_run_that_went_back_to_a_checkpoint(tmp_path):
    rows = [{"kind": "train", "step": step, "loss": float(i)} for i, step in enumerate([10, 20, 30, 40, 20, 30])]
    rows.insert(3, {"kind": "valid", "step": 30, "loss": 9.0})
    assert points(tmp_path, rows) == {"train": [(10, 0.0), (20, 4.0), (30, 5.0)]}


def test_a_slow_step_reported_twice_keeps_the_validation_before_it(tmp_path):
    rows = [
        {"kind": kind, "step": 2, "loss": loss}
        for kind, loss in (("train", 4), ("train", 3), ("valid", 5), ("train", 2))
    ]
    assert points(tmp_path, rows) == {"train": [(2, 3), (2, 2)], "valid": [(2, 5)]}


def test_word_vectors(call, tmp_path):
    """A log of train-w2v counts words, or pairs, and its validations have neither."""
    (tmp_path / "v").mkdir()
    rows = [
        {"kind": "train", "step": i, "loss": 4 / i, "lr": 0.1, "words": 500 * i, "words_per_second": 9e5}
        for i in (1, 2)
    ]
    rows.insert(1, {"kind": "valid", "step": 1, "epoch": 1.0, "loss": 3.5})
    (tmp_path / "v/log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert points(tmp_path / "v", rows, x="words") == {"train": [(500, 4), (1000, 2)], "valid": [(500, 3.5)]}
    done = call("plot", "v")
    assert done.code == 0 and [name in done.text for name in ("loss", "words per second", "tokens")] == [
        True,
        True,
        False,
    ]
    done = call("plot", "v", "--x", "tokens")
    assert (done.code, "no tokens in the logs, which have: epoch, loss, lr, step, words" in done.err) == (65, True)


def test_time_by_the_clock_or_by_seconds(tmp_path):
    rows = [{"kind": "train", "loss": 1, "time": f"2026-01-01T0{h}:00:00Z"} for h in (1, 2, 4)]
    assert points(tmp_path, rows, x="time")["train"] == [(0, 1), (1, 1), (3, 1)]
    rows = [{"kind": "train", "loss": 1, "seconds": s} for s in (10, 20)]
    assert points(tmp_path, rows, x="time")["train"] == [(10, 1), (20, 1)]


def test_names_tell_runs_apart(tmp_path):
    for name in ("x/lm", "y/lm"):
        log(tmp_path / name)
    paths = [str(tmp_path / name) for name in ("x/lm", "y/lm")]
    assert [run.name for run in curves.read_runs(paths)] == ["x/lm", "y/lm"]
    assert [run.name for run in curves.read_runs(paths[:1])] == ["lm"]
    assert [run.name for run in curves.read_runs(paths[:1] * 2)] == ["lm (1)", "lm (2)"]
    with pytest.raises(InputError):
        curves.read_runs([str(tmp_path / "x")])


def test_a_diagonal_in_braille():
    drawn = braille.draw([Panel("y", "x", [Series("train", 0, "train", [(0, 0), (1, 1)])])], width=14, height=2)
    assert drawn == " " * 5 + "y\n 1.0┤     ⣀⡠⠔⠒⠉\n 0.5┤⣀⠤⠔⠊⠉\n    └┬────────┬\n    0.0      1.0\n" + " " * 9 + "x\n"


@pytest.mark.parametrize(
    "ys",
    [[0.0], [5.0, 5.0], [-1.0, 1.0], [1e-9, 2e-9], [1e15, 3e15], [0.0, 1e-300], [1e300, -1e300], [1.0, 1.0 + 1e-12]],
)
def test_any_range_of_numbers_can_be_drawn(ys):
    series = [Series(str(i), i, "train", list(enumerate(ys))) for i in range(10)]
    for ascii in (False, True):
        for size in ((10, 1), (80, 10), (300, 40)):
            assert braille.draw([Panel("y", "x", series)], *size, ascii=ascii)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 5e6, ["0", "1M", "2M", "3M", "4M", "5M"]),
        (0, 0.001, ["0", "0.0002", "0.0004", "0.0006", "0.0008", "0.001"]),
        (11000, 13500, ["11k", "11.5k", "12k", "12.5k", "13k", "13.5k"]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert list(braille._ticks(low, high, 5).values()) == expected
