"""finetune on a GPT-1 as published: start, delimiter and extract tokens, both orders of two texts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from conftest import Run
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches import features
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.files import Files
from nlptools.formats.examples import TaskExample
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.tasks import task as tasks
from nlptools.text.more_tokens import ROW_TOKENS, row_tokens
from nlptools.training.finetuning import pretrained
from tests.tasks.tiny_tasks import GPT_WORDS, encoder, gpt, table, texts, train

START, DELIMITER, EXTRACT = range(len(GPT_WORDS), len(GPT_WORDS) + 3)
PAIRS = [("good w1", "w2 bad w3"), ("bad", "w1"), ("w3 w4 w5", ""), ("w7", "good")]


def gpt1(path: Path, **changes: Any) -> Path:
    return gpt(path, post_norm=True, intermediate_size=128, **changes)


def ids(text: str) -> list[int]:
    return [GPT_WORDS.index(word) for word in text.split()]


def pairs(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Two texts and whether the first words are the same: a symmetric relation."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        a, b = rng.choice(["good", "bad"]), rng.choice(["good", "bad"])
        rows.append((f"{a} w{rng.randrange(20)}", f"{b} w{rng.randrange(20)}", "same" if a == b else "other"))
    return rows


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["pair", "regress"])
def test_loss_equals_a_plain_reimplementation(tmp_path: Path, task: str) -> None:
    """On transformers' OpenAIGPTModel: h(start a delimiter b extract) + h(start b delimiter a extract), a linear layer, and
    half of the loss of the language model on both rows.
    """
    from transformers import OpenAIGPTModel

    path = gpt1(tmp_path / "gpt")
    settings = Finetune(task=task, model=str(path), lm_weight=0.5, both_orders=True)
    reader, learner = pretrained.opened(settings), tasks.for_training(settings, Files())
    labels = ["x", "y", "x", "y"] if task == "pair" else ["0.5", "2", "-1", "3"]
    lines = table(tmp_path / "a.tsv", [(a, b, label) for (a, b), label in zip(PAIRS, labels, strict=True)])
    examples: list[TaskExample] = list(learner.read([str(lines)], True, "strict"))
    learner = learner.learn(examples)
    rows = learner.features(examples, reader.encoding(learner, examples, 1), True)
    model = cast(WithHeads, reader.model(learner, 1)).eval()
    batch = features.batch(rows, np.arange(8), pad=0)
    assert batch.weight == 4
    arrays = [torch.from_numpy(array) for array in (*batch.inputs, *batch.targets)]
    found = reader.objective(model, learner)(*arrays)["loss"]

    theirs = OpenAIGPTModel.from_pretrained(path).eval()
    theirs.resize_token_embeddings(len(GPT_WORDS) + 3)
    assert model.sequence is not None
    embedding = model.encoder.token_embedding.weight[: len(GPT_WORDS) + 3]
    theirs.tokens_embed.weight.data.copy_(embedding)
    assert float(embedding[START:].detach().std()) == pytest.approx(0.1, rel=0.3)  # drawn, not zero
    expected = torch.zeros(())
    for (a, b), label in zip(PAIRS, labels, strict=True):
        total, language = torch.zeros(32), []
        for first, second in ((a, b), (b, a)):
            row = torch.tensor([START, *ids(first), DELIMITER, *ids(second), EXTRACT])
            hidden = theirs(row[None]).last_hidden_state[0]
            total = total + hidden[-1]
            language.append(F.cross_entropy(hidden[:-1] @ embedding.T, row[1:]))
        logits = model.sequence.output.weight @ total
        if task == "pair":
            expected = expected + F.cross_entropy(logits[None], torch.tensor([["x", "y"].index(label)]))
        else:
            expected = expected + (logits[0] - float(label)) ** 2
        expected = expected + 0.5 * sum(language) / 2
    assert torch.allclose(found, expected, rtol=1e-5)


def test_rows_and_saved_tokens(tmp_path: Path) -> None:
    gpt1(tmp_path / "encoder")
    done = train(tmp_path, table(tmp_path / "a.tsv", texts(200)), table(tmp_path / "b.tsv", texts(60, 1)))
    assert done.metrics["valid_accuracy"] == 1.0
    found = bundle.load(tmp_path / "out")
    assert found.config["model_type"] == "openai-gpt" and found.config["vocab_size"] == len(GPT_WORDS) + 3
    assert row_tokens(found.tokenizer.vocab) == (START, DELIMITER, EXTRACT) and found.start == START
    encoding = tasks.encoding(found, 0, 1)
    rows = encoding.rows([PAIRS[0]]).rows
    assert rows.ids.tolist() == [START, *ids(PAIRS[0][0]), DELIMITER, *ids(PAIRS[0][1]), EXTRACT]
    assert encoding.rows([("good",)]).rows.ids.tolist() == [START, 2, EXTRACT]
    trained = bundle.load(tmp_path / "out").weights()["encoder.token_embedding.weight"]
    before = pretrained.opened(Finetune(task="classify", model=str(tmp_path / "encoder"))).base.weights()
    assert len(before["token_embedding.weight"]) == len(trained) and float(trained[EXTRACT].abs().min()) > 0
    on = train(tmp_path, tmp_path / "a.tsv", epochs=1.0, model=str(tmp_path / "out"), output=str(tmp_path / "on"))
    assert on.steps and bundle.load(tmp_path / "on").config["vocab_size"] == len(GPT_WORDS) + 3  # not added twice


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
def test_transformers_reads_the_same_rows(tmp_path: Path) -> None:
    """As GPT was published: lower-cased BPE with </w>, and no token around texts."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    gpt1(tmp_path / "encoder", vocab_size=70)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(vocab_size=70, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    tokenizer.train_from_iterator(["good bad the cat sat on the mat", " ".join(GPT_WORDS)], trainer)
    for file in (tmp_path / "encoder").iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()
    tokenizer.save(str(tmp_path / "encoder/tokenizer.json"))
    size = tokenizer.get_vocab_size()
    train(tmp_path, table(tmp_path / "a.tsv", pairs(30)), task="pair", epochs=1.0)
    ours = bundle.load(tmp_path / "out")
    assert row_tokens(ours.tokenizer.vocab) == (size, size + 1, size + 2)
    model: Any = ours.model
    there = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    encoded = AutoTokenizer.from_pretrained(tmp_path / "out")("good w1", "the bad cat", return_tensors="pt")[
        "input_ids"
    ]
    rows = tasks.encoding(ours, 0, 1).rows([("good w1", "the bad cat")]).rows
    assert encoded[0].tolist() == rows.ids.tolist() and rows.ids[0] == size and rows.ids[-1] == size + 2
    with torch.inference_mode():
        logits = model.task_logits("sequence", model.row_states(encoded))
        assert torch.allclose(logits, there(encoded).logits, atol=1e-5)


