"""train-seq2seq --source-images: captions of pictures, learned, written, continued, refused."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT, Finished, Run
from running import Running
from tiny_pictures import COLORS, SHAPES, captioned, drawn

from nlptools import bundle
from nlptools.models.translation.vision import Captioner
from nlptools.text.pixels import Pixels

pytest.importorskip("PIL")

WORDS = ["<unk>", "</s>", "a", "left", "of", *COLORS, *SHAPES]
SMALL: tuple[Any, ...] = ("--image-size", 16, "--hidden", 16, "--layers", 1, "--batch-size", 8, "--threads", 1, "-q")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Pictures with captions to train on, and a vocabulary."""
    write(tmp_path / "train.tsv", captioned(tmp_path / "train", 20, 1))
    (tmp_path / "vocab.tsv").write_text("".join(f"{word}\t1\n" for word in WORDS))
    return tmp_path


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{name}\t{caption}\n" for name, caption in rows))


def train(call: Run, *more: Any) -> Finished:
    return call("train-seq2seq", "--source-images", "-t", "words", "--vocab", "vocab.tsv", *SMALL, *more)


@pytest.mark.slow
def test_captions_are_learned(call: Run, pictures: Path) -> None:
    write(pictures / "train.tsv", captioned(pictures / "train", 500, 1))
    held_out = captioned(pictures / "valid", 50, 2)
    sizes = ("--hidden", 64, "--layers", 2, "--dropout", 0, "--batch-size", 32)
    rates = ("--lr", "2e-3", "--warmup", 50, "--schedule", "cosine", "--steps", 300)
    assert train(call, *sizes, *rates, "-o", "m", "train.tsv").code == 0
    done = call("generate", "m", stdin="".join(f"{name}\n" for name, _ in held_out))
    assert done.code == 0, done.err
    right = sum(line == caption for line, (_, caption) in zip(done.lines, held_out, strict=True))
    assert right / len(held_out) >= 0.9


