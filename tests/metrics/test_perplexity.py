"""Perplexity of scored lines: by hand, resampled, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.metrics.perplexity import NAMES, evaluate

LINES = ["-10.0000\t4", "-2.5\t1", "0.0000\t0", "-7.5\t5"]


def test_by_hand():
    made = evaluate(LINES)
    assert (made.names, made.count, made.unit) == (NAMES, 4, "lines")
    assert made.values() == pytest.approx(
        {"perplexity": math.exp(2), "nats_per_token": 2.0, "bits_per_token": 2 / math.log(2)}
    )
    assert made.signature().startswith("per:token|tokens:10|unit:lines|version:nlptools-")


def test_weights():
    computed = evaluate(LINES).compute(np.array([[2, 0, 1, 1], [0, 0, 4, 0], [0, 4, 0, 0]]))
    assert computed[:, 1].tolist() == pytest.approx([27.5 / 13, 0.0, 2.5])
    assert computed[:, 0].tolist() == pytest.approx([math.exp(27.5 / 13), 1.0, math.exp(2.5)])


def test_a_uniform_model_has_the_perplexity_of_its_choices():
    lines = [f"{-n * math.log(50)!r}\t{n}" for n in (1, 5, 9)]
    assert evaluate(lines).values()["perplexity"] == pytest.approx(50)
    for mean, half in evaluate(lines).intervals(resamples=20).values():
        assert half == pytest.approx(0, abs=1e-9) and mean > 0
    decimal = [f"{-n * math.log10(50)!r}\t{n}" for n in (1, 5, 9)]
    assert evaluate(decimal, base=10).values() == pytest.approx(evaluate(lines).values())
    binary = [f"{-n * math.log2(50)!r}\t{n}" for n in (1, 5, 9)]
    assert evaluate(binary, base=2).values()["bits_per_token"] == pytest.approx(math.log2(50))


@pytest.mark.parametrize("lines", [["-0.0000\t3", "0\t2"], ["0.0\t1"]])
def test_a_certain_model(lines):
    values = evaluate(lines).values()
    assert values == {"perplexity": 1.0, "nats_per_token": 0.0, "bits_per_token": 0.0}
    assert not any(math.copysign(1, value) < 0 for value in values.values())


def test_what_no_float_holds_stays_finite():
    values = evaluate(["-1e15\t1"]).values()
    assert math.isfinite(values["perplexity"]) and values["perplexity"] > 1e308
    assert values["nats_per_token"] == 1e15


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-1.5", "log-probability, tab, number of tokens"),
        ("", "log-probability, tab, number of tokens"),
        ("-1.5\t2\t3", "log-probability, tab, number of tokens"),
        ("-1.5 2", "log-probability, tab, number of tokens"),
        ("nan\t2", "finite number, got 'nan'"),
        ("-inf\t2", "finite number, got '-inf'"),
        ("x\t2", "finite number, got 'x'"),
        ("-1e16\t2", "logarithm of a probability"),
        ("0.001\t2", "cannot be above 0, got '0.001'"),
        ("-1.5\t2.0", "whole number of tokens, got '2.0'"),
        ("-1.5\t-2", "whole number of tokens"),
        ("-1.5\t", "whole number of tokens"),
        ("-1.5\t²", "whole number of tokens"),
        ("-1.5\t" + "9" * 400, "whole number of tokens"),
        ("-1.5\t0", "no tokens, but a log-probability other than 0: '-1.5'"),
    ],
)
def test_bad_lines(line, message):
    with pytest.raises(DataError, match=f"^scores.txt:2: .*{message}"):
        evaluate(["-1\t1", line, "-1\t1"], path="scores.txt")
    with pytest.raises(DataError, match=f"^line 1: .*{message}"):
        evaluate([line])


def test_nothing_to_measure():
    with pytest.raises(DataError, match=r"^x: no lines"):
        evaluate([], path="x")
    with pytest.raises(DataError, match="no tokens"):
        evaluate(["0\t0"])


@pytest.mark.parametrize("base", [1.0, 0.5, -2.0, 0.0, math.inf, math.nan])
def test_no_base_of_a_logarithm(base):
    with pytest.raises(UsageError, match="above 1"):
        evaluate(LINES, base=base)
