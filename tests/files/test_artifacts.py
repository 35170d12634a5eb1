"""Files of tensors."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from nlptools.errors import StreamError
from nlptools.files import artifacts


def test_tensors_are_written_as_the_library_writes_them(tmp_path: Path) -> None:
    tensors = {
        "z": torch.randn(5, 7),
        "a": torch.randn(3).bfloat16(),
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 4),
        "é": torch.ones(2),
    }
    artifacts.save_tensors(tmp_path / "x.safetensors", tensors)
    assert (tmp_path / "x.safetensors").read_bytes() == save(tensors, metadata={"format": "pt"})
    read = load_file(tmp_path / "x.safetensors")
    assert read.keys() == tensors.keys() and all(torch.equal(read[name], tensors[name]) for name in tensors)


def test_a_write_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    artifacts.save_tensors(path, {"a": torch.zeros(1)})
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(StreamError, match=r"x.safetensors: write failed: file too large"):
            artifacts.save_tensors(path, {"a": torch.zeros(1 << 20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]
    with pytest.raises(StreamError, match="no such file or directory"):
        artifacts.save_tensors(tmp_path / "none" / "x.safetensors", {"a": torch.zeros(1)})


_PEAK = """
import json, resource, sys, torch
from pathlib import Path
from nlptools.files import artifacts
tensors = {str(n): torch.ones(1 << 22) for n in range(8)}
artifacts.save_tensors(Path(sys.argv[1]), {"small": tensors["0"][:4]})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
artifacts.save_tensors(Path(sys.argv[1]), tensors)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.sampled(law="memory does not grow with the data")
def test_writing_copies_no_tensor(tmp_path: Path) -> None:
    """A process that just holds its model must be able to save it: 128 MiB of tensors take less than a quarter of that."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(tmp_path / "x.safetensors")], capture_output=True, check=True
    )
    assert json.loads(done.stdout) < 32 << 10


def test_a_file_name_that_is_not_utf_8_is_read_as_it_was_written(tmp_path: Path) -> None:
    names = {"inputs": [os.fsdecode(b"caf\xe9.txt"), "naïve \\udce9"]}
    artifacts.write_json(tmp_path / "names.json", names)
    assert json.loads((tmp_path / "names.json").read_text(encoding="utf-8")) == names