def test_the_directory_is_a_model(call: Run, pictures: Path) -> None:
    write(pictures / "valid.tsv", captioned(pictures / "valid", 4, 2))
    done = train(call, "--steps", 6, "--valid", "valid.tsv", "--valid-every", 3, "-o", "m", "train.tsv")
    assert done.code == 0, done.err
    log = [json.loads(line) for line in (pictures / "m/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in log if row["kind"] == "valid"] == [3, 6]
    loaded = bundle.load(pictures / "m")
    model, tokenizer = loaded.model, loaded.tokenizer
    assert isinstance(model, Captioner) and isinstance(tokenizer, Pixels)
    # the pixels come back from the ids, whatever the ids of the padding and of the end are
    values = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    values[0, :2] = [[0, 1, 2], [253, 254, 255]]
    ids = tokenizer.encode(str(drawn(pictures / "random.png", values)))
    pixels = model._pixels(torch.tensor([[*ids, loaded.eos]]))
    assert np.array_equal(((pixels + 1) * 127.5).round().numpy()[0], tokenizer.grid.cut(values))
    assert loaded.eos == 1 and not {1, model.config.pad} & set(ids)
    # a line for each line, the same whatever stands around it, by beam search or with scores
    names = [name for name, _ in captioned(pictures / "valid", 4, 2)]
    for options in ((), ("--beam", 0, "--temperature", 0), ("--to", "jsonl", "--nbest", 2)):
        together = call("generate", "m", *options, stdin="".join(f"{name}\n" for name in names))
        assert together.code == 0, together.err
        alone = [line for name in names for line in call("generate", "m", *options, "--text", name).lines]
        if "jsonl" not in options:
            assert together.lines == alone
            continue
        for line, other in zip(map(json.loads, together.lines), map(json.loads, alone), strict=True):
            assert line["source"] == other["source"]
            for found, wanted in zip(line["translations"], other["translations"], strict=True):
                score = pytest.approx(wanted.pop("score"), abs=1e-5)  # of sums in another order
                assert found.pop("score") == score and found == wanted
    scores = call("generate", "m", "--score-target", "train.tsv")
    assert scores.code == 0 and len(scores.lines) == 20, scores.err
    # more training, and an ensemble
    done = call(
        "train-seq2seq", "--source-images", "-t", "m", "--init", "m", "--steps", 1, "-q", "-o", "n", "train.tsv"
    )
    assert done.code == 0, done.err
    assert call("generate", "m", "n", "--text", names[0]).code == 0
    assert call("describe", "m").code == 0


def test_sizes(call: Run, pictures: Path) -> None:
    """Other sizes with --resize, JPEG, and pictures that are not square."""
    rows = [("train/0.png", "a red disc")]
    for name, shape in (("wide.jpg", (8, 24, 3)), ("gray.png", (10, 10))):
        drawn(pictures / name, np.full(shape, 200, np.uint8))
        rows.append((name, "a red disc"))
    write(pictures / "sizes.tsv", rows)
    for size in (16, "24x8"):
        done = train(call, "--image-size", size, "--resize", "--steps", 1, "-o", f"m{size}", "sizes.tsv")
        assert done.code == 0, done.err
        done = call("generate", f"m{size}", stdin="wide.jpg\ngray.png\n")
        assert done.code == 0 and len(done.lines) == 2, done.err


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.slow
def test_stopped_and_continued(call: Run, pictures: Path, fork_server: list[str]) -> None:
    args = ("train-seq2seq", "--source-images", "-t", "words", "--vocab", "vocab.tsv", *SMALL, "--steps", 40,
            "--log-every", 1, "--save-every", 5, "train.tsv")  # fmt: skip
    assert call(*args, "-o", "whole").code == 0
    running = Running(pictures / "parts", *args, server=fork_server)
    running.wait_for_step(7)
    assert running.stop(signal.SIGTERM)[0] == 75
    assert call(*args, "-o", "parts").code == 0
    whole, parts = (
        hashlib.sha256((pictures / d / "model.safetensors").read_bytes()).digest() for d in ("whole", "parts")
    )
    assert whole == parts


@pytest.mark.sampled(law="examples run")
def test_the_example_of_the_manual(call: Run, pictures: Path) -> None:
    """The commands of the page, with one step of training."""
    page = (ROOT / "nlptools/cli/manual/commands/train-seq2seq.md").read_text(encoding="utf-8")
    [training, filter] = [line for line in page.split("\n") if "captions/" in line]
    names = [drawn(pictures / f"photos/{i}.png", np.full((64, 64, 3), 50 * i, np.uint8)) for i in range(3)]
    rows = [f"photos/{path.name}\ta red disc\n" for path in names]
    (pictures / "captions.tsv").write_text("".join(rows))
    words = training.split()
    assert words[0] == "nlptools"
    done = call(*words[1:], "--steps", 1, "--hidden", 16, "--layers", 1, "-q")
    assert done.code == 0, done.err
    listing, command = filter.split(" | nlptools ")
    found = subprocess.run(listing, shell=True, cwd=pictures, capture_output=True, text=True, check=True).stdout
    done = call(*command.split(), stdin=found)
    assert found.count("\n") == len(done.lines) == 3 and done.code == 0, done.err


def test_refusals(call: Run, pictures: Path) -> None:
    first = pictures / "train/0.png"
    (pictures / "text.png").write_text("not a picture")
    (pictures / "cut.png").write_bytes(first.read_bytes()[:80])
    drawn(pictures / "large.png", np.zeros((20, 16, 3), np.uint8))
    assert train(call, "--steps", 1, "-o", "m", "train.tsv").code == 0
    for name, message, hint in (
        ("text.png", "text.png: not a picture in PNG or JPEG format", "expected a PNG or JPEG file"),
        ("none.png", "none.png: no such file or directory", "relative to the current directory"),
        ("cut.png", "cut.png: not a picture in PNG or JPEG format", "expected a PNG or JPEG file"),
        ("large.png", "large.png: 16 x 20 pixels, expected 16 x 16", "--resize"),
        ("", "expected the name of a picture, found an empty text", ""),
    ):
        write(pictures / "bad.tsv", [("train/0.png", "a red disc"), (name, "a red disc")])
        done = train(call, "--steps", 1, "-o", "x", "bad.tsv")
        assert done.code == 65 and f"bad.tsv:2: {message}" in done.err and hint in done.err, done.err
        (pictures / "names.txt").write_text(f"train/0.png\n{name}\ntrain/1.png\n")
        done = call("generate", "m", "names.txt")
        assert done.code == 65 and f"names.txt:2: {message}" in done.err and hint in done.err, done.err
        assert len(done.lines) == 1  # what came before
    for args, message in (
        (("--image-size", 15), "pictures of 15 x 15 pixels cannot be cut into patches of 4 x 4"),
        (("--image-size", "a"), "not a size of images: 'a', expected something like 32 or 40x24"),
        (("--max-source-length", 9), "--source-images cannot be combined with --max-source-length"),
        (("--arch", "rnn"), "--source-images applies to --arch transformer only"),
        (("--init", "m"), "--image-size cannot be combined with --init"),
    ):
        done = train(call, *args, "-o", "x", "train.tsv")
        assert done.code == 2 and message in done.err, done.err
    done = call("train-seq2seq", "-t", "words", "--vocab", "vocab.tsv", "--resize", "-o", "x", "train.tsv")
    assert done.code == 2 and "--resize requires --source-images" in done.err
    for options, message in (
        (("--alignments",), "--alignments requires attention to source tokens"),
        (("--max-source-length", 9), "--max-source-length is for sources that are texts"),
        (("--long", "split"), "--long is for sources that are texts"),
    ):
        done = call("generate", "m", *options, "--text", "train/0.png")
        assert done.code == 2 and message in done.err, done.err
    done = call("attend", "m", "--text", "train/0.png")
    assert done.code == 2 and "is a model of pictures, which attend cannot take" in done.err
