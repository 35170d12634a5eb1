"""Coreference chains: learnt, measured, predicted into the last column, also in documents longer than a row."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run

from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.batches.features import batch as feature_batch
from nlptools.configs.finetuning import Finetune
from nlptools.errors import DataError, UsageError
from nlptools.formats.chains import read_chains
from nlptools.formats.reading_options import Options
from nlptools.layers.chains import LONGEST, SIZE, ChainHead
from nlptools.metrics.coreference import coreference, read_files
from nlptools.tasks import task as tasks
from nlptools.tasks.coreference import ranking
from tests.tasks.classify.test_task import predicted
from tests.tasks.tiny_tasks import encoder, gpt, train

HOW: dict[str, Any] = {"task": "coreference", "epochs": 8.0, "lr": 1e-2, "batch_size": 4}
ENTITIES = ("w0", "w1", "good w2", "good w3", "w4")


def documents(path: Path, count: int, seed: int = 0, sentences: int = 8) -> Path:
    """Equal names mean the same; a name may have one word or two. Other words mean nothing."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        lines.append(f"#begin document (d{number}); part 000")
        seen: dict[str, int] = {}
        rows: list[list[tuple[str, str]]] = []
        for _ in range(sentences):
            sentence = [(f"w{rng.randrange(5, 20)}", "-") for _ in range(rng.randrange(2, 5))]
            name = rng.choice(ENTITIES)
            chain = seen.setdefault(name, len(seen))
            words = name.split()
            cells = [f"({chain})"] if len(words) == 1 else [f"({chain}", f"{chain})"]
            at = rng.randrange(len(sentence) + 1)
            rows.append([*sentence[:at], *zip(words, cells), *sentence[at:]])
        counts = [sum(f"({chain})" == c or f"({chain}" == c for row in rows for _, c in row) for chain in seen.values()]
        for row in rows:
            for i, (word, cell) in enumerate(row):
                alone = cell != "-" and counts[int(cell.strip("()"))] == 1
                lines.append(f"d{number} 0 {i} {word} {'-' if alone else cell}")
            lines.append("")
        lines.append("#end document")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def conll(key: Path, lines: list[str], response: Path) -> float:
    response.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = read_files(str(key), str(response))
    return coreference(data.references, data.predictions).values()["conll"]


@pytest.mark.sampled(law="an encoder learns a task")
def test_equal_names_are_found(tmp_path: Path, fork: Run) -> None:
    encoder(tmp_path / "encoder")
    data, valid, test = (documents(tmp_path / f"{n}.conll", count, n) for n, count in enumerate((50, 10, 10)))
    done = train(tmp_path, data, valid, **HOW)
    assert done.metrics["valid_conll"] > 0.9
    config = bundle.load(tmp_path / "out").config
    assert config["architectures"] == ["BertModel"] and config["nlptools"]["task"]["name"] == "chains"
    lines = predicted(tmp_path / "out", test)
    assert conll(test, lines, tmp_path / "response") > 0.9
    assert [line.split()[:-1] for line in lines] == [
        line.split()[:-1] for line in test.read_text().split("\n")[:-1]
    ]  # the last column is replaced
    assert predicted(tmp_path / "out", test, window=3, batch_tokens=40) == lines
    objects = [json.loads(line) for line in predicted(tmp_path / "out", test, to="jsonl")]
    assert [each["document"] for each in objects] == [f"(d{i}); part 000" for i in range(10)]
    mentions = [mention for each in objects for chain in each["chains"] for mention in chain]
    assert {mention["text"] for mention in mentions} <= {*ENTITIES, "good"} and len(mentions) > 40
    done = fork("predict", "out", "2.conll", "-o", "predicted.conll")
    assert (done.code, done.err) == (0, "")
    done = fork("evaluate", "-m", "muc,conll", "-r", "2.conll", "predicted.conll")
    assert [line.split("\t")[0] for line in done.lines] == ["muc", "conll"]
    assert float(done.lines[1].split("\t")[1]) == pytest.approx(conll(test, lines, tmp_path / "response"), abs=1e-4)
    bare = tmp_path / "bare"  # without the last column, predictions are appended
    bare.write_text("\n".join(line.rpartition(" ")[0] if line[:1] == "d" else line for line in lines) + "\n")
    assert predicted(tmp_path / "out", bare, layout="conll") == lines


@pytest.mark.sampled(law="a language model learns a task")
@pytest.mark.slow  # as with an encoder, above; tests/training/finetuning/test_gpt.py has language models with each task
def test_a_language_model_learns_chains(tmp_path: Path) -> None:
    gpt(tmp_path / "encoder")
    data, valid = documents(tmp_path / "a.conll", 60), documents(tmp_path / "b.conll", 10, 1)
    assert train(tmp_path, data, valid, **HOW).metrics["valid_conll"] > 0.7


