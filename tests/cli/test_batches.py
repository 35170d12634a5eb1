"""What score and generate write does not depend on the size of batches, for a Transformer on a CPU in fp32.

In processes of their own, as users run them: one that has trained before can differ in the last bit of a number."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tiny_bundles import words_bundle

WORDS = [f"w{i}" for i in range(1, 40)]


def lines(count: int, longest: int, seed: int = 2) -> list[str]:
    drawn = random.Random(seed)
    return [" ".join(drawn.choices(WORDS, k=drawn.randint(0, longest))) for _ in range(count)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    words_bundle(tmp_path / "lm", "modern")
    (tmp_path / "in.txt").write_text("\n".join(lines(14, 15)) + "\n")
    records = [
        {"context": a or "w1", "choices": [b or "w2", "w3 w4 w5", "w6"]} for a, b in zip(lines(9, 9), lines(9, 6, 3))
    ]
    (tmp_path / "choices.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path


def test_scores(files: Path, fork: Any) -> None:
    for options in (
        ["in.txt", "--to", "jsonl"],
        ["in.txt", "--per", "token", "--to", "jsonl"],
        ["in.txt", "--per", "word", "--measures", "surprisal,rank,entropy", "--to", "jsonl"],
        ["choices.jsonl", "--choices", "--unconditional", ""],
    ):
        wide, narrow = (
            fork("score", "lm", *options, "--precision", "fp32", "--batch-tokens", size).out for size in (4096, 1)
        )
        assert wide == narrow and wide.count(b"\n") >= 9
    alone = b"".join(
        fork("score", "lm", "--to", "jsonl", "--precision", "fp32", "--text", line).out for line in lines(14, 15)[:2]
    )
    assert fork("score", "lm", "in.txt", "--to", "jsonl", "--precision", "fp32").out.startswith(alone)


def test_continuations_with_their_log_probabilities(files: Path, fork: Any) -> None:
    for options in (["--temperature", 0], ["--seed", 7], ["--top-k", 5, "--num-samples", 2]):
        how = ["--precision", "fp32", "--to", "jsonl", "--logprobs", "--max-new-tokens", 9, *options]
        one, many = (fork("generate", "lm", "in.txt", "--batch-size", size, *how).out for size in (1, 7))
        assert one == many and one.count(b"\n") == 14


@pytest.mark.parametrize("command", ["score", "generate", "serve", "embed"])
def test_the_help_says_for_which_precision(call: Any, command: str) -> None:
    text = " ".join(call(command, "--help").out.decode().split())
    assert "fp32" in text and "bf16" in text and "round" in text
