"""pretrain-bert: what it learns and leaves, how it stops and goes on, what it refuses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Finished, Run
from running import rows
from safetensors.torch import load_file

from nlptools import bundle, cli
from nlptools.configs.pretraining import PRESETS, TrainBert, long_phase
from nlptools.errors import UsageError

SMALL = ("--layers", 1, "--hidden", 32, "--heads", 2, "--max-length", 32, "--batch-size", 8, "--threads", 1, "-q")

LETTERS = "abcdefghijklmnop"


@pytest.fixture(scope="session")
def tokenizer(english: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WordPiece learned on English."""
    directory = tmp_path_factory.mktemp("pieces")
    (directory / "text").write_text("\n".join(english[:3000]), encoding="utf-8")
    path = directory / "tokenizer"
    args = ["build-vocab", "--kind", "wordpiece", "--size", "600", "--lowercase", "-q", "-o", str(path)]
    assert cli.run([*args, str(directory / "text")]) == 0
    return path


@pytest.fixture
def text(tokenizer: Path, english: list[str], tmp_path: Path) -> Path:
    """Documents of ten lines, to train on and held out."""
    documents = ["\n".join(english[i : i + 10]) + "\n" for i in range(0, 3000, 10)]
    (tmp_path / "train.txt").write_text("\n".join(documents[:280]), encoding="utf-8")
    (tmp_path / "valid.txt").write_text("\n".join(documents[280:]), encoding="utf-8")
    (tmp_path / "tok").symlink_to(tokenizer)
    return tmp_path


def train(call: Run, *more: Any, **kwargs: Any) -> Finished:
    return call("pretrain-bert", *(() if "--init" in more else ("-t", "tok")), *SMALL, *more, **kwargs)


def record(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "training.json").read_text())
    return found


def weights(directory: Path) -> str:
    return hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()


def test_mostly_unknown_text_needs_force(call: Run, text: Path) -> None:
    foreign = "привет мир как дела\n" * 50
    done = train(call, "--objective", "mlm", "--steps", 1, "-o", "m", stdin=foreign)
    assert done.code == 65 and "100% of the tokens of the training data are unknown to the tokenizer" in done.err
    assert "its vocabulary is probably of another language" in done.err
    assert train(call, "--objective", "mlm", "--steps", 1, "--force", "-o", "m", stdin=foreign).code == 0


# -- learning -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("objective", "heads"),
    [("bert", ("pooler", "masked", "next_sentence")), ("mlm", ("masked",)), ("electra", ("replaced",))],
)
def test_text_to_bundle(call: Run, text: Path, objective: str, heads: tuple[str, ...]) -> None:
    more = ("--embedding", 16, "--generator-size", 0.5) if objective == "electra" else ()
    args = ("--lr", "5e-3", "--steps", 60, "--dropout", 0, "--valid-every", 20, "--valid", "valid.txt")
    done = train(call, *args, *more, "--objective", objective, "-o", "m", "train.txt")
    assert (done.code, done.out) == (0, b"")
    first, *_, last = rows(text / "m", "valid")
    assert last["masked_loss"] < min(5.8, first["masked_loss"])  # log 600 is 6.4
    kept, found = record(text / "m"), bundle.load(text / "m")
    nothing = kept["metrics"].get("valid_replaced_f1") == 0  # so few steps teach hardly any discriminator
    assert ("as a masked language model" in done.err) == nothing and bool(done.err) == nothing
    assert kept["status"] == "finished" and kept["metrics"]["predictions"] > 0
    best = min(rows(text / "m", "valid"), key=lambda row: row["loss"])
    assert kept["metrics"]["valid_loss"] == best["loss"]
    assert kept["data"]["train"]["documents"] == 280 and kept["data"]["valid"]["documents"] == 20
    assert found.arch == "bert" and found.model.heads == heads  # type: ignore[attr-defined]
    if objective == "electra":
        assert bundle.load(text / "m" / "generator").model.heads == ("masked",)  # type: ignore[attr-defined]
        assert {"replaced_precision", "replaced_recall", "replaced_f1"} <= best.keys()
    if objective == "bert":
        assert 0.3 < best["next_sentence_accuracy"] <= 1


