"""score --masked: pseudo-log-likelihoods on the command line, and models that have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Run
from tiny_bundles import words_bundle
from tiny_encoders import WORDS, encoder_bundle

from nlptools import bundle

TEXT = "the cat sat on a mat\n\nit ate\nthe cat and the cat and the mat and the mat sat up on it\nzebra\n"


@torch.inference_mode()
def one_by_one(path: Path, line: str) -> list[float]:
    """The log-probability of each word, masked by itself."""
    model: Any = bundle.load(path).model
    ids = [WORDS.index(word) if word in WORDS else 1 for word in line.split()]
    scores = []
    for place, id in enumerate(ids):
        first = min(max(0, place - 5), max(0, len(ids) - 10))
        masked = [*ids[:place], 4, *ids[place + 1 :]]
        row = [2, *masked[first : first + 10], 3]
        hidden = model.encoder(torch.tensor([row])).last[0, 1 + place - first]
        scores.append(float(model.masked_logits(hidden[None]).log_softmax(-1)[0, id]))
    return scores


def test_lines_tokens_words_and_the_whole_text_agree(call: Run, bert: Path) -> None:
    expected = [one_by_one(bert, line) for line in TEXT.split("\n")[:-1]]
    options = ("--masked", "--precision", "fp32")
    lines = [line.split("\t") for line in call("score", bert, *options, stdin=TEXT).lines]
    assert [int(tokens) for _, tokens in lines] == [len(values) for values in expected] == [6, 0, 2, 15, 1]
    assert [float(score) for score, _ in lines] == pytest.approx([sum(values) for values in expected], abs=1e-3)
    tokens = call("score", bert, *options, "--per", "token", stdin=TEXT).text.split("\n\n")
    shown = [float(row.split("\t")[1]) for row in tokens[0].split("\n")]
    assert shown == pytest.approx(expected[0], abs=1e-3)
    words = call("score", bert, *options, "--per", "word", "--base", "e", "--measures", "surprisal,rank", stdin=TEXT)
    row = words.lines[0].split("\t")
    assert row[0] == "the" and float(row[1]) == pytest.approx(-expected[0][0], abs=1e-3) and int(row[2]) >= 1
    total = json.loads(call("score", bert, *options, "--per", "total", stdin=TEXT).out)
    assert total["log_probability"] == pytest.approx(sum(map(sum, expected)), abs=1e-3)
    assert (total["tokens"], total["documents"], total["words"], total["unknown"]) == (24, 5, 24, 1)
    assert total["bytes"] == len(TEXT.encode()) and total["protocol"]["masked"] == "pll"


def test_values_do_not_depend_on_the_batch(call: Run, bert: Path) -> None:
    whole = call("score", bert, "--masked", "pll", "--precision", "fp32", stdin=TEXT).lines
    for more in (("--batch-tokens", 1), ("--line-buffered",), ("--batch-tokens", 30)):
        again = call("score", bert, "--masked", "pll", "--precision", "fp32", *more, stdin=TEXT).lines
        for a, b in zip(whole, again, strict=True):
            assert float(a.split("\t")[0]) == pytest.approx(float(b.split("\t")[0]), abs=2e-4)


def test_a_column_and_objects(call: Run, bert: Path) -> None:
    alone = call("score", bert, "--masked", "--text", "it ate").text
    assert call("score", bert, "--masked", "--text-column", 2, stdin="1\tit ate\n").text == f"1\tit ate\t{alone}"
    found = json.loads(call("score", bert, "--masked", "within-word", "--to", "jsonl", "--text", "it ate").out)
    assert found["tokens"] == 2 and found["log_probability"] == pytest.approx(float(alone.split("\t")[0]), abs=1e-3)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--no-eos",), "--masked cannot be combined with --no-eos"),
        (("--stride", "3"), "--masked cannot be combined with --stride"),
        (("--carry",), "--masked cannot be combined with --carry"),
        (("--per", "total", "--document", "line"), "--masked cannot be combined with --document"),
        (("--per", "word", "--no-boundary-correction"), "--masked cannot be combined with --no-boundary-correction"),
    ],
)
def test_options_that_do_not_go_together(call: Run, bert: Path, args: tuple[str, ...], said: str) -> None:
    done = call("score", bert, "--masked", *args, stdin="it\n")
    assert done.code == 2 and said in done.err and done.out == b""


def test_models_that_have_no_such_scores(call: Run, bert: Path, tmp_path: Path) -> None:
    plain, lm = encoder_bundle(tmp_path / "plain"), words_bundle(tmp_path / "lm")
    done = call("score", plain, "--masked", stdin="it\n")
    assert done.code == 2 and "plain is an encoder without a head that predicts masked tokens" in done.err
    done = call("score", lm, "--masked", stdin="it\n")
    assert done.code == 2 and "is a language model" in done.err and "score, generate, embed" in done.err
    done = call("score", bert, stdin="it\n")
    assert done.code == 2 and "is an encoder, which score cannot take" in done.err
    assert "score --masked, fill, embed, attend, rerank, predict --ask and finetune can" in done.err
    done = call("score", plain, stdin="it\n")
    assert done.code == 2 and "hint: embed, attend, rerank, predict --ask and finetune can use it" in done.err


def test_a_tokenizer_without_a_mask(call: Run, tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "it"]
    path = encoder_bundle(tmp_path / "bert", words=words, heads=("masked",))
    done = call("score", path, "--masked", stdin="it\n")
    assert done.code == 78 and "the tokenizer has no [MASK]" in done.err
