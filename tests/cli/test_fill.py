"""fill: the probabilities at masks, ranks of given words, long lines, several masks, and lines without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_bundles import words_bundle
from tiny_encoders import WORDS

from nlptools import bundle

CLS, SEP, MASK = 2, 3, 4


@torch.inference_mode()
def probabilities(path: Path, ids: list[int], place: int) -> list[float]:
    """The distribution at a position, from the plain model."""
    model = bundle.load(path).model.eval()
    hidden = model.encoder(torch.tensor([[CLS, *ids, SEP]]))[0][0, place + 1]
    return model.masked_logits(hidden[None]).softmax(-1)[0].tolist()


def ids_of(line: str) -> list[int]:
    return [WORDS.index(word) for word in line.split()]


def test_fillers_are_the_likeliest_words_of_each_mask(bert, call):
    line = "the [MASK] sat [MASK] a mat"
    found = call("fill", bert, "-k", 3, "--to", "jsonl", "--precision", "fp32", stdin=f"{line}\n\n").lines
    record, empty = map(json.loads, found)
    assert record["text"] == line and empty == {"text": "", "fillers": []}
    for place, fillers in zip((1, 3), record["fillers"], strict=True):
        p = probabilities(bert, ids_of(line), place)
        ranked = sorted(range(5, len(WORDS)), key=lambda id: -p[id])[:3]  # the first five are special tokens
        assert [word for word, _ in fillers] == [WORDS[id] for id in ranked]
        assert [share for _, share in fillers] == pytest.approx([p[id] for id in ranked], rel=1e-4)


def test_formats_agree(bert, call):
    text = "the [MASK] sat\n\n[MASK] ate the [MASK]\n"
    records = [json.loads(line) for line in call("fill", bert, "--to", "jsonl", stdin=text).lines]
    rows = [line.split("\t") for line in call("fill", bert, "--to", "tsv", stdin=text).lines]
    expected = [
        [str(number), str(mask), str(rank), word]
        for number, record in enumerate(records, 1)
        for mask, fillers in enumerate(record["fillers"], 1)
        for rank, (word, _) in enumerate(fillers, 1)
    ]
    assert [row[:4] for row in rows] == expected
    lines = call("fill", bert, stdin=text).lines
    assert [line.split("\t")[::2] for line in lines] == [
        [word for fillers in record["fillers"] for word, _ in fillers] or [""] for record in records
    ]


def test_choices_are_ranked_by_their_probability(bert, call):
    line = "the cat ___ on a mat"
    masked = ids_of(line.replace("___", "[MASK]"))
    p = probabilities(bert, masked, 2)
    out = call(
        "fill", bert, "--mask", "___", "--choices", "ate,sat", "--choices", "up", "--precision", "fp32", stdin=line
    )
    fields = out.text.split()
    expected = sorted(("ate", "sat", "up"), key=lambda word: -p[WORDS.index(word)])
    assert fields[::2] == expected
    assert [float(share) for share in fields[1::2]] == pytest.approx([p[WORDS.index(w)] for w in expected], rel=1e-3)
    # a choice of two words: the product along the chain
    two = call("fill", bert, "--mask", "___", "--choices", "sat up", "--precision", "fp32", stdin=line).text.split("\t")
    wide = [*masked[:2], MASK, MASK, *masked[3:]]
    first = probabilities(bert, wide, 2)[WORDS.index("sat")]
    wide[2] = WORDS.index("sat")
    assert float(two[1]) == pytest.approx(first * probabilities(bert, wide, 3)[WORDS.index("up")], rel=1e-3)


def test_a_long_line_is_seen_around_its_mask(bert, call):
    words = ["the", "cat"] * 20
    words[30] = "[MASK]"
    out = call("fill", bert, "-k", 1, "--precision", "fp32", stdin=" ".join(words)).text.split("\t")
    p = probabilities(bert, ids_of(" ".join(words[25:35])), 5)
    assert float(out[1]) == pytest.approx(max(p[5:]), rel=1e-3)


def test_faults_name_the_line_and_the_cure(bert, call, tmp_path):
    (tmp_path / "in.txt").write_text("the [MASK] sat\nthe cat sat\n")
    out = call("fill", bert, tmp_path / "in.txt")
    assert out.code == 65 and "in.txt:2: no [MASK] in the line" in out.err and "--mask" in out.err
    out = call("fill", bert, "--choices", "ate, ", stdin="a [MASK]\n")
    assert out.code == 2 and "has no token" in out.err
    out = call("fill", bert, stdin="a zebra [MASK]\n")
    assert out.code == 0 and "unknown to the tokenizer" in out.err
    lm = words_bundle(tmp_path / "lm")
    out = call("fill", lm, stdin="a [MASK]\n")
    assert out.code == 2 and "which fill cannot take" in out.err