@pytest.mark.sampled(law="a language model learns a task")
def test_both_orders_give_one_answer(call: Run, tmp_path: Path) -> None:
    """The answer does not depend on the order, whatever the size of batches; with GPT-1's tokens and with GPT-2's."""
    table(tmp_path / "a.tsv", pairs(300))
    table(tmp_path / "b.tsv", pairs(50, 1))
    gpt(tmp_path / "gpt2")
    gpt1(tmp_path / "gpt1")
    how = ("--task", "pair", "--both-orders", "--lr", "3e-3", "--epochs", 6, "--valid", "b.tsv", "a.tsv")
    for name in ("gpt1", "gpt2"):
        done = call("finetune", "-m", name, *how, "-o", f"{name}-out")
        assert done.code == 0, done.err
        assert float(done.err.split("validation accuracy ")[1].split()[0]) > 0.9, done.err
        rows = [row[:2] for row in pairs(20, 2)]
        forward, backward = (
            call("predict", f"{name}-out", "--probabilities", stdin=text)
            for text in ("".join(f"{a}\t{b}\n" for a, b in rows), "".join(f"{b}\t{a}\n" for a, b in rows))
        )
        assert forward.code == 0 and forward.out == backward.out, forward.err
        text = "".join(f"{a}\t{b}\n" for a, b in rows)
        assert call("predict", f"{name}-out", "--probabilities", "--batch-tokens", 3, stdin=text).out == forward.out


def test_refusals_and_models_that_keep_the_end_of_text_token(call: Run, tmp_path: Path) -> None:
    table(tmp_path / "a.tsv", pairs(30))
    table(tmp_path / "one.tsv", texts(30))
    encoder(tmp_path / "bert")
    gpt1(tmp_path / "gpt1")
    gpt(tmp_path / "gpt2")
    for args, code, message in (
        (("-m", "bert", "--task", "pair", "a.tsv"), 2, "--both-orders applies to language models, bert is an encoder"),
        (("--scratch", "bag", "--task", "pair", "a.tsv"), 2, "--both-orders cannot be combined with --scratch"),
        (("-m", "gpt1", "--task", "classify", "one.tsv"), 2, "--both-orders"),
        (("-m", "gpt1", "--task", "regress", "one.tsv"), 65, "one.tsv:1:"),
    ):
        refused = call("finetune", "--both-orders", *args, "-o", "x")
        assert (refused.code, message in refused.err) == (code, True), refused.err
    for more in ((), ("--lora", 2), ("--freeze", 1), ("--freeze", "all")):
        model = "gpt1" if more else "gpt2"
        done = call("finetune", "-m", model, "--task", "pair", *more, "--epochs", 1, "a.tsv", "-o", "y", "--force")
        assert done.code == 0, done.err
        vocab = bundle.load(tmp_path / "y").tokenizer.vocab
        assert vocab is not None and len(vocab) == len(GPT_WORDS) and not set(ROW_TOKENS) & vocab.ids.keys()
    refused = call("predict", "y", stdin="a\n")
    assert refused.code == 65 and "<stdin>:1: 1 column, expected 2 to 3" in refused.err
