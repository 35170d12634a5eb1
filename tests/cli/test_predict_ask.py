"""predict --ask: the heads of pretraining, lines longer than the context, and models and lines that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from conftest import Run
from tiny_bundles import words_bundle
from tiny_encoders import WORDS, encoder_bundle

from nlptools import bundle

CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ask")
    encoder_bundle(place / "bert", heads=("pooler", "masked", "next_sentence"))
    encoder_bundle(place / "electra", "electra", heads=("replaced",))
    return place


def ids_of(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


@torch.inference_mode()
def replaced(path: Path, ids: list[int]) -> list[float]:
    model = bundle.load(path).model.eval()
    return model.replaced(model.encoder(torch.tensor([[CLS, *ids, SEP]])).last)[0, 1:-1].sigmoid().tolist()


@torch.inference_mode()
def follows(path: Path, a: str, b: str) -> float:
    model = bundle.load(path).model.eval()
    first, second = [CLS, *ids_of(a), SEP], [*ids_of(b), SEP]
    types = torch.tensor([[0] * len(first) + [1] * len(second)])
    hidden = model.encoder(torch.tensor([[*first, *second]]), None, types).last
    return model.next_sentence(model.encoder.pooler(hidden)).softmax(-1)[0, 0].item()


def test_next_sentences(models: Path, call: Run) -> None:
    pairs = [("the cat sat", "it ate"), ("the mat", "and up the cat"), ("a", "it")]
    text = "".join(f"{a}\t{b}\n" for a, b in pairs)
    done = call("predict", models / "bert", "--ask", "next", "--precision", "fp32", stdin=text)
    assert done.code == 0, done.err
    records = call(
        "predict", models / "bert", "--ask", "next", "--precision", "fp32", "--to", "jsonl", stdin=text
    ).lines
    for (a, b), line, record in zip(pairs, done.lines, map(json.loads, records), strict=True):
        p = follows(models / "bert", a, b)
        label, share = line.split("\t")
        assert label == record["label"] == ("next" if p > 0.5 else "not-next")
        assert float(share) == pytest.approx(max(p, 1 - p), abs=1e-4)
        assert record["probability"] == pytest.approx(max(p, 1 - p), abs=1e-5)


def test_replaced_tokens(models: Path, call: Run) -> None:
    long = " ".join(["the", "cat", "ate", "a", "mat", "and"] * 3)
    text = f"the cat ate\n\n{long}\n"
    done = call("predict", models / "electra", "--ask", "replaced", "--precision", "fp32", stdin=text)
    assert done.code == 0, done.err
    short, empty, windowed = (line.split("\t") for line in done.lines)
    assert short[::2] == ["the", "cat", "ate"] and empty == [""] and windowed[::2] == long.split()
    assert list(map(float, short[1::2])) == pytest.approx(
        replaced(models / "electra", ids_of(text.split("\n")[0])), abs=1e-4
    )
    # 10 tokens fit: the first window owns the first half of what it sees, and its own middle
    first = replaced(models / "electra", ids_of(long)[:10])
    last = replaced(models / "electra", ids_of(long)[-10:])
    shares = list(map(float, windowed[1::2]))
    assert shares[:7] == pytest.approx(first[:7], abs=1e-4) and shares[-5:] == pytest.approx(last[-5:], abs=1e-4)
    done = call("predict", models / "electra", "--ask", "replaced", "--to", "jsonl", "--line-buffered", stdin=text)
    assert [len(json.loads(line)["tokens"]) for line in done.lines] == [3, 0, 18]


def test_models_and_lines_that_do_not_fit(models: Path, call: Run, tmp_path: Path) -> None:
    done = call("predict", models / "bert", "--ask", "replaced", stdin="a\n")
    assert done.code == 2 and "bert has no head that predicts replaced tokens" in done.err and "electra" in done.err
    done = call("predict", models / "electra", "--ask", "next", stdin="a\tit\n")
    assert done.code == 2 and "no head that predicts the next sentence" in done.err
    lm = words_bundle(tmp_path / "lm")
    done = call("predict", lm, "--ask", "next", stdin="a\tit\n")
    assert done.code == 2 and "which predict --ask cannot take" in done.err
    (tmp_path / "in.tsv").write_text("a\tit\na\n")
    done = call("predict", models / "bert", "--ask", "next", tmp_path / "in.tsv")
    assert done.code == 65 and "in.tsv:2: expected two texts, found 1 between tabs" in done.err
    done = call("predict", models / "electra", "--ask", "replaced", tmp_path / "in.tsv")
    assert done.code == 65 and "in.tsv:1: expected a text, found 2 between tabs" in done.err
    done = call("predict", models / "bert", "--ask", "next", "--top-k", 2, stdin="a\tit\n")
    assert done.code == 2 and "--top-k" in done.err
    done = call("predict", models / "bert", "--ask", "next", "--text-column", 1, stdin="a\tit\n")
    assert done.code == 2 and "lines of text" in done.err