@torch.no_grad()
def test_the_loss_is_that_of_all_antecedents_one_by_one() -> None:
    torch.manual_seed(0)
    head, words = ChainHead(8, 0.0).double(), torch.randn(7, 4 * SIZE, dtype=torch.float64) / 4
    sentences = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    mentions = {(0, 0): 0, (1, 2): 1, (4, 4): 0, (5, 6): 1, (6, 6): 0}
    table = torch.tensor([[a, b, chain] for (a, b), chain in mentions.items()])
    found = ranking.document_loss(head, words, sentences, table)
    scores = head.mention_scores(words, sentences)
    spans = [(a, b) for a in range(7) for b in range(a, 7) if sentences[a] == sentences[b]]
    assert torch.isfinite(scores).sum() == len(spans) == ranking.number_of_spans(np.array([4, 3]))
    best = sorted(spans, key=lambda s: (s not in mentions, -float(scores[s[0], s[1] - s[0]])))
    kept = sorted(best[: ranking.number_kept(7, len(spans), len(mentions))])
    assert len(kept) == 5
    total = 0.0
    for i, later in enumerate(kept):
        pairs = head.pair_scores(words, torch.tensor(kept), slice(i, i + 1))[0]
        every, right = [0.0], []
        for j, earlier in enumerate(kept[:i]):
            every.append(
                float(pairs[j] + scores[later[0], later[1] - later[0]] + scores[earlier[0], earlier[1] - earlier[0]])
            )
            if mentions[earlier] == mentions[later]:
                right.append(every[-1])
        total += math.log(sum(map(math.exp, every))) - math.log(sum(map(math.exp, right or [0.0])))
    assert float(found) == pytest.approx(total)


def test_spans_stay_in_a_sentence_and_are_not_too_long() -> None:
    head, sentences = ChainHead(8, 0.0), torch.tensor([0] * 40 + [1] * 3)
    scores = head.mention_scores(torch.randn(43, 4 * SIZE), sentences)
    assert scores.shape == (43, LONGEST)
    possible = {(a, a + more) for a, more in torch.isfinite(scores).nonzero().tolist()}
    assert possible == {(a, b) for a in range(43) for b in range(a, 43) if (a < 40) == (b < 40) and b - a < LONGEST}
    assert len(possible) == ranking.number_of_spans(np.array([40, 3]))


def test_crossing_mentions_of_a_chain_are_left_out() -> None:
    spans = [(0, 2), (0, 5), (1, 3), (3, 5), (6, 6)]
    assert ranking.linked(spans, [1.0, 5.0, 2.0, 3.0, 0.0], [-1, 0, 0, 1, 3]) == [((0, 2), (0, 5), (3, 5), (6, 6))]
    assert ranking.linked(spans, [1.0] * 5, [-1] * 5) == []


@torch.no_grad()
def test_a_batch_has_the_loss_of_its_documents(tmp_path: Path) -> None:
    loaded = bundle.load(encoder(tmp_path / "encoder"))
    examples = list(read_chains(str(documents(tmp_path / "a", 4)), Options()))
    task = tasks.for_training(Finetune(task="chains", model="x"), tasks.Files())
    features = task.features(examples, tasks.encoding(loaded, 0, 1), True)
    assert features.examples is not None and len(features) > 2 * len(examples)
    features.save(tmp_path / "features")
    features = Features.open(tmp_path / "features")
    head = ChainHead(4, 0.0)
    outputs = torch.randn(len(features.rows.ids), 4 * SIZE) / 4

    def loss(some: list[int]) -> tuple[float, float]:
        rows = np.concatenate([np.arange(*features.examples[n : n + 2]) for n in some])
        made = feature_batch(features, rows, 0)
        logits = torch.zeros(*made.mask.shape, 4 * SIZE)
        where = np.concatenate([np.arange(*features.rows.bounds[r : r + 2]) for r in rows])
        logits[torch.from_numpy(made.mask)] = outputs[where]
        return float(task.loss(logits, *map(torch.from_numpy, made.targets), chains=head)), made.weight

    each = [loss([n]) for n in range(4)]
    together = loss([2, 0, 3, 1])
    assert together == pytest.approx(tuple(map(sum, zip(*each))))
    words = sum(len(e.words) for e in examples)
    assert 0.4 * words <= together[1] < 0.5 * words


def test_what_cannot_be_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder(tmp_path / "encoder")
    alone = tmp_path / "a.conll"
    alone.write_text("#begin document a\na 0 0 w0 (0)\n#end document\n")
    with pytest.raises(DataError, match="no chain has two mentions"):
        train(tmp_path, alone, **HOW)
    with pytest.raises(UsageError, match="--best accuracy: expected one of auto, loss, conll, lea"):
        train(tmp_path, documents(tmp_path / "b.conll", 3), **{**HOW, "best": "accuracy"})
    rows = [
        f"a 0 {i} w{i % 9} {'(0' if i == 0 else '0)' if i == 35 else '(0)' if i % 2 else '(1)|(2)'}" for i in range(40)
    ]
    alone.write_text("\n".join(["#begin document a", *rows, "", "#end document", ""]))
    train(tmp_path, alone, **{**HOW, "epochs": 1.0})
    told = capsys.readouterr().err
    assert "1 mention of more than 30 words or one sentence: not learned" in told and "repeated" in told
