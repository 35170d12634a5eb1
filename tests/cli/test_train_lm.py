"""train-lm as a process: what it leaves, how it stops, how it goes on, what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from running import Fork, Running, ended, processes, rows

from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.cli import train_lm
from nlptools.training import language_model_task

SMALL = ("--layers", 2, "--hidden", 32, "--context", 16, "--batch-size", 4, "--threads", 1, "-q")


@pytest.fixture
def text(tmp_path: Path, english: list[str]) -> Path:
    """Some English, held-out English, a SentencePiece model's stand-in: a vocabulary of words."""
    (tmp_path / "train.txt").write_text("\n".join(english[:400]) + "\n")
    (tmp_path / "valid.txt").write_text("\n".join(english[400:440]) + "\n")
    words = sorted({word for line in english[:400] for word in line.split()})
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{word}\t1\n" for word in words))
    return tmp_path


def train(call: Run, *more: Any, **kwargs: Any) -> Any:
    return call("train-lm", "-t", "vocab.tsv", *SMALL, *more, **kwargs)


def weights(directory: Path) -> str:
    return hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arch", ["transformer", "lstm", "transformer-xl"])
def test_text_to_bundle_to_scores_to_text(call: Run, text: Path, arch: str) -> None:
    done = train(call, "--arch", arch, "--steps", 60, "--lr", "1e-2", "--valid", "valid.txt", "-o", "lm", "train.txt")
    assert (done.code, done.out, done.err) == (0, b"", "")
    record = json.loads((text / "lm/training.json").read_text())
    assert record["status"] == "finished" and record["metrics"]["steps"] == 60
    assert record["invocation"]["sources"]["lr"] == "flag" and record["invocation"]["sources"]["clip"] == "default"
    assert record["data"]["train"]["sha256"] == hashlib.sha256((text / "train.txt").read_bytes()).hexdigest()
    log = rows(text / "lm")
    losses = [row["loss"] for row in log if row["kind"] == "train"]
    assert losses[-1] < losses[0] - 0.5
    valid = [row for row in log if row["kind"] == "valid"]
    scored = call("score", "lm", "--per", "total", "valid.txt")
    assert scored.code == 0, scored.err
    total = json.loads(scored.text)
    assert total["perplexity"] == pytest.approx(min(row["perplexity"] for row in valid), rel=1e-4)
    lines = call("score", "lm", "valid.txt")
    summed = sum(float(line.split("\t")[0]) for line in lines.lines)
    assert summed == pytest.approx(total["log_probability"], rel=1e-4) and len(lines.lines) == 40
    generated = call("generate", "lm", "--max-new-tokens", 5, stdin="The\n\nimport this\n")
    assert generated.code == 0 and len(generated.lines) == 3, generated.err


@pytest.mark.parametrize(
    ("options", "carried"), [((), False), (("--document", "paragraph"), False), (("--carry",), True),
                             (("--document", "file"), True)]
)  # fmt: skip
@pytest.mark.parametrize("arch", ["lstm", "transformer-xl"])
def test_a_state_is_carried_in_training_where_it_is_in_use(
    call: Run, text: Path, monkeypatch: pytest.MonkeyPatch, arch: str, options: tuple[str, ...], carried: bool
) -> None:
    """A model that never sees the state at the beginning of a line is lost there: a perplexity of 2,500 in place of 250."""
    made: list[str] = []
    for kind in (ContiguousStreams, ShuffledWindows):
        name = kind.__name__
        monkeypatch.setattr(
            language_model_task, name, lambda *a, kind=kind, **k: made.append(kind.__name__) or kind(*a, **k)
        )
    assert train(call, "--arch", arch, *options, "--steps", 2, "-o", "lm", "train.txt").code == 0
    assert made == ["ContiguousStreams" if carried else "ShuffledWindows"]


@pytest.mark.parametrize("arch", ["transformer", "lstm"])
def test_validation_of_a_stream(call: Run, text: Path, arch: str) -> None:
    args = ("--arch", arch, "--steps", 3, "--valid", "valid.txt", "-o", "lm", "train.txt")
    assert train(call, "--carry", *args).code == 0
    loss = json.loads((text / "lm/training.json").read_text())["metrics"]["valid_loss"]
    carried, alone = (
        json.loads(call("score", "lm", "--per", "total", *more, "valid.txt").text)["loss"] for more in (["--carry"], [])
    )
    assert carried == pytest.approx(loss, rel=1e-6) != pytest.approx(alone, rel=1e-5)
    assert train(call, *args).code == 73  # another run
    done = train(call, "--carry", "--steps", 1, "-o", "other", "train.txt")
    assert done.code == 2 and "--carry requires --valid" in done.err


