"""finetune --task similarity: losses against plain torch, cached gradients, what is written and read again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Run
from torch import Tensor
from torch.nn import functional as F

import nlptools
from nlptools.configs.embed import Embed
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.training.similarity import evaluation
from nlptools.training.similarity import objective as of_objective
from nlptools.training.similarity.objective import ANCHOR, NEGATIVE, POSITIVE, SimilarityLoss, SimilaritySettings
from tests.tasks.tiny_tasks import FP32, encoder
from tests.tiny_bundles import words_bundle

SIZES = EncoderConfig(30, 16, 2, 2, 32, max_position_embeddings=16, hidden_dropout=0.2, attention_dropout=0.2)


def model(dropout: bool = False) -> BertWithHeads:
    torch.manual_seed(1)
    made = BertWithHeads(SIZES).double()
    made.initialize()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.double), alpha=0.3)
    return made.train(dropout)


def batch(negatives: bool) -> list[Tensor]:
    """Rows of 6 examples, each with two texts, some with further ones."""
    random = np.random.default_rng(0)
    role = [role for i in range(6) for role in (ANCHOR, POSITIVE, *[NEGATIVE] * (negatives * (i % 3)))]
    lengths = torch.from_numpy(random.integers(2, 12, len(role)))
    ids = torch.from_numpy(random.integers(5, 30, (len(role), 12)))
    mask = torch.arange(12) < lengths[:, None]
    number, roles = torch.arange(len(role)), torch.tensor(role)
    return [ids * mask, mask, torch.zeros_like(ids), number, roles, (roles == ANCHOR).double()]


def plain(vectors: Tensor, roles: Tensor, symmetric: bool, dims: list[int]) -> Tensor:
    """MultipleNegativesRankingLoss within MatryoshkaLoss, as sentence-transformers documents them."""
    total = torch.zeros((), dtype=vectors.dtype)
    for size in dims:
        anchors, positives, negatives = (vectors[roles == each, :size] for each in (ANCHOR, POSITIVE, NEGATIVE))
        scores = 20 * F.cosine_similarity(anchors[:, None], torch.cat([positives, negatives])[None], dim=2)
        right = torch.arange(len(anchors))
        loss = F.cross_entropy(scores, right)
        if symmetric:
            loss = (loss + F.cross_entropy(scores[:, : len(anchors)].T, right)) / 2
        total = total + loss
    return total


@pytest.mark.parametrize(("negatives", "symmetric", "dims"), [(True, False, ()), (False, True, (16, 8, 3))])
def test_ranking_is_the_plain_loss(negatives: bool, symmetric: bool, dims: tuple[int, ...]) -> None:
    made, arrays = model(), batch(negatives)
    objective = SimilarityLoss(made, SimilaritySettings(symmetric=symmetric, dimensions=dims))
    objective(*arrays)["loss"].backward()
    found = {name: parameter.grad.clone() for name, parameter in made.named_parameters() if parameter.grad is not None}
    made.zero_grad()
    ids, mask, _, _, roles, _ = arrays
    rows = [made.states(ids[[i], : mask[i].sum()]).last.mean(1) for i in range(len(ids))]
    loss = plain(torch.cat(rows).float(), roles, symmetric, list(dims) or [16]) * 6
    loss.backward()
    for name, parameter in made.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=2e-5)


def test_cached_gradients_are_those_of_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from nlptools.layers import pooling

    # pooling in float64 here, where training has float32
    monkeypatch.setattr(pooling, "pool", lambda hidden, mask, kinds: hidden.mean(1))  # of packed rows, without a mask

    def gradients(made: BertWithHeads, chunk: int) -> Tensor:
        torch.manual_seed(5)
        made.zero_grad()
        loss = SimilarityLoss(made, SimilaritySettings(chunk=chunk))(*batch(True))["loss"]
        loss.backward()
        return torch.cat([loss.detach()[None], *(p.grad.flatten() for p in made.parameters() if p.grad is not None)])

    made = model()
    whole = gradients(made, 0)
    for chunk in (16, 3):
        torch.testing.assert_close(gradients(made, chunk), whole, rtol=1e-9, atol=1e-10)
    made = model(dropout=True)
    cached = gradients(made, 5)
    monkeypatch.setattr(of_objective, "checkpoint", lambda compute, *inputs, use_reentrant: compute(*inputs))
    torch.testing.assert_close(gradients(made, 5), cached, rtol=1e-9, atol=1e-10)


def test_an_equal_text_is_no_negative() -> None:
    vectors = torch.randn(4, 8, dtype=torch.double)
    roles = torch.tensor([ANCHOR, POSITIVE] * 2)
    objective = SimilarityLoss(model(), SimilaritySettings())
    twice = objective.losses(vectors, torch.tensor([0, 1, 2, 1]), roles, None)
    assert twice.tolist() == [0.0, 0.0]
    assert (objective.losses(vectors, torch.tensor([0, 1, 2, 3]), roles, None) > 0).all()


def test_retrieval_counts_ranks() -> None:
    anchors = torch.eye(3)
    others = torch.tensor([[0.9, 0.1, 0], [1.0, 0, 0], [0, 0.2, 0.9]])
    roles = torch.tensor([ANCHOR, POSITIVE] * 3)
    found = evaluation.retrieval(anchors, others, torch.tensor([0, 1, 2, 3, 4, 5]), roles)
    # the first anchor prefers the second text, the second one is nearest to the third text, then the first
    assert found == {"accuracy": pytest.approx(1 / 3), "mrr": pytest.approx((1 / 2 + 1 / 3 + 1) / 3)}
    same = evaluation.retrieval(anchors, torch.ones(3, 3), torch.tensor([0, 1, 2, 3, 4, 5]), roles)
    assert same["mrr"] == pytest.approx(1 / 2)


def groups(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Texts with a word in common, and one without it."""
    random = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        key, other = random.choice(8, 2, replace=False)
        noise = [f"w{i}" for i in random.integers(8, 20, 6)]
        out.append(
            (f"w{key} {noise[0]} {noise[1]}", f"{noise[2]} w{key} {noise[3]}", f"{noise[4]} w{other} {noise[5]}")
        )
    return out


