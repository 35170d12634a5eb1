"""Word vectors by several processes: each trains on its part of the chunks, and rows are merged."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import pytest
import rank_programs
import torch
from running import ended, processes, rows

from nlptools.training.word_vectors.merging import merged
from nlptools.vectors.files import formats


def test_changes_are_added_where_they_are_independent_and_averaged_where_they_agree() -> None:
    one = torch.tensor([[1.0, 0.0], [1.0, 2.0], [0.0, 0.0], [2.0, 0.0]])
    two = torch.tensor([[0.0, 3.0], [1.0, 2.0], [5.0, 1.0], [4.0, 0.0]])
    expected = torch.tensor([[1.0, 3.0], [1.0, 2.0], [5.0, 1.0], [3.0, 0.0]])
    assert torch.allclose(merged(torch.stack([one, two])), expected)
    assert torch.allclose(merged(torch.stack([one, one, one])), one)
    assert torch.equal(merged(one[None]), one)


def write_topics(path: Path, lines: int) -> None:
    """Lines of ten words of one of eight topics."""
    draw = np.random.default_rng(0)
    words = np.minimum(draw.zipf(1.3, (lines, 10)) - 1, 9)
    topics = draw.integers(0, 8, lines)
    path.write_text("".join(" ".join(f"t{t}w{w}" for w in row) + "\n" for t, row in zip(topics, words, strict=True)))


def test_two_processes_have_equal_vectors(tmp_path: Path, fork_server: list[str]) -> None:
    """With each kind of input and output, in a run that stops after its first round and goes on."""
    write_topics(tmp_path / "text.txt", 200)
    program = (rank_programs.__file__, "word_vectors", "text.txt")
    (one, _), (two, _) = ended(processes(2, tmp_path, *program, command=fork_server))
    assert one == two
    lines = [line.rpartition(" ") for line in one.split("\n")[:-1]]
    assert [name for name, _, _ in lines] == list(rank_programs.WORD_VECTORS), "each run stopped, and ended"
    assert len({digest for _, _, digest in lines}) == len(lines)


@pytest.mark.sampled(law="signals and failures")
@pytest.mark.slow
def test_a_signal_to_one_process_stops_both(tmp_path: Path, fork_server: list[str]) -> None:
    """With status 75, and the same command goes on."""
    write_topics(tmp_path / "text.txt", 3000)
    options = ("--dim", 8, "--min-count", 1, "--workers", 1, "--device", "cpu")
    for number, kind in enumerate((("--loss", "hs", "--subwords", "2-3"), ("--model", "cbow", "--loss", "softmax"))):
        command = ("train-w2v", *options, *kind, "--epochs", 1000, "-o", f"vectors{number}", "text.txt")
        started = processes(2, tmp_path, *command, command=fork_server)
        log, until = tmp_path / f"vectors{number}/log.jsonl", time.monotonic() + 60
        while not log.exists() or not rows(log.parent, "train"):
            assert started[0].poll() is None and time.monotonic() < until, ended(started)
            time.sleep(0.05)
        started[number].send_signal(signal.SIGTERM)
        (_, err), (_, quiet) = ended(started, 75)
        assert "stopped by SIGTERM" in err and "stopped by" not in quiet, (err, quiet)
        [(_, err), _] = ended(processes(2, tmp_path, *command, "--max-time", "0s", command=fork_server), 75)
        assert "continuing at" in err, err


@pytest.mark.sampled(law="several processes train")
@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path: Path, fork_server: list[str]) -> None:
    """The neighbours of a word are the words of its topic, also when a run goes on in another number of processes."""
    write_topics(tmp_path / "text.txt", 30_000)
    options = ("--dim", 8, "--min-count", 1, "--workers", 1, "--device", "cpu", "--epochs", 3)
    losses = {}
    for name, counts in {"one": [1], "two": [2], "more": [1, 2], "fewer": [2, 1]}.items():
        for part, count in enumerate(counts):
            last = part == len(counts) - 1
            more = () if last else ("--max-time", "0s")
            command = ("train-w2v", *options, "--to", "text", "-o", name, *more, "text.txt")
            outputs = ended(processes(count, tmp_path, *command, command=fork_server), 0 if last else 75)
            assert ("training in 2 processes on 1 machine" in outputs[0][1]) == (count == 2)
            if count == 2:
                assert outputs[1][1] == "", "the main process alone reports"
        losses[name] = float(outputs[0][1].split("loss ")[-1].split()[0])
        vectors = formats.load(str(tmp_path / name), "word2vec")
        rows = np.array(vectors.rows.take(range(len(vectors))))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        nearest = np.argsort(-(rows @ rows.T), axis=1)[:, 1]
        right = [vectors.words[i][:2] == vectors.words[j][:2] for i, j in enumerate(nearest)]
        assert np.mean(right) > 0.95, (name, np.mean(right))
    assert max(losses.values()) < min(losses.values()) + 0.1, losses
    command = ("train-w2v", "--model", "glove", "-o", "g", "text.txt")
    [(_, err), *_] = ended(processes(2, tmp_path, *command, command=fork_server), 2)
    assert "--model glove runs in one process, but 2 were started" in err
