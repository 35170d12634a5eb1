"""train-seq2seq: what it learns and leaves, how it stops and goes on, what it refuses."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import safetensors.torch
from conftest import Finished, Run, environment
from running import Running, rows

from nlptools import bundle

SYMBOLS = "abcdefghij"
# the sizes at which each architecture learns to turn a sequence round in seconds, a Transformer to say it again
ARCHITECTURES: dict[str, tuple[Any, ...]] = {
    "transformer": ("--layers", 1, "--hidden", 32, "--heads", 2, "--lr", "1e-2", "--steps", 300),
    "rnn": ("--layers", 1, "--hidden", 32, "--lr", "2e-2", "--steps", 120),
    "convolution": ("--layers", 2, "--hidden", 32, "--lr", "1e-2", "--steps", 150),
}
LEARN = ("--dropout", 0, "--label-smoothing", 0, "--schedule", "linear", "--warmup", 30, "--batch-tokens", 0,
         "--batch-size", 64)  # fmt: skip
SMALL = ("--layers", 1, "--hidden", 16, "--batch-tokens", 0, "--batch-size", 8, "--threads", 1,
         "-q")  # fmt: skip


def reversals(count: int, seed: int) -> list[tuple[str, str]]:
    """Sequences of symbols, and the same from the end."""
    random = Random(seed)
    drawn = [random.choices(SYMBOLS, k=random.randint(1, 5)) for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in drawn]


def table(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Pairs to train on and held-out ones, as tables and as two files, and a vocabulary."""
    for name, pairs in (("train", reversals(1500, 0)), ("valid", reversals(60, 1))):
        (tmp_path / f"{name}.tsv").write_text(table(pairs))
        for side, suffix in enumerate(("src", "trg")):
            (tmp_path / f"{name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{symbol}\t1\n" for symbol in SYMBOLS))
    return tmp_path


def train(call: Run, *more: Any, **kwargs: Any) -> Finished:
    return call("train-seq2seq", "-t", "words", "--vocab", "vocab.tsv", *SMALL, *more, **kwargs)


def weights(directory: Path) -> str:
    return hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()


def record(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "training.json").read_text())
    return found


# -- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arch", list(ARCHITECTURES))
def test_pairs_to_bundle_to_outputs(call: Run, text: Path, arch: str) -> None:
    if arch == "transformer":
        for name in ("train", "valid"):
            sources = (text / f"{name}.src").read_text()
            (text / f"{name}.trg").write_text(sources)
            (text / f"{name}.tsv").write_text(table([(source, source) for source in sources.split("\n")[:-1]]))
    args = ("--arch", arch, *ARCHITECTURES[arch], *LEARN, "--valid", "valid.tsv", "--valid-every", 150)
    done = train(call, *args, "-o", "m", "train.tsv")
    assert (done.code, done.out, done.err) == (0, b"", "")
    outputs = call("generate", "m", "valid.src", "--temperature", 0)
    assert outputs.code == 0, outputs.err
    targets = (text / "valid.trg").read_text().split("\n")[:-1]
    assert sum(map(str.__eq__, outputs.lines, targets)) >= 0.95 * len(targets)
    kept = record(text / "m")
    best = max(rows(text / "m", "valid"), key=lambda row: row["bleu"])
    assert kept["status"] == "finished" and kept["metrics"]["valid_loss"] == best["loss"]
    bleu = call("bleu", "--width", 4, "-b", "valid.trg", stdin=outputs.out)
    assert float(bleu.text) == pytest.approx(best["bleu"], abs=1e-4), bleu.err
    assert kept["metrics"]["valid_bleu"] == best["bleu"]
    scored = call("generate", "m", "valid.tsv", "--score-target")
    numbers = [line.split("\t") for line in scored.lines]
    loss = -sum(float(row[0]) for row in numbers) / sum(int(row[1]) for row in numbers)
    assert loss == pytest.approx(best["loss"], abs=1e-4)
    assert best["perplexity"] == pytest.approx(2.718281828**loss, rel=1e-3)


