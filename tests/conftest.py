"""A real process in a scratch directory, and small English text that every Python ships."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Finished:
    """A process that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.out else []


Run = Callable[..., Finished]


# Results are compared to the last digits in fp32, which `--precision auto` would not take on a processor with bf16 units.
# Tests of bf16 ask for it.
EXACT = {
    f"NLPTOOLS_{command}_PRECISION": "fp32"
    for command in (
        "TRAIN_LM",
        "TRAIN_SEQ2SEQ",
        "PRETRAIN_BERT",
        "FINETUNE",
        "TRAIN_REWARD",
        "PREDICT",
        "GENERATE",
        "SCORE",
        "EMBED",
    )
}


def environment(**extra: str) -> dict[str, str]:
    """The environment of a test process: no settings of the person who runs the tests leak in."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NLPTOOLS_")}
    return {**kept, **EXACT, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default", **extra}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run("tokenize", "-t", "char", stdin="abc\\n") -> Finished; the working directory is `tmp_path`."""

    def run(*args: object, stdin: str | bytes = b"", env: dict[str, str] | None = None, timeout: int = 240) -> Finished:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "nlptools", *map(str, args)],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            env=environment(**(env or {})),
            timeout=timeout,
        )
        return Finished(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    return run


@pytest.fixture
def shell(tmp_path: Path) -> Run:
    """A line for bash, with `nlptools` on the path; for pipelines."""

    def shell(line: str, stdin: bytes = b"", env: dict[str, str] | None = None, timeout: int = 240) -> Finished:
        setup = f'set -o pipefail; nlptools() {{ "{sys.executable}" -m nlptools "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-c", setup + line],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=environment(**(env or {})),
            timeout=timeout,
        )
        return Finished(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    return shell


@pytest.fixture(scope="session")
def english() -> list[str]:
    """About 7,000 lines of English: CPython's own help topics."""
    from pydoc_data.topics import topics

    lines = [line.strip() for text in topics.values() for line in text.split("\n")]
    return [line for line in lines if line]


@pytest.fixture(autouse=True)
def own_messages() -> Iterator[None]:
    """Each test begins with messages as a library has them, whatever a command before it was told in this process."""
    from nlptools import messages

    before, messages.settings = messages.settings, messages.Settings()
    yield
    messages.settings = before


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """As `run`, but inside this process: for commands that load PyTorch, which takes seconds in each new one."""
    import io

    from nlptools import cli, messages
    from nlptools.files import standard, streams

    def call(*args: object, stdin: str | bytes = b"", env: dict[str, str] | None = None) -> Finished:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        (tmp_path / ".stdin").write_bytes(data)
        monkeypatch.chdir(tmp_path)
        for key, value in {**EXACT, **(env or {})}.items():
            monkeypatch.setenv(key, value)
        before, messages.settings = messages.settings, messages.Settings()
        descriptor, kept = os.open(tmp_path / ".stdin", os.O_RDONLY), os.dup(0)
        os.dup2(descriptor, 0)
        capfdbinary.readouterr()
        written = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", newline="\n")  # noqa: SIM115
        shown = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8", newline="\n")  # noqa: SIM115
        monkeypatch.setattr(sys, "stdout", written)
        monkeypatch.setattr(sys, "stderr", shown)
        try:
            code = cli.run([str(arg) for arg in args])
            messages.finish()
        finally:
            written.flush()
            shown.flush()
            os.dup2(kept, 0)
            os.close(kept)
            os.close(descriptor)
            (tmp_path / ".stdin").unlink()
            messages.settings = before
            standard.closed.clear()
            streams.limit_lines(streams.MAX_LINE)
        out, err = capfdbinary.readouterr()
        return Finished(code, out, err.decode("utf-8", "replace"))

    return call


@pytest.fixture
def float32_products() -> Iterator[Any]:
    """PyTorch's setting of float32 products on a CPU, at its beginning; put back afterwards."""
    import torch

    setting: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before, setting.fp32_precision = setting.fp32_precision, "ieee"
    yield setting
    setting.fp32_precision = before
