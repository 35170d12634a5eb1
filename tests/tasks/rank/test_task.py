"""finetune --task rank, and rerank with its model, with a model of transformers and with cosines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run

from nlptools.formats.ranked_lines import RankedLine
from nlptools.inference.reranking import reranked
from nlptools.metrics.retrieval import graded
from tests.tasks.tiny_tasks import encoder


def pairs(count: int, seed: int) -> list[str]:
    """Lines of a query and a text, which is good where it has the word "good"."""
    random = np.random.default_rng(seed)
    lines = []
    for i in range(count):
        words = [f"w{j}" for j in random.integers(0, 20, 3)]
        lines += [
            f"w{i % 20} {words[0]}\t{words[1]} {word} {words[2]}\t{score}" for word, score in (("good", 3), ("bad", 1))
        ]
    return lines


def test_from_pairs_to_a_ranking(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    (tmp_path / "train.tsv").write_text("\n".join(pairs(150, 0)) + "\n")
    (tmp_path / "valid.tsv").write_text("\n".join(pairs(15, 1)) + "\n")
    how = ("--lr", 3e-3, "--epochs", 3, "--threads", 1, "--save-every", "never", "--valid", "valid.tsv")
    done = call("finetune", "--task", "rank", "-m", "encoder", *how, "-o", "ranker", "train.tsv")
    assert done.code == 0 and "validation ndcg 1.0000" in done.err, done.err
    config = json.loads((tmp_path / "ranker" / "config.json").read_text())
    assert config["id2label"] == {"0": "LABEL_0"} and config["nlptools"]["task"]["highest"] == 3.0
    lines = ["w1\tw3 bad\tkept", "w1\tw3 good w4\tkept too", "w2\tbad", "w2\tgood", "w2\tbad w1"]
    predicted = [
        float(x)
        for x in call("predict", "ranker", "--threads", 1, "--precision", "fp32", stdin="w1\tgood\nw1\tbad\n").lines
    ]
    assert predicted[0] > predicted[1] + 0.1
    done = call("rerank", "ranker", "--threads", 1, "--device", "cpu", stdin="\n".join(lines))
    assert done.code == 0, done.err
    written = [line.rsplit("\t", 1) for line in done.lines]
    assert [line for line, _ in written][:2] == [lines[1], lines[0]] and written[2][0] == "w2\tgood"
    scores = [float(score) for _, score in written]
    assert scores[2] >= scores[3] >= scores[4] and min(scores) >= 0 and max(scores) <= 1
    slow = call("rerank", "ranker", "--threads", 1, "--line-buffered", "--top-k", 1, stdin="\n".join(lines))
    assert [line.rsplit("\t", 1)[0] for line in slow.lines] == [lines[1], "w2\tgood"]
    rows = [{"q": "w1", "t": text, "id": i} for i, text in enumerate(("bad", "good"))]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [
        json.loads(line)
        for line in call(
            "rerank", "ranker", "--threads", 1, "--precision", "fp32", "--columns", "q,t", "in.jsonl"
        ).lines
    ]
    assert [each["id"] for each in found] == [1, 0] and found[0]["score"] == pytest.approx(predicted[0], abs=1e-4)


def test_a_cross_encoder_of_transformers(call: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(9))]
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "vocab.txt").write_text("\n".join(words) + "\n")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), num_labels=1, **sizes)
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path / "foreign")
    tokenizer = transformers.BertTokenizer(str(tmp_path / "foreign" / "vocab.txt"))
    lines = [f"w1 w2\tw{i} w{i + 1}" for i in range(7)]
    with torch.no_grad():
        encoded = [tokenizer(*line.split("\t"), return_tensors="pt") for line in lines]
        scores = [float(model(**each).logits) for each in encoded]
    done = call("rerank", "foreign", "--threads", 1, "--precision", "fp32", stdin="\n".join(lines))
    assert done.code == 0, done.err
    order = sorted(range(7), key=lambda i: -scores[i])
    assert [line.rsplit("\t", 1)[0] for line in done.lines] == [lines[i] for i in order]
    np.testing.assert_allclose([float(line.rsplit("\t", 1)[1]) for line in done.lines], sorted(scores)[::-1], atol=1e-5)


def test_cosines_of_an_encoder(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    lines = ["w1 w2\tw5", "w1 w2\tw1 w2", "w3\tgood"]
    done = call("rerank", "encoder", "--threads", 1, "--precision", "fp32", stdin="\n".join(lines))
    same = call("embed", "encoder", "--similarity", "--threads", 1, "--precision", "fp32", stdin="\n".join(lines)).lines
    assert done.lines[0] == "w1 w2\tw1 w2\t1" and done.lines[1].startswith("w1 w2\tw5\t")
    assert float(done.lines[1].split("\t")[2]) == pytest.approx(float(same[0]), abs=2e-5)


def test_refusals(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    for stdin, arguments, code, message in (
        ("a line\n", (), 65, "<stdin>:1: expected two fields, found one"),
        ("{}\n", ("--layout", "jsonl"), 65, "<stdin>:1: no text under 'query'"),
        ("a\tb\n", ("--columns", "a", "--layout", "jsonl"), 2, "--columns: expected two keys"),
    ):
        done = call("rerank", "encoder", *arguments, "--threads", 1, stdin=stdin)
        assert done.code == code and message in done.err, done.err
    (tmp_path / "train.tsv").write_text("w1\tw2\t3\nw1\tw3\t3\n")
    done = call("finetune", "--task", "rank", "-m", "encoder", "-o", "x", "train.tsv")
    assert done.code == 65 and "every score is 3" in done.err, done.err


def test_groups_are_whole() -> None:
    class Lengths:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def scores(self, pairs: list[tuple[str, str]]) -> list[float]:
            self.asked.append(len(pairs))
            return [float(len(text)) for _, text in pairs]

        def finish(self) -> None: ...

    groups = [[RankedLine(str(i), "x" * j, f"{i}\t{j}") for j in range(i)] for i in (3, 2, 4)]
    lengths = Lengths()
    found = [(line.line, score) for line, score in reranked(lengths, iter(groups), 2, window=4)]  # type: ignore[arg-type]
    assert lengths.asked == [5, 4]
    assert found == [("3\t2", 2), ("3\t1", 1), ("2\t1", 1), ("2\t0", 0), ("4\t3", 3), ("4\t2", 2)]


def test_graded_rankings() -> None:
    assert graded([0, 1, 0], [3, 2, 1]) == (1 / 2, pytest.approx(1 / np.log2(3)))
    assert graded([0.2, 0.1], [1, 2]) == (1 / 2, pytest.approx((0.1 + 0.2 / np.log2(3)) / (0.2 + 0.1 / np.log2(3))))
    assert graded([1, 0], [1, 1])[0] == 1 / 2  # equal scores are not in favor of the model
