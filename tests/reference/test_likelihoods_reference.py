"""Likelihoods of continuations as lm-evaluation-harness (0.4) computes them, written down from its source on transformers."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

PAIRS = [
    ("the cat", " sat on the mat"),
    ("the cat ", "sat on the mat"),
    ("the cat\n\n", "sat"),
    ("", "the dog sat"),
    ("the dog sat on", " the log"),
    ("the dog sat on", " mat"),
    ("the ca", "t sat on the mat"),  # inside a token
    ("é–! the", " do"),
    (" ".join(["the cat sat on the mat and"] * 12), " the dog sat on the log"),  # longer than the context
    (" ".join(["the cat sat on the mat and"] * 12), " the"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 directory as transformers saves it."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    out = tmp_path_factory.mktemp("gpt2")
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        ["the cat sat on the mat and the dog sat on the log"] * 10, vocab_size=290, special_tokens=["<|endoftext|>"]
    )
    tokenizer.save(str(out / "tokenizer.json"))
    GPT2TokenizerFast(tokenizer_file=str(out / "tokenizer.json")).save_pretrained(out)
    eos = tokenizer.token_to_id("<|endoftext|>")
    sizes = {"n_positions": 32, "n_embd": 48, "n_layer": 3, "n_head": 4}
    config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), bos_token_id=eos, eos_token_id=eos, **sizes)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(out)
    return out


@pytest.fixture(scope="module")
def theirs(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoTokenizer, GPT2LMHeadModel

    return GPT2LMHeadModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def encode_pair(tokenizer: Any, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """`TemplateLM._encode_pair`, and what `loglikelihood` does with an empty context."""
    if context == "":
        ids = tokenizer.encode(continuation)
        eot = tokenizer.eos_token_id
        return ([eot], ids) if eot != ids[0] else (ids[:1], ids[1:])
    spaces = len(context) - len(context.rstrip())
    if spaces > 0:
        continuation = context[-spaces:] + continuation
        context = context[:-spaces]
    whole, before = tokenizer.encode(context + continuation), tokenizer.encode(context)
    return before, whole[len(before) :]


@torch.inference_mode()
def loglikelihood(model: Any, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """`HFLM._loglikelihood_tokens` for one request."""
    row = torch.tensor([(context + continuation)[-(model.config.n_positions + 1) :][:-1]])
    scores = model(row).logits[0].float().log_softmax(-1)[-len(continuation) :]
    targets = torch.tensor(continuation)
    return float(scores.gather(1, targets[:, None]).sum()), bool((scores.argmax(-1) == targets).all())


@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_pairs(folder: Path, theirs: tuple[Any, Any], batch_tokens: int) -> None:
    import nlptools

    model, tokenizer = theirs
    likely = tokenizer.decode(int(model(torch.tensor([tokenizer.encode("the cat")])).logits[0, -1].argmax()))
    pairs = [*PAIRS, ("the cat", likely)]
    ours = nlptools.load(folder, precision="fp32", threads=1).likelihoods(pairs, batch_tokens=batch_tokens)
    for pair, each in zip(pairs, ours, strict=True):
        context, continuation = encode_pair(tokenizer, *pair)
        value, greedy = loglikelihood(model, context, continuation)
        assert np.isclose(each.log_probability, value, atol=1e-4), pair
        assert (each.tokens, each.greedy) == (len(continuation), greedy), pair


def rolling_windows(ids: list[int], prefix: int, most: int) -> list[tuple[list[int], list[int]]]:
    """`get_rolling_token_windows` with context_len 1, and `make_disjoint_window`: (context, continuation) of each."""
    predicted = min(most, len(ids))
    windows = [([prefix, *ids[: predicted - 1]], ids[:predicted])]
    while predicted < len(ids):
        count = min(len(ids) - predicted, most)
        end = predicted + count
        windows.append((ids[end - most - 1 : end - 1], ids[end - count : end]))
        predicted += count
    return [(seen[: len(seen) - (len(new) - 1)], new) for seen, new in windows]


def test_rolling(folder: Path, theirs: tuple[Any, Any]) -> None:
    import nlptools
    from nlptools.configs.scoring import Score

    model, tokenizer = theirs
    texts = ["the cat", "the cat sat on the mat and " * 12, "a long log: " * 9 + "the end", ""]
    ours = nlptools.load(folder, precision="fp32", threads=1).score(texts, Score(eos=False))
    lengths = []
    for text, each in zip(texts, ours, strict=True):
        ids = tokenizer.encode(text)
        windows = rolling_windows(ids, tokenizer.eos_token_id, model.config.n_positions) if ids else []
        value = sum(loglikelihood(model, *window)[0] for window in windows)
        assert np.isclose(each.logprob, value, atol=1e-3), text
        lengths.append(len(ids))
    assert max(lengths) > 2 * model.config.n_positions and max(lengths) % model.config.n_positions


def test_the_class_for_lm_evaluation_harness(
    folder: Path, theirs: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """examples/lm_eval.py, where that package need not be installed; test_lm_eval.py is with it."""
    model, registry = ModuleType("lm_eval.api.model"), ModuleType("lm_eval.api.registry")
    model.LM = type("LM", (), {})  # type: ignore[attr-defined]
    registry.register_model = lambda name: lambda registered: registered  # type: ignore[attr-defined]
    for name, module in {"lm_eval": ModuleType("lm_eval"), "lm_eval.api": ModuleType("lm_eval.api")}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "lm_eval.api.model", model)
    monkeypatch.setitem(sys.modules, "lm_eval.api.registry", registry)
    ours = runpy.run_path(str(ROOT / "examples/lm_eval.py"))["Nlptools"](
        path=str(folder), precision="fp32", threads="1"
    )
    gpt, tokenizer = theirs

    def requests(*arguments: Any) -> list[Any]:
        return [SimpleNamespace(args=each) for each in arguments]

    expected = [loglikelihood(gpt, *encode_pair(tokenizer, *pair)) for pair in PAIRS]
    for (value, greedy), each in zip(ours.loglikelihood(requests(*PAIRS)), expected, strict=True):
        assert (value, greedy) == (pytest.approx(each[0], abs=1e-4), each[1])
    text = "the cat sat on the mat"
    windows = rolling_windows(tokenizer.encode(text), tokenizer.eos_token_id, gpt.config.n_positions)
    value = sum(loglikelihood(gpt, *window)[0] for window in windows)
    assert ours.loglikelihood_rolling(requests((text,))) == [pytest.approx(value, abs=1e-4)]
    prompt = torch.tensor([tokenizer.encode("the cat")])
    new = gpt.generate(prompt, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, prompt.shape[1] :]
    whole = tokenizer.decode(new, skip_special_tokens=True)
    arguments = {"max_gen_toks": 6, "until": []}
    stopped = {**arguments, "until": [whole[2:4]]}
    answers = ours.generate_until(requests(("the cat", stopped), ("the cat", arguments)))
    assert answers == [whole[: whole.find(whole[2:4])], whole]
