"""nlptools train-w2v, mostly inside this process."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import Run, environment
from faults import Fault, Killed
from running import Fork

from nlptools.vectors.files.formats import load
from tests.real_data import published

GROUPS = [[f"{name}{i}" for i in range(6)] for name in ("cat", "sun", "sea", "ice")]


def sentences(seed: int = 1, count: int = 3000) -> str:
    """Sentences whose words come from one group each, with some frequent words from everywhere."""
    generator = random.Random(seed)
    lines = []
    for _ in range(count):
        group = generator.choice(GROUPS)
        lines.append(" ".join(generator.choice(group if generator.random() < 0.8 else ["the", "of"]) for _ in range(9)))
    return "\n".join(lines) + "\n"


def precision(path: Path) -> float:
    """Share of the five nearest words that are of the same group."""
    vectors = load(path)
    words = [word for group in GROUPS for word in group]
    right = 0
    for word, found in zip(words, vectors.nearest(words, 5), strict=True):
        assert found is not None
        right += sum(neighbor.word[:3] == word[:3] for neighbor in found)
    return right / (5 * len(words))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        ["--model", "skipgram"],
        ["--model", "cbow"],
        ["--model", "cbow", "--cbow-gradient", "legacy"],
        ["--model", "cbow", "--position-weights"],
        ["--model", "skipgram", "--loss", "hs"],
        ["--model", "cbow", "--loss", "hs"],
        ["--model", "skipgram", "--loss", "softmax"],
        ["--model", "cbow", "--loss", "softmax"],
        ["--subwords", "3-5", "--buckets", "500"],
        ["--model", "cbow", "--subwords", "3-5", "--buckets", "500"],
        ["--no-shrink-windows", "--negative", "15", "--ns-exponent", "0.5"],
        ["--deterministic", "--window", "15", "--sample", "0"],
    ],
    ids=" ".join,
)
def test_words_of_the_same_contexts_become_neighbors(call: Run, tmp_path: Path, options: list[str]) -> None:
    done = call("train-w2v", *options, "--dim", "16", "--epochs", "8", "-o", "v.bin", stdin=sentences())
    assert (done.code, done.out) == (0, b""), done.err
    assert "text: 27,000 words, 26 different ones" in done.err and "| nlptools neighbors v.bin" in done.err
    assert precision(tmp_path / "v.bin") > 0.9


def test_vectors_go_to_standard_output(call: Run) -> None:
    done = call("train-w2v", "-q", "--dim", "3", "--epochs", "1", "--min-count", "1", stdin="a b a c\n")
    assert (done.code, done.err) == (0, "")
    header, *rows = done.lines
    assert header == "3 3"
    assert [row.split(" ")[0] for row in rows] == ["a", "b", "c"]
    assert all(len(row.split()) == 4 for row in rows)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "format"),
    [("v.txt", None), ("v.bin", None), ("v.vec", None), ("v.npy", None), ("dir", None), ("v.out", "fasttext"),
     ("v.out", "glove"), ("v.out", "text"), ("v.out", "binary"), ("v.out", "bundle")],
)  # fmt: skip
def test_formats(call: Run, tmp_path: Path, name: str, format: str | None) -> None:
    how = [] if format is None else ["--to", format]
    common = ("train-w2v", "--deterministic", "--dim", "5", "--epochs", "1")
    assert call(*common, *how, "-o", name, stdin=sentences(count=100)).code == 0
    plain = call(*common, stdin=sentences(count=100))
    (tmp_path / "plain.txt").write_bytes(plain.out)
    ours = {"text": "word2vec", "binary": "word2vec-binary"}.get(format or "", format)
    found, expected = load(tmp_path / name, ours), load(tmp_path / "plain.txt")
    assert list(found.words) == list(expected.words)
    assert np.allclose(found.matrix, expected.matrix, atol=1e-6)
    again = call(*common, *how, "-o", name, stdin=sentences(count=100))
    assert again.code == 0 and f"{name}: the run is finished already; --force repeats it\n" in again.err
    if name != "dir" and format != "bundle":
        for options, text in ((["--window", "2"], sentences(count=100)), ([], sentences(count=101))):
            other = call(*common, *how, *options, "-o", name, stdin=text)
            assert other.code == 73 and f"{name}: exists" in other.err
    assert call(*common, *how, "-o", name, "--force", stdin=sentences(count=100)).code == 0


def test_a_run_that_was_killed_after_it_had_written_the_file_is_finished(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    common = ("train-w2v", "--deterministic", "--dim", "3", "--epochs", "2", "-o", "v.txt")
    text = sentences(count=100)

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for force in ([], ["--force"]):
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr("nlptools.training.engine.finished_files.remember", killed)
            call(*common, *force, stdin=text)
        (tmp_path / ".v.txt.00ff00ff").write_text("half")
        (tmp_path / ".v.txt.00ff00ff").chmod(0o600)
        assert (tmp_path / "v.txt.run/training.json").exists() and not (tmp_path / "cache/nlptools/runs").exists()
        before = (tmp_path / "v.txt").stat()
        done = call(*common, stdin=text)
        assert done.code == 0 and "v.txt: the run is finished already" in done.err, done.err
        assert {path.name for path in tmp_path.iterdir()} == {"v.txt", "cache"}
        assert (tmp_path / "v.txt").stat().st_mtime_ns == before.st_mtime_ns
        assert call(*common, stdin=text).code == 0, "as after any run"
        shutil.rmtree(tmp_path / "cache")
    refused = call(*common, stdin=text)
    assert refused.code == 73 and "v.txt: exists\n" in refused.err, "nothing is known of this file"
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr("nlptools.vectors.files.formats.save", killed)
        call(*common, "--force", stdin=text)
    refused = call(*common, stdin=text)
    assert refused.code == 73 and "v.txt: exists\n" in refused.err, "the file is still the old one"


def test_a_directory_tells_how_it_was_made(call: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(sentences())
    (tmp_path / "held-out").write_text(sentences(2, 300))
    done = call("train-w2v", "text", "--valid", "held-out", "--epochs", "3", "--dim", "8", "-o", "made")
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "made/training.json").read_text())
    assert record["status"] == "finished" and record["settings"]["dim"] == 8
    assert record["metrics"]["words"] == 3 * 27_000
    losses = [json.loads(line) for line in (tmp_path / "made/log.jsonl").read_text().split("\n") if line]
    losses = [row["loss"] for row in losses if row["kind"] == "valid"]
    assert len(losses) == 3 and losses[2] < losses[1] < losses[0]
    assert call("neighbors", "made", "-k", "1", stdin="cat1\n").lines[0].startswith("cat1\tcat")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [[], ["--loss", "softmax"], ["--subwords", "2-3", "--buckets", "100"]], ids=str)
def test_deterministic_runs_give_the_same_bytes_with_any_number_of_workers(call: Run, options: list[str]) -> None:
    common = ("train-w2v", "-q", "--deterministic", "--dim", "7", "--epochs", "2", *options)
    text = sentences(count=1000)
    one = call(*common, "--workers", "1", stdin=text)
    assert one.code == 0
    for workers in ("2", "3"):
        assert call(*common, "--workers", workers, stdin=text).out == one.out
    assert call(*common, "--seed", "2", stdin=text).out != one.out
    if not options:  # a single process needs no flag
        assert call(*common[:2], *common[3:], "--workers", "1", stdin=text).out == one.out


@pytest.mark.parametrize("options", [[], ["--model", "cbow", "--position-weights"]], ids=str)
@pytest.mark.parametrize("state", ["kept", "parts.txt.run"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(call: Run, tmp_path: Path, options: list[str], state: str) -> None:
    place = ["--run", state] if state == "kept" else []
    (tmp_path / "text").write_text(sentences(count=1000))
    common = ("train-w2v", "text", "--deterministic", "--dim", "7", "--epochs", "3", *options)
    whole = call(*common, "-o", "whole.txt")
    assert whole.code == 0
    codes = []
    while not codes or codes[-1] == 75:
        done = call(*common, *place, "--max-time", "0.0001s", "-o", "parts.txt")
        codes.append(done.code)
        assert (tmp_path / "parts.txt").exists() == (done.code == 0)
        if done.code == 75:
            assert f"stopped by time limit after step {len(codes)}, everything is saved in {state}" in done.err
            assert done.err.startswith("parts.txt.run keeps the state") == (not place)
    assert codes == [75, 75, 0]
    assert (tmp_path / "parts.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    if not place:
        assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.txt", "text", "whole.txt"]
        return
    (tmp_path / "parts.txt").unlink()
    assert call(*common, "--run", "kept", "-o", "parts.txt").code == 0  # finished: written again at once
    assert (tmp_path / "parts.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    other = call(*common, "--window", "2", "--run", "kept", "-o", "other.txt")
    assert other.code == 73 and "other settings (window)" in other.err
    (tmp_path / "text").write_text(sentences(2, 1000))
    other = call(*common, "--run", "kept", "-o", "other.txt")
    assert other.code == 73 and "other text" in other.err


def test_force_replaces_the_output_or_the_state_beside_it(call: Run, tmp_path: Path) -> None:
    common = ("train-w2v", "--deterministic", "--dim", "3", "--epochs", "2", "-o", "v.txt")
    stop, text = ("--max-time", "0.0001s"), sentences(count=100)
    (tmp_path / "v.txt").write_text("old")
    done = call(*common, *stop, "--force", stdin=text)
    assert done.code == 75 and "the same command with --resume must continues" in done.err
    done = call(*common, "--window", "2", stdin=text)
    assert done.code == 73 and "v.txt: exists" in done.err
    done = call(*common, *stop, "--force", "--resume", "must", "--window", "2", stdin=text)
    assert done.code == 73 and "v.txt.run: holds a run with other settings (window)" in done.err
    done = call(*common, "--force", "--resume", "must", stdin=text)
    assert done.code == 0 and "step 2" in done.err and "step 1 " not in done.err, done.err
    assert call(*common[:-1], "w.txt", stdin=text).code == 0
    assert (tmp_path / "v.txt").read_bytes() == (tmp_path / "w.txt").read_bytes()
    assert call(*common[:-1], "x.txt", *stop, stdin=text).code == 75
    assert call(*common[:-1], "x.txt", "--force", "--window", "2", stdin=text).code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"v.txt", "w.txt", "x.txt"}


@pytest.mark.sampled(law="signals and failures")
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "EIO"])
def test_a_run_that_fails_at_any_moment_goes_on_by_the_same_command(
    call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: bool
) -> None:
    """At each directory that is made, and each file that gets its name."""
    (tmp_path / "text").write_text(sentences(count=20))
    common = ("train-w2v", "text", "--deterministic", "--workers", "1", "--dim", "2", "--epochs", "2", "--min-count", "1",
              "--save-every", "1e")  # fmt: skip
    assert call(*common, "--run", "whole", "-o", "whole.txt").code == 0
    for at in range(1, 1000):
        run = (*common, "--run", f"kept{at}", "-o", f"{at}.txt")
        with monkeypatch.context() as patch:
            fault = Fault(patch, at, kill=kill, names=("replace", "mkdir"))
            with contextlib.suppress(Killed):
                code = call(*run).code
                assert code in ((0,) if (tmp_path / f"{at}.txt").exists() else (73, 74)), fault.where
        if not fault.happened:
            assert at > 12, "training.json three times, a name and four files for each of two checkpoints, the vectors"
            break
        (tmp_path / f"{at}.txt").unlink(missing_ok=True)  # `data` was made at the second attempt
        done = call(*run)
        assert done.code == 0, (fault.where, done.err)
        assert (tmp_path / f"{at}.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes(), fault.where


def test_a_signal_while_it_reads_lets_the_same_command_begin_again(
    call: Run, tmp_path: Path, fork_server: list[str]
) -> None:
    args = ("train-w2v", "--run", "kept", "--dim", "2", "--epochs", "1", "-o", "v.txt")
    process = Fork([*fork_server, *args], cwd=tmp_path, env=environment(), stdin=subprocess.PIPE)
    while not (tmp_path / "kept/data").is_dir():
        time.sleep(0.05)
        assert process.poll() is None
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    done = call(*args, stdin=sentences(count=50))
    assert done.code == 0 and (tmp_path / "v.txt").is_file(), done.err


@pytest.mark.sampled(law="signals and failures")
def test_a_signal_stops_several_processes(tmp_path: Path, fork_server: list[str]) -> None:
    (tmp_path / "text").write_text(sentences(count=30_000))
    args = ["train-w2v", "text", "--workers", "2", "--epochs", "500", "-o", "made"]
    words = [*fork_server, *args]
    process = Fork(words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "made/data/train.bin").exists():  # until then a signal ends it at once
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 75, told
    assert re.search(r"stopped by SIGTERM after step \d+, everything is saved in made", told)
    state = next((tmp_path / "made/checkpoints").glob("step-*")) / "state.json"
    assert 0 < json.loads(state.read_text())["done"] < 500 * 270_000


def test_growing_the_vocabulary(call: Run, tmp_path: Path) -> None:
    common = ("train-w2v", "--deterministic", "--dim", "6", "--min-count", "1")
    assert call(*common, "--epochs", "5", "-o", "old.bin", "--to", "fasttext", stdin=sentences(count=500)).code == 0
    done = call(*common, "--epochs", "1", "--lr", "1e-6", "--init", "old.bin", stdin="sun1 moon1 moon2\n" * 50)
    assert done.code == 0, done.err
    (tmp_path / "new.txt").write_bytes(done.out)
    old, new = load(tmp_path / "old.bin"), load(tmp_path / "new.txt")
    assert set(new.words) == {*old.words, "moon1", "moon2"}
    for word in old.words:
        assert np.allclose(old[word], new[word], atol=1e-3)
    wrong = call("train-w2v", "--init", "old.bin", "--dim", "7", stdin=sentences(count=10))
    assert wrong.code == 78 and "old.bin: 6 dimensions, but --dim is 7" in wrong.err


def test_a_given_vocabulary(call: Run, tmp_path: Path) -> None:
    (tmp_path / "vocab").write_text("sun1\t10\nzebra\t5\nsea2\t3\n")
    args = ("train-w2v", "--vocab", "vocab", "--dim", "4", "--epochs", "1")
    done = call(*args, "--force", stdin=sentences(count=100))
    assert "% of the tokens of the training data are unknown to the tokenizer" in done.err
    assert [line.split(" ")[0] for line in done.lines[1:]] == ["sun1", "zebra", "sea2"]
    done = call(*args, stdin="Zebra Sun1 SEA2 sun1 other\n" * 9)
    message = (
        "80% of the tokens of the training data are unknown to the tokenizer, but only 20% if the text is lower-cased"
    )
    assert done.code == 65 and f"{message}\n" in done.err


def test_text_without_pairs_of_words_gives_the_initial_vectors(call: Run, tmp_path: Path) -> None:
    """A single word per line, words that subsampling drops, or no epochs."""
    said = "no pairs of words to train on: the vectors are the initial ones"
    for number, (text, options) in enumerate(
        (
            ("lo\nmi\n", ["--sample", "0"]),
            ("mi\n", ["--model", "cbow", "--valid", "held-out"]),
            ("mi\nlo\n", ["--loss", "hs", "--sample", "0", "--run", "kept"]),
            ("lo lo mi\n" * 9, ["--epochs", "0"]),
        )
    ):
        (tmp_path / "held-out").write_text("mi\n")
        how = ("train-w2v", "--min-count", "1", "--dim", "4", "--workers", "1", *options)
        done = call(*how, "-o", f"{number}.bin", stdin=text)
        assert done.code == 0 and (said in done.err) == (options[-1] != "0" or "--sample" in options), done.err
        assert np.abs(load(tmp_path / f"{number}.bin").matrix).max() <= 0.5 / 4
        for path in tmp_path.rglob("*.json*"):
            assert "NaN" not in path.read_text()


@pytest.mark.parametrize("lr", ["1", "100", "1e10", "1e12"])
@pytest.mark.parametrize("model", ["skipgram", "cbow"])
def test_no_learning_rate_makes_vectors_that_are_no_numbers(call: Run, tmp_path: Path, lr: str, model: str) -> None:
    done = call("train-w2v", "--model", model, "--lr", lr, "--epochs", "2", "-o", "v.bin", stdin=sentences(count=1000))
    assert done.code in (0, 3)
    if done.code == 3:
        assert "not finite" in done.err and "a lower --lr than" in done.err and not (tmp_path / "v.bin").exists()
    else:
        assert np.isfinite(load(tmp_path / "v.bin").matrix).all()


@pytest.mark.parametrize(
    ("args", "stdin", "code", "message"),
    [
        ([], "", 65, "no training data: the input has no words"),
        ([], "\n\n  \n", 65, "no training data"),
        ([], "a b c a\n", 65, "hint: --min-count 2 or lower; it is 5"),
        ([], b"good\nbad \xff\n", 65, "<stdin>:2: invalid UTF-8 at byte 5"),
        (["missing"], "", 66, "missing: no such file"),
        (["--valid", "missing"], "a\n", 66, "missing: no such file"),
        (["--init", "missing.bin"], "a\n", 66, "missing.bin"),
        (["--subwords", "6-3"], "a\n", 2, "not a range of lengths: '6-3'"),
        (["--position-weights"], "a\n", 2, "--position-weights applies to --model cbow only"),
        (["--lr", "0"], "a\n", 2, "--lr must be greater than 0"),
        (["--max-time", "1h"], "a\n", 2, "--max-time needs a place to save to"),
        (["-o", "v.odd"], "a\n", 2, "no format has such a name"),
        (["--run", "kept", "--resume", "must"], "a\n", 73, "nothing to resume"),
        (["--to", "npy"], "a\n", 2, "npy is two files"),
        (["--to", "bundle"], "a\n", 2, "a directory cannot go to standard output"),
        (["--valid", "-"], "a\n", 2, "cannot both come from standard input"),
    ],
)  # fmt: skip
def test_refusals(call: Run, tmp_path: Path, args: list[str], stdin: str | bytes, code: int, message: str) -> None:
    done = call("train-w2v", *args, stdin=stdin)
    assert (done.code, done.out) == (code, b""), done.err
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_the_training_pairs_of_a_text(call: Run, tmp_path: Path) -> None:
    text = "the quick brown fox\na\nthe dog\n"
    options = ("--show-pairs", 99, "--min-count", 1, "--window", 2)
    done = call("train-w2v", *options, "--loss", "softmax", stdin=text)
    pairs = "the quick, the brown, quick the, quick brown, quick fox, brown the, brown quick, brown fox, fox quick, fox brown"
    assert done.code == 0 and [line.split("\t") for line in done.lines] == [
        pair.split() for pair in f"{pairs}, the dog, dog the".split(", ")
    ]
    done = call("train-w2v", *options[2:], "--show-pairs", 3, "--loss", "hs", stdin=text)
    assert done.lines == ["the\tquick", "the\tbrown", "quick\tthe"]
    done = call("train-w2v", *options, "--loss", "hs", "--model", "cbow", stdin=text)
    assert done.lines[:2] == ["quick brown\tthe", "the brown fox\tquick"] and len(done.lines) == 6
    done = call("train-w2v", *options, "--negative", 3, "--seed", 2, stdin=text)
    rows = [line.split("\t") for line in done.lines]
    assert len(rows) == 12 * 4 and [row[2] for row in rows] == ["1", "0", "0", "0"] * 12
    assert [" ".join(row[:2]) for row in rows[::4]] == f"{pairs}, the dog, dog the".split(", ")
    assert all(row[0] == rows[number // 4 * 4][0] for number, row in enumerate(rows))
    assert len({row[1] for row in rows if row[2] == "0"}) > 3
    assert call("train-w2v", *options, "--negative", 3, "--seed", 2, stdin=text).out == done.out
    for more, stdin, code, message in (
        (["--model", "glove"], text, 2, "--show-pairs cannot be combined with --model glove"),
        (["-o", "v.txt"], text, 2, "--show-pairs cannot be combined with --output"),
        ([], "a\nb\n", 65, "no word has another one in its window"),
        (["--min-count", 5], text, 65, "--min-count"),
    ):
        done = call("train-w2v", *options, *more, stdin=stdin)
        assert done.code == code and message in done.err, done.err
    assert not list(tmp_path.iterdir())


def test_text_that_cannot_be_read_leaves_nothing(call: Run, tmp_path: Path) -> None:
    for place in (("--run", "kept", "-o", "v.txt"), ("-o", "v.txt"), ("-o", "made")):
        assert call("train-w2v", *place, stdin=b"good\nbad \xff\n").code == 65
        assert not list(tmp_path.iterdir())


def test_one_word_and_one_token(call: Run) -> None:
    for options in ([], ["--model", "cbow"], ["--loss", "hs"], ["--loss", "softmax"]):
        done = call("train-w2v", "--min-count", "1", "--dim", "2", *options, stdin="a\n")
        assert done.code == 0 and done.lines[0] == "1 2", done.err


def test_factions_of_the_karate_club_are_neighbors(call: Run, tmp_path: Path) -> None:
    """Zachary 1977: the club split in two, and 34 people are known to have gone with the teacher (1) or the officer (34)."""
    graph = published("karate", "karate.edgelist")
    walks = call("walks", "--seed", 1, graph)
    options = ("--no-shrink-windows", "--sample", 0, "--min-count", 1, "--dim", 16, "--deterministic", "--workers", 1)
    done = call("train-w2v", *options, "-o", "nodes.bin", stdin=walks.out)
    assert (walks.code, done.code) == (0, 0), done.err
    teacher = {str(node) for node in (*range(1, 10), *range(11, 15), 17, 18, 20, 22)}
    nodes = [str(node) for node in range(1, 35)]
    found = load(tmp_path / "nodes.bin").nearest(nodes, 5)
    same = [
        (other.word in teacher) == (node in teacher)
        for node, row in zip(nodes, found, strict=True)
        for other in row or []
    ]
    assert len(same) == 5 * 34 and sum(same) > 0.8 * len(same)


@pytest.mark.sampled(law="signals and failures")
def test_a_signal_stops_a_run_to_standard_output_and_leaves_nothing(tmp_path: Path, fork_server: list[str]) -> None:
    (tmp_path / "text").write_text(sentences(count=30_000))
    (tmp_path / "scratch").mkdir()
    process = Fork(
        [*fork_server, "train-w2v", "text", "--epochs", "500"], cwd=tmp_path,
        env=environment(TMPDIR=str(tmp_path / "scratch")), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list((tmp_path / "scratch").glob("*/data/train.bin")):
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM and not out
    assert "a stopped run with standard output cannot be continued: -o FILE or --run DIR keeps its state" in err
    assert not list((tmp_path / "scratch").iterdir())


def test_a_directory_of_the_run_beside_one_of_vectors(call: Run, tmp_path: Path) -> None:
    done = call("train-w2v", "--run", "kept", "-o", "made", "--epochs", "1", stdin=sentences(count=100))
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "kept/training.json").read_text())["status"] == "finished"
    assert "cat1" in load(tmp_path / "made") and not (tmp_path / "made/training.json").exists()


def test_a_loss_above_that_of_untrained_vectors_warns(call: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for loss in ("ns", "hs", "softmax"):
        done = call("train-w2v", "--loss", loss, "--epochs", "2", "-o", f"{loss}.bin", stdin=sentences())
        assert done.code == 0 and "lower --lr" not in done.err
    from nlptools.training.word_vectors.trainer import Trainer

    prepare = Trainer.__init__

    def worse(self: Trainer, *args: object) -> None:
        prepare(self, *args)
        assert 4 < self.untrained_loss < 5  # six binary decisions, log 2 each
        self.untrained_loss = 0.5

    monkeypatch.setattr(Trainer, "__init__", worse)
    done = call("train-w2v", "--epochs", "2", "-o", "w.bin", stdin=sentences())
    assert done.code == 0 and "is above 0.50, the loss of untrained vectors: try a lower --lr than 0.045" in done.err


def test_a_run_that_diverges_leaves_nothing(call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nlptools.training.word_vectors import train

    monkeypatch.setattr(train.torch, "isfinite", lambda table: table > 1e30)
    done = call("train-w2v", "-o", "v.bin", stdin=sentences(count=100))
    assert done.code == 3 and "the vectors are not finite" in done.err
    assert not list(tmp_path.iterdir())


def test_a_format_without_n_grams_says_so(call: Run) -> None:
    done = call("train-w2v", "--subwords", "3-4", "--buckets", "50", "--epochs", "1", stdin=sentences(count=50))
    assert done.code == 0 and "n-grams are left out" in done.err
