"""Labels, several labels and numbers for texts and pairs: learnt, measured, predicted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.batches.encoder_rows import EncoderRows
from nlptools.batches.features import Features
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.layers import layers
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError, DataError, UsageError
from nlptools.formats.examples import Place, TextExample
from nlptools.inference.prediction import Predictor
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks
from nlptools.tasks.classify.task import Classification
from tests.tasks.tiny_tasks import FP32, encoder, table, texts, train


def predictor(directory: Path, window: int = 8192, **changes: Any) -> Predictor:
    files = {name: changes.pop(name) for name in list(changes) if name in Files.__dataclass_fields__}
    return Predictor(bundle.load(directory), Backend.detect(FP32), Predict(**changes), Files(**files), window)


def predicted(directory: Path, path: Path, **changes: Any) -> list[str]:
    return [line for some in predictor(directory, **changes).lines([str(path)]) for line in some]


def test_a_word_that_says_it_all_is_found(tmp_path: Path) -> None:
    rows = texts(300)
    done = train(tmp_path, table(tmp_path / "a.tsv", rows), table(tmp_path / "b.tsv", texts(60, 1)))
    assert done.metrics["valid_accuracy"] == 1.0 and list(done.metrics)[-1] == "valid_accuracy"
    assert done.metrics["examples"] == 1200 and done.metrics["valid_answers"] == 2
    found = bundle.load(tmp_path / "out")
    assert found.config["id2label"] == {"0": "bad", "1": "good"} and found.config["label2id"] == {"bad": 0, "good": 1}
    assert found.config["architectures"] == ["BertForSequenceClassification"]
    new = texts(40, 2)
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text, _ in new) + "\n\n")
    lines = predicted(tmp_path / "out", tmp_path / "new.txt")
    assert [line.split("\t")[0] for line in lines[:40]] == [label for _, label in new]
    assert len(lines) == 42 and lines[40] == lines[41]  # an empty text gets an answer, too
    assert all(0.5 <= float(line.split("\t")[1]) <= 1 for line in lines)
    # neither windows nor batches change the order, or what is said
    assert predicted(tmp_path / "out", tmp_path / "new.txt", window=5, batch_tokens=10) == lines


@pytest.mark.sampled(law="an encoder learns a task")
def test_pairs_of_texts(tmp_path: Path) -> None:
    rng, rows = random.Random(0), []
    for _ in range(400):
        a, b = rng.choice(["good", "bad"]), rng.choice(["good", "bad"])
        rows.append((f"{a} w{rng.randrange(20)}", f"w{rng.randrange(20)} {b}", "same" if a == b else "other"))
    more: dict[str, Any] = {"task": "pair", "epochs": 12.0, "lr": 2e-3}
    done = train(tmp_path, table(tmp_path / "a.tsv", rows), table(tmp_path / "b.tsv", rows[:100]), **more)
    assert done.metrics["valid_accuracy"] > 0.95
    lines = predicted(tmp_path / "out", table(tmp_path / "c.tsv", [row[:2] for row in rows[:50]]))
    assert sum(line.split("\t")[0] == row[2] for line, row in zip(lines, rows, strict=False)) > 45


@pytest.mark.sampled(law="an encoder learns a task")
def test_numbers(tmp_path: Path) -> None:
    rows = [(text, "w1 w2", "4.5" if label == "good" else "1") for text, label in texts(300)]
    path = table(tmp_path / "a.tsv", rows)
    done = train(tmp_path, path, path, task="regress")
    assert done.metrics["valid_pearson"] > 0.95
    config = bundle.load(tmp_path / "out").config
    assert config["problem_type"] == "regression" and len(config["id2label"]) == 1
    found = [float(line) for line in predicted(tmp_path / "out", path)]
    assert np.abs(np.array(found) - [float(row[2]) for row in rows]).mean() < 0.5


@pytest.mark.sampled(law="an encoder learns a task")
def test_numbers_of_single_texts(tmp_path: Path) -> None:
    rows = [(text, "4.5" if label == "good" else "1") for text, label in texts(300)]
    path = table(tmp_path / "a.tsv", rows)
    assert train(tmp_path, path, path, task="regress").metrics["valid_pearson"] > 0.95
    numbers = [
        float(line) for line in predicted(tmp_path / "out", table(tmp_path / "b.tsv", [row[:1] for row in rows]))
    ]
    assert np.abs(np.array(numbers) - [float(row[1]) for row in rows]).mean() < 0.5
    pairs = table(tmp_path / "c.tsv", [("w1", "w2", "1")])
    with pytest.raises(DataError, match=r"c\.tsv:1: 3 columns, expected 1 to 2"):
        predicted(tmp_path / "out", pairs)
    with pytest.raises(DataError, match=r"c\.tsv:1: 2 texts, the first training example has 1"):
        train(tmp_path, path, pairs, task="regress", force=True)


def test_swapped_columns_are_an_error_of_one_line(tmp_path: Path) -> None:
    review = "It was long, and then it was longer, and in the end we left. "
    rows = [(label, f"{text} {review * 30}") for text, label in texts(30)]
    with pytest.raises(
        DataError, match=r"a\.tsv:1: the labels look like texts: 30 different ones in 30 examples"
    ) as caught:
        train(tmp_path, table(tmp_path / "a.tsv", rows))
    assert len(str(caught.value)) < 300 and "--label-column" in str(caught.value.hint)
    valid = table(tmp_path / "b.tsv", rows[:1])
    with pytest.raises(DataError, match=r"the label .* was not seen in training") as caught:
        train(tmp_path, table(tmp_path / "c.tsv", texts(20)), valid)
    assert len(str(caught.value)) < 300


def test_labels_are_counted_and_a_header_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = texts(30)
    good = sum(label == "good" for _, label in rows)
    train(tmp_path, table(tmp_path / "a.tsv", rows), epochs=0.1)
    assert f"labels: bad {30 - good}, good {good}\n" in capfd.readouterr().err
    train(tmp_path, table(tmp_path / "b.tsv", [("Phrase", "Label"), *rows]), epochs=0.1, force=True)
    assert "b.tsv:1: the label 'Label' occurs once: --header" in capfd.readouterr().err
    train(tmp_path, table(tmp_path / "d.tsv", [("phrase", "verdict"), *rows]), epochs=0.1, force=True)
    assert "d.tsv:1: the label 'verdict' occurs once: --header" in capfd.readouterr().err
    train(tmp_path, tmp_path / "b.tsv", header=True, epochs=0.1, force=True)
    err = capfd.readouterr().err
    assert "occurs once" not in err and "the first line is a header: texts 'Phrase', labels 'Label'" in err
    distinct = [(text, f"l{i}") for i, (text, _) in enumerate(rows)]
    train(tmp_path, table(tmp_path / "c.tsv", distinct), epochs=0.1, force=True)
    err = capfd.readouterr().err
    assert "30 different labels in 30 examples" in err and "and 10 more" in err


@pytest.mark.sampled(law="an encoder learns a task")
def test_several_labels_at_once(tmp_path: Path) -> None:
    rng, rows = random.Random(0), []
    for _ in range(300):
        labels = [label for label in ("good", "bad") if rng.random() < 0.5]
        rows.append({"text": " ".join([*labels, f"w{rng.randrange(20)}"]), "labels": labels})
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = train(tmp_path, path, path, multi_label=True, label_column="labels", epochs=8.0)
    assert done.metrics["valid_f1_micro"] > 0.99
    assert bundle.load(tmp_path / "out").config["problem_type"] == "multi_label_classification"
    lines = predicted(tmp_path / "out", path, label_column="labels")
    said = [set(filter(None, line.split("\t")[0].split(","))) for line in lines]
    assert sum(a == set(row["labels"]) for a, row in zip(said, rows, strict=True)) > 295
    objects = [json.loads(line) for line in predicted(tmp_path / "out", path, label_column="labels", to="jsonl")]
    assert [set(row["prediction"]) for row in objects] == said


def test_what_predict_writes(tmp_path: Path) -> None:
    rows = [("sentence", "label", "id"), *((text, label, str(i)) for i, (text, label) in enumerate(texts(60)))]
    path = table(tmp_path / "a.tsv", rows)
    train(tmp_path, path, epochs=1.0)
    out = tmp_path / "out"
    plain = [line.split("\t") for line in predicted(out, path)]
    with_columns = predicted(out, path, columns=True, window=7)
    assert with_columns[0] == "sentence\tlabel\tid\tprediction\tprobability"
    assert [line.split("\t")[:3] for line in with_columns[1:]] == [list(row) for row in rows[1:]]
    assert [line.split("\t")[3] for line in with_columns[1:]] == [row[0] for row in plain]
    both = [line.split("\t") for line in predicted(out, path, top_k=2)]
    assert [row[:2] for row in both] == plain
    assert all(float(row[1]) + float(row[3]) == pytest.approx(1, abs=2e-4) for row in both)
    header, *lines = predicted(out, path, probabilities=True, window=7)
    assert header == "bad\tgood"
    numbers = [list(map(float, line.split("\t"))) for line in lines]
    assert [max(row) for row in numbers] == [float(row[1]) for row in plain]
    objects = [json.loads(line) for line in predicted(out, path, to="jsonl")]
    assert [row["prediction"] for row in objects] == [row[0] for row in plain]
    assert [row["id"] for row in objects] == [str(i) for i in range(60)]


def test_a_label_unseen_in_training_is_named_with_file_and_line(tmp_path: Path) -> None:
    valid = table(tmp_path / "b.tsv", [("w1 good", "good"), ("w2", "so-so")])
    with pytest.raises(
        DataError, match=r"b\.tsv:2: the label 'so-so' was not seen in training \(seen: 'bad', 'good'\)"
    ):
        train(tmp_path, table(tmp_path / "a.tsv", texts(20)), valid)


def test_data_that_nothing_can_be_learnt_from(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only one class: every label is 'good'"):
        train(tmp_path, table(tmp_path / "a.tsv", [("w1", "good"), ("w2", "good")]))
    with pytest.raises(DataError, match="no examples to train on"):
        train(tmp_path, table(tmp_path / "b.tsv", []))
    with pytest.raises(DataError, match=r"c\.tsv:2"):
        train(tmp_path, table(tmp_path / "c.tsv", [("w1", "good"), ("no label",)]))


def test_class_weights_by_hand() -> None:
    examples = [TextExample((text,), label, Place("x", 1)) for text, label in (("a", "p"), ("b", "p"), ("c", "q"))]

    def weights(said: str) -> list[float]:
        made = tasks.for_training(Finetune(task="classify", model="m", class_weights=said), Files()).learn(examples)
        assert isinstance(made, Classification)
        found: list[float] = made.targets(examples)["weight"].tolist()
        return found

    assert weights("none") == [1, 1, 1]
    assert weights("balanced") == pytest.approx([0.75, 0.75, 1.5])
    assert weights("q=4") == pytest.approx([0.5, 0.5, 2.0])
    with pytest.raises(UsageError, match="no label 'r'"):
        weights("r=2")


def test_a_model_without_a_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="not a model for a task"):
        predictor(encoder(tmp_path / "m"))


def test_glue_by_name(tmp_path: Path) -> None:
    rows = [("sentence", "label"), *((text, "1" if label == "good" else "0") for text, label in texts(200))]
    path = table(tmp_path / "train.tsv", rows)
    done = train(tmp_path, path, path, task="glue/sst-2")
    assert done.metrics["valid_accuracy"] == 1.0
    test = table(tmp_path / "test.tsv", [("index", "sentence"), ("7", "w1 good"), ("9", "bad w2")])
    assert predicted(tmp_path / "out", test, submission=True, window=1) == ["index\tprediction", "7\t1", "9\t0"]


def test_long_texts_are_cut_and_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "a.tsv", [*texts(20), (" ".join(["good", *["w1"] * 100]), "good")])
    train(tmp_path, path, epochs=1.0)
    predicted(tmp_path / "out", path, text_column=("1",), label_column="2")
    told = capfd.readouterr().err
    assert "1 cut" in told and "cut 1 example that exceeded the maximum length" in told


@pytest.mark.sampled(6)
@pytest.mark.parametrize("head", ["sequence", "tokens", "spans", "choice"])
@pytest.mark.parametrize("family", ["bert", "electra"])
@pytest.mark.parametrize("which", ["last", "1", "mean:-2:"])
def test_logits_are_those_of_each_row_alone(head: str, family: str, which: str) -> None:
    sizes = EncoderConfig(50, 32, 2, 4, 48, family, 16 if family == "electra" else 0, 40, initializer_range=0.3)
    torch.manual_seed(0)
    model = BertWithHeads(sizes, ("pooler", head) if family == "bert" else (head,), 3)
    model.initialize()
    model.eval().requires_grad_(False)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, 20)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    ids, types = rng.integers(0, 50, bounds[-1]), rng.integers(0, 2, bounds[-1])
    made = Features(EncoderRows(ids.astype(np.int32), types.astype(np.uint8), bounds))
    found = outputs.logits(model, head, made, Backend.detect(FP32), layers(which), batch_tokens=64)
    assert found is not None and len(found) == 20
    for i, row in enumerate(found):
        place = slice(bounds[i], bounds[i + 1])
        given = (torch.from_numpy(ids[place])[None], None, torch.from_numpy(types[place])[None])
        hidden = outputs.hidden_states(model, head, layers(which), *given)
        expected = model.task_logits(head, hidden)[0].numpy()
        assert row.shape == expected.shape and np.allclose(row, expected, atol=1e-4)