def test_standard_input_is_the_same_as_a_file(call: Run, text: Path) -> None:
    assert train(call, "--steps", 5, "-o", "a", "train.txt").code == 0
    assert train(call, "--steps", 5, "-o", "b", stdin=(text / "train.txt").read_bytes()).code == 0
    assert weights(text / "a") == weights(text / "b")
    assert train(call, "--steps", 5, "--seed", 2, "-o", "c", "train.txt").code == 0
    assert weights(text / "a") != weights(text / "c")


def start(directory: Path, *args: Any, server: list[str] | None = None) -> Running:
    return Running(directory, "train-lm", "-t", "vocab.tsv", *SMALL, *args, server=server)


LONG = ("--dropout", 0.1, "--valid", "valid.txt", "--valid-every", 20, "--save-every", 8, "--log-every", 1)


EVERY_WAY = ((signal.SIGTERM, 5), (signal.SIGKILL, 18), (signal.SIGINT, 25), (signal.SIGUSR1, 32), (signal.SIGKILL, 40))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("arch", "signals"), [
    ("transformer", EVERY_WAY),
    pytest.param("lstm", EVERY_WAY[:2], marks=pytest.mark.slow),
])  # fmt: skip
def test_interrupted_in_every_way_and_continued_the_weights_are_the_same(
    call: Run, text: Path, fork_server: list[str], arch: str, signals: tuple[tuple[signal.Signals, int], ...]
) -> None:
    args = ("--arch", arch, "--steps", 90, *LONG, "train.txt")
    assert train(call, *args, "-o", "whole").code == 0
    for number, step in signals:
        running = start(text / "parts", *args, server=fork_server)
        running.wait_for_step(step)
        found, err = running.stop(number)
        assert found == (-9 if number == signal.SIGKILL else 75), err
        if found == 75:
            assert b"the same command continues" in err and err.count(b"\n") == 2
            assert call("generate", "parts", "--max-new-tokens", 2, stdin="x\n").code == 0  # usable as it is
    assert train(call, *args, "-o", "parts").code == 0
    assert weights(text / "parts") == weights(text / "whole")
    kept = [(r["step"], r["loss"]) for r in rows(text / "whole") if r["kind"] == "train"]
    assert [(r["step"], r["loss"]) for r in rows(text / "parts") if r["kind"] == "train"] == kept
    assert len(json.loads((text / "parts/training.json").read_text())["parts"]) == len(signals) + 1
    again = train(call, *args, "-o", "parts")
    assert again.code == 0 and weights(text / "parts") == weights(text / "whole")


@pytest.mark.sampled(law="signals and failures")
def test_the_mean_of_checkpoints_survives_interruptions(call: Run, text: Path, fork_server: list[str]) -> None:
    args = ("--steps", 100, "--average", 3, "--lr", "1e-2", *LONG, "train.txt")
    assert train(call, *args, "-o", "whole").code == 0
    for number, code, step in ((signal.SIGTERM, 75, 25), (signal.SIGKILL, -9, 45)):
        running = start(text / "parts", *args, server=fork_server)
        running.wait_for_step(step)
        found, err = running.stop(number)
        assert found == code, err
    assert train(call, *args, "-o", "parts").code == 0
    assert weights(text / "parts") == weights(text / "whole")
    records = [json.loads((text / name / "training.json").read_text())["metrics"] for name in ("whole", "parts")]
    assert records[0]["average"] == records[1]["average"] and records[0]["average"]["steps"] == [60, 80, 100]
    total = json.loads(call("score", "parts", "--per", "total", "valid.txt").text)
    assert total["loss"] == pytest.approx(records[1]["valid_loss"], rel=1e-6)
    kept = sorted(path.name for path in (text / "parts/checkpoints").glob("step-*"))
    assert set(kept) >= {"step-000060", "step-000080", "step-000100"}


