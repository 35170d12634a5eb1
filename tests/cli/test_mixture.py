"""score --with, --tune, --save, --cache and --dynamic; generate with a saved mixture."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, environment, within
from tiny_bundles import words_bundle

TEXT = "".join(f"w1 w{i % 7} w{i % 5} w2\n" for i in range(40)) + "\nw9 nowhere w1\n"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models `lstm`, `gpt`, `counts`, `pairs`, `counts.arpa`, and `text`."""
    place = tmp_path_factory.mktemp("models")
    words_bundle(place / "lstm", "lstm")
    words_bundle(place / "gpt")
    (place / "text").write_text(TEXT)
    train = ("train-lm", "--arch", "ngram", "-t", "words", "-q")
    for more in (["--order", "3", "-o", "counts", "--arpa", "counts.arpa"], ["--order", "2", "-o", "pairs"]):
        assert within(place, *train, *more, "text").code == 0
    return place


@pytest.fixture
def models(kept: Path, tmp_path: Path) -> Path:
    """A copy in the working directory."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return tmp_path


def total(call: Run, *args: Any, stdin: str = TEXT) -> dict[str, Any]:
    done = call("score", *args, "--per", "total", stdin=stdin)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_lines_tokens_and_the_whole_text_agree(call: Run, models: Path) -> None:
    how = ("lstm", "--with", "counts.arpa", "--with", "gpt", "--mix-weights", ".5,.3,.2")
    whole = total(call, *how)
    lines = [line.split("\t") for line in call("score", *how, stdin=TEXT).lines]
    assert sum(float(score) for score, _ in lines) == pytest.approx(whole["log_probability"], abs=0.01)
    assert sum(int(count) for _, count in lines) == whole["tokens"]
    tokens = call("score", *how, "--per", "token", stdin=TEXT).lines
    assert sum(float(row.split("\t")[1]) for row in tokens if row) == pytest.approx(whole["log_probability"], abs=0.01)
    words = call(
        "score", *how, "--per", "word", "--measures", "surprisal,rank,entropy", "--base", "e", stdin=TEXT
    ).lines
    first = [float(row.split("\t")[1]) for row in words[:4]]
    assert first == pytest.approx([-float(row.split("\t")[1]) for row in tokens[:4]], abs=1e-3)
    assert whole["protocol"]["mixture"] == [
        {"model": "lstm", "weight": 0.5}, {"model": "counts.arpa", "weight": 0.3}, {"model": "gpt", "weight": 0.2}
    ]  # fmt: skip
    assert whole["protocol"]["context"] == 24 and "share" in whole["protocol"]["vocabulary"]


def test_weights_for_a_held_out_text_and_a_directory_that_moves(call: Run, models: Path) -> None:
    done = call(
        "score", "lstm", "--with", "counts.arpa", "--tune", "text", "--save", "mix", "--per", "total", stdin=TEXT
    )
    assert done.code == 0, done.err
    rows = [row for row in done.err.split("\n") if row and "warning" not in row]
    assert [row.split(":")[0] for row in rows] == ["lstm", "counts.arpa", "mixture"]
    tuned = json.loads(done.out)
    weights = [each["weight"] for each in tuned["protocol"]["mixture"]]
    assert sum(weights) == pytest.approx(1) and weights[1] > 0.9
    alone = [float(row.split("perplexity ")[1].split(" ")[0]) for row in rows]
    assert alone[0] == pytest.approx(total(call, "lstm")["perplexity"], abs=1e-3)
    assert alone[2] == pytest.approx(tuned["perplexity"], abs=1e-3) and alone[2] <= min(alone) + 1e-3

    (models / "elsewhere").mkdir()
    (models / "mix").rename(models / "elsewhere" / "mix")
    for name in ("lstm", "counts.arpa"):
        shutil.rmtree(models / name, ignore_errors=True)
    again = total(call, "elsewhere/mix")
    assert again["log_probability"] == pytest.approx(tuned["log_probability"], rel=1e-6)
    assert total(call, "elsewhere/mix", "--mix-weights", "1,0")["perplexity"] == pytest.approx(alone[0], rel=1e-5)
    for more in (("--temperature", 0), ("--beam", 3), ("--num-samples", 2)):
        generated = call("generate", "elsewhere/mix", "--max-new-tokens", 4, *more, stdin="w1\n\nw3 w2\n")
        assert generated.code == 0 and len(generated.lines) == 3, generated.err
    described = call("describe", "elsewhere/mix")
    assert described.code == 0 and "model-2" in described.text


def test_a_directory_is_not_replaced_by_chance(call: Run, models: Path) -> None:
    save = ("counts", "--with", "pairs", "--save")
    assert call("score", *save, "mix", stdin="").code == 0
    assert call("score", *save, "mix", stdin="").code == 73
    assert call("score", *save, "mix", "--force", stdin="").code == 0
    done = call("score", *save, "lstm", "--force", stdin="")
    assert done.code == 73 and "lstm: contains something other than a mixture" in done.err
    (models / "mix/model-1/model.safetensors").write_bytes(b"x")
    assert call("score", "mix", stdin="w1\n").code == 78
    (models / "mix/config.json").write_text(
        '{"model_type": "nlptools-mixture", "parts": [{"path": "../x", "weight": 1}]}'
    )
    (models / "mix/manifest.json").unlink()
    done = call("score", "mix", stdin="w1\n")
    assert done.code == 78 and 'expected "parts" with "path" and "weight"' in done.err


def test_ngrams_are_mixed_without_pytorch(models: Path) -> None:
    code = (
        "import sys; from nlptools.cli import main\n"
        "for more in (['counts', '--with', 'counts.arpa', '--tune', 'text', '--save', 'mix', 'text'], ['mix', 'text']):\n"
        "    sys.argv = ['nlptools', 'score', *more]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "    assert 'torch' not in sys.modules, more\n"
    )
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=models, env=environment(), check=True, capture_output=True)


def test_cache_and_dynamic_evaluation(call: Run, models: Path) -> None:
    plain = total(call, "lstm", "--carry")
    before = (models / "lstm/model.safetensors").read_bytes()
    found = {}
    for name, more in {
        "cache": ("--cache", 30, "--cache-settings", ".5,.2"),
        "dynamic": ("--dynamic", 0.05, "--dynamic-segment", 10, "--dynamic-decay", 0.01),
        "both": ("--with", "counts", "--cache", 30, "--dynamic", 0.05),
    }.items():
        found[name] = total(call, "lstm", *more)
        assert found[name]["perplexity"] < plain["perplexity"]
        assert found[name]["protocol"]["state"] == "carried over documents"
        assert total(call, "lstm", *more) == found[name]
        lines = call("score", "lstm", *more, "--line-buffered", stdin=TEXT).lines
        summed = sum(float(line.split("\t")[0]) for line in lines)
        assert summed == pytest.approx(found[name]["log_probability"], rel=1e-3)
    assert found["cache"]["protocol"]["cache"] == {"tokens": 30, "weight": 0.5, "factor": 0.2}
    assert found["dynamic"]["protocol"]["dynamic"] == {"rate": 0.05, "decay": 0.01, "segment": 10}
    assert (models / "lstm/model.safetensors").read_bytes() == before
    done = call("score", "lstm", "--cache", 30, "--tune", "text", "--per", "total", stdin=TEXT)
    assert done.code == 0 and "cache of 30 tokens: weight " in done.err
    assert json.loads(done.out)["perplexity"] <= found["cache"]["perplexity"] + 1e-3
    both = call("score", "gpt", "--with", "pairs", "--cache", 30, "--tune", "text", "--per", "total", stdin=TEXT)
    assert both.code == 0 and "cache of 30 tokens" in both.err and "mixture: " in both.err


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("counts", "--cache", "5"), 2, "--cache: counts sees nothing before the sentence"),
        (("counts", "--with", "pairs", "--carry"), 2, "--carry: a mixture of n-gram models sees nothing"),
        (("lstm", "--mix-weights", ".5,.5"), 2, "--mix-weights requires a mixture"),
        (("lstm", "--save", "x"), 2, "--save requires a mixture"),
        (("lstm", "--tune", "text"), 2, "--tune requires a mixture"),
        (
            ("lstm", "--with", "gpt", "--mix-weights", ".5,.3,.2"),
            2,
            "--mix-weights has 3 numbers, the mixture has 2 models",
        ),
        (("lstm", "--with", "gpt", "--mix-weights", ".5,.4"), 2, "that sum to 1"),
        (
            ("lstm", "--with", "gpt", "--mix-weights", ".5,.5", "--tune", "text"),
            2,
            "--mix-weights cannot be combined with --tune",
        ),
        (("lstm", "--with", "gpt", "--cache", "5"), 2, "--cache requires a mixture of one neural model"),
        (("lstm", "--with", "nowhere"), 66, "nowhere: no such model directory"),
        (("lstm", "--with", "gpt", "--tune", "nowhere"), 66, "nowhere: no such file"),
        (("lstm", "--with", "gpt", "--tune", "empty"), 65, "empty: no text for --tune"),
        (("lstm", "--cache", "9", "--tune", "empty"), 65, "empty: no text for --tune"),
        (("counts", "--with", "pairs", "--tune", "empty"), 65, "empty: no text for --tune"),
        (("lstm", "--cache-settings", ".1,.3"), 2, "--cache-settings requires --cache"),
        (("lstm", "--cache", "5", "--cache-settings", "1,.3"), 2, "expected two numbers such as .1,.3"),
        (("lstm", "--cache", "5", "--per", "word"), 2, "--cache cannot be combined with --per word"),
        (("lstm", "--dynamic-decay", ".1"), 2, "--dynamic-decay requires --dynamic"),
        (("gpt", "--dynamic", ".1", "--stride", "4"), 2, "--dynamic cannot be combined with --stride"),
        (("lstm", "--dynamic", ".1", "--precision", "bf16"), 2, "--dynamic computes in fp32"),
        (("gpt", "--dynamic", "1e6"), 3, "the weights are no longer finite"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    call: Run, models: Path, args: tuple[str, ...], code: int, message: str
) -> None:
    (models / "empty").write_text("")
    done = call("score", *args, stdin=TEXT)
    lines = [line for line in done.err.split("\n") if "warning" not in line]
    assert done.code == code and message in lines[0], done.err
    assert lines[0].startswith("nlptools score: ") and (len(lines) == 2 or lines[1].startswith("  hint: "))