@pytest.mark.sampled(law="pairs are learned")
def test_one_vector_of_the_source_is_enough_for_short_sequences(call: Run, text: Path) -> None:
    how = ("--arch", "rnn", "--attention", "none", *ARCHITECTURES["rnn"], *LEARN, "--steps", 240)
    done = train(call, *how, "-o", "m", "train.tsv")
    assert (done.code, done.err) == (0, "")
    targets = (text / "valid.trg").read_text().split("\n")[:-1]
    for how in (("--temperature", 0), ("--beam", 3)):
        outputs = call("generate", "m", "valid.src", *how)
        assert sum(map(str.__eq__, outputs.lines, targets)) >= 0.8 * len(targets)
    for flag, value in (("--alignments", ()), ("--coverage-penalty", (0.2,))):
        refused = call("generate", "m", "valid.src", flag, *value)
        assert (refused.code, refused.out) == (2, b"")
        assert f"{flag} requires attention to source tokens" in refused.err


def test_what_the_record_says(call: Run, text: Path) -> None:
    assert train(call, "--steps", 4, "--valid", "valid.tsv", "-o", "m", "train.tsv").code == 0
    kept = record(text / "m")
    assert kept["invocation"]["sources"]["steps"] == "flag" and kept["invocation"]["sources"]["lr"] == "default"
    data = kept["data"]["train"]
    assert data["inputs"] == ["train.tsv"] and data["pairs"] == 1500 and data["source_tokens"] == data["target_tokens"]
    assert data["sha256"] == hashlib.sha256((text / "train.tsv").read_bytes()).hexdigest()
    assert kept["data"]["valid"]["pairs"] == 60 and kept["settings"]["arch"] == "transformer"
    assert {"steps", "target tokens", "seconds", "valid_loss", "valid_bleu"} <= kept["metrics"].keys()


def test_a_table_standard_input_and_two_files_are_the_same(call: Run, text: Path) -> None:
    valid = ("--valid", "valid.tsv")
    two = ("--valid-source", "valid.src", "--valid-target", "valid.trg")
    assert train(call, "--steps", 5, *valid, "-o", "a", "train.tsv").code == 0
    assert train(call, "--steps", 5, *two, "-o", "b", stdin=(text / "train.tsv").read_bytes()).code == 0
    assert train(call, "--steps", 5, *two, "-o", "c", "--source", "train.src", "--target", "train.trg").code == 0
    valid_from_a_pipe = (text / "valid.tsv").read_bytes()
    assert train(call, "--steps", 5, "--valid", "-", "-o", "d", "train.tsv", stdin=valid_from_a_pipe).code == 0
    source = (text / "train.src").read_bytes()
    assert train(call, "--steps", 5, *two, "-o", "e", "--source", "-", "--target", "train.trg", stdin=source).code == 0
    assert len({weights(text / name) for name in "abcde"}) == 1
    found = [(row["loss"], row["bleu"]) for name in "abcde" for row in rows(text / name, "valid")]
    assert len(found) == 5 and len(set(found)) == 1
    assert train(call, "--steps", 5, "--seed", 2, "-o", "f", "train.tsv").code == 0
    assert weights(text / "a") != weights(text / "f")


def test_chosen_by_bleu_or_by_loss(call: Run, text: Path) -> None:
    args = (*LEARN, "--lr", "1e-2", "--steps", 60, "--valid", "valid.tsv", "--valid-every", 10, "train.tsv")
    for name, best in (("bleu", max), ("loss", min)):
        assert train(call, *args, "--best", name, "-o", name).code == 0
        expected = best(rows(text / name, "valid"), key=lambda row: row[name])
        assert record(text / name)["metrics"][f"valid_{name}"] == expected[name]
        assert all(("bleu" in row) == (name == "bleu") for row in rows(text / name, "valid"))


def test_patience_ends_a_run_that_gets_no_better(call: Run, text: Path) -> None:
    args = ("--lr", 0, "--valid", "valid.tsv", "--valid-every", 5, "--patience", 2, "train.tsv")
    assert train(call, "--steps", 1000, *args, "-o", "m").code == 0
    assert record(text / "m")["metrics"]["steps"] == 15


def test_empty_held_out_targets_count_for_bleu(call: Run, text: Path) -> None:
    (text / "odd.tsv").write_text("a b\tb a\n\ta b c d\nc\t\nd\u2028e\te d\n")
    done = train(call, "--steps", 2, "--lr", 0, "--valid", "odd.tsv", "-o", "m", "train.tsv")
    assert done.code == 0, done.err
    (text / "odd.src").write_text("a b\n\nc\nd\u2028e\n")
    (text / "odd.trg").write_text("b a\na b c d\n\ne d\n")
    outputs = call("generate", "m", "odd.src", "--temperature", 0, "--precision", "fp32")
    bleu = call("bleu", "--width", 4, "-b", "odd.trg", stdin=outputs.out)
    assert float(bleu.text) == pytest.approx(rows(text / "m", "valid")[-1]["bleu"], abs=1e-4)