@pytest.mark.sampled(law="an encoder learns a task")
def test_masked_tokens_are_learned_from_their_neighbors(call: Run, tmp_path: Path) -> None:
    """Letters in the order of the alphabet, round and round, from a random one on."""
    random, marks = Random(0), ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in (*marks, *LETTERS)))
    for name, count in (("train", 200), ("valid", 15)):
        letters = [(LETTERS * 4)[(start := random.randrange(16)) : start + 40] for _ in range(count)]
        (tmp_path / name).write_text(
            "".join(" ".join(row[:20]) + "\n" + " ".join(row[20:]) + "\n\n" for row in letters)
        )
    sizes = ("--layers", 2, "--hidden", 64, "--heads", 4, "--max-length", 32, "--batch-size", 16, "--threads", 1, "-q")
    learn = ("--objective", "mlm", "--dropout", 0, "--lr", "3e-3", "--steps", 80, "--valid-every", "never")
    done = call("pretrain-bert", "-t", "vocab.txt", *sizes, *learn, "--valid", "valid", "-o", "m", "train")
    assert done.code == 0, done.err
    assert record(tmp_path / "m")["metrics"]["valid_masked_accuracy"] > 0.6  # by chance 0.06


def test_standard_input_running_text_and_phases(call: Run, text: Path) -> None:
    running = (text / "train.txt").read_bytes().replace(b"\n\n", b"\0").replace(b"\n", b". ").replace(b"\0", b"\n\n")
    args = ("--sentences", "auto", "--long-phase", "64:0.5", "--steps", 4, "--whole-word", "--mask-rate", 0.3)
    done = train(call, *args, "-o", "m", stdin=running)
    assert (done.code, done.err) == (0, "")
    kept = record(text / "m")
    assert kept["data"]["train"]["inputs"] == ["-"] and kept["data"]["train"]["sentences"] > 1000
    assert bundle.load(text / "m").config["max_position_embeddings"] == 512


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_stopped_run_ends_as_if_it_had_never_stopped(call: Run, text: Path) -> None:
    args = ("--objective", "electra", "--embedding", 16, "--valid", "valid.txt", "--valid-every", 2, "--save-every", 2)
    assert train(call, *args, "--steps", 6, "--schedule", "constant", "-o", "whole", "train.txt").code == 0
    for steps in (3, 6):
        assert train(call, *args, "--steps", steps, "--schedule", "constant", "-o", "m", "train.txt").code == 0
    assert weights(text / "m") == weights(text / "whole")
    assert rows(text / "m", "valid")[-1]["loss"] == rows(text / "whole", "valid")[-1]["loss"]


def test_going_on_from_a_directory(call: Run, text: Path) -> None:
    assert train(call, "--steps", 2, "-o", "a", "train.txt").code == 0
    done = call(
        *("pretrain-bert", "--init", "a", "--objective", "mlm", "--max-length", 32, "--steps", 2, "--threads", 1),
        *("-o", "b", "train.txt"),
    )
    assert done.code == 0, done.err
    assert "left out: pooler, the next sentence" in done.err
    assert bundle.load(text / "b").model.config.hidden_size == 32  # type: ignore[attr-defined]


def test_a_dry_run_leaves_nothing(call: Run, text: Path) -> None:
    done = call("pretrain-bert", "-t", "tok", "--dry-run", *SMALL[:-1], "--steps", 10, "-o", "m", "train.txt")
    assert done.code == 0 and "dry run: " in done.err and "predictions/s" in done.err
    assert not (text / "m").exists()


# -- bad input ----------------------------------------------------------------------------------------------------------


def test_one_document_has_no_other_to_draw_from(call: Run, text: Path) -> None:
    (text / "one.txt").write_text("a line\n" * 50)
    done = train(call, "--steps", 2, "-o", "m", "one.txt")
    assert done.code == 2 and "the text is one document" in done.err and "--objective mlm" in done.err
    done = train(call, "--steps", 2, "--valid", "one.txt", "-o", "n", "train.txt")
    assert done.code == 2 and "validation data: next-sentence prediction" in done.err
    assert train(call, "--steps", 2, "--objective", "mlm", "--force", "-o", "m", "one.txt").code == 0


def test_a_tokenizer_without_mask_is_named(call: Run, text: Path) -> None:
    (text / "vocab.tsv").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    done = call("pretrain-bert", "-t", "vocab.tsv", *SMALL, "-o", "m", "train.txt")
    assert done.code == 78 and "no [MASK]" in done.err


