"""finetune --scratch as a command."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Run

from tests.tasks.tiny_tags import columns, sentences
from tests.tasks.tiny_tasks import table, texts


def test_text_classifiers_without_pretraining(call: Run, tmp_path: Path) -> None:
    table(tmp_path / "train.tsv", texts(300))
    table(tmp_path / "valid.tsv", texts(40, 1))
    how = ("--task", "classify", "--scratch", "bag", "--valid", "valid.tsv", "-o", "bag", "train.tsv")
    dumped = call("finetune", *how, "--epochs", "20", "--dump-config").text
    for line in ('scratch = "bag"', "lr = 0.08", "batch_size = 0", "epochs = 20.0", "clip = 0.0"):
        assert line in dumped.split("\n")
    done = call("finetune", *how, "--epochs", "20", "--batch-size", "16", "--lr", "0.1")
    assert done.code == 0 and done.out == b"" and "try: nlptools predict bag train.tsv\n" in done.err
    sources = json.loads((tmp_path / "bag" / "training.json").read_text())["invocation"]["sources"]
    assert (sources["epochs"], sources["dim"], sources["depth"]) == ("flag", "preset", "default")
    said = call("predict", "bag", stdin="good w1\nbad w2\n")
    assert [line.split("\t")[0] for line in said.lines] == ["good", "bad"]
    for args, message in (
        (("--scratch", "svm"), "'svm' is not one of"),
        ((), "either --model DIR or --scratch ARCH"),
        (("-m", "encoder", "--vectors", "v.txt"), "--vectors requires --scratch or --features"),
    ):
        refused = call("finetune", "--task", "classify", *args, "-o", "x", "train.tsv")
        assert refused.code == 2 and message in refused.err


def test_a_tagger_without_pretraining(call: Run, tmp_path: Path) -> None:
    columns(tmp_path / "train.txt", sentences(120))
    columns(tmp_path / "valid.txt", sentences(20, 1))
    how = ("--crf", "--scratch", "lstm", "--task", "tag", "--valid", "valid.txt", "-o", "tagger", "train.txt")
    for given in (how, (*how[3:5], *how[1:3], *how[5:], "--crf")):
        dumped = call("finetune", *given, "--dump-config").text.split("\n")
        for line in ('scratch = "lstm"', "epochs = 15.0", "batch_size = 16", 'characters = "cnn"', "hidden_size = 200"):
            assert line in dumped
    texts_have = call("finetune", "--scratch", "lstm", "--task", "classify", "-o", "x", "--dump-config").text
    assert "hidden_size = 128" in texts_have.split("\n") and "characters" not in texts_have
    done = call("finetune", *how, "--epochs", "6", "--lr", "1e-2", "--hidden-size", "16")
    assert done.code == 0 and done.out == b"" and "try: nlptools predict tagger train.txt\n" in done.err
    sources = json.loads((tmp_path / "tagger" / "training.json").read_text())["invocation"]["sources"]
    assert (sources["epochs"], sources["dim"], sources["depth"]) == ("flag", "preset", "default")
    said = call("predict", "tagger", stdin="w1 good w2\nbad w3\n")
    assert said.lines == ["O B-A I-A", "B-B O"]
    (tmp_path / "plain.txt").write_text("# good news\n(bad w3)\nw1\n")
    assert [len(line.split()) for line in call("predict", "tagger", "plain.txt").lines] == [3, 4, 1]
    (tmp_path / "words.txt").write_text("w1\ngood\nw2\n\nbad\nw3\n")
    for file in ("words.txt", "valid.txt"):
        assert call("predict", "tagger", file).lines == call("predict", "tagger", "--layout", "conll", file).lines
    assert call("predict", "tagger", "words.txt").lines == said.lines
    # a line of text is split as by the tokenizer words, so that a bracket is no part of a word
    assert call("predict", "tagger", "--text", "(bad w3)", "--text", "bad w1").lines[1] == "B-B O"
    assert [len(row.split()) for row in call("predict", "tagger", "--text", "(bad w3)", "--text", "").lines] == [4, 0]
    assert len(call("predict", "tagger", "--text", "(bad w3)", "--split", "whitespace").text.split()) == 2
    assert call("predict", "tagger", "--columns", "--text", "good w2").lines == ["good B-A", "w2 I-A", ""]
    lines = ["👩🏽‍🚀 good  w2", "e\u0301te\u0301 good w2 é", "", "\tbad, bad", "🇩🇪 w1"]
    text = "".join(f"{line}\n" for line in lines)
    made = [
        json.loads(row) for row in call("predict", "tagger", "--layout", "lines", "--to", "entities", stdin=text).lines
    ]
    assert [row["text"] for row in made] == lines
    found = [[(e["text"], e["label"], e["start"], e["end"]) for e in row["entities"]] for row in made]
    assert found[0] == [("good  w2", "A", 5, 13)] and found[1][0] == ("good w2", "A", 6, 13) and not found[2]
    assert found[3][:1] == [("bad", "B", 1, 4)] and found[3][-1] == ("bad", "B", 6, 9)
    assert all(row["text"][a:b] == name for row, each in zip(made, found, strict=True) for name, _, a, b in each)
    (row,) = [
        json.loads(line) for line in call("predict", "tagger", "--to", "entities", stdin="w1 x\ngood x\nw2 x\n\n").lines
    ]
    assert row == {"text": "w1 good w2", "entities": [{"text": "good w2", "label": "A", "start": 3, "end": 10}]}
    refused = call("predict", "tagger", "--to", "entities", "--columns", "--text", "bad")
    assert refused.code == 2 and "--to entities cannot be combined with --columns" in refused.err
    for args, message in (
        (("--scratch", "bag"), "'bag' is not one of cnn, lstm, gru, rnn, transformer"),
        (("--scratch", "lstm", "--char-ngrams", "3-6"), "--char-ngrams applies to --"),
        (("--scratch", "lstm", "--characters", "bytes"), "'bytes' is not one of"),
        (("--scratch", "lstm", "--tokenizer", "13a"), "--tokenizer applies to --task classify, pair, regress"),
    ):
        refused = call("finetune", "--task", "tag", *args, "-o", "x", "train.txt")
        assert refused.code == 2 and message in refused.err
    for name in ("embed", "score", "generate"):
        refused = call(name, "tagger", stdin="w1\n")
        assert refused.code == 2 and "tagger is a model" in refused.err
