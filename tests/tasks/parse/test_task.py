"""Dependency trees and columns of CoNLL-U: learnt, measured, written into the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.encoder_rows import marks_of
from nlptools.batches.features import Encoding, Features, batch
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError, DataError, UsageError
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.formats.universal import cycle
from nlptools.layers.biaffine import ARC_SIZE, RELATION_SIZE, DependencyHead
from nlptools.metrics.universal import evaluate, read_pair
from nlptools.tasks.parse.task import Parsing
from nlptools.tasks.tag.columns import ColumnTags
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from tests.tasks import tiny_trees
from tests.tasks.tiny_tags import predicted
from tests.tasks.tiny_tasks import WORDS, gpt, train

HOW: dict[str, Any] = {"epochs": 40.0, "batch_size": 4, "valid_every": "40e"}


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.sampled(law="an encoder learns a task")
def test_ten_sentences_by_heart(tmp_path: Path) -> None:
    path = tiny_trees.file(tmp_path / "a.conllu", 10, extras=True)
    done = train(tmp_path, path, path, task="parse", label_column="upos,feats", **HOW)
    names = ("upos", "feats", "uas", "las")
    assert all(done.metrics[f"valid_{name}"] > 0.97 for name in names) and list(done.metrics)[-1] == "valid_las"
    config = bundle.load(tmp_path / "out").config
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"]["0"] == "upos=ADJ" and config["relations"] == ["amod", "nsubj", "obj:late", "root"]
    # the file again, without the answers
    bare = [line.split("\t") for line in path.read_text().split("\n")[:-1]]
    bare = [
        [*row[:3], "_", row[4], "_", "_", "_", *row[8:]] if len(row) > 1 and row[0].isdecimal() else row for row in bare
    ]
    asked = written(tmp_path / "b.conllu", ["\t".join(row) for row in bare])
    found = written(tmp_path / "c.conllu", predicted(tmp_path / "out", asked, window=3))
    data = read_pair(str(path), str(found), True)
    for name in names:  # `evaluate` says what training said
        value = evaluate(name, data.references, data.predictions).values()[name]
        assert value == pytest.approx(done.metrics[f"valid_{name}"], abs=1e-9)
    for before, after in zip(bare, found.read_text().split("\n")[:-1], strict=True):
        row = after.split("\t")
        assert before == ([*row[:3], "_", row[4], "_", "_", "_", *row[8:]] if row[0].isdecimal() else row)
    objects = [json.loads(line) for line in predicted(tmp_path / "out", path, to="jsonl")]
    assert [" ".join(o["head"]) for o in objects] == [" ".join(e.column(6)) for e in data.predictions]
    assert set(objects[0]) == {"words", "upos", "feats", "head", "deprel"}
    (tmp_path / "d.txt").write_text("good w1 bad\n\nw2\n")
    lines = predicted(tmp_path / "out", tmp_path / "d.txt")
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3", "", "", "1", ""]
    assert lines[5].split("\t")[6:8] == ["0", "root"]


def test_several_columns_and_one(tmp_path: Path) -> None:
    path = tiny_trees.file(tmp_path / "a.conllu", 60)
    done = train(tmp_path, path, path, task="tag", label_column="upos,6", epochs=10.0)
    assert min(done.metrics[f"valid_{name}"] for name in ("upos", "feats", "accuracy")) > 0.97
    assert predicted(tmp_path / "out", path) == path.read_text().split("\n")[:-1]
    for changes, message in (
        ({"columns": True}, "--columns: the model fills columns"),
        ({"decoding": "argmax"}, "--decoding: the model fills"),
        ({"to": "entities"}, "--to entities: the model fills"),
        ({"label_column": "upos"}, "--label-column: the model fills"),
    ):
        with pytest.raises(UsageError, match=message):
            predicted(tmp_path / "out", path, **changes)
    train(tmp_path, path, None, task="tag", label_column="upos", epochs=10.0, output=str(tmp_path / "one"))
    assert predicted(tmp_path / "one", path, to="conllu") == path.read_text().split("\n")[:-1]
    assert len(predicted(tmp_path / "one", path)) == 60
    (tmp_path / "plain.conll").write_text("good A\nw1 B\n\n" * 4)
    train(tmp_path, tmp_path / "plain.conll", None, task="tag", epochs=1.0, output=str(tmp_path / "plain"))
    with pytest.raises(UsageError, match="--to conllu: the model was not trained on CoNLL-U"):
        predicted(tmp_path / "plain", path, to="conllu")


@pytest.mark.sampled(law="a language model learns a task")
def test_a_language_model_parses(tmp_path: Path) -> None:
    gpt(tmp_path / "encoder", max_position_embeddings=40)
    path = tiny_trees.file(tmp_path / "a.conllu", 10)
    done = train(tmp_path, path, path, task="parse", **HOW)
    assert done.metrics["valid_uas"] > 0.6  # `good` depends on a word that it does not see
    more: dict[str, Any] = {"model": str(tmp_path / "out"), "output": str(tmp_path / "again")}
    again = train(tmp_path, path, path, task="parse", epochs=0.0, **more)
    assert again.metrics["valid_las"] == done.metrics["valid_las"]  # begins with the parser of the model


# -- the loss and the scores ------------------------------------------------------------------------------------------


def parsing(tmp_path: Path, max_length: int) -> tuple[Parsing, Features, list[Any], DependencyHead]:
    """A task that has learned from a few sentences, their rows, and a random head."""
    path = tiny_trees.file(tmp_path / "a.conllu", 6)
    examples: list[Any] = list(read("parse", [str(path)], Options(trees=True)))
    task = Parsing("parse", Options(trees=True), columns=("upos",)).learn(examples)
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    features = task.features(examples, Encoding(tokenizer, marks_of(tokenizer), max_length), True)
    torch.manual_seed(0)
    head = DependencyHead(8, task.num_relations).eval()
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return task, features, examples, head


def test_scores_are_biaffine() -> None:
    torch.manual_seed(0)
    head = DependencyHead(4, 3).eval()
    for weight in head.parameters():
        torch.nn.init.normal_(weight)
    vectors, heads = torch.randn(2, 3, head.vector_size), torch.tensor([[0, 1, 2], [3, 0, 1]])
    A, R = ARC_SIZE, RELATION_SIZE
    arcs, relations = head.arc_scores(vectors), head.relation_scores(vectors, heads)
    assert arcs.shape == (2, 3, 4) and relations.shape == (2, 3, 3)
    one = torch.ones(1)
    for s in range(2):
        candidates = torch.cat(
            [torch.cat([torch.zeros(A), head.root[0, :A], torch.zeros(R), head.root[0, A:]])[None], vectors[s]]
        )
        for m in range(3):
            dependent = torch.cat([vectors[s, m, :A], one])
            for h in range(4):
                expected = dependent @ head.arc_weight @ candidates[h, A : 2 * A]
                assert torch.isclose(arcs[s, m, h], expected, atol=1e-2, rtol=1e-4)
            dependent = torch.cat([vectors[s, m, 2 * A : 2 * A + R], one])
            chosen = torch.cat([candidates[heads[s, m], 2 * A + R :], one])
            for number in range(3):
                expected = dependent @ head.relation_weight[number] @ chosen
                assert torch.isclose(relations[s, m, number], expected, atol=1e-2, rtol=1e-4)


def test_loss_is_of_words_in_whole_sentences(tmp_path: Path) -> None:
    """The loss of a batch by the definition, the sum over its sentences, and the same when long ones have several rows."""
    losses = []
    for max_length in (24, 5):
        task, features, examples, head = parsing(tmp_path, max_length)
        assert (len(features) > len(examples)) == (max_length == 5)
        of_words = torch.randn(
            sum(len(e.words) for e in examples), 3 + head.vector_size, generator=torch.Generator().manual_seed(1)
        )
        flat = torch.randn(len(features.rows.ids), of_words.shape[1])
        flat[features.more.tokens] = of_words
        rows = np.arange(len(features))
        made = batch(features, rows, 0)
        logits = torch.randn(*made.ids.shape, flat.shape[1])
        logits[torch.from_numpy(made.mask)] = flat
        losses.append(task.loss(logits, *map(torch.from_numpy, made.targets), arcs=head))
        assert made.weight == len(of_words)
    expected, start = torch.zeros(()), 0
    head.requires_grad_(False)
    for e in examples:
        vectors = of_words[start : start + len(e.words)]
        start += len(e.words)
        heads = torch.tensor(e.heads)
        scores = head.arc_scores(vectors[None, :, 3:])[0]
        scores[range(len(heads)), range(1, len(heads) + 1)] = -torch.inf
        named = torch.tensor([task.relations.index(name) for name in e.column(7)])
        tags = torch.tensor([task.values["upos"].index(name) for name in e.column(3)])
        by_relation = head.relation_scores(vectors[None, :, 3:], heads[None])[0]
        for table, right in ((scores, heads), (by_relation, named), (vectors[:, :3], tags)):
            expected = expected + F.cross_entropy(table, right, reduction="sum")
    assert all(torch.isclose(loss, expected, rtol=1e-5) for loss in losses)
    # validation has the same loss, per word
    outputs = np.split(flat.numpy(), features.rows.bounds[1:-1])
    predictions = task.decode(outputs, features, examples, arcs=head)
    assert task.measure(predictions, examples)["loss"] == pytest.approx(expected.item() / len(of_words), rel=1e-4)
    for prediction in predictions:
        heads = list(map(int, prediction.columns["head"]))
        assert heads.count(0) == 1 and not cycle(heads)
        assert [h == 0 for h in heads] == [name == "root" for name in prediction.columns["deprel"]]


# -- what is refused --------------------------------------------------------------------------------------------------


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_trees.file(tmp_path / "a.conllu", 10)
    for changes, message in (
        ({"task": "tag", "label_column": "upos,feats", "crf": True}, "--crf cannot be combined with several columns"),
        ({"task": "tag", "label_column": "upos,feats", "scheme": "iob2"}, "--scheme cannot be combined"),
        ({"task": "parse", "layout": "conll"}, "--layout conll: several columns, and trees"),
        ({"task": "parse", "label_column": "head"}, "the column head has no labels"),
        ({"task": "parse", "best": "accuracy"}, "--best accuracy: expected auto, las, uas, loss"),
        ({"task": "parse", "crf": True}, "--crf applies to --task tag, roles only"),
    ):
        with pytest.raises(UsageError, match=message):
            train(tmp_path, path, **changes)
    with pytest.raises(DataError, match="only one class: every misc is 'M=1'"):
        train(tmp_path, path, task="tag", label_column="upos,misc")
    other = tmp_path / "b.conllu"
    other.write_text(path.read_text().replace("nsubj", "csubj"))
    train(tmp_path, path, other, task="parse", epochs=0.0)
    assert "deprel 'csubj' was not seen in training; " in capsys.readouterr().err
    with pytest.raises(UsageError, match="--columns applies to --task"):
        predicted(tmp_path / "out", path, columns=True)
    loaded: Any = bundle.load(tmp_path / "out")
    damaged: Any = replace(loaded, config={**loaded.config, "relations": ["a"]})
    with pytest.raises(BundleError, match="expected 4 names"):
        Parsing.from_bundle(damaged, Predict(), Files())
    train(tmp_path, path, task="tag", label_column="upos,feats", epochs=0.0, output=str(tmp_path / "tags"))
    loaded = bundle.load(tmp_path / "tags")
    labels = {str(i): name for i, name in enumerate(reversed(loaded.config["id2label"].values()))}
    with pytest.raises(BundleError, match="id2label does not have the labels of the columns"):
        ColumnTags.from_bundle(replace(loaded, config={**loaded.config, "id2label": labels}), Predict(), Files())
