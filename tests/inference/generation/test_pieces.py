"""Tokens of an echoed prompt and of what follows: they are the text, for every tokenizer and every kind of model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.generation import Generate
from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.language_model import TextLanguageModel
from nlptools.serving.completion_answers import response
from nlptools.text import huggingface, learning
from nlptools.text import tokenizer as tokenizers
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab

TEXTS = ["the cat sat", "  the  löwe 🦁 zzz", "The Cat,\tsat.", "", "a"]
TRAINING = ["the cat sat on the mat, the dog sat on the log."] * 30
WORDS = ["<unk>", "</s>", "the", "cat", "sat", ",", "."]


def make(kind: str) -> Tokenizer:
    if kind == "sentencepiece":
        return SentencePiece(learning.train_sentencepiece(TRAINING, "unigram", 40), "m")
    if kind == "byte bpe":
        return huggingface.HuggingFace(learning.train_byte_bpe(TRAINING, 300), "t")
    if kind == "wordpiece":
        return huggingface.HuggingFace(learning.train_wordpiece(TRAINING, 60), "t")
    if kind == "bytes":
        return tokenizers.load("bytes")
    tokens = [*WORDS[:2], *"abcdefghijklmnop qrstuvwxyz.,ö🦁"] if kind == "char" else WORDS
    return tokenizers.load(kind, vocab=Vocab(tokens), lowercase=kind == "words")


def model(directory: Path, kind: str, arch: str = "transformer") -> TextLanguageModel:
    tokenizer = make(kind)
    assert tokenizer.vocab is not None
    size = len(tokenizer.vocab) + 1
    eos = size - 1 if tokenizer.vocab.eos is None else tokenizer.vocab.eos
    net = tiny(arch, vocab_size=size)
    directory.mkdir()
    bundle.save(directory, arch, net, net.state_dict(), tokenizer, eos=eos, document="line", training={})
    loaded = nlptools.load(directory, compute=Compute(precision="fp32", threads=1, device="cpu"))
    assert isinstance(loaded, TextLanguageModel)
    return loaded


def answered(loaded: TextLanguageModel, asked: list[CompletionRequest]) -> list[dict[str, Any]]:
    rows = loaded.answer(asked)
    return [response([each], 0, [row])["choices"][0] for each, row in zip(asked, rows, strict=True)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["bytes", "byte bpe", "sentencepiece", "wordpiece", "char", "whitespace", "words"])
def test_the_pieces_are_the_text(tmp_path: Path, kind: str) -> None:
    loaded = model(tmp_path / "m", kind)
    settings = Generate(max_new_tokens=6, min_new_tokens=6, temperature=0, logprobs=True, top_logprobs=2, echo=True)
    ids = [tuple(loaded.tokenizer.encode(text)) for text in TEXTS]
    texts = answered(loaded, [CompletionRequest(text, settings, {}) for text in TEXTS])
    numbers = answered(loaded, [CompletionRequest("", settings, {}, ids=each) for each in ids])
    for text, tokens, whole, same in zip(TEXTS, ids, texts, numbers, strict=True):
        entries = whole["logprobs"]
        assert len(entries["tokens"]) == len(tokens) + 6 == len(same["logprobs"]["tokens"])
        assert "".join(entries["tokens"]) == whole["text"] and whole["text"].startswith(text)
        assert "".join(same["logprobs"]["tokens"]) == same["text"]
        assert entries["token_logprobs"] == same["logprobs"]["token_logprobs"]
        for token, value, top in zip(
            entries["tokens"], entries["token_logprobs"], entries["top_logprobs"], strict=True
        ):
            assert (top is None and value is None) or top[token] == value


def test_a_space_belongs_to_the_token_after_it(tmp_path: Path) -> None:
    settings = Generate(max_new_tokens=0, logprobs=True, echo=True)
    for kind, texts in (
        ("whitespace", ["the", "  cat", " sat "]),
        ("words", ["the", "  cat", ",", " sat "]),
        ("bytes", ["a", "", "ö", "", "", "", "🦁"]),
    ):
        [choice] = answered(model(tmp_path / kind, kind), [CompletionRequest("".join(texts), settings, {})])
        assert choice["logprobs"]["tokens"] == texts


def test_the_end_of_a_text_is_a_token_without_text(tmp_path: Path) -> None:
    """Clients take the last entry for the one new token, and what is before it for the prompt."""
    settings = Generate(max_new_tokens=1, temperature=0, match="", logprobs=True, top_logprobs=1, echo=True)
    loaded = model(tmp_path / "m", "bytes")
    [choice] = answered(loaded, [CompletionRequest("abc", settings, {})])
    entries = choice["logprobs"]
    assert entries["tokens"] == ["a", "b", "c", ""] and entries["text_offset"] == [0, 1, 2, 3]
    assert entries["top_logprobs"][3][""] == entries["token_logprobs"][3]
    assert (choice["text"], choice["finish_reason"]) == ("abc", "stop")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", ["transformer", "modern", "lstm", "transformer-xl", "feedforward"])
def test_prompts_have_the_scores_of_score(tmp_path: Path, arch: str) -> None:
    """Also where they are longer than the context."""
    loaded = model(tmp_path / "m", "bytes", arch)
    settings = Generate(max_new_tokens=0, logprobs=True, echo=True)
    texts = ["the cat", "sat on the mat, and " * 12]
    for text, choice in zip(
        texts, answered(loaded, [CompletionRequest(text, settings, {}) for text in texts]), strict=True
    ):
        [wanted] = loaded.score([text])
        assert choice["text"] == text and choice["finish_reason"] == "length"
        assert choice["logprobs"]["token_logprobs"] == pytest.approx(wanted.logprobs[: len(text)], abs=1e-4)
