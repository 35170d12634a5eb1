"""Word vectors in language models: they begin with them, keep them where asked to, and give them back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run
from tiny_bundles import WORDS, words_bundle
from tiny_models import SIZES, tiny

from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.models import registry
from nlptools.text.vocab import Vocab
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.loop import fit
from nlptools.training.engine.steps import Fit
from nlptools.training.objectives import CausalLM
from nlptools.training.token_vectors import TokenVectors
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors

FROZEN = torch.tensor([3, 7, 20])
SMALL = ("--hidden", 8, "--layers", 1, "--heads", 2, "--context", 8, "--batch-size", 2, "--steps", 12, "--threads", 1)
architectures = pytest.mark.parametrize("arch", registry.names(registry.LANGUAGE))


def table(words: list[str], size: int = 8) -> Vectors:
    rng = np.random.default_rng(0)
    return Vectors(words, rng.normal(size=(len(words), size)).astype(np.float32))


# -- placing ----------------------------------------------------------------------------------------------------------


def test_tokens_with_a_vector_get_it_and_others_random_numbers_of_its_variance() -> None:
    vocab = Vocab(["</s>", "b", "a", *(f"x{i}" for i in range(200))])
    vectors = table(["a", "z", "b", "a2"])
    chosen, weight = TokenVectors(vocab, vectors), torch.zeros(len(vocab), 8)
    assert chosen.ids.tolist() == [1, 2]
    torch.manual_seed(0)
    chosen.place(weight)
    assert np.array_equal(weight[1:3].numpy(), vectors.matrix[[2, 0]])
    spread = float(vectors.matrix[[2, 0]].std())
    assert float(weight[3:].std()) == pytest.approx(spread, rel=0.05)
    nothing, before = TokenVectors(vocab, table(["q"])), weight.clone()
    nothing.place(weight)
    assert torch.equal(weight, before)


def test_a_vector_that_is_not_finite_is_refused() -> None:
    with pytest.raises(BundleError, match="not finite"):
        TokenVectors(Vocab(["b"]), Vectors(["b"], np.full((1, 3), np.nan, np.float32)))


# -- freezing ---------------------------------------------------------------------------------------------------------


def objective_and_source(arch: str, tmp_path: Path) -> tuple[CausalLM, Any]:
    ids = np.random.default_rng(0).integers(2, 50, 400).astype("uint16")
    data = Corpus(tmp_path / "ids", ids, TextCounts(tokens=len(ids) - 1), "")
    kind = ContiguousStreams if registry.model_class(arch).streams else ShuffledWindows
    return CausalLM(tiny(arch), FROZEN), kind(data, 8, 4, seed=1)


@pytest.mark.sampled(4)
@architectures
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_frozen_embeddings_stay_as_they_are_and_others_learn(arch: str, precision: str, tmp_path: Path) -> None:
    objective, source = objective_and_source(arch, tmp_path)
    weight = objective.model.token_embedding.weight
    before, others = weight.detach().clone(), [i for i in range(2, 50) if i not in FROZEN]
    run = Training(output="", steps=6, batch_size=4, lr=1e-2, warmup=0, weight_decay=0.5, schedule="constant")
    backend = Backend(torch.device("cpu"), precision).for_model(objective.model)
    fit(objective, source, backend, run)
    assert torch.equal(weight[FROZEN], before[FROZEN])
    assert not (weight[others] == before[others]).all(1).any()


def test_averages_have_the_frozen_embeddings_too(tmp_path: Path) -> None:
    """Validations measure the averages of NT-ASGD, and weight decay is in them, but not in the frozen rows."""
    objective, source = objective_and_source("transformer", tmp_path)
    weight = objective.model.token_embedding.weight
    before, measured = weight.detach().clone(), []

    def evaluate(model: Any, stop: Any) -> dict[str, float]:
        measured.append(model.token_embedding.weight.detach().clone())
        return {"loss": float(len(measured))}

    run = Training(output="", steps=8, batch_size=4, lr=0.1, warmup=0, weight_decay=0.5, schedule="constant", valid="v",
                   valid_every="2", optimizer="asgd", asgd_patience=0)  # fmt: skip
    fit(objective, source, Backend(torch.device("cpu")), run, evaluate=evaluate)
    assert len(measured) == 4 and not torch.equal(measured[-1], weight), "the last one is of averages"
    assert all(torch.equal(tensor[FROZEN], before[FROZEN]) for tensor in (*measured, weight))


def test_gradients_of_frozen_embeddings_do_not_count_in_clipping(tmp_path: Path) -> None:
    objective, source = objective_and_source("lstm", tmp_path)
    objective.frozen = torch.arange(50)
    run = Training(output="", steps=1, batch_size=4, lr=1e-2)
    state = Fit(objective, source, Backend(torch.device("cpu")), run, None)
    norm = state.step()["grad_norm"]
    free, source = objective_and_source("lstm", tmp_path)
    free.frozen = None
    whole = Fit(free, source, Backend(torch.device("cpu")), run, None)
    assert 0 < norm < whole.step()["grad_norm"]


@pytest.mark.sampled(law="a stopped run goes on")
def test_stopped_and_continued_is_never_stopped(tmp_path: Path) -> None:
    run = Training(output="", steps=8, batch_size=4, lr=1e-2, warmup=0, schedule="constant", save_every="never")

    def trained(steps: int, folder: str) -> dict[str, Any]:
        objective, source = objective_and_source("transformer-xl", tmp_path)
        torch.manual_seed(4)
        fit(
            objective,
            source,
            Backend(torch.device("cpu")),
            replace(run, steps=steps),
            checkpoints=Checkpoints(tmp_path / folder, keep=2),
        )
        return dict(objective.model.state_dict())

    whole = trained(8, "whole")
    trained(3, "parts")
    parts = trained(8, "parts")
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in (np.arange(6) + rng.integers(0, 20)) % 20) for _ in range(40)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"w{i}\t1\n" for i in range(20)))
    formats.save(table([f"w{i}" for i in range(12)] + ["elsewhere"]), str(tmp_path / "v.txt"))
    return tmp_path


def embeddings(directory: Path) -> np.ndarray:
    weights = artifacts.load_weights(directory)
    (name,) = [
        name for name in weights if name.endswith(("wte.weight", "token_embedding.weight", "embed_tokens.weight"))
    ]
    return np.asarray(weights[name])[:22]


@pytest.mark.sampled(3)
@architectures
def test_training_from_vectors_there_and_back(call: Run, text: Path, arch: str) -> None:
    heads = SMALL if "num_attention_heads" in SIZES[arch] else SMALL[:4] + SMALL[6:]
    options = ("train-lm", "--arch", arch, "-t", "vocab.tsv", *heads, "--vectors", "v.txt", "train.txt", "-o")
    done = call(*options, "frozen", "--freeze-embeddings", "--weight-decay", 1)
    assert done.code == 0 and "vectors: 12 of 22 tokens have one" in done.err, done.err
    expected = formats.load(str(text / "v.txt")).matrix[:12]
    assert np.array_equal(embeddings(text / "frozen")[2:14], expected)
    assert call(*options, "free").code == 0
    assert not np.isclose(embeddings(text / "free")[2:14], expected, atol=1e-6).all()
    assert call("convert", "frozen", "back.txt").code == 0
    back = formats.load(str(text / "back.txt"))
    assert back.words.list() == ["<unk>", "</s>", *(f"w{i}" for i in range(20))]
    assert np.array_equal(back.matrix, embeddings(text / "frozen"))


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_stopped_run_continues_with_the_same_vectors(call: Run, text: Path) -> None:
    options = ("train-lm", "-t", "vocab.tsv", *SMALL, "--vectors", "v.txt", "--freeze-embeddings", "train.txt", "-o")
    assert call(*options, "whole").code == 0
    assert call(*options, "parts", "--max-time", "0.001").code == 75
    assert call(*options, "parts").code == 0
    assert np.array_equal(embeddings(text / "whole"), embeddings(text / "parts"))
    record = json.loads((text / "parts/training.json").read_text())
    assert record["settings"]["vectors"] == "v.txt" and record["settings"]["freeze_embeddings"] is True


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        (["--vectors", "v.txt", "--hidden", 16], 2, "--vectors v.txt: vectors of 8 numbers, the embeddings of the model have 16"),
        (["--vectors", "none.txt"], 66, "none.txt"),
        (["--vectors", "other.txt"], 65, "other.txt: no token of the vocabulary has a vector"),
        (["--freeze-embeddings"], 2, "--freeze-embeddings requires --vectors"),
        (["--vectors", "v.txt", "--init", "lm"], 2, "--vectors cannot be combined with --init"),
        (["--vectors", "v.txt", "--arch", "ngram"], 2, "applies to every --arch but elmo, ngram"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(call: Run, text: Path, options: list[Any], code: int, error: str) -> None:
    formats.save(table(["elsewhere"]), str(text / "other.txt"))
    sizes = () if "ngram" in options else SMALL
    done = call("train-lm", "-t", "vocab.tsv", *sizes, *options, "train.txt", "-o", "out")
    assert done.code == code and error in done.err, done.err
    assert not (text / "out").exists()


def test_convert_refuses_what_has_no_embeddings(call: Run, text: Path) -> None:
    assert call("train-lm", "--arch", "ngram", "-t", "vocab.tsv", "train.txt", "-o", "counts", "--order", 2).code == 0
    done = call("convert", "counts", "c.txt")
    assert done.code == 2 and "counts is an n-gram model: the target is an ARPA file" in done.err
    words_bundle(text / "lm")
    done = call("convert", "lm", "c.txt", "--from", "glove")
    assert done.code == 2 and "--from does not apply to lm, a model directory" in done.err
    assert call("convert", "lm", "lm8", "--quantize", "int8").code == 0
    assert formats.load(str(text / "lm8")).words.list() == WORDS


def test_a_token_that_no_format_has_is_left_out_and_counted(call: Run, text: Path) -> None:
    call("build-vocab", "-t", "char", "-o", "chars.tsv", "train.txt")
    options = (
        "train-lm",
        "-t",
        "char",
        "--vocab",
        "chars.tsv",
        "--document",
        "file",
        *SMALL,
        "train.txt",
        "-o",
        "chars",
    )
    assert call(*options).code == 0
    done = call("convert", "chars", "c.txt")
    assert done.code == 0 and "1 token with a line end left out" in done.err, done.err
    assert "w" in formats.load(str(text / "c.txt"))