def test_without_held_out_text_the_mean_is_that_of_what_was_saved(call: Run, text: Path) -> None:
    args = ("--steps", 20, "--average", 2, "--save-every", 5, "--lr", "1e-2", "train.txt")
    done = call("train-lm", "-t", "vocab.tsv", *SMALL[:-1], *args, "-o", "lm")
    assert done.code == 0 and "saved the mean of the weights of steps 15, 20" in done.err, done.err
    import safetensors.torch

    last = [safetensors.torch.load_file(text / f"lm/checkpoints/step-{s:06d}/weights.safetensors") for s in (15, 20)]
    expected = last[0]["norm.weight"].double().add(last[1]["norm.weight"]).div(2).float()
    found = safetensors.torch.load_file(text / "lm/model.safetensors")
    assert any(tensor.shape == expected.shape and bool((tensor == expected).all()) for tensor in found.values())
    assert not bool((last[0]["norm.weight"] == last[1]["norm.weight"]).all())


@pytest.mark.sampled(law="signals and failures")
def test_killed_while_saving_there_is_always_a_whole_checkpoint(call: Run, text: Path, fork_server: list[str]) -> None:
    """Kills at random moments of a run that saves after every step."""
    args = ("--steps", 40, "--save-every", 1, "--log-every", 1, "train.txt")
    assert train(call, *args, "-o", "whole").code == 0
    for step, delay in ((3, 0.0), (7, 0.013), (12, 0.027), (17, 0.041)):
        running = start(text / "parts", *args, server=fork_server)
        running.wait_for_step(step)
        time.sleep(delay)
        running.stop(signal.SIGKILL)
    done = train(call, *args, "-o", "parts")
    assert done.code == 0 and "damaged" not in done.err, done.err
    assert weights(text / "parts") == weights(text / "whole")
    assert not list((text / "parts/checkpoints").glob(".tmp*"))


@pytest.mark.sampled(law="signals and failures")
def test_a_second_signal_ends_at_once(text: Path) -> None:
    """Of a new interpreter, with its own handlers of signals."""
    running = start(text / "lm", "--steps", 100000, "--log-every", 1, "train.txt")
    running.wait_for_step(2)
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
        running.process.send_signal(number)
    assert running.stop(signal.SIGCONT)[0] in (-signal.SIGTERM, -signal.SIGINT)


def test_a_time_limit_stops_with_everything_saved(call: Run, text: Path) -> None:
    done = train(call, "--steps", 100000, "--max-time", "0.5s", "-o", "lm", "train.txt")
    assert done.code == 75 and "time limit" in done.err


MEASURED = ("--steps", 6, "--valid", "valid.txt", "--valid-every", 2, "--average", 2)


@pytest.mark.sampled(law="several processes train")
def test_two_processes_train_what_one_does(text: Path, call: Run, fork_server: list[str]) -> None:
    one = train(call, *MEASURED, "--batch-size", 8, "-o", "one", "train.txt")
    assert one.code == 0
    args = ("train-lm", "-t", "vocab.tsv", *SMALL, *MEASURED, "--batch-size", 4, "-o", "two", "train.txt")
    ended(processes(2, text, *args, command=fork_server))
    for kind in ("train", "valid"):
        losses = [[r["loss"] for r in rows(text / d) if r["kind"] == kind] for d in ("one", "two")]
        assert losses[0] and losses[0] == pytest.approx(losses[1], rel=1e-4)
    means = [json.loads((text / d / "training.json").read_text())["metrics"]["average"] for d in ("one", "two")]
    assert means[0]["steps"] == means[1]["steps"] == [4, 6] and means[0]["taken"] == means[1]["taken"]
    assert means[0]["loss"] == pytest.approx(means[1]["loss"], rel=1e-4)
    import safetensors.torch

    a, b = (safetensors.torch.load_file(text / d / "model.safetensors") for d in ("one", "two"))
    for name in a:
        assert float((a[name] - b[name]).abs().max()) < 1e-3, name


def test_one_run_at_a_time_per_directory(text: Path, call: Run, fork_server: list[str]) -> None:
    running = start(text / "lm", "--steps", 100000, "--log-every", 1, "train.txt", server=fork_server)
    assert isinstance(running.process, Fork)
    try:
        running.wait_for_step(1)
        done = train(call, "--steps", 5, "-o", "lm", "train.txt")
        assert done.code == 73 and "locked by another run (host" in done.err and str(running.process.worker) in done.err
    finally:
        running.stop(signal.SIGKILL)


