"""Tagging of words: learnt, kept to their scheme, written back as columns."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import this_month

from nlptools import bundle
from nlptools.batches.encoder_rows import marks_of
from nlptools.batches.features import Encoding, Features
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError, UsageError
from nlptools.formats import tag_schemes
from nlptools.formats.examples import Place, TaggedSentence
from nlptools.layers.crf import Crf
from nlptools.metrics import spans
from nlptools.metrics.tags import read_tags
from nlptools.tasks import task as tasks
from nlptools.tasks.tag.task import Tagging
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab
from tests.tasks.tiny_tags import columns, predicted, sentences
from tests.tasks.tiny_tasks import WORDS, encoder, stopped_at, train


@pytest.mark.sampled(law="an encoder learns a task")
def test_spans_are_learnt_and_written_back(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", max_position_embeddings=128)
    path = columns(tmp_path / "a.txt", sentences(400))
    valid = columns(tmp_path / "b.txt", sentences(40, 1))
    done = train(tmp_path, path, valid, task="tag", epochs=10.0)
    assert done.metrics["valid_f1"] > 0.97 and list(done.metrics)[-1] == "valid_f1" and "words" in done.metrics
    config = bundle.load(tmp_path / "out").config
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"] == {"0": "O", "1": "B-A", "2": "I-A", "3": "B-B", "4": "I-B"}
    assert config["nlptools"]["task"]["scheme"] == "iob2"
    new = sentences(30, 2)
    test = columns(tmp_path / "c.txt", new)
    given = test.read_text().split("\n")
    lines = predicted(tmp_path / "out", test, columns=True, window=7)
    assert [line.rsplit(" ", 1)[0] if line else "" for line in lines] == given[:-1]
    plain = predicted(tmp_path / "out", test)
    assert [len(line.split(" ")) for line in plain] == list(map(len, new))
    assert [line.rsplit(" ", 1)[1] for line in lines if line] == " ".join(plain).split(" ")
    right = sum(
        a == tag
        for line, rows in zip(plain, new, strict=True)
        for a, (_, tag) in zip(line.split(" "), rows, strict=True)
    )
    assert right > 0.95 * sum(map(len, new))
    # words between spaces, an empty line among them
    (tmp_path / "d.txt").write_text("w1 good w2\n\nbad\n")
    assert [len(line.split()) for line in predicted(tmp_path / "out", tmp_path / "d.txt")] == [3, 0, 1]
    objects = [json.loads(line) for line in predicted(tmp_path / "out", test, to="jsonl", window=7)]
    assert [" ".join(row["tags"]) for row in objects] == plain and all(
        len(r["words"]) == len(r["tags"]) for r in objects
    )


@pytest.mark.parametrize("crf", [False, True])
def test_no_word_of_a_long_sentence_is_lost(tmp_path: Path, crf: bool) -> None:
    path = columns(tmp_path / "a.txt", sentences(200, longest=12))
    train(tmp_path, path, task="tag", epochs=1.0, max_length=8, crf=crf)
    long = columns(tmp_path / "b.txt", [sentences(1, 5, 3)[0] * 60, sentences(1, 6)[0]])
    lines = predicted(tmp_path / "out", long, columns=True)
    assert [line.rsplit(" ", 1)[0] for line in lines if line] == [line for line in long.read_text().split("\n") if line]


@pytest.mark.sampled(law="an encoder learns a task")
def test_tags_of_words_need_no_scheme(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", max_position_embeddings=128)
    names = {"B-A": "JJ", "I-A": "NN", "B-B": "RB", "O": "VB"}
    made = [[(word, names[tag]) for word, tag in rows] for rows in sentences(300)]
    path = columns(tmp_path / "a.txt", made)
    done = train(tmp_path, path, path, task="tag", epochs=12.0)
    assert done.metrics["valid_accuracy"] > 0.97 and "valid_f1" not in done.metrics
    with pytest.raises(UsageError, match="are of words"):
        train(tmp_path, path, task="tag", best="f1", force=True)


def test_a_tag_unseen_in_training_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(20))
    valid = columns(tmp_path / "b.txt", [[("w1", "O")], [("w1", "O"), ("w2", "B-C")]])
    with pytest.raises(DataError, match=r"b\.txt:4: the tag 'B-C' was not seen in training"):
        train(tmp_path, path, valid, task="tag")
    with pytest.raises(DataError, match="only one class: every tag is 'O'"):
        train(tmp_path, columns(tmp_path / "c.txt", [[("w1", "O")]]), task="tag", force=True)
    texts = tmp_path / "texts.tsv"
    texts.write_text("a fine film\tgood\nnot so fine\tbad\n", encoding="utf-8")
    with pytest.raises(DataError, match="one sentence, and most of its words contain spaces") as caught:
        train(tmp_path, str(texts), task="tag", force=True)
    assert "--task classify" in str(caught.value.hint)


def iob1(made: list[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """The same spans, B only between two of a type that touch."""
    out = []
    for rows in made:
        tags = ["O", *(tag for _, tag in rows)]
        out.append(
            [
                (word, tag if tag[0] != "B" or before[1:] == tag[1:] else "I" + tag[1:])
                for (word, tag), before in zip(rows, tags, strict=False)
            ]
        )
    return out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("crf", [False, True])
def test_the_columns_that_predict_writes_have_the_f1_of_the_validation(tmp_path: Path, crf: bool) -> None:
    train_file = columns(tmp_path / "eng.train", iob1(sentences(150)))
    valid = columns(tmp_path / "eng.testa", iob1(sentences(60, 1)))
    done = train(tmp_path, train_file, valid, task="tag", crf=crf, max_length=8, epochs=5.0)
    found = bundle.load(tmp_path / "out")
    assert found.config["nlptools"]["task"]["scheme"] == "iob1" and ("crf.follows" in found.weights()) == crf
    assert 0.3 < done.metrics["valid_f1"] < 1
    lines = predicted(tmp_path / "out", valid, columns=True, max_length=8)
    answered = tmp_path / "answered"
    answered.write_text("".join(f"{line}\n" for line in lines))
    for scheme in ("conlleval", "iob1"):
        numbers = spans.entities(*read_tags([answered]), scheme).values()
        assert numbers["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)
    other = predicted(tmp_path / "out", valid, max_length=8, scheme="bioes")
    assert {tag[0] for line in other for tag in line.split()} <= set("OBIES") and any("S-B" in line for line in other)


def test_comments_and_boundaries_come_back(tmp_path: Path) -> None:
    train(tmp_path, columns(tmp_path / "a.txt", sentences(50)), task="tag", epochs=1.0)
    path = tmp_path / "b.txt"
    path.write_text("# one\n-DOCSTART- x O\n\n# two\ngood x B-A\nw1 x I-A\n\n\n# end\n")
    lines = predicted(tmp_path / "out", path, columns=True, comments=True)
    assert [" ".join(line.split(" ")[:3]) for line in lines] == path.read_text().split("\n")[:-1]
    assert lines[1] == "-DOCSTART- x O O" and len(lines[4].split()) == 4 and lines[0] == "# one"
    assert len(predicted(tmp_path / "out", path, comments=True)) == 1
    # words alone, and words on one line into columns
    path.write_text("good\nw1\n\nw2\n")
    assert [len(line.split()) for line in predicted(tmp_path / "out", path)] == [2, 1]
    path.write_text("good w1\n\nw2\n")
    lines = predicted(tmp_path / "out", path, columns=True)
    assert [line.split(" ")[0] for line in lines] == ["good", "w1", "", "", "w2", ""]
    path.write_text("w1\tw2\tw3\tw4\tw5\n")
    with pytest.raises(DataError, match=r"b\.txt:1: 5 columns, the training files of the model had 3"):
        predicted(tmp_path / "out", path)


def test_conllu_is_tagged_and_comes_back(tmp_path: Path) -> None:
    names = {"B-A": "JJ", "I-A": "NN", "B-B": "RB", "O": "VB"}
    made = []
    for n, rows in enumerate(sentences(120)):
        lines = [f"# sent_id = {n}", "1-2\tw1w2" + "\t_" * 8] if len(rows) > 1 else []
        made += [
            *lines,
            *(f"{i}\t{word}\t_\t{names[tag]}" + "\t_" * 6 for i, (word, tag) in enumerate(rows, 1)),
            "",
        ]
    path = tmp_path / "a.conllu"
    path.write_text("\n".join(made) + "\n")
    train(tmp_path, path, path, task="tag", label_column="upos", epochs=2.0)
    assert bundle.load(tmp_path / "out").config["id2label"] == dict(zip("0123", sorted(names.values()), strict=True))
    lines = predicted(tmp_path / "out", path, columns=True)
    assert [line if line[:1] in ("", "#") else line.rsplit("\t", 1)[0] for line in lines] == made
    assert {line.rsplit("\t", 1)[1] for line in lines if line[:1].isdigit()} <= {*names.values(), "_"}
    with pytest.raises(UsageError, match="are of words"):
        predicted(tmp_path / "out", path, scheme="iob2")
    with pytest.raises(DataError, match="which column has the tags"):
        train(tmp_path, path, task="tag", force=True)


def test_broken_tags_are_told_and_mended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = [*sentences(20), [("w1", "O"), ("w2", "I-B")]]
    path = columns(tmp_path / "a.txt", made)
    train(tmp_path, path, task="tag", epochs=0.5)
    line = sum(len(rows) + 1 for rows in made[:-1]) + 2
    assert f"a.txt:{line}: tag 'I-B' after O breaks the scheme iob2; 1 sentence" in capfd.readouterr().err
    other = columns(tmp_path / "b.txt", [[("w1", "O"), ("w2", "S-B")]])
    with pytest.raises(DataError, match=r"b\.txt:2: tag 'S-B', expected O, B-TYPE, I-TYPE \(iob2\)"):
        train(tmp_path, other, task="tag", scheme="iob2", force=True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"class_weights": "balanced"}, "--class-weights applies to --task classify, pair only"),
        ({"best": "pearson"}, "--best pearson: expected auto, accuracy, f1, loss"),
        ({"scheme": "iob9"}, "no such scheme"),
        ({"layout": "lines"}, "no tags to learn from"),
        ({"task": "classify", "crf": True}, "--crf applies to --task tag, roles only"),
        ({"task": "roles", "scheme": "iob2"}, "roles have no scheme"),
    ],
)
def test_usage(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    (tmp_path / "no.txt").touch()  # options are checked before it is read
    with pytest.raises(UsageError, match=told):
        train(tmp_path, tmp_path / "no.txt", **{"task": "tag", **settings})


# -- targets and losses by hand ---------------------------------------------------------------------------------------


def rows_of(
    words: list[list[str]], tags: list[list[str]], max_length: int, **settings: Any
) -> tuple[Tagging, Features]:
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    examples = [
        TaggedSentence(tuple(w), tuple(t), Place("x", 1), scheme="iob2") for w, t in zip(words, tags, strict=True)
    ]
    made = tasks.for_training(Finetune(task="tag", model="m", **settings), Files())
    assert isinstance(made, Tagging)
    made = made.restored({"labels": ["O", "B-A", "I-A"], "scheme": "iob2", "written": "iob2", "columns": 2})
    return made, made.features(examples, Encoding(tokenizer, marks_of(tokenizer), max_length), True)


def test_each_word_is_learnt_once_in_one_of_the_rows() -> None:
    words = [["w1", "w2", "w3", "w4", "w5"], ["good"]]
    made, found = rows_of(words, [["B-A", "I-A", "O", "O", "B-A"], ["O"]], 5)
    assert found.per_token == ("label", "weight") and found.num_examples == 2
    # windows of three pieces, two apart: w1 w2 w3, w3 w4 w5, which also are the last
    assert found.lengths.tolist() == [5, 5, 3] and found.examples is not None
    assert found.examples.tolist() == [0, 2, 3]
    assert found.targets["label"].tolist() == [-1, 1, 2, 0, -1, -1, -1, 0, 1, -1, -1, 0, -1]
    assert found.targets["weight"].sum() == 6
    logits = torch.randn(3, 5, 3)
    label = torch.full((3, 5), -1)
    label.view(-1)[:13] = torch.from_numpy(found.targets["label"])
    label[2, 3:] = -1
    weight = (label >= 0).float()
    expected = -sum(
        float(logits[b, t].log_softmax(-1)[label[b, t]]) for b in range(3) for t in range(5) if label[b, t] >= 0
    )
    assert float(made.loss(logits, label, weight)) == pytest.approx(expected, rel=1e-5)
    # with a field that knows nothing yet it is the same
    edges = (torch.ones(3), torch.ones(3))
    assert float(made.loss(logits, *edges, label, weight, crf=Crf(3)).detach()) == pytest.approx(expected, rel=1e-5)
    # a batch that does not count
    assert float(made.loss(logits, *edges, label, 0 * weight, crf=Crf(3)).detach()) == 0


def test_a_field_is_told_where_sentences_begin_and_end() -> None:
    made, found = rows_of([["w1", "w2", "w3", "w4", "w5"], ["good"]], [["O"] * 5, ["O"]], 5, crf=True)
    assert list(found.targets) == ["begins", "ends", "label", "weight"]
    assert found.targets["begins"].tolist() == [1, 0, 1] and found.targets["ends"].tolist() == [0, 1, 1]
    crf = Crf(3)
    with torch.no_grad():
        crf.begins[1] = 2.0
    logits, label = torch.zeros(1, 3, 3), torch.tensor([[-1, 1, -1]])
    weight = (label >= 0).float()
    one = made.loss(logits, torch.tensor([1]), torch.tensor([1]), label, weight, crf=crf)
    assert float(one.detach()) == pytest.approx(-float(torch.tensor([0.0, 2.0, 0.0]).log_softmax(0)[1]))
    inner = made.loss(logits, torch.tensor([0]), torch.tensor([1]), label, weight, crf=crf)
    assert float(inner.detach()) == pytest.approx(np.log(3))


def test_decoding_is_by_word_or_keeps_to_the_scheme_and_hears_the_field() -> None:
    by_word, found = rows_of([["w1", "w2"], [], ["w3"]], [["O", "O"], [], ["O"]], 8)
    made = replace(by_word, decoding="scheme")
    scores = [np.zeros((4, 3), np.float32), np.zeros((3, 3), np.float32)]
    scores[0][1], scores[0][2] = [1, 0, 0], [0, 0, 2]  # O I-A is not allowed
    scores[1][1] = [1, 0, 3]
    assert by_word.decoding == "argmax"
    assert [p.tags for p in by_word.decode(scores, found, [])] == [["O", "I-A"], [], ["I-A"]]
    assert [p.tags for p in made.decode(scores, found, [])] == [["B-A", "I-A"], [], ["O"]]
    crf = Crf(3)
    assert by_word.decode(scores, found, [], crf=crf)[0].tags == ["B-A", "I-A"], "a field keeps to the scheme"
    with torch.no_grad():
        crf.follows[0, 0] = 5.0
    assert made.decode(scores, found, [], crf=crf)[0].tags == ["O", "O"]


def test_how_a_directory_is_decoded(tmp_path: Path) -> None:
    """By word unless asked, roles by their scheme, a field by itself; `finetune` measures what `predict` writes."""
    train_file = columns(tmp_path / "a.txt", sentences(150))
    done = train(tmp_path, train_file, train_file, task="tag", epochs=2.0)
    for decode in (None, "argmax", "scheme"):
        answered = tmp_path / f"{decode}.txt"
        answered.write_text(
            "".join(f"{x}\n" for x in predicted(tmp_path / "out", train_file, columns=True, decoding=decode))
        )
    by_word, kept = ((tmp_path / f"{name}.txt").read_text() for name in ("argmax", "scheme"))
    assert (tmp_path / "None.txt").read_text() == by_word != kept
    broken = [
        any(
            tag_schemes.spans(line.split(), "iob2")[1]
            for line in predicted(tmp_path / "out", train_file, decoding=decode)
        )
        for decode in ("argmax", "scheme")
    ]
    assert broken == [True, False]
    numbers = spans.entities(*read_tags([tmp_path / "argmax.txt"]), "conlleval").values()
    assert numbers["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)
    train(tmp_path, train_file, task="tag", epochs=0.1, crf=True, force=True)
    assert predicted(tmp_path / "out", train_file) == predicted(tmp_path / "out", train_file, decoding="scheme")
    with pytest.raises(UsageError, match="--decoding argmax: the model has a conditional random field"):
        predicted(tmp_path / "out", train_file, decoding="argmax")
    train(tmp_path, propositions(tmp_path / "a.conllu", 20), task="roles", epochs=0.1, force=True)
    roles = [
        predicted(tmp_path / "out", tmp_path / "a.conllu", decoding=decode) for decode in (None, "scheme", "argmax")
    ]
    assert roles[0] == roles[1] and len(roles[2]) == len(roles[0])
    names = {"B-A": "JJ", "I-A": "NN", "B-B": "RB", "O": "VB"}
    plain = columns(tmp_path / "b.txt", [[(word, names[tag]) for word, tag in rows] for rows in sentences(20)])
    train(tmp_path, plain, task="tag", epochs=0.1, force=True)
    with pytest.raises(UsageError, match="--decoding scheme: the model's tags are of words"):
        predicted(tmp_path / "out", plain, decoding="scheme")


# -- roles ------------------------------------------------------------------------------------------------------------


def propositions(path: Path, count: int, seed: int = 0, other: str = "ARG1") -> Path:
    """Sentences of two predicates, `good` and `bad`: the word before is ARG0, the word after ARG1."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        words = [f"w{rng.randrange(20)}" for _ in range(rng.randrange(6, 9))]
        places = (1, len(words) - 2)
        for place, word in zip(places, rng.sample(["good", "bad"], 2), strict=True):
            words[place] = word
        for i, word in enumerate(words):
            roles = ["V" if i == p else "ARG0" if i == p - 1 else other if i == p + 1 else "_" for p in places]
            sense = f"{word}.01" if i in places else "_"
            lines.append("\t".join([str(i + 1), word, *"_" * 4, "0" if i == 1 else "2", *"_" * 3, sense, *roles]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.sampled(law="an encoder learns a task")
@pytest.mark.parametrize("crf", this_month([False, True], 1))
def test_roles_of_each_predicate_are_told_apart(tmp_path: Path, crf: bool) -> None:
    encoder(tmp_path / "encoder", max_position_embeddings=64)
    path, valid = propositions(tmp_path / "a.conllu", 150), propositions(tmp_path / "b.conllu", 30, 1)
    done = train(tmp_path, path, valid, task="roles", epochs=10.0, crf=crf)
    assert done.metrics["valid_f1"] > 0.95 and list(done.metrics)[-1] == "valid_f1"
    assert bundle.load(tmp_path / "out").config["id2label"] == {"0": "O", "1": "B-ARG0", "2": "B-ARG1"}
    lines = predicted(tmp_path / "out", valid, window=7)
    assert len(lines) == 60  # one per predicate
    words = [line.split("\t")[1] for line in valid.read_text().split("\n\n")[0].split("\n")]
    assert lines[0] == f"2 {words[1]}\tARG0 1-1 {words[0]}\tARG1 3-3 {words[2]}"
    answered = tmp_path / "answered"
    shown = predicted(tmp_path / "out", valid, columns=True)
    answered.write_text("".join(f"{line}\n" for line in shown))
    assert shown[1].split("\t")[:2] == [words[1], "V"]
    numbers = spans.entities(*read_tags([answered]), "iob2").values()
    assert numbers["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)


def test_roles_that_training_has_not_seen_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, valid = propositions(tmp_path / "a.conllu", 40), propositions(tmp_path / "b.conllu", 5, 1, other="ARG9")
    done = train(tmp_path, path, valid, task="roles", epochs=1.0)
    assert "b.conllu:1: the tag 'B-ARG9' was not seen in training; 10 words with such roles" in capfd.readouterr().err
    assert np.isfinite(done.metrics["valid_loss"]) and done.metrics["valid_recall"] <= 0.5


def test_the_best_of_several_is_the_best_by_what_the_tags_tell(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(60))
    done = train(tmp_path, path, task="tag", folds=2, epochs=1.0)
    summary = done.metrics["repeats"]
    assert summary["criterion"] == "f1"
    values = [run["valid_f1"] for run in summary["runs"].values()]
    assert summary["mean"] == pytest.approx(sum(values) / 2)


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_run_that_was_stopped_goes_on_with_its_field(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(60))
    more: dict[str, Any] = {"task": "tag", "crf": True, "epochs": 2.0}
    train(tmp_path, path, path, output=str(tmp_path / "whole"), **more)
    with stopped_at(3):
        train(tmp_path, path, path, **more)
    train(tmp_path, path, path, **more)
    one, other = bundle.load(tmp_path / "whole").weights(), bundle.load(tmp_path / "out").weights()
    assert one["crf.follows"].abs().max() > 0 and all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert predicted(tmp_path / "whole", path) == predicted(tmp_path / "out", path)
