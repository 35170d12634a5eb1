"""finetune --scratch as a command."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Run

from tests.tasks.tiny_tasks import table, texts


def test_text_classifiers_without_pretraining(call: Run, tmp_path: Path) -> None:
    table(tmp_path / "train.tsv", texts(300))
    table(tmp_path / "valid.tsv", texts(40, 1))
    how = ("--task", "classify", "--scratch", "bag", "--valid", "valid.tsv", "-o", "bag", "train.tsv")
    dumped = call("finetune", *how, "--epochs", "20", "--dump-config").text
    for line in ('scratch = "bag"', "lr = 0.08", "batch_size = 0", "epochs = 20.0", "clip = 0.0"):
        assert line in dumped.split("\n")
    done = call("finetune", *how, "--epochs", "20", "--batch-size", "16", "--lr", "0.1")
    assert done.code == 0 and done.out == b"" and "nlptools predict bag FILE" in done.err
    sources = json.loads((tmp_path / "bag" / "training.json").read_text())["invocation"]["sources"]
    assert (sources["epochs"], sources["dim"], sources["depth"]) == ("flag", "preset", "default")
    said = call("predict", "bag", stdin="good w1\nbad w2\n")
    assert [line.split("\t")[0] for line in said.lines] == ["good", "bad"]
    for args, message in (
        (("--scratch", "svm"), "'svm' is not one of"),
        ((), "either --model DIR or --scratch ARCH"),
        (("-m", "encoder", "--vectors", "v.txt"), "--vectors goes with --scratch"),
    ):
        refused = call("finetune", "--task", "classify", *args, "-o", "x", "train.tsv")
        assert refused.code == 2 and message in refused.err