def test_one_pair_at_a_time_in_16_bits(call: Run, text: Path) -> None:
    env = {"NLPTOOLS_EMULATE_BF16": "1"}
    done = train(call, "--batch-size", 1, "--steps", 3, "--precision", "bf16", "-o", "m", "train.tsv", env=env)
    assert done.code == 0, done.err


def test_each_side_with_its_own_vocabulary(call: Run, text: Path) -> None:
    pairs = [(source, target.upper()) for source, target in reversals(1500, 0)]
    (text / "big.tsv").write_text(table(pairs))
    (text / "own").mkdir()
    (text / "own/vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{s.upper()}\t1\n" for s in SYMBOLS + "kl"))
    (text / "own/nlptools_tokenizer.json").write_text('{"kind": "words", "lowercase": false}')
    done = train(
        call, *ARCHITECTURES["rnn"], *LEARN, "--arch", "rnn", "--target-tokenizer", "own", "-o", "m", "big.tsv"
    )
    assert done.code == 0, done.err
    assert call("generate", "m", "--temperature", 0, stdin="a b c\nj\n").lines == ["C B A", "J"]
    told = json.loads(call("describe", "m", "--to", "json").text)
    assert told["model"]["architecture"] == "seq2seq-rnn"
    assert told["source tokenizer"]["kind"] == told["target tokenizer"]["kind"] == "words"
    assert told["model"]["source_vocab_size"] == told["source tokenizer"]["tokens"]
    assert told["files"]["target/vocab.tsv"].endswith(" bytes, ok")
    assert told["training"]["text"].startswith("1,500 pairs, ") and told["training"]["text"].endswith(" of big.tsv")


# -- stopping and going on --------------------------------------------------------------------------------------------


INTERRUPTED = ("--steps", 100, "--dropout", 0.1, "--average", 2, "--valid", "valid.tsv", "--valid-every", 30,
               "--save-every", 8, "--log-every", 1, "train.tsv")  # fmt: skip


def interrupt(
    call: Run, text: Path, server: list[str], args: tuple[Any, ...], signals: tuple[tuple[signal.Signals, int], ...]
) -> None:
    """A run that is stopped at these steps and continued ends as one that never was."""
    assert call("train-seq2seq", *SMALL, *args, "-o", "whole").code == 0
    for number, step in signals:
        running = Running(text / "parts", "train-seq2seq", *SMALL, *args, server=server)
        running.wait_for_step(step)
        code, err = running.stop(number)
        assert code == (-9 if number == signal.SIGKILL else 75), err
    done = call("train-seq2seq", *SMALL, *args, "-o", "parts")
    assert done.code == 0, done.err
    assert weights(text / "parts") == weights(text / "whole")
    for kind, numbers in (("train", ("loss",)), ("valid", ("loss", "bleu"))):
        found = [
            [[row[name] for name in ("step", *numbers)] for row in rows(text / d, kind)] for d in ("whole", "parts")
        ]
        assert found[0] and found[0] == found[1]
    assert len(record(text / "parts")["parts"]) == len(signals) + 1


