"""describe: facts about a model directory, and whether it is intact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Run
from safetensors.torch import load_file, save_file
from tiny_bundles import bytes_bundle, words_bundle

from nlptools.files.line_records import unescape
from tests.tasks.tiny_tasks import table, texts, train


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return words_bundle(tmp_path / "lm")


def facts(call: Run, model: Path) -> dict[str, Any]:
    done = call("describe", "--to", "json", model)
    assert (done.code, done.err) == (0, ""), done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_what_a_directory_holds(call: Run, words: Path) -> None:
    found = facts(call, words)
    assert list(found) == ["model", "tokenizer", "training", "files"]
    weights = load_file(words / "model.safetensors")
    assert found["model"]["weights"] == sum(tensor.numel() for tensor in weights.values())
    assert (found["model"]["family"], found["model"]["types"]) == ("gpt2", ["F32"])
    assert (found["model"]["n_layer"], found["model"]["vocab_size"]) == (2, 50)
    special = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
    none = "none: it has no form for the rules of words"
    assert found["tokenizer"] == {"kind": "words", "tokens": 50, "special": special, "tokenizer.json": none}
    assert set(found["files"]) == {p.name for p in words.iterdir()}
    size = (words / "config.json").stat().st_size
    assert found["files"]["config.json"] == f"{size:,} bytes, ok"
    (words / "notes.txt").write_text("x")
    assert facts(call, words)["files"]["notes.txt"] == "1 bytes, not in the manifest"


def test_the_task_of_a_fine_tuned_model(call: Run, tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(60))
    train(tmp_path, path, path, epochs=1.0)
    record = json.loads((tmp_path / "out/training.json").read_text())["metrics"]
    expected = {"name": "classify", "layers": "last", "labels": ["bad", "good"]}
    expected |= {"text_column": ["1"], "label_column": "2", "width": 2}  # the first line of the table names no columns
    assert facts(call, tmp_path / "out")["task"] == {
        **expected,
        "metric": "accuracy",
        "validation": record["valid_accuracy"],
    }


def test_files_of_vectors_and_tokenizers(call: Run, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("3 2\nthe 1 2\ncat 3 4\nsat 5 6\n")
    vectors = facts(call, tmp_path / "v.txt")["vectors"]
    assert (vectors["format"], vectors["words"], vectors["dimensions"]) == ("word2vec", 3, 2)
    assert (vectors["bytes"], vectors["first words"]) == (28, ["the", "cat", "sat"])
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\nthe\t10\n")
    tokenizer = facts(call, tmp_path / "vocab.tsv")["tokenizer"]
    assert (tokenizer["tokens"], tokenizer["first tokens"]) == (2, ["<unk>", "the"])
    assert tokenizer["special"] == {"unk": "<unk>"}
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces/vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n")
    assert facts(call, tmp_path / "pieces")["tokenizer"]["tokens"] == 5
    (tmp_path / "notes.md").write_text("x")
    done = call("describe", tmp_path / "notes.md")
    assert done.code == 78 and "neither a model directory nor a file of word vectors" in done.err


def test_a_line_for_each_fact(call: Run, words: Path) -> None:
    done = call("describe", words)
    rows = [line.split("\t") for line in done.lines]
    assert done.code == 0 and all(len(row) == 2 for row in rows)
    shown = {row[0]: row[1] for row in rows}
    for section, values in facts(call, words).items():
        for name, value in values.items():
            text = shown.pop(f"{section} {name}")
            assert unescape(text) == value if isinstance(value, str) else json.loads(text) == value
    assert not shown


def test_how_it_was_trained(call: Run, words: Path) -> None:
    (words / "manifest.json").unlink()
    record = {
        "status": "finished",
        "invocation": {"argv": ["nlptools", "train-lm", "-o", "lm"]},
        "data": {"train": {"inputs": ["a\tb.txt", "-"], "tokens": 1234, "words": 1000}},
        "metrics": {"loss": 1.5},
        "parts": ["2024-01-01"],
        "nlptools": "1",
        "versions": {"torch": "2"},
    }
    (words / "training.json").write_text(json.dumps(record))
    found = facts(call, words)["training"]
    assert found["command"] == "nlptools train-lm -o lm" and found["metrics"] == {"loss": 1.5}
    assert found["text"] == "1,234 tokens, 1,000 words of a\tb.txt, -" and found["by"] == "nlptools 1, torch 2"
    done = call("describe", words)
    assert all(line.count("\t") == 1 for line in done.lines), "tabs in values are escaped"


@pytest.mark.parametrize("record", ['{"a": 1}', '{"data": [], "invocation": 1, "versions": null, "parts": "x"}',
                                    '{"data": {"train": 1}, "invocation": {"argv": [1, null]}, "parts": []}',
                                    '{"data": {"train": {"tokens": "x", "inputs": [1]}}}'])  # fmt: skip
def test_records_of_others(call: Run, words: Path, record: str) -> None:
    (words / "manifest.json").unlink()
    (words / "training.json").write_text(record)
    assert "status" in facts(call, words)["training"]
    (words / "training.json").unlink()
    assert facts(call, words)["training"] == {"record": "none"}


def test_shards_and_other_types(call: Run, words: Path) -> None:
    before = facts(call, words)["model"]
    weights = load_file(words / "model.safetensors")
    names = sorted(weights)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, members in shards.items():
        save_file({name: weights[name].to(torch.bfloat16) for name in members}, words / file)
    index = {"weight_map": {name: file for file, members in shards.items() for name in members}}
    (words / "model.safetensors.index.json").write_text(json.dumps(index))
    (words / "model.safetensors").unlink()
    (words / "manifest.json").unlink()
    after = facts(call, words)["model"]
    assert after == {**before, "types": ["BF16"]}
    scored = call("score", words, "--threads", 1, stdin="w1 w2\n")
    assert scored.code == 0 and scored.out


def test_bytes(call: Run, tmp_path: Path) -> None:
    assert facts(call, bytes_bundle(tmp_path / "b"))["tokenizer"] == {"kind": "bytes", "tokens": 256, "special": {}}


def test_vectors(call: Run, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("3 4\na 1 2 3 4\nb 4 3 2 1\nc 0 1 0 1\n")
    for name, options in {"plain": [], "int8": ["int8"], "pq": ["pq", "--subvectors", 3]}.items():
        assert call("convert", "v.txt", name, *(["--quantize", *options] if options else [])).code == 0
        found = facts(call, tmp_path / name)
        assert list(found) == ["vectors", "files"]
        told = {"words": 3, "dimensions": 4, "counts": False, "first words": ["a", "b", "c"]}
        told["quantized"] = name if options else "none"
        assert found["vectors"] == told | ({"subvectors": 3, "centroids": 3} if name == "pq" else {})
        assert set(found["files"]) == {path.name for path in (tmp_path / name).iterdir()}
        assert found["files"]["vocab.tsv"] == "6 bytes, ok"
    assert "vectors dimensions\t4" in call("describe", "pq").lines


def test_vectors_that_were_trained(call: Run, tmp_path: Path) -> None:
    text = "one two three two\n" * 9
    assert call("train-w2v", "--dim", 4, "--epochs", 2, "--sample", 0, "-o", "v", stdin=text).code == 0
    found = facts(call, tmp_path / "v")
    assert list(found) == ["vectors", "training", "files"]
    training = found["training"]
    assert (training["status"], training["seed"], training["metrics"]["words"]) == ("finished", 1, 72)
    assert training["text"] == "36 words of -" and training["by"].startswith("nlptools 0.")
    assert (
        "subwords" not in found["vectors"]
        and training["settings"]["sample"] == 0
        and "output" not in training["settings"]
    )
    assert training["command"].startswith("nlptools")
    (tmp_path / "run").mkdir()
    (tmp_path / "v/training.json").rename(tmp_path / "run/training.json")
    assert "run: no config.json: a training run without a model" in call("describe", "run").err
    (tmp_path / "v/training.json").write_text('{"settings": 1, "invocation": {"argv": 3}}')
    assert facts(call, tmp_path / "v")["training"]["command"] is None


def test_vectors_with_ngrams_and_damaged_ones(call: Run, tmp_path: Path) -> None:
    import numpy as np

    from nlptools.vectors.files.formats import save
    from nlptools.vectors.subwords import Subwords
    from nlptools.vectors.table import Vectors

    kept = Subwords(3, 6, np.ones((50, 4), np.float32), np.ones((2, 4), np.float32))
    save(Vectors(["one", "two"], kept.own, subwords=kept, counts=[7, 3]), str(tmp_path / "v"))
    found = facts(call, tmp_path / "v")["vectors"]
    assert found["subwords"] == {"shortest": 3, "longest": 6, "rows": 50} and found["counts"] is True
    data = bytearray((tmp_path / "v/subwords.npy").read_bytes())
    data[-1] ^= 1
    (tmp_path / "v/subwords.npy").write_bytes(data)
    done = call("describe", "v")
    assert done.code == 78 and "subwords.npy: damaged: its SHA-256" in done.err
    (tmp_path / "v/manifest.json").unlink()
    assert call("describe", "v").code == 78


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [
        ("nowhere", 66, "nowhere: no such model directory"),
        ("lm/config.json", 78, "lm/config.json: cannot be read"),
        (".", 78, ".: no config.json: not a model directory"),
    ],
)
def test_not_a_model(call: Run, words: Path, model: str, code: int, said: str) -> None:
    done = call("describe", model)
    lines = done.err.split("\n")[:-1]
    assert done.code == code and said in lines[0] and done.out == b""
    assert [line for line in lines[1:] if not line.startswith("  hint: ")] == []


@pytest.mark.sampled(law="an output that fails ends the command")
def test_outputs_that_fail(shell: Run, words: Path) -> None:
    for into, code in ((">&-", 74), ("> /dev/full", 74), ("| true", 0)):
        done = shell(f"nlptools describe {words} {into}")
        assert done.code in (code, 141) and "Traceback" not in done.err and done.err.count("\n") <= 1, done
    assert shell("nlptools describe").code == 2


def test_an_encoder_decoder(call: Run, tmp_path: Path) -> None:
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\na\t1\nb\t1\n")
    (tmp_path / "pairs.tsv").write_text("a b\tb\nb\ta b\n\ta\n")
    args = ("--vocab", "vocab.tsv", "--layers", 1, "--hidden", 8, "--heads", 2, "--steps", 1, "--threads", 1, "-q")
    done = call("train-seq2seq", "-t", "words", *args, "--decoder-layers", 2, "-o", "m", "pairs.tsv")
    assert done.code == 0, done.err
    found = facts(call, tmp_path / "m")
    assert list(found) == ["model", "tokenizer", "training", "files"]
    assert (found["model"]["family"], found["model"]["architecture"]) == ("marian", "seq2seq-transformer")
    assert (found["model"]["encoder_layers"], found["model"]["decoder_layers"]) == (1, 2)
    assert found["tokenizer"] == {
        "kind": "words",
        "tokens": 5,
        "special": {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"},
        "tokenizer.json": "none: it has no form for the rules of words",
    }
    assert found["training"]["text"] == "2 pairs, 3 source tokens, 3 target tokens of pairs.tsv"
    done = call("train-seq2seq", "-t", "words", "--target-tokenizer", "m", *args, "-o", "two", "pairs.tsv")
    assert done.code == 0, done.err
    found = facts(call, tmp_path / "two")
    assert list(found) == ["model", "source tokenizer", "target tokenizer", "training", "files"]
    assert found["files"]["target/vocab.tsv"].endswith(", ok")
    assert "source tokenizer kind\twords" in call("describe", "two").lines
    (tmp_path / "two/target/vocab.tsv").write_text("<unk>\t0\n")
    damaged = call("describe", "two")
    assert damaged.code == 78 and "two/target/vocab.tsv: damaged" in damaged.err
    (tmp_path / "two/manifest.json").unlink()
    (tmp_path / "two/target/vocab.tsv").write_text("<unk>\t0\n" + "".join(f"w{i}\t1\n" for i in range(50)))
    damaged = call("describe", "two")
    assert damaged.code == 78 and "51 tokens, the model 5" in damaged.err