def test_a_directory_with_something_else_is_refused(call: Run, text: Path) -> None:
    (text / "other").mkdir()
    (text / "other/precious").write_text("x")
    done = train(call, "--steps", 2, "-o", "other", "train.txt")
    assert done.code == 73 and "exists and holds no training run" in done.err
    assert train(call, "--steps", 2, "-o", "lm", "train.txt").code == 0
    done = train(call, "--steps", 2, "--lr", "0.5", "-o", "lm", "train.txt")
    assert done.code == 73 and "other settings (lr)" in done.err
    done = train(call, "--steps", 2, "-o", "lm", "valid.txt")
    assert done.code == 73 and "other text" in done.err
    assert train(call, "--steps", 2, "--resume", "never", "-o", "lm", "train.txt").code == 73
    assert train(call, "--steps", 2, "--resume", "must", "-o", "new", "train.txt").code == 73
    before = weights(text / "lm")
    assert train(call, "--steps", 4, "-o", "lm", "train.txt").code == 0, "a longer run goes on"
    assert weights(text / "lm") != before
    assert train(call, "--steps", 2, "--force", "--lr", "0.5", "-o", "lm", "train.txt").code == 0
    assert train(call, "--steps", 2, "-o", "train.txt", "train.txt").code == 73


@pytest.mark.parametrize(
    ("args", "stdin", "code", "said"),
    [
        (("train.txt", "missing.txt"), b"", 66, "missing.txt: no such file"),
        ((".",), b"", 66, "is a directory"),
        ((), b"", 65, "no training data"),
        ((), b"\n\n\n", 65, "no training data"),
        ((), b"good\n\xff\xfe\n", 65, "<stdin>:2: invalid UTF-8 at byte 1"),
        (("--valid", "missing", "train.txt"), b"", 66, "missing: no such file"),
        (("--hidden", 33, "--heads", 2, "train.txt"), b"", 2, "not a multiple"),
        (("--save-every", "soon", "train.txt"), b"", 2, "not an interval"),
        (("--keep", 1, "train.txt"), b"", 2, "keep"),
        (("--average", 3, "--save-every", "never", "train.txt"), b"", 2, "--average needs --valid"),
        (("--device", "cuda:99", "train.txt"), b"", 69, "CUDA"),
        (("--device", "tpu", "train.txt"), b"", 2, "no such device"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    call: Run, text: Path, args: tuple[Any, ...], stdin: bytes, code: int, said: str
) -> None:
    done = train(call, "--steps", 2, "-o", "lm", *args, stdin=stdin)
    assert done.code == code and said in done.err, done.err
    message = done.err.split("\n")
    assert message[0].startswith("nlptools train-lm: ") and "Traceback" not in done.err
    assert not (text / "lm/model.safetensors").exists()


def test_a_tokenizer_without_ids_or_end_is_refused(call: Run, text: Path) -> None:
    done = call("train-lm", "-t", "words", "-o", "lm", "train.txt")
    assert done.code == 2 and "--vocab" in done.err
    (text / "bare.tsv").write_text("a\t1\nb\t1\n")
    done = call("train-lm", "-t", "bare.tsv", "-o", "lm", "train.txt")
    assert done.code == 78 and "no end-of-text token" in done.err
    assert call("train-lm", "-t", "nowhere.model", "-o", "lm", "train.txt").code in (66, 78)


@pytest.mark.sampled(law="examples run")
@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_the_examples_of_models_of_characters_and_bytes(
    fork_shell: Run, english: list[str], tmp_path: Path, unit: str
) -> None:
    """The examples of the manual page, with a smaller model and 60 steps."""
    short = [line for line in english if len(line) < 30][:200]
    (tmp_path / "input.txt").write_text("\n".join(short) + "\n")
    (lines,) = (lines for what, lines in train_lm.command.page.examples if f"a model of {unit}" in what)
    small = {"LAYERS": "1", "HIDDEN": "32", "HEADS": "2", "CONTEXT": "256", "BATCH_SIZE": "8", "LR": "1e-2"}
    env = {f"NLPTOOLS_TRAIN_LM_{name}": value for name, value in small.items()}
    done = fork_shell(
        lines.replace("--steps 5000", "--steps 60"), env={**env, "NLPTOOLS_GENERATE_MIN_NEW_TOKENS": "200"}
    )
    assert done.code == 0, done.err
    assert len(done.lines) == 1 and "\\n" in done.text and " unknown" not in done.err, done.err
    name = "chars" if unit == "characters" else "bytes"
    scored = json.loads(fork_shell(f"nlptools score {name} --per total input.txt").text)
    assert scored["unknown"] == 0 and scored["lines"] == 200 and scored["documents"] == 1
    assert scored["tokens"] == len((tmp_path / "input.txt").read_text().rstrip("\n")) + 1


def test_characters_of_a_pipe_include_the_line_end(fork_shell: Run, english: list[str], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("\n".join(english[:50]) + "\n")
    small = " ".join(map(str, SMALL))
    done = fork_shell(
        "nlptools tokenize -t char input.txt | nlptools build-vocab -o chars.tsv &&"
        f" nlptools train-lm -t char --vocab chars.tsv --document file {small} --steps 1 -o lm input.txt"
    )
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "lm/training.json").read_text())["data"]["train"]["unknown"] == 0
    assert (tmp_path / "lm/vocab.tsv").read_text() == (tmp_path / "chars.tsv").read_text() + "\\n\t0\n"


def test_mostly_unknown_text_needs_force(call: Run, text: Path) -> None:
    (text / "upper.txt").write_text((text / "train.txt").read_text().upper())
    lower = "".join(f"{word}\t1\n" for word in sorted({*(text / "train.txt").read_text().lower().split()}))
    (text / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + lower)
    done = train(call, "--steps", 1, "-o", "lm", "upper.txt")
    assert done.code == 65 and "% of the tokens of the training data are unknown to the tokenizer, but only" in done.err
    assert "if the text is lower-cased\n  hint: --force" in done.err and not (text / "lm/model.safetensors").exists()
    done = train(call, "--steps", 1, "--force", "-o", "lm", "upper.txt")
    assert done.code == 0 and done.err.count("\n") == 1 and "warning: " in done.err
    done = call("score", "lm", "--per", "total", "upper.txt")
    assert done.code == 0 and "% of the tokens of the text are unknown" in done.err


def test_odd_text_is_just_text(call: Run, text: Path) -> None:
    odd = b"\xef\xbb\xbfone\r\ntwo\x00three\xe2\x80\xa8four\n\nlast " + b"x " * 50_000
    done = train(call, "--steps", 2, "-o", "lm", stdin=odd, env={"LC_ALL": "C"})
    assert done.code == 0, done.err
    data = json.loads((text / "lm/training.json").read_text())["data"]["train"]
    assert data["lines"] == 4 and data["words"] == 1 + 2 + 0 + 50_001


def test_divergence_ends_with_its_own_status(call: Run, text: Path) -> None:
    done = train(call, "--steps", 400, "--lr", "1e12", "--clip", 0, "--warmup", 0, "-o", "lm", "train.txt")
    assert done.code == 3 and "8 consecutive steps" in done.err, done.err


def test_dry_run_leaves_nothing(call: Run, text: Path) -> None:
    done = call("train-lm", "-t", "vocab.tsv", *SMALL[:-1], "--dry-run", "-o", "lm", "train.txt")
    assert done.code == 0 and "weights" in done.err and not (text / "lm").exists(), done.err


def test_presets_config_files_and_environment(call: Run, text: Path) -> None:
    (text / "c.toml").write_text("preset = 'tiny'\nhidden = 64\n")
    env = {"NLPTOOLS_TRAIN_LM_LAYERS": "3"}
    done = call("train-lm", "-t", "v", "-o", "x", "--config", "c.toml", "--heads", 2, "--dump-config", env=env)
    assert done.code == 0, done.err
    for line in ('preset = "tiny"', "hidden = 64", "layers = 3", "heads = 2", "context = 128", "lr = 0.002"):
        assert line in done.lines


def test_a_disk_that_fills_up_loses_nothing(text: Path, call: Run) -> None:
    """Files may not grow beyond some size: the first checkpoint fits, nothing larger ever would."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (24 * 1024, hard))
    try:
        done = train(call, "--steps", 2, "-o", "lm", "train.txt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert done.code == 74, done.err
    assert "Traceback" not in done.err and "not saved" in done.err
    assert not list((text / "lm/checkpoints").glob("step-*"))
    assert train(call, "--steps", 2, "-o", "lm", "train.txt").code == 0


def test_the_output_directory_cannot_be_made(call: Run, text: Path) -> None:
    done = train(call, "--steps", 2, "-o", "/proc/nowhere/lm", "train.txt")
    assert done.code == 73 and "cannot be created" in done.err
    assert os.path.exists(text / "train.txt")


def test_starting_from_another_bundle(call: Run, text: Path) -> None:
    assert train(call, "--steps", 30, "--lr", "1e-2", "-o", "a", "train.txt").code == 0
    done = train(call, "--steps", 1, "--lr", "0", "--init", "a", "-o", "b", "train.txt")
    assert done.code == 0, done.err
    assert weights(text / "a") == weights(text / "b")


@pytest.mark.filterwarnings("ignore")
def test_reports_go_to_tensorboard_when_asked(call: Run, text: Path) -> None:
    assert train(call, "--steps", 3, "--track", "tensorboard", "-o", "lm", "train.txt").code == 0
    assert list((text / "lm/tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_step_learns_what_a_plain_one_does(call: Run, text: Path) -> None:
    env = {"NLPTOOLS_EMULATE_BF16": "1"}
    losses = []
    for name in ("plain", "compiled"):
        flag = ["--compile"] if name == "compiled" else []
        done = train(call, "--layers", 1, "--precision", "bf16", *flag, "--steps", 3, "-o", name, "train.txt", env=env)
        assert done.code == 0, done.err
        losses.append([row["loss"] for row in rows(text / name) if "loss" in row])
    assert losses[0] and losses[1] == pytest.approx(losses[0], rel=0.02)


def test_a_run_keeps_the_format_that_was_measured_when_it_began(
    call: Run, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nlptools.compute import backend
    from nlptools.models.language.recurrent import RecurrentLM

    env = {"NLPTOOLS_EMULATE_BF16": "1", "NLPTOOLS_TRAIN_LM_PRECISION": "auto"}
    for steps, faster in ((2, "bf16"), (4, "fp32")):  # as if it went on on another machine
        monkeypatch.setattr(backend, "fastest", lambda faster=faster: faster)
        done = train(call, "--no-quiet", "--steps", steps, "-o", "lm", "train.txt", env=env)
        assert done.code == 0 and "on cpu in bf16" in done.err, done.err
        record = json.loads((text / "lm/training.json").read_text())
        assert record["metrics"]["steps"] == steps and record["settings"]["precision"] == "auto"
        assert (record["backend"]["precision"], record["backend"]["precision_by"]) == ("bf16", "measurement")
        on = next(line for line in call("describe", "lm").lines if line.startswith("training on\t"))
        assert '"precision": "bf16", "precision_by": "measurement"' in on
    monkeypatch.setattr(backend, "fastest", lambda: "bf16")
    monkeypatch.setattr(RecurrentLM, "runs_in_16_bits", False)  # as if it were trained in float32 only on a CPU
    assert train(call, "--arch", "lstm", "--steps", 2, "-o", "lstm", "train.txt", env=env).code == 0
    record = json.loads((text / "lstm/training.json").read_text())
    assert (record["backend"]["precision"], record["backend"]["precision_by"]) == ("fp32", "model")


def test_bf16_from_training_to_text(call: Run, text: Path) -> None:
    env = {"NLPTOOLS_EMULATE_BF16": "1"}  # for processors that have no such unit: slow, but the same path
    done = train(
        call, "--precision", "bf16", "--dropout", 0.1, "--steps", 20, "--lr", "1e-2", "-o", "lm", "train.txt", env=env
    )
    assert done.code == 0, done.err
    import safetensors.torch

    kept = safetensors.torch.load_file(text / "lm/model.safetensors")
    assert {str(tensor.dtype) for tensor in kept.values()} == {"torch.float32"}
    assert any(bool((t.bfloat16().float() != t).any()) for t in kept.values()), "the masters, not their rounded copies"
    record = json.loads((text / "lm/training.json").read_text())
    assert record["backend"]["precision"] == "bf16"
    scores = [
        json.loads(call("score", "lm", "--precision", p, "--per", "total", "valid.txt", env=env).text)["loss"]
        for p in ("fp32", "bf16")
    ]
    assert scores[0] == pytest.approx(scores[1], rel=0.02)
    assert call("generate", "lm", "--precision", "bf16", "--max-new-tokens", 3, stdin="a\n", env=env).code == 0