@pytest.mark.sampled(law="a stopped run goes on")
def test_interrupted_and_continued_the_weights_are_the_same(call: Run, text: Path, fork_server: list[str]) -> None:
    args = ("-t", "words", "--vocab", "vocab.tsv", *INTERRUPTED)
    interrupt(call, text, fork_server, args, ((signal.SIGTERM, 5), (signal.SIGKILL, 20)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_pairs_that_are_read_twice(call: Run, text: Path, arch: str) -> None:
    """The distance of the two passes is part of the loss in training, not of the held-out one."""
    args = ("-t", "words", "--vocab", "vocab.tsv", "--arch", arch, "--steps", 5, "--dropout", 0.3, "--log-every", 1,
            "--valid", "valid.tsv", "--valid-every", 1, "--best", "loss")  # fmt: skip
    for name, rate in (("once", 0), ("twice", "1e-6"), ("apart", 20)):
        done = call("train-seq2seq", *SMALL, *args, "--r-drop", rate, "train.tsv", "-o", name)
        assert done.code == 0, done.err
    first = {name: rows(text / name, "train")[0]["loss"] for name in ("once", "twice", "apart")}
    assert first["once"] == pytest.approx(first["twice"], rel=0.05)
    assert first["apart"] > first["twice"]
    held_out = {name: rows(text / name, "valid") for name in ("twice", "apart")}
    assert held_out["twice"][0]["loss"] == pytest.approx(held_out["apart"][0]["loss"], rel=0.02)
    assert held_out["twice"][-1]["loss"] != held_out["apart"][-1]["loss"]


@pytest.fixture
def pieces(text: Path, english: list[str]) -> Path:
    """A SentencePiece model of English, and pairs of English lines."""
    sentencepiece = pytest.importorskip("sentencepiece")
    (text / "english.txt").write_text("\n".join(english[:300]))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text / "english.txt"), model_prefix=str(text / "sp"), vocab_size=400, minloglevel=2, num_threads=1,
        hard_vocab_limit=False,
    )  # fmt: skip
    lines = [line.replace("\t", " ")[:60] for line in english[:300]]
    (text / "english.tsv").write_text(table([(line, line.lower()) for line in lines]))
    return text


@pytest.mark.sampled(law="a stopped run goes on")
def test_segmentations_drawn_anew_are_drawn_again_when_continued(
    call: Run, pieces: Path, fork_server: list[str]
) -> None:
    args = ("-t", "sp.model", "--sample", 0.2, "--steps", 60, "--save-every", 15, "--log-every", 1, "--valid",
            "valid.tsv", "--valid-every", 60, "english.tsv")  # fmt: skip
    interrupt(call, pieces, fork_server, args, ((signal.SIGTERM, 5),))
    assert call("train-seq2seq", *SMALL, *[a for a in args if a not in ("--sample", 0.2)], "-o", "plain").code == 0
    assert weights(pieces / "plain") != weights(pieces / "whole")
    names = {path.name for path in (pieces / "whole").iterdir()}
    assert {"source.spm", "target.spm", "vocab.json"} <= names


def test_a_time_limit_stops_with_everything_saved(call: Run, text: Path) -> None:
    done = train(call, "--steps", 100000, "--max-time", "0.5s", "-o", "m", "train.tsv")
    assert done.code == 75 and "time limit" in done.err
    assert call("generate", "m", stdin="a b\n").code == 0


@pytest.mark.slow  # as tests/training/engine/test_ranks.py and test_train_lm.py, with another model
def test_two_processes_train_what_one_does(text: Path, call: Run) -> None:
    """Two processes with batches of 8 train on the joint batches of one process with 16."""
    args = ("-t", "words", "--vocab", "vocab.tsv", *SMALL, "--dropout", 0, "--steps", 6, "--lr", "1e-2", "--warmup", 0,
            "--valid", "valid.tsv", "--valid-every", 3, "--threads", 1, "train.tsv")  # fmt: skip
    assert call("train-seq2seq", *args, "--batch-size", 16, "-o", "one").code == 0
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "nlptools",
               "train-seq2seq", *map(str, args), "-o", "two"]  # fmt: skip
    env = environment(OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, *command], cwd=text, env=env, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr.decode()
    for kind in ("train", "valid"):
        losses = [[row["loss"] for row in rows(text / d, kind)] for d in ("one", "two")]
        assert losses[0] and losses[0] == pytest.approx(losses[1], rel=1e-4)
    scores = [[row["bleu"] for row in rows(text / d, "valid")] for d in ("one", "two")]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)