def test_no_text_and_bytes_that_are_none(call: Run, text: Path) -> None:
    assert train(call, "-o", "m", stdin=b"\n \n").code == 65
    done = train(call, "-o", "n", stdin=b"good\n\xff\n")
    assert done.code == 65 and "line" not in done.out.decode()
    assert train(call, "-o", "p", "nothing.txt").code == 66


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint/bert_model.ckpt", "checkpoint/bert_model.ckpt.index"])
def test_tensorflow_checkpoints_are_refused_with_a_hint(call: Run, text: Path, name: str) -> None:
    (text / "checkpoint").mkdir()
    for file in ("bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "vocab.txt"):
        (text / "checkpoint" / file).write_bytes(b"[MASK]\n")
    train_more = ("pretrain-bert", "-t", "tok", "--init", name, "-o", "m", "train.txt")
    for command in (
        train_more,
        ("embed", name, "train.txt"),
        ("finetune", "--task", "classify", "-m", name, "-o", "m", "train.txt"),
    ):
        done = call(*command)
        assert done.code == 78 and "a TensorFlow checkpoint" in done.err and "from_tf=True" in done.err


def test_what_is_no_model_is_refused(call: Run, text: Path) -> None:
    (text / "empty").mkdir()
    assert call("pretrain-bert", "-t", "tok", "--init", "empty", "-o", "m", "train.txt").code == 78
    for tokenizer in ((), ("-t", "tok")):
        missing = call("pretrain-bert", *tokenizer, "--init", "none", "-o", "m", "train.txt")
        assert missing.code == 66 and "none: no such model directory" in missing.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-t", "tok", "--hidden", 30, "--heads", 4), "is not a multiple of"),
        ((), "--tokenizer"),
        (("-t", "tok", "--embedding", 8), "--embedding applies to --objective electra only"),
        (("-t", "tok", "--long-phase", "64"), "not a length and a share"),
        (("-t", "tok", "--long-phase", "64:0.1"), "must be more than --max-length 128"),
        (
            ("-t", "tok", "--preset", "electra-small", "--objective", "bert"),
            "--preset electra-small requires --objective electra",
        ),
        (("-t", "tok", "--preset", "huge"), "electra-base"),
    ],
)
def test_options_that_do_not_go_together(call: Run, text: Path, args: tuple[Any, ...], message: str) -> None:
    done = call("pretrain-bert", *args, "-o", "m", "train.txt")
    assert done.code == 2 and message in done.err, done.err
    assert not (text / "m").exists()


# -- settings -----------------------------------------------------------------------------------------------------------


def test_presets_are_options_and_their_sizes_are_published() -> None:
    names = {field.name for field in cli.group.get_command(None, "pretrain-bert").params}  # type: ignore[arg-type, union-attr]
    sizes = {}
    for name, values in PRESETS.items():
        assert values.keys() <= names
        settings = TrainBert(tokenizer="t", preset=name, **{k: v for k, v in values.items() if hasattr(TrainBert, k)})
        settings.check()
        assert values["batch_size"] * values.get("accumulate", 1) in (128, 256) or name == "hour"
        sizes[name] = (settings.layers, settings.hidden, settings.heads, settings.intermediate)
    assert sizes["tiny"] == (2, 128, 2, 512) and sizes["mini"] == sizes["hour"] == (4, 256, 4, 1024)
    assert sizes["base"] == (12, 768, 12, 3072) and sizes["large"] == (24, 1024, 16, 4096)
    assert sizes["electra-small"] == (12, 256, 4, 1024)


def test_long_phases() -> None:
    assert long_phase("512:0.1") == (512, 0.1) and long_phase("64:.25") == (64, 0.25)
    for text in ("512", "512:0", "512:1", "4:0.1", "x:0.1", "512:-1"):
        with pytest.raises(UsageError):
            long_phase(text)


@pytest.mark.parametrize("objective", ["mlm", "electra"])
def test_where_attention_begins(call: Run, text: Path, objective: str) -> None:
    """Waves, and heads that look around; or all of it drawn as published. Nothing else is told apart."""
    found: dict[str, dict[str, Any]] = {}
    how = ("--objective", objective, "--lr", 0, "--steps", 1)
    for attention in ("neighbors", "random"):
        more = (*how, "--attention", attention, "-o", attention, "train.txt")
        assert train(call, *more).code == 0
        found[attention] = load_file(text / attention / "model.safetensors")
    prefix = "electra" if objective == "electra" else "bert"
    positions = f"{prefix}.embeddings.position_embeddings.weight"
    assert 0.015 < found["random"][positions].std() < 0.025
    assert bool((found["neighbors"][positions][:, 8:] == 0).all())  # a quarter of the dimensions are waves
    different = {name for name, tensor in found["random"].items() if not tensor.equal(found["neighbors"][name])}
    query_key = {f"{prefix}.encoder.layer.0.attention.self.{part}.weight" for part in ("query", "key")}
    assert different == {positions, *query_key}


def test_the_advice_works_as_it_stands(call: Run, text: Path) -> None:
    done = train(call, "--objective", "mlm", "--epochs", 0, "--no-quiet", "-o", "m", "train.txt")
    assert done.code == 0, done.err
    advice = done.err.rpartition("try: nlptools ")[2].split("    or")[0].split()
    assert advice[:3] == ["finetune", "-m", "m"]
    (text / "FILE").write_text("one\tyes\ntwo\tno\n")
    done = call(*advice, "--epochs", 0)
    assert done.code == 0 and (text / "MODEL/model.safetensors").exists(), done.err
