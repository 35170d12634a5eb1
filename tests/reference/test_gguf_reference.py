"""GGUF files in llama.cpp: the same ids of texts in many scripts, the same greedy continuations, the same vectors.

The package xllamacpp has llama.cpp compiled (pip install xllamacpp); without it, these tests are skipped.
"""

from __future__ import annotations

import json
import unicodedata
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf_models
import numpy as np
import pytest
import torch

from nlptools.configs.embed import Embed
from nlptools.converters.gguf_export import convert
from nlptools.files import gguf_file
from nlptools.inference import loading
from nlptools.inference.opening import open_model
from tests.reference import gguf_folders

xllamacpp = pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.slow, pytest.mark.reference]

_LINES, _FEWER, _NEW = 2000, 200, 32
_TIE = 0.005  # of two logits: llama.cpp rounds activations to F16
_PROMPTS = ["The quick brown", "Быстрая лиса", "emoji 😀", "敏捷的棕色", "a"]


class Client:
    """A server of llama.cpp in this process."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self, path: str, **body: Any) -> Any:
        """The answer to a request."""
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self.address + path, data, kind), timeout=60) as answer:
            return json.loads(answer.read())


@contextmanager
def serving(file: Path, embeds: bool = False) -> Iterator[Client]:
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.n_ctx, params.n_parallel, params.verbosity, params.warmup = 64, 1, 0, False
    params.cpuparams.n_threads = 1
    params.embedding = embeds
    params.port = 0
    server = xllamacpp.Server(params)
    try:
        yield Client(server.listening_address)
    finally:
        del server


def lines(kind: str) -> list[str]:
    """Texts; for WordPiece that removes accents, without those that llama.cpp splits in another way, as `convert` warns."""
    drawn = gguf_models.expressible(kind, gguf_models.lines(_LINES))
    if kind != "wordpiece":
        return drawn
    return [
        line for line in drawn if not any("\uac00" <= c <= "\ud7a3" or unicodedata.category(c) == "Mc" for c in line)
    ]


@pytest.mark.parametrize("kind", gguf_models.KINDS)
def test_same_ids(tmp_path: Path, kind: str) -> None:
    embeds = kind.startswith("wordpiece")
    made = gguf_models.encoder if embeds else gguf_models.language_model
    directory = made(tmp_path / "model", kind=kind)
    convert(str(directory), str(tmp_path / "model.gguf"))
    loaded, texts = open_model(directory).bundle, lines(kind)
    assert len(texts) > _LINES // 3
    with serving(tmp_path / "model.gguf", embeds) as client:
        for text, ids in zip(texts, loaded.tokenizer.encode_lines(texts), strict=True):
            there = client("/tokenize", content=text, add_special=False, parse_special=False)
            assert there["tokens"] == ids, text
        around = client("/tokenize", content="a", add_special=True)["tokens"]
    ids = loaded.tokenizer.encode("a")
    vocab = loaded.tokenizer.vocab
    assert vocab is not None
    assert around == ([vocab.cls, *ids, vocab.sep] if embeds else [loaded.start, *ids])


@pytest.mark.parametrize("family", gguf_models.FAMILIES)
def test_same_greedy_tokens(tmp_path: Path, family: str) -> None:
    directory = gguf_models.language_model(tmp_path / "lm", family)
    convert(str(directory), str(tmp_path / "lm.gguf"), quantize="f16")
    loaded = open_model(tmp_path / "lm.gguf").bundle
    compared = 0
    sampling = {"temperature": 0, "samplers": ["top_k"], "top_k": 1, "return_tokens": True, "cache_prompt": False}
    with serving(tmp_path / "lm.gguf") as client, torch.inference_mode():
        for prompt in _PROMPTS:
            first = [loaded.start, *loaded.tokenizer.encode(prompt)]
            ids = list(first)
            for _ in range(_NEW):
                hidden = loaded.model(torch.tensor([ids]))[0][:, -1]
                best, tokens = loaded.model.output.logits(hidden)[0].topk(2)
                if best[0] - best[1] < _TIE or ids[-1] == loaded.eos:
                    break
                ids.append(int(tokens[0]))
            there = client("/completion", prompt=first, n_predict=_NEW, **sampling)["tokens"]
            assert there[: len(ids) - len(first)] == ids[len(first) :], prompt
            compared += len(ids) - len(first)
    assert compared >= len(_PROMPTS) * _NEW // 2


@pytest.mark.parametrize("layout", ["bert", "roberta"])
def test_same_vectors(tmp_path: Path, layout: str) -> None:
    """Cosines: llama.cpp computes GELU from a table in F16."""
    changes = {"first_position": 2, "type_vocab_size": 1} if layout == "roberta" else {}
    directory = gguf_models.encoder(tmp_path / "model", layout, **changes)
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    rows = [{"idx": i, "name": f"{i}", "path": path, "type": f"x.{kind}"} for i, (path, kind) in enumerate(steps)]
    (directory / "modules.json").write_text(json.dumps(rows))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "mean", "embedding_dimension": 64}))
    same_vectors(directory, tmp_path / "model.gguf")


@pytest.mark.parametrize("name", gguf_folders.FOLDERS)
def test_same_vectors_of_published_families(tmp_path: Path, name: str) -> None:
    directory, file = tmp_path / "model", tmp_path / "model.gguf"
    gguf_folders.FOLDERS[name][1](directory)
    same_vectors(directory, file)
    strips = gguf_file.read(file).metadata.get("tokenizer.ggml.normalizer.strip_accents", False)
    texts, tokenizer = lines("wordpiece" if strips else name)[:_FEWER], open_model(directory).bundle.tokenizer
    with serving(file, embeds=True) as client:
        for text, ids in zip(texts, tokenizer.encode_lines(texts), strict=True):
            there = client("/tokenize", content=text, add_special=False, parse_special=False)
            assert there["tokens"] == ids, text


def same_vectors(directory: Path, file: Path) -> None:
    """Convert an encoder to a file; our vectors of the directory are those of llama.cpp."""
    convert(str(directory), str(file))
    ours = loading.load(directory, settings=Embed(), device="cpu", precision="fp32").embed(_PROMPTS)
    with serving(file, embeds=True) as client:
        answers = client("/v1/embeddings", input=_PROMPTS)["data"]
    theirs = np.array([each["embedding"] for each in answers])
    assert ((ours * theirs).sum(1) / np.linalg.norm(theirs, axis=1)).min() > 0.9999