def test_from_another_bundle(call: Run, text: Path) -> None:
    assert train(call, "--steps", 5, "-o", "a", "train.tsv").code == 0
    assert train(call, "--steps", 1, "--lr", 0, "--init", "a", "--dropout", 0.3, "-o", "b", "train.tsv").code == 0
    assert weights(text / "a") == weights(text / "b")
    assert json.loads((text / "b/config.json").read_text())["dropout"] == 0.3
    (text / "other.tsv").write_text("<unk>\t0\n</s>\t0\na\t1\n")
    other = ("train-seq2seq", "-t", "words", "--vocab", "other.tsv", *SMALL, "--steps", 1, "train.tsv")
    lm = ("train-lm", "-t", "words", "--vocab", "vocab.tsv", "--layers", 1, "--hidden", 16, "--heads", 2, "--steps", 1,
          "-q")  # fmt: skip
    assert call(*lm, "-o", "lm", "train.src").code == 0
    for done, code, said in (
        (
            train(call, "--arch", "rnn", "--init", "a", "-o", "x", "train.tsv"),
            2,
            "encoder-decoder model transformer, expected encoder-decoder model rnn",
        ),
        (call(*other, "--init", "a", "-o", "x"), 78, "its vocabulary differs from the vocabulary of the tokenizer"),
        (
            train(call, "--init", "lm", "-o", "x", "train.tsv"),
            2,
            "--init lm: language model transformer, expected encoder-decoder model transformer",
        ),
        (train(call, "--init", "nowhere", "-o", "x", "train.tsv"), 66, "nowhere: no such model directory"),
        (train(call, "--init", "train.tsv", "-o", "x", "train.tsv"), 78, "expected a model directory"),
        (
            call(*lm, "--init", "a", "-o", "x", "train.src"),
            2,
            "--init a: encoder-decoder model transformer, expected language",
        ),
        (call("score", "a", "train.src"), 2, "a is an encoder-decoder"),
    ):
        assert done.code == code and said in done.err and "Traceback" not in done.err, done.err
        assert not (text / "x").exists(), "nothing is begun"


# -- what is told and refused -----------------------------------------------------------------------------------------


def test_long_pairs_are_left_out_or_cut_and_counted(call: Run, text: Path) -> None:
    stdin = "a b c\tc b a\nd e\te d\nf\t\n\tg\nh i\ti h h\n"
    loud = ("train-seq2seq", "-t", "words", "--vocab", "vocab.tsv", *SMALL[:-1], "--steps", 1)
    skipped = call(*loud, "--max-source-length", 2, "-o", "a", stdin=stdin)
    assert "text: 2 pairs, 4 source and 5 target tokens, 2 left out (empty), 1 left out (too long)" in skipped.err
    cut = call(*loud, "--max-source-length", 2, "--max-target-length", 2, "--long", "cut", "-o", "b", stdin=stdin)
    assert "text: 3 pairs, 6 source and 6 target tokens, 2 left out (empty), 2 cut" in cut.err
    assert record(text / "b")["data"]["train"]["cut"] == 2


def test_what_a_model_has_no_positions_for(call: Run, text: Path) -> None:
    """Learnt positions have an end: what is longer is no surprise in the middle of a run."""
    long = "a " * 1500
    stdin = f"{long}\ta\nb\t{long}\nc\tc\n"
    (text / "odd.tsv").write_text(stdin)
    args = ("--arch", "convolution", "--steps", 1, "--valid", "odd.tsv", "-o", "m")
    done = call("train-seq2seq", "-t", "words", "--vocab", "vocab.tsv", *SMALL[:-1], *args, stdin=stdin)
    assert done.code == 0, done.err
    assert "1 pair, 1 source and 1 target tokens, 2 left out (too long); validation: 1 pair," in done.err
    assert "bleu" in rows(text / "m", "valid")[0]
    said = call("generate", "m", "--max-new-tokens", 2, stdin=f"{long}\nc\n")
    assert said.code == 0 and len(said.lines) == 2 and "a source of 1500 tokens is cut to 1023" in said.err


def test_a_loss_without_bounds_is_no_crash(call: Run, text: Path) -> None:
    args = ("--lr", "1e12", "--clip", 0, "--warmup", 0, "--steps", 12, "--valid", "valid.tsv", "--valid-every", 1)
    done = train(call, *args, "--arch", "rnn", "-o", "m", "train.tsv")
    assert done.code in (0, 3), done.err
    assert all(row["perplexity"] < float("inf") for row in rows(text / "m", "valid"))


def test_another_script_is_noticed(call: Run, pieces: Path) -> None:
    done = call(
        "train-seq2seq",
        "-t",
        "sp.model",
        *SMALL,
        "--steps",
        1,
        "--warmup",
        0,
        "-o",
        "m",
        stdin="привет мир\tпривет мир\n",
    )
    assert done.code == 0 and done.err.count("\n") == 2
    for line, side in zip(done.err.split("\n"), ("source", "target"), strict=False):
        assert f"% of the tokens of the {side} side of the training data are unknown to the tokenizer" in line


