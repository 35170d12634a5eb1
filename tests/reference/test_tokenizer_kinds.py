"""Tokenizers of decoders' folders: the ids of texts in many scripts are AutoTokenizer's."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf_models
import pytest
import sentencepiece
import tokenizers
import transformers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from nlptools.errors import BundleError
from nlptools.text import tokenizer_pairs

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]
COUNT = 2000 if os.environ.get("NLPTOOLS_TEST_ALL") else 400
TRAINED = gguf_models.lines(300, 1)
_QWEN = (  # also of OLMo 2 and LLaMA 3, with up to three digits
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_level(*steps: Any, nfc: bool = False) -> tokenizers.Tokenizer:
    """Byte-level BPE after other pre-tokenizers."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(False, use_regex=len(steps) == 0)])
    made.decoder = decoders.ByteLevel()
    if nfc:
        made.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made.train_from_iterator(
        TRAINED,
        trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    return made


def _fast(made: tokenizers.Tokenizer, path: Path) -> None:
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>").save_pretrained(path)


def _gpt2(path: Path) -> None:
    model = json.loads(_byte_level().to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    transformers.GPT2Tokenizer(vocab=model["vocab"], merges=merges).save_pretrained(path)


def _qwen(path: Path) -> None:
    model = json.loads(_byte_level(pre_tokenizers.Split(Regex(_QWEN), "isolated"), nfc=True).to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    transformers.Qwen2Tokenizer(vocab=model["vocab"], merges=merges).save_pretrained(path)


def _pieces(path: Path, kind: str, **options: Any) -> None:
    """A SentencePiece BPE with pieces of bytes, as transformers' class writes it to tokenizer.json."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(filter(str.strip, TRAINED)), model_writer=file, model_type="bpe", vocab_size=680,
        character_coverage=0.99, byte_fallback=True, normalization_rule_name="identity", hard_vocab_limit=False,
        remove_extra_whitespaces=False, minloglevel=2, **options,
    )  # fmt: skip
    path.mkdir()
    (path / "tokenizer.model").write_bytes(file.getvalue())
    getattr(transformers, kind).from_pretrained(path).save_pretrained(path)


_OF_GEMMA = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "add_dummy_prefix": False,
             "user_defined_symbols": "<start_of_turn>,<end_of_turn>,▁▁,▁▁▁"}  # fmt: skip
_OLMO = _QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
KINDS: dict[str, Callable[[Path], None]] = {
    "gpt2": _gpt2,
    "qwen": _qwen,
    "olmo2": lambda path: _fast(_byte_level(pre_tokenizers.Split(Regex(_OLMO), "isolated")), path),
    "gpt-neox": lambda path: _fast(_byte_level(nfc=True), path),
    "smollm": lambda path: _fast(
        _byte_level(pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False, use_regex=True)), path
    ),
    "llama": lambda path: _pieces(path, "LlamaTokenizer"),
    "gemma": lambda path: _pieces(path, "GemmaTokenizer", **_OF_GEMMA),
}


def test_ids_are_those_of_auto_tokenizer(tmp_path: Path) -> None:
    lines = [*gguf_models.lines(COUNT), "<|im_start|>user\n<start_of_turn> a", "\u0085\u2028 \u200d", "\t\n x  \n\n y"]
    for name, make in KINDS.items():
        make(tmp_path / name)
        there = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        ours, _ = tokenizer_pairs.load_pair(tmp_path / name)
        found = ours.encode_lines(lines)
        expected = there(lines, add_special_tokens=False).input_ids
        assert len({id for row in expected for id in row}) > 200, name
        for line, mine, other in zip(lines, found, expected, strict=True):
            assert list(mine) == other, (name, line)
            assert ours.encode(line) == other, (name, line)


def test_a_folder_of_nllb_without_tokenizer_json_is_refused_with_the_cure(tmp_path: Path) -> None:
    _pieces(tmp_path / "m", "LlamaTokenizer")
    (tmp_path / "m" / "tokenizer.json").unlink()
    (tmp_path / "m" / "tokenizer.model").rename(tmp_path / "m" / "sentencepiece.bpe.model")
    (tmp_path / "m" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "NllbTokenizer"}))
    with pytest.raises(BundleError, match=r"the tokenizer of a nllb needs tokenizer\.json") as error:
        tokenizer_pairs.load_pair(tmp_path / "m")
    assert (
        error.value.hint is not None and "AutoTokenizer" in error.value.hint and "save_pretrained" in error.value.hint
    )
    (tmp_path / "m" / "tokenizer_config.json").unlink()
    (tmp_path / "m" / "config.json").write_text(json.dumps({"model_type": "m2m_100"}))
    with pytest.raises(
        BundleError, match=r"needs vocab\.json, the tokenizer of an NLLB needs tokenizer\.json"
    ) as other:
        tokenizer_pairs.load_pair(tmp_path / "m")
    assert other.value.hint is not None and "NllbTokenizer as A" in other.value.hint
