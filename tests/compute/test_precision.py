"""The faster number format is measured once, kept in the user's cache, and measured again when that is of no use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nlptools.compute import precision, processor

SLOW_BF16 = {"fp32": 160.0, "bf16": 84.0}
FAST_BF16 = {"fp32": 231.0, "bf16": 436.0}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """Rates that the next measurements give, in a cache of their own; a measurement takes the first one away."""
    rates: list[dict[str, float]] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(precision, "measure", lambda: rates.pop(0))
    return rates


def test_the_faster_format_is_taken(measured: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch) -> None:
    for i, (rates, expected) in enumerate(
        [(SLOW_BF16, "fp32"), (FAST_BF16, "bf16"), ({"fp32": 100.0, "bf16": 105.0}, "fp32")]
    ):
        monkeypatch.setattr(processor, "name", lambda i=i: f"processor {i}")
        measured.append(rates)
        assert precision.fastest() == expected and not measured
        assert precision.fastest() == expected, "the second time nothing is measured"


def test_what_changes_the_rates_is_measured_on_its_own(
    measured: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = {"flags": "fpu avx512f avx512_bf16 amx_bf16 amx_tile", "model name": "Xeon"}
    monkeypatch.setattr(processor, "cpuinfo", flags.__getitem__)
    measured.extend([FAST_BF16, SLOW_BF16, SLOW_BF16, FAST_BF16])
    assert precision.fastest() == "bf16"
    flags["flags"] = "fpu avx512f avx512_bf16"  # the same processor, its AMX hidden by the hypervisor
    assert precision.fastest() == "fp32"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    assert precision.fastest() == "fp32" and len(measured) == 1
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert precision.fastest() == "bf16" and not measured
    kept = json.loads((tmp_path / "cache/nlptools/precision.json").read_text())
    assert len(kept) == 4 and kept["Xeon, avx512f, avx512_bf16, " + next(iter(kept)).split(", ")[-1]] == SLOW_BF16


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[1]", b"\xff\xfe", b'{"KEY": 3}', b'{"KEY": {"fp32": 1}}', b'{"KEY": {"fp32": 1, "bf16": -1}}',
     b'{"KEY": {"fp32": NaN, "bf16": 1}}', b'{"KEY": {"fp32": "1", "bf16": 2}}', b'{"KEY": {"fp32": true, "bf16": 2}}'],
)  # fmt: skip
def test_a_damaged_cache_is_measured_again(measured: list[dict[str, float]], damage: bytes) -> None:
    measured.append(FAST_BF16)
    assert precision.fastest() == "bf16"
    (key,) = json.loads(precision.cache_file().read_text())
    precision.cache_file().write_bytes(damage.replace(b"KEY", key.encode()))
    measured.append(SLOW_BF16)
    assert precision.fastest() == "fp32" and not measured
    assert json.loads(precision.cache_file().read_text()) == {key: SLOW_BF16}


def test_a_cache_that_cannot_be_written_is_no_error(
    measured: list[dict[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    measured.extend([FAST_BF16, SLOW_BF16])
    assert [precision.fastest(), precision.fastest()] == ["bf16", "fp32"], "measured each time"
    (tmp_path / "cache/nlptools/precision.json").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    measured.append(FAST_BF16)
    assert precision.fastest() == "bf16"


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for root in ("relative", ""):  # the XDG specification: not an absolute path, not heeded
        monkeypatch.setenv("XDG_CACHE_HOME", root)
        assert precision.cache_file() == tmp_path / ".cache/nlptools/precision.json"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert precision.cache_file() == tmp_path / "elsewhere/nlptools/precision.json"


def test_a_measurement_leaves_threads_and_random_numbers_alone() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    rates = precision.measure()
    assert set(rates) == {"fp32", "bf16"} and min(rates.values()) > 0
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)
