"""finetune --lm-weight: the loss of the language model on the examples, next to that of the task."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import torch
from conftest import Run
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches import features
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.files import Files
from nlptools.formats.examples import TaskExample
from nlptools.models.language.gpt import GPT
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.tasks import task as tasks
from nlptools.training.finetuning import pretrained
from tests.tasks.tiny_tasks import encoder, gpt, table, texts

WEIGHT = 0.5


def test_it_is_the_mean_over_the_tokens_of_each_example(tmp_path: Path) -> None:
    for tied in (True, False):
        path = gpt(tmp_path / f"gpt-{tied}", tie_word_embeddings=tied)
        settings = Finetune(task="classify", model=str(path), lm_weight=WEIGHT)
        reader, task = pretrained.opened(settings), tasks.for_training(settings, Files())
        lines = table(tmp_path / "a.tsv", [*texts(7), ("", "bad")])
        examples: list[TaskExample] = list(task.read([str(lines)], True, "strict"))
        task = task.learn(examples)
        rows = task.features(examples, reader.encoding(task, examples, 1), True)
        model = cast(WithHeads, reader.model(task, 1)).eval()
        batch = features.batch(rows, np.arange(8), pad=0)
        arrays = [torch.from_numpy(array) for array in (*batch.inputs, *batch.targets)]
        found = reader.objective(model, task)(*arrays)["loss"]
        language = bundle.load(path).model
        assert isinstance(language, GPT)
        expected = torch.zeros(())
        for row in range(8):
            ids = torch.from_numpy(rows.rows.ids[rows.rows.bounds[row] : rows.rows.bounds[row + 1]].astype(np.int64))
            hidden, _ = language(ids[None])
            assert model.sequence is not None
            expected += F.cross_entropy(model.sequence(hidden[:, -1]), arrays[3][row : row + 1])
            if len(ids) > 1:
                expected += WEIGHT * F.cross_entropy(language.output.logits(hidden[0, :-1]), ids[1:])
        assert torch.allclose(found, expected, rtol=1e-5)
        found.backward()
        assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_saved_model_has_the_head_of_the_task_alone(call: Run, tmp_path: Path) -> None:
    gpt(tmp_path / "gpt", tie_word_embeddings=False)
    table(tmp_path / "a.tsv", texts(200))
    table(tmp_path / "b.tsv", texts(30, 1))
    how = ("--task", "classify", "--lr", "3e-3", "--epochs", 5, "--valid", "b.tsv", "a.tsv")
    for name, more in (("plain", ()), ("both", ("--lm-weight", WEIGHT))):
        done = call("finetune", "-m", "gpt", *more, *how, "-o", name)
        assert done.code == 0 and float(done.err.split("validation accuracy ")[1].split()[0]) > 0.85, done.err
        said = call("predict", name, stdin="good w1\nbad w2\n")
        assert [line.split("\t")[0] for line in said.lines] == ["good", "bad"]
    plain, both = (bundle.load(tmp_path / name).weights() for name in ("plain", "both"))
    assert list(plain) == list(both)
    assert not torch.equal(plain["encoder.token_embedding.weight"], both["encoder.token_embedding.weight"])
    encoder(tmp_path / "bert")
    for args, message in (
        (("-m", "bert"), "--lm-weight applies to language models, which bert is not"),
        (("-m", "plain"), "--lm-weight applies to language models, which plain is not"),
        (("--scratch", "bag"), "--lm-weight cannot be combined with --scratch"),
        (("-m", "gpt", "--lora", 4), "--lm-weight cannot be combined with --lora"),
    ):
        refused = call("finetune", *args, "--lm-weight", WEIGHT, *how, "-o", "x")
        assert refused.code == 2 and message in refused.err, refused.err
