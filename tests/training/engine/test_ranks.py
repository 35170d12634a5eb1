"""What several processes of a run decide together."""

from __future__ import annotations

from pathlib import Path

import pytest
import rank_programs
from running import ended, processes, rows

from nlptools.files.artifacts import load_tensors


def test_the_clock_of_the_main_process_decides_when_to_validate(tmp_path: Path, fork_server: list[str]) -> None:
    outputs = ended(processes(2, tmp_path, rank_programs.__file__, "clocks", command=fork_server))
    assert [out for out, _ in outputs] == ["4 7 8\n", "4 7 8\n"]


@pytest.mark.sampled(law="several processes train")
def test_a_run_is_the_same_in_any_number_of_processes(tmp_path: Path, fork_server: list[str]) -> None:
    """Four processes that stop, and two and one that go on, end with the weights of one process, without a sample lost."""
    for name, parts in {"one": ((1, 12),), "several": ((4, 5), (2, 9), (1, 12))}.items():
        for count, steps in parts:
            program = (rank_programs.__file__, "joint", name, steps)
            ended(processes(count, tmp_path, *program, command=fork_server))
    for case in ("modern", "lstm", "xl", "pairs", "bert"):
        one, several = (load_tensors(tmp_path / name / case / "last.safetensors") for name in ("one", "several"))
        assert one["targets"] == several["targets"] > 0, case
        for name, tensor in one.items():
            assert several[name].dtype == tensor.dtype
            largest = float((several[name] - tensor).abs().max())
            assert largest < (1e-5 if case == "bert" else 1e-9), f"{case} {name} {largest}"  # heads compute in float32


@pytest.mark.sampled(law="several processes train")
def test_dropout_goes_on_in_each_process_and_a_global_batch_allows_another_number(
    tmp_path: Path, fork_server: list[str]
) -> None:
    (tmp_path / "train.txt").write_text("a b c d e f\n" * 20)
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{letter}\t1\n" for letter in "abcdef"))

    def train(name: str, count: int, steps: int, *more: object, code: int = 0) -> str:
        sizes = {"layers": 1, "hidden": 8, "heads": 1, "context": 4, "batch-size": 2, "dropout": 0.1, "threads": 1}
        options = [word for option, value in {**sizes, "steps": steps}.items() for word in (f"--{option}", value)]
        command = ("train-lm", "-t", "vocab.tsv", "--device", "cpu", "--schedule", "constant", "--warmup", 0, *options)
        done = processes(count, tmp_path, *command, "-o", name, *more, "train.txt", command=fork_server)
        return ended(done, code)[0][1]

    train("whole", 2, 6)
    train("parts", 2, 3)
    train("parts", 2, 6)
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "parts/model.safetensors").read_bytes()
    assert "other settings (processes)" in train("parts", 1, 8, code=73)
    train("joint", 2, 3, "--global-batch", 4)
    train("joint", 1, 6, "--global-batch", 4)
    assert rows(tmp_path / "joint", "train")[-1]["tokens"] == rows(tmp_path / "whole", "train")[-1]["tokens"]
