"""The library as its users import it."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, environment
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

import nlptools
from nlptools import errors
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Predict
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score

COMMAND_FILES = sorted((ROOT / "nlptools/cli").glob("*.py"))


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return words_bundle(tmp_path_factory.mktemp("api") / "lm")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- names ------------------------------------------------------------------------------------------------------------


def test_public_names() -> None:
    assert nlptools.__all__ == sorted(nlptools.__all__)
    assert {*nlptools._WHERE, "__version__"} == set(nlptools.__all__)
    for name in nlptools.__all__:
        value = getattr(nlptools, name)
        if name != "__version__":
            assert callable(value) and inspect.getdoc(value), name
            assert inspect.signature(value).return_annotation is not inspect.Signature.empty, name
    for name in ("nothing", "_private", "tokenise"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(nlptools, name)


@pytest.mark.sampled(law="a command imports what it needs")
def test_importing_costs_nothing_until_a_name_is_used() -> None:
    heavy = "[m for m in ('torch', 'numpy', 'click', 'sentencepiece', 'tokenizers', 'safetensors') if m in sys.modules]"
    assert python(f"import sys, nlptools; nlptools.__version__; print({heavy})") == "[]\n"
    light = "nlptools.tokenize, nlptools.bleu, nlptools.evaluate, nlptools.build_vocab, nlptools.describe, nlptools.tokenizer"
    light += ", nlptools.phrases, nlptools.walks, nlptools.load_vectors, nlptools.extract"
    assert python(f"import sys, nlptools; {light}; print('torch' in sys.modules)") == "False\n"
    everything = python("from nlptools import *; print(sorted(k for k in dir() if not k.startswith('__')))")
    assert ast.literal_eval(everything) == [name for name in nlptools.__all__ if not name.startswith("__")]


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of all that a command takes from the library."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        module = str(node.module) if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and module.startswith("nlptools") and not module.startswith("nlptools.cli"):
            yield from ((module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", COMMAND_FILES, ids=lambda path: path.stem)
def test_what_commands_use_is_there_for_everyone(path: Path) -> None:
    for module, name in imported(path):
        value = getattr(import_module(module), name, None) or import_module(f"{module}.{name}")
        assert not name.startswith("_") or name.startswith("__"), f"{path.name} takes {module}.{name}"
        if inspect.isfunction(value) or inspect.isclass(value) or inspect.ismodule(value):
            assert inspect.getdoc(value), f"{module}.{name} has no docstring"


def test_methods_are_documented() -> None:
    for name, method in inspect.getmembers(nlptools.LanguageModel, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name
            assert "return" in method.__annotations__, name


# -- at work ----------------------------------------------------------------------------------------------------------


def test_a_model_at_work(lm: Path, call: Any) -> None:
    model = nlptools.load(lm, precision="fp32", threads=1)
    assert isinstance(model, nlptools.LanguageModel)
    assert isinstance(nlptools.load(str(lm), device="cpu", precision="fp32"), nlptools.LanguageModel)
    lines = ["w1 w2", "", "w3, w4 nowhere."]
    scores = list(model.score(lines))
    assert [len(s.tokens) for s in scores] == [3, 1, 6] == [len(s.logprobs) for s in scores]
    assert scores[0].logprob == pytest.approx(sum(scores[0].logprobs)) and scores[0].tokens == ["w1", "w2", "</s>"]
    assert [len(s.tokens) for s in model.score(iter(lines), Score(eos=False))] == [2, 0, 5]
    found = list(model.generate(lines, Generate(max_new_tokens=5, num_samples=2), seed=3))
    assert [len(row) for row in found] == [2, 2, 2] and {type(c.text) for row in found for c in row} == {str}
    assert found == list(model.generate(iter(lines), Generate(max_new_tokens=5, num_samples=2, batch_size=1), seed=3))
    assert found[0][0].logprobs == [], "only when asked for"
    done = call("generate", lm, "--max-new-tokens", 5, "--num-samples", 2, "--seed", 3, stdin="\n".join(lines) + "\n")
    assert done.lines == ["\t".join(c.text for c in row) for row in found]


def test_an_endless_input_is_read_as_needed(lm: Path) -> None:
    import itertools

    model = nlptools.load(lm, threads=1)
    assert len(list(itertools.islice(model.score(itertools.repeat("w1")), 3))) == 3
    endless = model.generate(itertools.repeat("w1"), Generate(max_new_tokens=2))
    assert len(list(itertools.islice(endless, 3))) == 3


def test_perplexity(lm: Path, tmp_path: Path, call: Any) -> None:
    from nlptools.files import streams

    (tmp_path / "text").write_text("w1 w2\nw3\n")
    found = nlptools.load(lm, precision="fp32", threads=1).perplexity(streams.blocks(tmp_path / "text"))
    done = call("score", lm, "--per", "total", "--threads", 1, "text")
    assert json.loads(done.out) == json.loads(json.dumps(found))


def test_fine_tuned_models_and_encoders_are_loaded_as_what_they_are_for(lm: Path, tmp_path: Path, call: Any) -> None:
    torch = pytest.importorskip("torch")
    from nlptools import bundle
    from nlptools.models.encoders.bert_with_heads import BertWithHeads

    base = bundle.load(encoder_bundle(tmp_path / "encoder"))
    made = BertWithHeads(base.model.config, ("pooler", "sequence"), 2)
    torch.manual_seed(0)
    made.initialize()
    (tmp_path / "tuned").mkdir()
    more = {"id2label": {"0": "no", "1": "yes"}}
    bundle.save_encoder(tmp_path / "tuned", made, made.state_dict(), base.tokenizer, training={}, more=more)
    (tmp_path / "text").write_text("the cat\n\nit sat\n")
    predictor = nlptools.load(tmp_path / "tuned", precision="fp32", settings=Predict(top_k=2))
    assert isinstance(predictor, nlptools.Predictor)
    (found,) = predictor.lines([str(tmp_path / "text")])
    assert found == call("predict", "tuned", "text", "--top-k", 2).lines and len(found) == 3
    embedder = nlptools.load(tmp_path / "encoder", precision="fp32", settings=Embed(pooling="max"))
    assert isinstance(embedder, nlptools.TextEmbedder) and embedder.embed(["the cat", ""]).shape == (2, 8)
    sentences = tmp_path / "sentences"  # whose encoder is in a folder
    sentences.mkdir()
    (tmp_path / "encoder").rename(sentences / "0")
    (sentences / "modules.json").write_text(
        '[{"path": "0", "type": "x.Transformer"}, {"path": "1", "type": "x.Pooling"}]'
    )
    (sentences / "1").mkdir()
    (sentences / "1" / "config.json").write_text('{"pooling_mode": "max"}')
    found = nlptools.load(sentences, precision="fp32").embed(["the cat", ""])  # type: ignore[union-attr]
    assert (found == embedder.embed(["the cat", ""])).all()
    for path in (tmp_path / "tuned", lm):  # the settings select the use
        assert nlptools.load(path, settings=Embed(), precision="fp32").embed(["the cat", ""]).shape[0] == 2
    for settings in (Score(), Score(choices=True), Generate(), Predict()):
        with pytest.raises(errors.UsageError, match=r"is a sentence-transformers model, which .+ cannot take"):
            nlptools.load(sentences, settings=settings)
    with pytest.raises(errors.UsageError, match="is an encoder with the head of a task, which generate cannot take"):
        nlptools.load(tmp_path / "tuned", lm)


def test_word_vectors_are_loaded_as_an_embedder(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("2 2\none 1 2\ntwo 3 4\n")
    assert nlptools.load(tmp_path / "v.txt").embed(["one two"]).tolist() == [[2, 3]]  # type: ignore[union-attr]


def test_a_name_in_the_cache_of_the_hub(lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "hub" / "models--someone--tiny"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("abc123")
    (model / "snapshots" / "0ld").mkdir(parents=True)
    (model / "snapshots" / "abc123").symlink_to(lm, target_is_directory=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert isinstance(nlptools.load("someone/tiny", precision="fp32"), nlptools.LanguageModel)
    assert nlptools.describe("someone/tiny")["model"]
    for name in ("someone/other", "../tiny", "a/b/c"):
        with pytest.raises(errors.InputError, match="no such model directory"):
            nlptools.load(name)


def test_tokenize_describe_bleu(lm: Path) -> None:
    assert list(nlptools.tokenize(["Hello, world.", ""])) == ["Hello , world .", ""]
    assert list(nlptools.tokenize(["a b"], "char")) == ["a ▁ b"]
    tokenizer = nlptools.tokenizer(lm)
    assert tokenizer.decode(tokenizer.encode("w1, w2")) == "w1, w2"
    assert list(nlptools.tokenize(["w1, w2"], tokenizer)) == ["w1 , w2"]
    assert nlptools.describe(lm)["model"]["family"] == "gpt2"
    line = "the cat sat on the mat"
    assert nlptools.bleu([line], [[line]]).score == pytest.approx(100)
    assert nlptools.bleu([line], [[line]], order=2, tokenize="char").score == pytest.approx(100)
    assert nlptools.chrf([line], [[line]], word_order=2).line() == (
        f"chrF2++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:nlptools-{nlptools.__version__} = 100.0"
    )
    assert nlptools.ter([line], [[f"{line} again and again"]]).score == pytest.approx(100 * 3 / 9)


def test_phrases(call: Any) -> None:
    lines = ["new york is big", "", "in new york city"] * 3 + ["york"]
    found = list(nlptools.phrases(iter(lines), min_count=3, threshold=0.5))
    assert found[:4] == ["new_york is big", "", "in new_york city", "new_york is big"] and found[-1] == "york"
    assert len(found) == len(lines)
    long = [f"a b c d{i % 7} " * (i % 50) for i in range(9000)]
    options = ["--min-count", 2, "--passes", 2, "--scoring", "npmi", "--connectors", "c"]
    expected = call("phrases", *options, stdin="\n".join(long) + "\n").lines
    assert list(nlptools.phrases(long, scoring="npmi", min_count=2, passes=2, connectors=["c"])) == expected
    for bad in ({"passes": 0}, {"scoring": "best"}, {"threshold": 0}, {"delimiter": " "}):
        with pytest.raises(errors.UsageError):
            nlptools.phrases(lines, **bad)
    with pytest.raises(errors.UsageError, match="line 2 contains a newline"):
        list(nlptools.phrases(["a", "b\nc"]))
    with pytest.raises(errors.DataError, match="no training data"):
        list(nlptools.phrases([]))


def test_walks(call: Any) -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "e")]
    text = "".join(f"{u} {v}\n" for u, v in edges)
    found = list(nlptools.walks(edges, length=6, rounds=3, p=0.5, q=2, seed=4))
    done = call("walks", "--length", 6, "--walks", 3, "--p", 0.5, "--q", 2, "--seed", 4, stdin=text)
    assert [" ".join(walk) for walk in found] == done.lines and len(found) == 15
    weighted = list(nlptools.walks([("a", "b"), ("a", "c", 0.0), ("c", "a", 2)], directed=True, length=3, rounds=1))
    assert sorted(weighted) == [["a", "b"], ["b"], ["c", "a", "b"]]
    for bad in ({"p": 0}, {"q": float("nan")}, {"length": 0}, {"rounds": 0}, {"seed": -1}):
        with pytest.raises(errors.UsageError):
            nlptools.walks(edges, **bad)
    for wrong in ([], [("a", "b", -1.0)], [("a", "b", float("inf"))]):
        with pytest.raises(errors.DataError):
            nlptools.walks(wrong)


def test_errors_are_a_family(lm: Path, tmp_path: Path) -> None:
    for use in (nlptools.load, nlptools.describe):
        with pytest.raises(errors.InputError, match="no such model directory") as caught:
            use(tmp_path / "nowhere")
        assert isinstance(caught.value, errors.NlptoolsError) and caught.value.exit_code == 66
        with pytest.raises(errors.BundleError, match=r"no config\.json"):
            use(tmp_path)
    with pytest.raises(errors.InputError, match="no such tokenizer"):
        nlptools.tokenizer("nowhere")
    with pytest.raises(errors.UsageError):
        nlptools.load(lm, device="abacus")
    with pytest.raises(errors.BundleError, match="only encoder-decoders form an ensemble"):
        nlptools.load(lm, lm)
    with pytest.raises(TypeError, match="path"):
        nlptools.load()  # type: ignore[call-arg]