def test_dry_run_leaves_nothing(call: Run, text: Path) -> None:
    done = call(
        "train-seq2seq", "-t", "words", "--vocab", "vocab.tsv", *SMALL[:-1], "--dry-run", "-o", "m", "train.tsv"
    )
    assert done.code == 0 and "weights" in done.err and "target tokens/s" in done.err and not (text / "m").exists()


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("transformer-base", ("hidden = 512", "layers = 6", "heads = 8", "intermediate = 2048", "dropout = 0.1")),
        ("transformer-big", ("hidden = 1024", "layers = 6", "heads = 16", "intermediate = 4096", "dropout = 0.3")),
        ("iwslt", ("hidden = 512", "layers = 6", "heads = 4", "intermediate = 1024", "dropout = 0.3")),
        ("multi30k", ("hidden = 128", "layers = 4", "heads = 4", "intermediate = 256")),
    ],
)
def test_presets(call: Run, text: Path, preset: str, expected: tuple[str, ...]) -> None:
    dumped = call("train-seq2seq", "-t", "v", "-o", "x", "--preset", preset, "--dump-config")
    assert dumped.code == 0 and set(expected) <= set(dumped.lines), dumped.err
    changed = call("train-seq2seq", "-t", "v", "-o", "x", "--preset", preset, "--hidden", 64, "--dump-config")
    assert "hidden = 64" in changed.lines


def test_the_same_command_again_after_a_mistake(call: Run, text: Path) -> None:
    """What was wrong with the text can be mended, the options too; a run that began is protected."""
    assert train(call, "--steps", 2, "-o", "m", stdin="a\tb\nc d\n").code == 65
    assert train(call, "--steps", 2, "--resume", "must", "-o", "m", "train.tsv").code == 73
    assert train(call, "--steps", 2, "--valid", "vocab.tsv", "-o", "m", stdin="a\n").code == 65
    assert train(call, "--steps", 2, "--layers", 2, "-o", "m", "train.tsv").code == 0
    done = train(call, "--steps", 2, "-o", "m", "train.tsv")
    assert done.code == 73 and "other settings (layers)" in done.err
    done = train(call, "--steps", 2, "--layers", 2, "-o", "m", "valid.tsv")
    assert done.code == 73 and "other text" in done.err
    (text / "other").mkdir()
    (text / "other/precious").write_text("x")
    done = train(call, "--steps", 2, "-o", "other", "train.tsv")
    assert done.code == 73 and "exists and holds no training run" in done.err


