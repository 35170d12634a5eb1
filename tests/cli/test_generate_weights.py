"""--quantize of generate, chat, serve and score: what is written about it, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from tiny_bundles import bytes_bundle, words_bundle

import nlptools
from nlptools.compute.kernels import fp16, int8
from nlptools.configs import Compute
from nlptools.configs.generation import Generate
from nlptools.configs.serve import Serve
from nlptools.serving.service import Service

pytestmark = pytest.mark.skipif(not int8.available(), reason="no products in 8 bits for this processor")
GREEDY = ("--temperature", 0, "--max-new-tokens", 8, "--threads", 1)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return words_bundle(tmp_path_factory.mktemp("words") / "lm")


def test_the_loss_is_a_note_and_the_text_that_of_the_library(call: Run, words: Path) -> None:
    prompts = ["w1 w2 w3 w4", "", "w5 w6"]
    done = call("generate", words, *GREEDY, "--quantize", "int8", stdin="\n".join(prompts) + "\n")
    assert done.code == 0
    note = re.fullmatch(r"int8 weights: perplexity ([\d.]+) -> ([\d.]+) on 6 tokens of the prompts", done.err.strip())
    assert note and float(note[1]) != float(note[2])
    loaded: Any = nlptools.load(words, settings=Generate(quantize="int8"), device="cpu", threads=1)
    settings = Generate(temperature=0, max_new_tokens=8)
    assert done.lines == [row[0].text for row in loaded.generate(prompts, settings)]
    quiet = call("generate", words, *GREEDY, "--quantize", "int8", "-q", stdin="w1\n")
    assert (quiet.code, quiet.err) == (0, "")
    empty = call("generate", words, *GREEDY, "--quantize", "int8", stdin="\n")
    assert empty.code == 0 and "the prompts are empty" in empty.err


def test_vectors_are_compared_and_what_has_no_layers_is_refused(call: Run, bert: Path, tmp_path: Path) -> None:
    text = "the cat sat\n\non a mat\n"
    plain, rounded = (call("embed", bert, "--to", "tsv", *more, stdin=text) for more in ((), ("--quantize", "int8")))
    assert plain.code == rounded.code == 0 and plain.out != rounded.out
    note = re.fullmatch(
        r"int8 weights: cosine with the vector before ([\d.]+), lowest ([\d.]+), of 2 lines", rounded.err.strip()
    )
    assert note and 0.9 < float(note[2]) <= float(note[1]) < 1.0001
    cut = ("--to", "tsv", "--max-length", 4)
    whole, twice = (call("embed", bert, *cut, *more, stdin=text).err for more in ((), ("--quantize", "int8")))
    assert "cut 2 lines" in whole and whole.splitlines()[-1] in twice  # the lines that are compared do not count
    pairs = call("embed", bert, "--similarity", "--quantize", "int8", stdin="the cat\ta mat\n")
    assert (pairs.code, pairs.err) == (0, "") and -1 <= float(pairs.out) <= 1
    nothing = call("embed", bert, "--to", "tsv", "--quantize", "int8", stdin="")
    assert (nothing.code, nothing.out) == (0, b"")
    (tmp_path / "words.txt").write_text("1 2\ncat 0 1\n")
    refused = call("embed", tmp_path / "words.txt", "--to", "tsv", "--quantize", "int8", stdin=text)
    assert refused.code == 2 and "--quantize int8 needs a neural model with linear layers" in refused.err
    asked = call("predict", bert, "--ask", "next", "--quantize", "int8", stdin="the cat\ta mat\n")
    assert asked.code == 0 and len(asked.lines) == 1


def test_score_measures_a_text(call: Run, words: Path) -> None:
    text = "w1 w2 w3 w4 w5\nw6 w7\n"
    totals = []
    for more in ((), ("--quantize", "int8")):
        done = call("score", words, "--per", "total", "--threads", 1, *more, stdin=text)
        assert (done.code, done.err) == (0, "")
        totals.append(json.loads(done.out))
    plain, rounded = totals
    assert rounded["protocol"]["weights"] == "int8" and "weights" not in plain["protocol"]
    assert rounded["perplexity"] != plain["perplexity"]
    assert rounded["perplexity"] == pytest.approx(plain["perplexity"], rel=0.2)


@pytest.mark.skipif(not fp16.available(), reason="no products in fp16 for this processor")
def test_weights_in_fp16_lose_little(call: Run, words: Path) -> None:
    done = call("generate", words, *GREEDY, "--quantize", "fp16", stdin="w1 w2 w3 w4\n")
    note = re.fullmatch(r"fp16 weights: perplexity ([\d.]+) -> ([\d.]+) on 4 tokens of the prompts", done.err.strip())
    assert done.code == 0 and note and float(note[2]) == pytest.approx(float(note[1]), rel=2e-3)
    scored = call("score", words, "--per", "total", "--threads", 1, "--quantize", "fp16", stdin="w1 w2 w3 w4 w5\n")
    assert (scored.code, json.loads(scored.out)["protocol"]["weights"]) == (0, "fp16")


def test_answers_of_chat_and_serve(call: Run, tmp_path: Path) -> None:
    model = bytes_bundle(tmp_path / "lm", max_position_embeddings=512)
    loaded: Any = nlptools.load(model, settings=Generate(quantize="int8"), device="cpu", threads=1)
    prompt = "<|im_start|>user\nabc<|im_end|>\n<|im_start|>assistant\n"
    ((wanted,),) = loaded.generate([prompt], Generate(temperature=0, max_new_tokens=8))
    more = ("--chat", "chatml", "--temperature", 0, "--max-new-tokens", 8, "--quantize", "int8", "--threads", 1)
    done = call("chat", model, *more, stdin='{"content": "abc"}\n')
    assert (done.code, json.loads(done.out)["content"]) == (0, wanted.text), done.err
    service = Service.open(str(model), Serve(quantize="int8"), Compute(device="cpu", threads=1))
    assert service.generator is not None
    assert service.generator.model.output.rounded is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--quantize", "int4"), "int4"),
        (("--quantize", "int8", "--dynamic", "0.1"), "--dynamic"),
        (("--quantize", "int8", "--with", "x"), "--with"),
        (("--quantize", "int8", "--masked"), "--masked"),
    ],
)
def test_what_score_refuses(call: Run, words: Path, more: tuple[str, ...], reason: str) -> None:
    done = call("score", words, *more, stdin="w1\n")
    assert done.code == 2 and reason in done.err


def test_models_without_such_weights_are_refused(call: Run, tmp_path: Path) -> None:
    call(
        "train-lm", "--arch", "ngram", "-t", "words", "--order", 2, "-o", tmp_path / "counts", stdin="a b c a b\n" * 20
    )
    for command in (("generate", *GREEDY), ("score",)):
        done = call(command[0], tmp_path / "counts", *command[1:], "--quantize", "int8", stdin="a b\n")
        assert done.code == 2 and "needs a neural model with linear layers" in done.err


def test_contrastive_search_needs_candidates_and_a_language_model(call: Run, words: Path) -> None:
    done = call("generate", words, "--contrastive", 0.6, stdin="w1\n")
    assert done.code == 2 and "--top-k" in done.err
    done = call("generate", words, "--contrastive", 0.6, "--top-k", 4, "--beam", 2, stdin="w1\n")
    assert done.code == 2 and "--contrastive cannot be combined with --beam" in done.err
    outputs = []
    for size in (1, 8):
        arguments = ("--contrastive", 0.6, "--top-k", 4, "--max-new-tokens", 8, "--batch-size", size)
        done = call("generate", words, *arguments, stdin="w1 w2\n\nw3\nw4 w5 w6\n")
        assert (done.code, done.err) == (0, "")
        outputs.append(done.out)
    assert outputs[0] == outputs[1]
