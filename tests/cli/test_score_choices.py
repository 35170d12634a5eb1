"""score --choices: the log-probability of each choice is that of its tokens in the whole text, whatever the format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Finished, Run
from tiny_bundles import bytes_bundle

ITEMS = [
    {"id": 5, "context": "w1 w2", "choices": ["w3", "w4 w5 .", "w1"], "answer": 1},
    {"context": "", "choices": ["w3", "w4"], "answer": "w3"},
    {"context": "w7 w2 w2 w9 ", "choices": ["w3 w3 w3", "w4"], "answer": None},
    {"context": "w1 w2", "choices": ["w6", "w4 w5 ."], "answer": 0},
]
WAYS = ("sum", "token", "byte", "character")
LINES = "".join(json.dumps(item) + "\n" for item in ITEMS)


def objects(done: Finished) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.lines]


def tokens(call: Run, model: Path, lines: list[str]) -> list[list[float]]:
    """The log-probabilities of the tokens of each line."""
    done = call("score", model, "--per", "token", "--to", "jsonl", "--no-eos", stdin="\n".join(lines) + "\n")
    return [json.loads(line)["log_probability"] for line in done.lines]


@pytest.mark.parametrize("options", [[], ["--batch-tokens", 1], ["--line-buffered"]])
def test_choices_have_the_log_probabilities_of_their_tokens(call: Run, words: Path, options: list[Any]) -> None:
    done = call("score", words, "--choices", *options, stdin=LINES)
    found = objects(done)
    for item, scored in zip(ITEMS, found, strict=True):
        texts = [f"{item['context']} {choice}" for choice in item["choices"]]
        counts = [len(choice.split()) for choice in item["choices"]]
        sums = [sum(row[-n:]) for row, n in zip(tokens(call, words, texts), counts, strict=True)]
        assert scored["log_probability"] == pytest.approx(sums, abs=1e-4)
        assert scored["tokens"] == counts and scored["bytes"] == [len(choice) for choice in item["choices"]]
        assert {key: scored[key] for key in item} == item
        for way, lengths in (("sum", [1, 1, 1]), ("token", counts), ("byte", scored["bytes"])):
            values = [value / n for value, n in zip(sums, lengths, strict=False)]
            assert scored["best"][way] == values.index(max(values))
    answers = [1, 0, None, 0]
    right = {w: sum(o["best"][w] == a for o, a in zip(found, answers, strict=True)) for w in WAYS}
    shown = ", ".join(f"{n / 3:.4f} by {way}" for way, n in right.items())
    assert done.err == f"accuracy: {shown}; 3 records with an answer\n"


def test_accuracy_alone_with_its_protocol(call: Run, words: Path) -> None:
    lines = objects(call("score", words, "--choices", "--unconditional", "w8", stdin=LINES))
    total = json.loads(call("score", words, "--choices", "--per", "total", "--unconditional", "w8", stdin=LINES).out)
    assert (total["records"], total["answered"]) == (4, 3)
    for way, value in total["accuracy"].items():
        assert value == sum(lines[i]["best"][way] == a for i, a in ((0, 1), (1, 0), (3, 0))) / 3
    assert total["accuracy"].keys() == {*WAYS, "unconditional"}
    assert (total["protocol"]["context"], total["protocol"]["unconditional"]) == (24, "w8")


def test_without_the_context(call: Run, words: Path) -> None:
    alone = tokens(call, words, ["w8 w3", "w8 w4 w5 .", "w8 w1"])
    (item, *_) = objects(call("score", words, "--choices", "--unconditional", "w8", stdin=LINES))
    assert item["unconditional"] == pytest.approx([sum(row[1:]) for row in alone], abs=1e-4)
    differences = [a - b for a, b in zip(item["log_probability"], item["unconditional"], strict=True)]
    assert item["best"]["unconditional"] == differences.index(max(differences))
    (item, *_) = objects(call("score", words, "--choices", "--unconditional", "", stdin=LINES))
    assert item["unconditional"] == pytest.approx(
        [sum(row) for row in tokens(call, words, ["w3", "w4 w5 .", "w1"])], abs=1e-4
    )


def test_greedy_choices_are_those_that_generate_writes(call: Run, words: Path) -> None:
    greedy = ("generate", words, "--temperature", 0, "--max-new-tokens", 2, "--threads", 1)
    output = json.loads(call(*greedy, "--to", "jsonl", "--logprobs", stdin="w1 w2\n").out)["continuations"][0]
    first, second = output["tokens"]
    item = {"context": "w1 w2", "choices": [f"{first} {second}", first, "w4", f"{first} w4"]}
    assert "w4" not in (first, second)
    (scored,) = objects(call("score", words, "--choices", stdin=json.dumps(item) + "\n"))
    assert scored["greedy"] == [True, True, False, False]


def test_formats(call: Run, words: Path, tmp_path: Path) -> None:
    (tmp_path / "swag.csv").write_text("sent1,sent2,ending0,ending1,label\nw1 w2,,w3,w4 w5 .,1\n", encoding="utf-8")
    same = [
        {"ctx": "w1 w2", "endings": ["w3", "w4 w5 ."], "label": "1"},
        {"prompt": "w1 w2", "choices": [" w3", " w4 w5 ."], "answer": 1, "label": "7", "endings": ["w9"]},
        {"context": "w1 w2", "choices": [" w3", " w4 w5 ."], "gold": 1},
    ]
    lines = objects(call("score", words, "--choices", stdin="".join(json.dumps(item) + "\n" for item in same)))
    lines += objects(call("score", words, "--choices", "swag.csv"))
    # all but the characters, which the spaces of choices are among
    best = [{way: line["best"][way] for way in ("sum", "token", "byte")} for line in lines]
    assert len({json.dumps([line["log_probability"], each]) for line, each in zip(lines, best, strict=True)}) == 1
    assert [line["characters"] for line in lines] == [[2, 7], [3, 8], [3, 8], [2, 7]]
    assert lines[3]["sent1"] == "w1 w2"


def test_a_prompt_goes_on_without_a_delimiter(call: Run, tmp_path: Path) -> None:
    letters = bytes_bundle(tmp_path / "letters")
    score = ("score", letters, "--choices")
    prompt = json.dumps({"prompt": "ab", "choices": ["cd", "e"]}) + "\n"
    context = prompt.replace("prompt", "context")
    (plain,) = objects(call(*score, stdin=prompt))
    assert plain["tokens"] == [2, 1]
    assert objects(call(*score, stdin=context))[0]["tokens"] == [3, 2]
    (none,) = objects(call(*score, "--target-delimiter", "", stdin=context))
    assert none["log_probability"] == plain["log_probability"]


def test_contexts_are_cut_from_the_left_or_refused(call: Run, words: Path) -> None:
    long = " ".join(f"w{i}" for i in range(40))
    line = json.dumps({"context": long, "choices": ["w3", "w4 w5"]}) + "\n"
    done = call("score", words, "--choices", stdin=line)
    assert done.err == "nlptools score: warning: prompt cut by 18 tokens on the left to fit the context of 24\n"
    (item,) = objects(done)
    # the last 24 tokens, as in a window that begins in the middle of a text
    short = json.dumps({"context": " ".join(long.split()[-24:]), "choices": ["w3", "w4 w5"]}) + "\n"
    (ending,) = objects(call("score", words, "--choices", stdin=short))
    assert item["log_probability"] == ending["log_probability"]
    done = call("score", words, "--choices", "--strict", stdin=line)
    assert (done.code, done.out) == (65, b"") and "<stdin>:1: ' w3': 17 tokens too long" in done.err
    done = call("score", words, "--choices", stdin=json.dumps({"context": "w1", "choices": [long, "w2"]}) + "\n")
    assert done.code == 65 and "40 tokens, more than the context of the model, 24" in done.err


def test_n_gram_models_and_mixtures_score_choices(call: Run, words: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("w1 w2 w3\nw1 w2 w3 w4\nw4 w5 .\nw1 w6\n" * 5, encoding="utf-8")
    done = call("train-lm", "--arch", "ngram", "-t", "words", "--order", 3, "-o", "ngrams", "train.txt")
    assert done.code == 0, done.err
    for model in (["ngrams"], ["ngrams", "--with", words]):
        (item, *_) = objects(call("score", *model, "--choices", stdin=LINES))
        line = call("score", *model, "--per", "token", "--to", "jsonl", stdin="w1 w2 w4 w5 .\n").lines[0]
        scores = json.loads(line)["log_probability"][2:5]
        assert item["log_probability"][1] == pytest.approx(sum(scores), abs=1e-4)
    assert item["greedy"][0]


@pytest.mark.parametrize(
    ("options", "stdin", "code", "words_of_error"),
    [
        (["--strict"], "", 2, "--strict requires --choices"),
        (["--unconditional", ""], "", 2, "--unconditional requires --choices"),
        (["--choices", "--per", "word"], "", 2, "--choices applies to --per line, total only"),
        (["--choices", "--carry"], "", 2, "--choices cannot be combined with --carry"),
        (["--choices", "--no-eos"], "", 2, "--choices cannot be combined with --no-eos"),
        (["--choices"], '{"context": "a"', 65, "<stdin>:1: not valid JSON"),
        (["--choices"], '{"context": "a", "choices": ["b"]}', 65, "<stdin>:1: no context with two or more endings"),
        (["--choices"], '{"context": "a", "choices": ["b", "c"], "answer": 2}', 65, "<stdin>:1: label '2', expected"),
        (["--choices"], '{"context": "a", "choices": ["b", ""]}', 65, "<stdin>:1: ' ': no token to score"),
        (["--choices", "--per", "total"], '{"context": "a", "choices": ["b", "c"]}', 65, "no record has an answer"),
    ],
)
def test_refusals(call: Run, words: Path, options: list[str], stdin: str, code: int, words_of_error: str) -> None:
    done = call("score", words, *options, stdin=stdin + "\n" if stdin else "")
    assert (done.code, done.out) == (code, b"") and words_of_error in done.err
