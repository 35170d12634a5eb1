"""What finetune writes opens in transformers with the same logits, and its directories are answered with here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError, UsageError
from nlptools.inference.prediction import Predictor
from nlptools.training.preferences.rewards import Sample, reward
from tests.tasks.tag.test_task import columns, propositions, sentences
from tests.tasks.tiny_tasks import FP32, WORDS, encoder, table, texts, train

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference


def predictor(directory: Path, **changes: Any) -> Predictor:
    files = Files(**{name: changes.pop(name) for name in list(changes) if name in Files.__dataclass_fields__})
    return Predictor(bundle.load(directory), Backend.detect(FP32), Predict(**changes), files)


def log_probabilities(model: Any, rows: list[list[int]], types: list[list[int]] | None = None) -> np.ndarray:
    """What transformers says, one row after the other."""
    out = []
    with torch.inference_mode():
        for i, row in enumerate(rows):
            more = {} if types is None else {"token_type_ids": torch.tensor([types[i]])}
            out.append(model(input_ids=torch.tensor([row]), **more).logits[0])
    return torch.log_softmax(torch.stack(out), -1).numpy()


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_what_finetune_writes_opens_there(tmp_path: Path, family: str) -> None:
    more: dict[str, Any] = {"embedding_size": 16} if family == "electra" else {}
    encoder(tmp_path / "encoder", family, **more)
    rows = texts(60, words=("good", "bad", "w1"))
    train(tmp_path, table(tmp_path / "a.tsv", rows), epochs=1.0)
    model, told = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(model).__name__ == f"{family.capitalize()}ForSequenceClassification"
    assert not told["missing_keys"] and not told["unexpected_keys"]
    assert model.config.id2label == {0: "bad", 1: "good", 2: "w1"} and model.config.label2id["w1"] == 2
    assert model.config.problem_type == "single_label_classification"
    ours = predictor(tmp_path / "out")
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text, _ in rows))
    found = [
        p for _, made in ours.predictions(ours.task.read([str(tmp_path / "new.txt")], False, "strict")) for p in made
    ]
    ids = [[2, *ours.members[0].encoding.tokenizer.encode(text), 3] for text, _ in rows]
    assert np.allclose(np.stack(found), log_probabilities(model.eval(), ids), atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["Bert", "Electra"])
@pytest.mark.parametrize("pair", [False, True])
def test_their_directories_answer_here(tmp_path: Path, family: str, pair: bool) -> None:
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 24, "embedding_size": 16, "initializer_range": 0.3}
    config = getattr(transformers, f"{family}Config")(**sizes, id2label={0: "no", 1: "yes", 2: "maybe"})
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    ours = predictor(tmp_path / "theirs", text_column=("1", "2") if pair else ())
    assert ours.task.name == ("pair" if pair else "classify")
    given = [(a, b) for (a, _), (b, _) in zip(texts(30), texts(30, 1), strict=True)]
    path = table(tmp_path / "a.tsv", [row if pair else row[:1] for row in given])
    lines = [line for some in ours.lines([str(path)]) for line in some]
    encode = ours.members[0].encoding.tokenizer.encode
    rows = [[2, *encode(a), 3, *([*encode(b), 3] if pair else [])] for a, b in given]
    types = [
        [0] * (len(encode(a)) + 2) + [1] * (len(row) - len(encode(a)) - 2)
        for (a, _), row in zip(given, rows, strict=True)
    ]
    expected = log_probabilities(model, rows, types)
    assert [line.split("\t")[0] for line in lines] == [["no", "yes", "maybe"][i] for i in expected.argmax(1)]
    assert np.allclose([float(line.split("\t")[1]) for line in lines], np.exp(expected.max(1)), atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["Bert", "Electra", "GPT2"])
@pytest.mark.parametrize("problem", [None, "regression"])
def test_their_regressors_answer_here(tmp_path: Path, family: str, problem: str | None) -> None:
    """A number for each text, or with --text-column twice for each two."""
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 24, "embedding_size": 16}
    if family == "GPT2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 24, "pad_token_id": 0, "eos_token_id": 3}
    config = getattr(transformers, f"{family}Config")(
        **sizes, vocab_size=len(WORDS), num_labels=1, problem_type=problem, initializer_range=0.3
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    if family == "GPT2":  # whose tokenizers put no token before a text
        (tmp_path / "theirs" / "tokenizer_config.json").write_text('{"add_bos_token": false}')

    def answers(rows: list[tuple[str, ...]], **changes: Any) -> list[str]:
        path = table(tmp_path / "a.tsv", rows)
        return [line for some in predictor(tmp_path / "theirs", **changes).lines([str(path)]) for line in some]

    encode = predictor(tmp_path / "theirs").members[0].encoding.tokenizer.encode
    given = [text for text, _ in texts(30)]
    lines = answers([(text,) for text in given])
    with torch.inference_mode():
        rows = [encode(text) if family == "GPT2" else [2, *encode(text), 3] for text in given]
        expected = [float(model(input_ids=torch.tensor([row])).logits[0, 0]) for row in rows]
    assert np.allclose(list(map(float, lines)), expected, atol=1e-4) and len(set(lines)) > 10
    assert answers([(text, "0.5") for text in given]) == lines, (
        "what stands behind a tab is the number of a labelled file"
    )
    (line,) = answers([(given[0], "0.5")], columns=True)
    assert line.startswith(f"{given[0]}\t0.5\t") and float(line.split("\t")[2]) == pytest.approx(expected[0], abs=1e-4)
    with pytest.raises(DataError, match=r"a\.tsv:2: expected a finite number, got") as caught:
        answers([(given[0],), (given[0], given[1])])
    assert "--text-column twice reads pairs" in str(caught.value.hint)
    if family != "GPT2":
        with torch.inference_mode():
            row = [2, *encode(given[0]), 3, *encode(given[1]), 3]
            types = [0] * (len(encode(given[0])) + 2) + [1] * (len(encode(given[1])) + 1)
            both = model(input_ids=torch.tensor([row]), token_type_ids=torch.tensor([types])).logits[0, 0]
        assert float(answers([(given[0], given[1])], text_column=("1", "2"))[0]) == pytest.approx(float(both), abs=1e-4)
        judged = reward(str(tmp_path / "theirs"), FP32)([Sample(given[0], given[1], True)])
        assert judged == pytest.approx([float(both)], abs=1e-4), (
            "a reward model reads a prompt and a response as a pair"
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("task", ["tag", "roles"])
@pytest.mark.parametrize("crf", [False, True])
def test_what_tags_opens_there(tmp_path: Path, family: str, task: str, crf: bool) -> None:
    more: dict[str, Any] = {"embedding_size": 16} if family == "electra" else {}
    encoder(tmp_path / "encoder", family, **more)
    made = sentences(30)
    path = columns(tmp_path / "a.txt", made) if task == "tag" else propositions(tmp_path / "a.conllu", 20)
    train(tmp_path, path, task=task, epochs=2.0, crf=crf)
    model, told = transformers.AutoModelForTokenClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert type(model).__name__ == f"{family.capitalize()}ForTokenClassification"
    names = ("crf.end_transitions", "crf.start_transitions", "crf.transitions") if crf else ()
    assert not told["missing_keys"] and sorted(told["unexpected_keys"]) == list(names)
    ours = predictor(tmp_path / "out")
    assert list(model.config.id2label.values()) == list(ours.task.labels)  # type: ignore[attr-defined]
    examples = list(ours.task.read([str(path)], False, "strict"))
    rows = ours.task.features(examples, ours.members[0].encoding, False).rows
    found = [p for _, some in ours.predictions(examples) for p in some]
    assert len(found) == len(examples) == len(rows)
    for i, said in enumerate(found):
        ids, types = (a[rows.bounds[i] : rows.bounds[i + 1]].astype(np.int64) for a in (rows.ids, rows.types))
        with torch.inference_mode():
            logits = model.eval()(
                input_ids=torch.from_numpy(ids)[None], token_type_ids=torch.from_numpy(types)[None]
            ).logits[0]
        theirs = logits[1 : 1 + len(said.tags)].numpy()
        assert np.allclose(said.scores, theirs, atol=1e-4)
        if not crf:  # the best tag of each word, as a directory of theirs has it by default
            assert said.tags == [ours.task.labels[i] for i in theirs.argmax(1)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("family", ["Bert", "Electra"])
def test_their_taggers_answer_here(tmp_path: Path, family: str) -> None:
    sizes: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 24, "embedding_size": 16, "initializer_range": 0.3}
    labels = ["O", "B-PER", "I-PER"]
    config = getattr(transformers, f"{family}Config")(**sizes, id2label=dict(enumerate(labels)))
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForTokenClassification")(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    path = columns(tmp_path / "a.txt", sentences(20))
    lines = [line for some in predictor(tmp_path / "theirs").lines([str(path)]) for line in some]
    encode = predictor(tmp_path / "theirs").members[0].encoding.tokenizer.encode
    for line, rows in zip(lines, sentences(20), strict=True):
        ids = torch.tensor([[2, *(i for word, _ in rows for i in encode(word)), 3]])
        with torch.inference_mode():
            best = model(input_ids=ids).logits[0].argmax(-1)[1:-1].tolist()
        assert line.split(" ") == [labels[i] for i in best]
    with pytest.raises(UsageError, match=r"config\.json does not name the scheme"):
        predictor(tmp_path / "theirs", decoding="scheme")
    settings, files = Predict(decoding="scheme"), Files(scheme="iob2")
    made = Predictor(bundle.load(tmp_path / "theirs"), Backend.detect(FP32), settings, files)
    kept = [line for some in made.lines([str(path)]) for line in some]
    assert not any(" O I-" in f" O {line}" for line in kept)
    if family == "Bert":  # random weights that break the scheme
        assert any(" O I-" in f" O {line}" for line in lines)


def test_our_adamw_is_theirs_with_bias_correction() -> None:
    """Three steps with decay, warm-up and clipping left out: torch's AdamW gives the same weights."""
    from nlptools.training.engine.optimizers import AdamW

    torch.manual_seed(0)
    ours, theirs = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    theirs.load_state_dict(ours.state_dict())
    groups = [{"params": [theirs.weight], "weight_decay": 0.01}, {"params": [theirs.bias], "weight_decay": 0.0}]
    other = torch.optim.AdamW(groups, lr=5e-5, betas=(0.9, 0.999))
    mine = AdamW(dict(ours.named_parameters()), beta2=0.999, weight_decay=0.01)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(5, 4)
        for module in (ours, theirs):
            module.zero_grad()
            module(x).square().sum().backward()
        mine.step(5e-5)
        other.step()
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-7) and torch.allclose(ours.bias, theirs.bias, atol=1e-7)