@pytest.mark.sampled(law="an encoder learns a task")
def test_from_examples_to_vectors(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    for name, count, seed in (("train", 400, 0), ("valid", 40, 1)):
        triplets = groups(count, seed)
        (tmp_path / f"{name}.tsv").write_text("".join(f"{a}\t{b}\t{c}\n" for a, b, c in triplets))
        scored = [(a, b, 5) if i % 2 else (a, c, 1) for i, (a, b, c) in enumerate(triplets)]
        objects = ({"sentence1": a, "sentence2": b, "score": score} for a, b, score in scored)
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    how = ("-m", "encoder", "--lr", 3e-3, "--epochs", 4, "--threads", 1, "--save-every", "never", "--pooling", "mean")
    done = call(
        "finetune", "--task", "similarity", *how, "--dims", "32,8", "--chunk-size", 24, "--valid", "valid.tsv", "-o", "ranked",
        "train.tsv",
    )  # fmt: skip
    assert done.code == 0 and "validation mrr 0." in done.err, done.err
    record = json.loads((tmp_path / "ranked" / "training.json").read_text())
    assert record["metrics"]["valid_mrr"] > 0.2
    done = call("finetune", "--task", "similarity", *how, "--valid", "valid.jsonl", "-o", "scored", "train.jsonl")
    assert done.code == 0 and "scores: 1 stands for the cosine 0, 5 for 1" in done.err, done.err
    assert json.loads((tmp_path / "scored" / "training.json").read_text())["metrics"]["valid_spearman"] > 0.8
    # opened as it was validated: cosines of the right pairs are higher
    cosines = call("embed", "scored", "--similarity", "--threads", 1, stdin="w1 w9\tw1 w12\nw1 w9\tw2 w9\n").lines
    assert float(cosines[0]) > float(cosines[1]) + 0.3
    modules = [row["type"].split(".")[-1] for row in json.loads((tmp_path / "ranked" / "modules.json").read_text())]
    assert modules == ["Transformer", "Pooling", "Normalize"]
    assert json.loads((tmp_path / "ranked" / "1_Pooling" / "config.json").read_text())["pooling_mode_mean_tokens"]
    vectors = nlptools.load(tmp_path / "ranked", compute=FP32, settings=Embed()).embed(["w1 w2", ""])
    np.testing.assert_allclose((vectors**2).sum(1), 1, rtol=1e-5)
    # a trained directory is trained further, with its own steps
    again = call(
        "finetune", "--task", "similarity", "-m", "ranked", "--steps", 1, "--threads", 1, "-o", "more", "valid.tsv"
    )
    assert again.code == 0, again.err


def test_counts_are_refused(call: Run, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"{a}\t{b}\n" for a, b, _ in groups(64, 0)))
    (tmp_path / "words.txt").write_text("".join(f"{a}\n" for a, _, _ in groups(64, 0)))
    done = call("train-lm", "--arch", "ngram", "--order", 2, "-t", "whitespace", "-o", "counts", "words.txt")
    assert done.code == 0, done.err
    done = call("finetune", "--task", "similarity", "-m", "counts", "-o", "out", "train.tsv")
    assert (done.code, done.err) == (2, "nlptools finetune: --task similarity: counts is not an encoder or a decoder\n")


@pytest.mark.parametrize("arch", ["transformer", "lstm"])
def test_language_models_learn_vectors(call: Run, tmp_path: Path, arch: str) -> None:
    words_bundle(tmp_path / "model", arch)
    (tmp_path / "train.tsv").write_text("".join(f"{a}\t{b}\n" for a, b, _ in groups(64, 0)))
    done = call(
        "finetune",
        "--task",
        "similarity",
        "-m",
        "model",
        "--steps",
        2,
        "--threads",
        1,
        "--force",
        "-o",
        "out",
        "train.tsv",
    )
    assert done.code == 0, done.err
    vectors = [
        nlptools.load(tmp_path / name, compute=FP32, settings=Embed()).embed(["w1", ""]) for name in ("model", "out")
    ]
    assert vectors[0].shape == vectors[1].shape and np.isfinite(vectors[1]).all()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a b\tb\n", ("--dims", "64"), "--dims 64: the vectors have 32 dimensions"),
        ("w1\tw2\n", ("--best", "spearman"), "--best spearman: examples without scores have the measures"),
        ("w1\n", (), "train.tsv:1: 1 column, expected at least two texts"),
        ("w1\tw2\t0.5\nw1\tw2\tgood\n", (), "train.tsv:2: expected a finite number, got 'good'"),
        ("w1\tw2\t0.5\nw1\n", (), "train.tsv:2: 1 column, expected 3"),
        ("", (), "train.tsv: no examples to train on"),
        ("w1\tw2\n", ("--dims", "8,x"), "--dims 8,x: expected numbers of dimensions"),
    ],
)
def test_what_is_refused(call: Run, tmp_path: Path, text: str, arguments: tuple[str, ...], message: str) -> None:
    encoder(tmp_path / "encoder")
    (tmp_path / "train.tsv").write_text(text)
    done = call(
        "finetune", "--task", "similarity", "-m", "encoder", *arguments, "--threads", 1, "-o", "out", "train.tsv"
    )
    assert done.code in (2, 65) and message in done.err, done.err
