"""`score`, `generate` and `embed` on published-like folders of LLaMA's family, beside transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from llama_folders import TEXTS, written

import nlptools
from nlptools import bundle
from nlptools.configs.embed import Embed
from nlptools.configs.generation import Generate
from nlptools.configs.scoring import Score
from nlptools.errors import BundleError

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
PROMPTS = ["the cat", "on the log the", "dog", "a"]
GREEDY = Generate(temperature=0, max_new_tokens=12)
policies = pytest.mark.parametrize("bos", [True, False])


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.sampled(3)
@policies
@pytest.mark.parametrize("form", ["llama", "mistral", "qwen2 with windows", "qwen3"])
def test_greedy_generation_equals_theirs(form: str, bos: bool, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model, fast = written(tmp_path, form, bos), AutoTokenizer.from_pretrained(tmp_path)
    loaded = nlptools.load(tmp_path, precision="fp32")
    assert (loaded.bundle.bos, loaded.bundle.start, loaded.bundle.prepends_start) == (0 if bos else None, 0, bos)
    # `unk`, padding and the start token are never generated here
    banned = [[0]]
    found = loaded.generate(PROMPTS, GREEDY)
    for prompt, [mine] in zip(PROMPTS, found, strict=True):
        ids = fast(prompt, return_tensors="pt")
        assert (int(ids.input_ids[0, 0]) == 0) == bos
        theirs = model.generate(**ids, max_new_tokens=12, do_sample=False, pad_token_id=2, bad_words_ids=banned)
        new = [i for i in theirs[0, ids.input_ids.shape[1] :].tolist() if i != 1]
        assert mine.tokens == fast.convert_ids_to_tokens(new)


@policies
@torch.inference_mode()
def test_scores_begin_with_the_start_token_and_end_with_the_end_token(bos: bool, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model, fast = written(tmp_path, "llama", bos), AutoTokenizer.from_pretrained(tmp_path)
    loaded = nlptools.load(tmp_path, precision="fp32")
    total = 0.0
    for text, score in zip(TEXTS, loaded.score(TEXTS, Score()), strict=True):
        ids = torch.tensor([[0, *fast(text, add_special_tokens=False).input_ids, 1]])
        logprobs = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None]).squeeze(1)
        assert np.allclose(score.logprobs, logprobs, atol=1e-4)
        total += float(logprobs.sum())
    rewrite(tmp_path / "config.json", bos_token_id=None)
    again = nlptools.load(tmp_path, precision="fp32").bundle
    assert (again.start, again.prepends_start) == (0 if bos else 1, bos), "without a name and a template: the end token"


@policies
@torch.inference_mode()
def test_embeddings_of_the_last_token_equal_theirs(bos: bool, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model, fast = written(tmp_path, "qwen3", bos), AutoTokenizer.from_pretrained(tmp_path)
    embedder: Any = nlptools.load(tmp_path, settings=Embed(pooling="last"), precision="fp32")
    rows = embedder.embed(TEXTS)
    for text, row in zip(TEXTS, rows, strict=True):
        theirs = model.model(**fast(text, return_tensors="pt")).last_hidden_state[0, -1]
        assert np.allclose(row, theirs, atol=1e-4)
    assert embedder.embed([""]).shape == (1, 48)


def test_what_decides_whether_texts_begin_with_the_start_token(tmp_path: Path) -> None:
    written(tmp_path, "llama", bos=True)
    for added, expected in ((None, 0), (True, 0), (False, None)):
        rewrite(tmp_path / "tokenizer_config.json", add_bos_token=added)
        assert bundle.load(tmp_path).bos == expected
    written(tmp_path, "llama", bos=False)
    rewrite(tmp_path / "tokenizer_config.json", add_bos_token=True)
    loaded: Any = nlptools.load(tmp_path)
    assert loaded.bundle.bos == 0
    once, twice = (loaded.prompts.read(text, GREEDY) for text in ("the cat", "<s>the cat"))
    assert once == twice and once[0] == 0, "a prompt that has it gets no second one"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("settings", [GREEDY, Generate(beam=3, max_new_tokens=12), Generate(max_new_tokens=12)])
def test_any_of_several_end_tokens_ends_a_text(settings: Generate, tmp_path: Path) -> None:
    written(tmp_path, "llama")
    loaded = nlptools.load(tmp_path, precision="fp32")
    [[whole]] = loaded.generate(["the cat"], settings)
    third = loaded.bundle.tokenizer.vocab.ids[whole.tokens[3]]
    first = whole.tokens.index(whole.tokens[3])
    rewrite(tmp_path / "generation_config.json", eos_token_id=[1, third])
    both: Any = nlptools.load(tmp_path, precision="fp32")
    assert both.bundle.eos == 1 and both.bundle.ends == (third,)
    rewrite(tmp_path / "config.json", eos_token_id=[2, third])
    assert bundle.load(tmp_path).eos == 2 and bundle.load(tmp_path).ends == (third, 1)
    [[cut]] = both.generate(["the cat"], settings)
    assert whole.tokens[3] not in cut.tokens
    if settings == GREEDY:
        assert cut.tokens == whole.tokens[:first] and cut.finish == "eos"
    for wrong in ([], [1, 5000], "x", True):
        rewrite(tmp_path / "config.json", eos_token_id=wrong)
        if wrong == []:
            rewrite(tmp_path / "generation_config.json", eos_token_id=[])
        with pytest.raises(BundleError, match="eos_token_id is"):
            bundle.load(tmp_path)


def test_a_chat_template_survives(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    written(tmp_path / "there")
    rewrite(tmp_path / "there/tokenizer_config.json", chat_template="{{ messages[0].content }}")
    loaded = bundle.load(tmp_path / "there")
    for name, file in (("field", None), ("file", "chat_template.jinja")):
        if file:
            (tmp_path / "there" / file).write_text("<s>{{ messages[0].content }}")
            loaded = bundle.load(tmp_path / "there")
        (tmp_path / name).mkdir()
        more = {"eos": 1, "document": "line", "training": {}}
        bundle.save(tmp_path / name, "modern", loaded.model, loaded.weights(), loaded.tokenizer, **more)
        fast = AutoTokenizer.from_pretrained(tmp_path / name)
        text = fast.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
        assert text == ("<s>hi" if file else "hi")
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())["files"]
        assert (file in manifest) == (file is not None) if file else "chat_template.jinja" not in manifest


def test_commands_take_such_folders(fork, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    written(tmp_path / "llama", "llama", bos=True, shard="60KB", dtype=torch.bfloat16)
    (tmp_path / "text").write_text("\n".join(TEXTS) + "\n")
    total = fork("score", "llama", "--per", "total", "text", "-q")
    assert total.code == 0, total.err
    assert json.loads(total.text)["protocol"]["before_first_token"] == "<s>"
    out = fork("generate", "llama", "--max-new-tokens", 4, "--temperature", 0, "text", "-q")
    assert out.code == 0 and len(out.lines) == 2, out.err
    assert fork("embed", "llama", "--pooling", "last", "-o", "v.npy", "text", "-q").code == 0
    assert np.load(tmp_path / "v.npy").shape == (2, 48)
    (tmp_path / "labels").write_text("yes\tthe cat\nno\ta dog\n")
    done = fork("finetune", "--model", "llama", "--task", "classify", "--epochs", 1, "--force", "-o", "x", "labels")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "x/config.json").read_text())["architectures"] == ["LlamaForSequenceClassification"]