@pytest.mark.parametrize(
    ("args", "stdin", "code", "said"),
    [
        (("--source", "train.src", "--target", "valid.trg"), b"", 65, "train.src has 1500, valid.trg has 60"),
        (("--source", "valid.src", "--target", "train.trg"), b"", 65, "valid.src has 60, train.trg has 1500"),
        (("--valid-source", "valid.src", "--valid-target", "train.trg", "train.tsv"), b"", 65, "valid.src has 60"),
        ((), b"a\tb\nc d\n", 65, "<stdin>:2: expected source TAB target, found 1 field"),
        ((), b"a\tb\nc\td\te\n", 65, "<stdin>:2: expected source TAB target, found 3 fields"),
        (("--valid", "valid.src", "train.tsv"), b"", 65, "valid.src:1: expected source TAB target, found 1 field"),
        ((), b"", 65, "no training data: the input has no pairs"),
        (("--valid", "-", "train.tsv"), b"a\t\n", 65, "no validation data: no pair is left (1 with an empty side)"),
        ((), b"\ta\nb\t\n \t\n", 65, "no training data: no pair is left (3 with an empty side)"),
        (("--max-source-length", 1), b"a b\tb\n", 65, "1 with a side that is too long"),
        ((), b"a\tb\nc\t\xff\n", 65, "<stdin>:2: invalid UTF-8 at byte 3"),
        (("train.tsv", "missing.tsv"), b"", 66, "missing.tsv: no such file"),
        (("--valid", "missing.tsv", "train.tsv"), b"", 66, "missing.tsv: no such file"),
        (("--source", "train.src"), b"", 2, "--source requires --target"),
        (("--target", "train.trg"), b"", 2, "--target requires --source"),
        (("--valid-source", "valid.src", "train.tsv"), b"", 2, "--valid-source requires --valid-target"),
        (("--valid-source", "a", "--valid-target", "b", "--valid", "c"), b"", 2, "cannot be combined with --valid"),
        (("--source", "train.src", "--target", "train.trg", "train.tsv"), b"", 2, "cannot be combined with an INPUT"),
        (("--source", "-", "--target", "-"), b"", 2, "only once"),
        (("--valid", "-"), b"a\tb\n", 2, "only once"),
        (("--hidden", 18, "--heads", 4, "train.tsv"), b"", 2, "--hidden 18 is not an even multiple of --heads 4"),
        (
            ("--preset", "iwslt", "--arch", "rnn", "train.tsv"),
            b"",
            2,
            "--preset iwslt: --heads applies to --arch transformer only",
        ),
        (("--r-drop", 5, "--dropout", 0, "train.tsv"), b"", 2, "--r-drop requires --dropout"),
        (("--batch-size", 0, "train.tsv"), b"", 2, "--batch-tokens 0 requires --batch-size"),
        (("--sample", 0.1, "train.tsv"), b"", 2, "sampling the source side"),
        (("--average", 2, "--save-every", "never", "train.tsv"), b"", 2, "--average needs --valid"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    call: Run, text: Path, args: tuple[Any, ...], stdin: bytes, code: int, said: str
) -> None:
    done = train(call, "--steps", 2, "-o", "m", *args, stdin=stdin)
    assert done.code == code and said in done.err, done.err
    lines = done.err.removesuffix("\n").split("\n")
    assert lines[0].startswith("nlptools train-seq2seq: ") and all(line.startswith("  hint: ") for line in lines[1:])
    assert not (text / "m/model.safetensors").exists()


def test_a_tokenizer_without_ids_or_end_is_refused(call: Run, text: Path) -> None:
    done = call("train-seq2seq", "-t", "words", "-o", "m", "train.tsv")
    assert done.code == 2 and "--tokenizer words has no vocabulary" in done.err and "--vocab" in done.err
    (text / "bare.tsv").write_text("a\t1\nb\t1\n")
    done = call("train-seq2seq", "-t", "bare.tsv", "-o", "m", "train.tsv")
    assert done.code == 78 and "no token for the end of a sentence" in done.err
    assert not (text / "m").exists()


def test_odd_text_is_just_text(call: Run, text: Path) -> None:
    odd = "\ufeffa\\tb\tb\r\na\u2028b\tc\u0085d\na\\\\\tb\x00".encode()
    done = train(call, "--steps", 2, "-o", "m", stdin=odd, env={"LC_ALL": "C"})
    assert done.code == 0, done.err
    data = record(text / "m")["data"]["train"]
    assert (data["pairs"], data["source_tokens"], data["target_tokens"], data["source_unknown"]) == (3, 6, 5, 1)
    expected = "a\\tb\tb\na\u2028b\tc\u0085d\na\\\\\tb\x00\n".encode()
    assert data["sha256"] == hashlib.sha256(expected).hexdigest()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "valid", [("--valid", "valid.tsv"), ("--valid-source", "valid.src", "--valid-target", "valid.trg")]
)
def test_the_mean_of_validations_needs_no_other_checkpoints(call: Run, text: Path, valid: tuple[str, ...]) -> None:
    args = ("--steps", 4, "--average", 2, "--save-every", "never", "--valid-every", 2, *valid, "train.tsv")
    assert train(call, *args, "-o", "m").code == 0
    assert record(text / "m")["metrics"]["average"]["steps"] == [2, 4]


def test_without_held_out_pairs_the_mean_is_that_of_what_was_saved(call: Run, text: Path) -> None:
    args = ("--steps", 20, "--average", 2, "--save-every", 5, "--lr", "1e-2", "--warmup", 0, "train.tsv")
    assert train(call, *args, "-o", "m").code == 0
    last = [safetensors.torch.load_file(text / f"m/checkpoints/step-{s:06d}/weights.safetensors") for s in (15, 20)]
    found = bundle.load(text / "m").weights()
    assert found.keys() >= last[0].keys()
    for name, tensor in last[0].items():
        assert bool((found[name] == tensor.double().add(last[1][name]).div(2).float()).all()), name
