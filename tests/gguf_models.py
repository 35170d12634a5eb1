"""Model directories that GGUF files are made of: every family and kind of tokenizer that llama.cpp has, with tiny models."""

from __future__ import annotations

import io
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from reference.encoder_tokenizers import LINES
from tiny_models import tiny

from nlptools import bundle
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text import gguf_pre_tokenizers, learning
from nlptools.text.huggingface import HuggingFace
from nlptools.text.packages import tokenizers_package
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer

_SIZE = 420  # tokens of a vocabulary
WIDE = {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 64}  # rows of whole blocks of Q8_0


def lines(count: int, seed: int = 0) -> list[str]:
    """Text in many scripts: lines, their words, and pieces of both, in any order."""
    drawn = random.Random(seed)
    parts = [part for line in LINES for part in (line, *line.split(), line[: len(line) // 3])]
    out = list(LINES)
    while len(out) < count:
        out.append(drawn.choice(("", " ", "  ", ", ")).join(drawn.choices(parts, k=drawn.randint(1, 5))))
    return out[:count]


def expressible(kind: str, texts: list[str]) -> list[str]:
    """The texts that llama.cpp tokenizes as a kind of tokenizer does, in spite of the warning that `convert` gives."""
    return [text for text in texts if not text.startswith(" ")] if kind == "metaspace" else texts


@cache
def tokenizer(kind: str) -> Tokenizer:
    """A tokenizer of a kind in `KINDS`."""
    return KINDS[kind]()


def _sentencepiece(kind: str) -> Tokenizer:
    return SentencePiece(learning.train_sentencepiece(lines(300, 1), kind, _SIZE), kind)


def _llama() -> SentencePiece:
    """As LLaMA 2 has it: no normalizer, spaces kept, bytes for unknown characters."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(filter(str.strip, lines(300, 1))),
        model_writer=file,
        model_type="bpe",
        vocab_size=_SIZE + 256,
        character_coverage=0.99,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return SentencePiece(file.getvalue(), "llama")


def _merged(kind: str) -> Tokenizer:
    """A tokenizer.json of a LLaMA or a Gemma, with the merges of SentencePiece. "metaspace": a LLaMA of transformers 5."""
    package, spm = tokenizers_package(), sentencepiece.SentencePieceProcessor(model_proto=_llama().model)
    pieces = [spm.id_to_piece(id) for id in range(spm.vocab_size())]
    known = {*pieces}
    splits = [(piece[:cut], piece[cut:]) for piece in pieces for cut in range(1, len(piece))]
    merges = [[a, b] for a, b in splits if a in known and b in known]
    replaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    prepends = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replaces]}
    steps: list[dict[str, Any]] = [{**replaces, "pattern": {"String": "▁"}, "content": " "}]
    steps += [{"type": "ByteFallback"}, {"type": "Fuse"}]
    names = ["<unk>", "<s>", "</s>"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": id, "content": name, "special": True, **plain} for id, name in enumerate(names)]
    if kind == "gemma":
        added.append({"id": len(pieces), "content": "<start_of_turn>", "special": False, **plain})
    else:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    vocab = {piece: id for id, piece in enumerate([*pieces, *["<start_of_turn>"] * (kind == "gemma")])}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    content = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"gemma": replaces, "llama": prepends}.get(kind),
        "pre_tokenizer": metaspace if kind == "metaspace" else None,
        "decoder": {"type": "Sequence", "decoders": steps},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": merges,
        },
    }
    return HuggingFace(package.Tokenizer.from_str(json.dumps(content)), kind)


def _byte_bpe() -> Tokenizer:
    return HuggingFace(learning.train_byte_bpe(lines(300, 1), _SIZE), "byte-bpe")


def _byte_bpe_with(name: str) -> Tokenizer:
    """With another pre-tokenizer that llama.cpp knows."""
    known = gguf_pre_tokenizers.by_name(name)
    assert known is not None
    package = tokenizers_package()
    content: Any = json.loads(learning.train_byte_bpe(lines(300, 1), _SIZE).to_str())
    content["pre_tokenizer"] = known.pre_tokenizer
    content["model"]["ignore_merges"] = known.whole
    return HuggingFace(package.Tokenizer.from_str(json.dumps(content)), name)


def _wordpiece(lowercase: bool) -> Tokenizer:
    trained = learning.train_wordpiece(lines(300, 1), _SIZE, lowercase=lowercase, strip_accents=lowercase)
    return HuggingFace(trained, "wordpiece")


KINDS = {
    "unigram": lambda: _sentencepiece("unigram"),
    "char": lambda: _sentencepiece("char"),
    "llama": _llama,
    "llama-json": lambda: _merged("llama"),
    "gemma-json": lambda: _merged("gemma"),
    "metaspace": lambda: _merged("metaspace"),
    "byte-bpe": _byte_bpe,
    **{name: lambda name=name: _byte_bpe_with(name) for name in ("llama-bpe", "qwen2", "smollm")},
    "wordpiece": lambda: _wordpiece(True),
    "wordpiece-cased": lambda: _wordpiece(False),
}
_GEMMA_1 = {"arch": "modern", "norm": "offset-rms", "activation": "gelu_new", "embedding_scale": 8.0, "head_dim": 24}
_GEMMA = {
    **_GEMMA_1,
    "output_norm": True,
    "score_size": 24,
    "sliding_window": 5,
    "rope_theta": 1e6,
}
FAMILIES: dict[str, dict[str, Any]] = {  # architecture and variant of a language model, by name in files
    "gpt2": {"arch": "transformer"},
    "llama": {"arch": "modern", "num_attention_heads": 4, "num_key_value_heads": 2},
    "qwen2": {"arch": "modern", "attention_bias": True, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "qwen3": {"arch": "modern", "query_key_norm": True, "head_dim": 24, "tie_word_embeddings": False},
    "gemma": {**_GEMMA_1, "layout": "gemma"},
    "gemma2": {**_GEMMA, "layout": "gemma2", "whole_layers": (1,), "score_cap": 3.0, "logit_cap": 5.0},
    "gemma3": {
        **_GEMMA,
        "layout": "gemma3_text",
        "num_hidden_layers": 7,
        "whole_layers": (5,),
        "query_key_norm": True,
        "local_rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
}


def language_model(
    directory: Path, family: str = "gpt2", kind: str = "byte-bpe", *, rows: int = 0, scale: float = 1.0, **changes: Any
) -> Path:
    """The directory of a language model, with `rows` of its embedding without a token, and one weight `scale` times as large."""
    named = {**FAMILIES[family], **changes}
    arch = named.pop("arch")
    tokens = tokenizer(kind)
    vocab = tokens.vocab
    assert vocab is not None and vocab.eos is not None
    model = tiny(arch, vocab_size=len(vocab) + rows, **{**WIDE, **named})
    with torch.no_grad():
        model.token_embedding.weight[3, 0].mul_(scale)
    directory.mkdir()
    given: dict[str, Any] = {"eos": vocab.eos, "document": "line", "training": {}}
    bundle.save(directory, arch, model, model.state_dict(), tokens, **given)
    return directory


def encoder(directory: Path, layout: str = "bert", kind: str = "wordpiece", **changes: Any) -> Path:
    """The directory of an encoder."""
    tokens = tokenizer(kind)
    assert tokens.vocab is not None
    sizes: dict[str, Any] = {"max_position_embeddings": 64, "layout": layout, **changes}
    config = EncoderConfig(len(tokens.vocab), 64, 2, 4, 96, **sizes)
    torch.manual_seed(0)
    model = BertWithHeads(config, ())
    model.initialize()
    directory.mkdir()
    bundle.save_encoder(directory, model, model.state_dict(), tokens, training={})
    return directory
