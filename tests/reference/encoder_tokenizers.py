"""Small tokenizers of each kind that published encoders have, as transformers writes them."""

from __future__ import annotations

import io
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import transformers
from tokenizers import AddedToken, BertWordPieceTokenizer, ByteLevelBPETokenizer

# text in many scripts, with what tokenizers treat differently
LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "  Two  spaces,\ttabs; and a “quotation” – with dashes…  ",
    "Ünïcödé naïve façade Zürich ÅNGSTRÖM ﬁne ligature",
    "Быстрая коричневая лиса прыгает через ленивую собаку.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκυλί.",
    "敏捷的棕色狐狸跳过了懒狗。 これは日本語の文章です。 빠른 갈색 여우",
    "الثعلب البني السريع يقفز فوق الكلب الكسول",
    "תרנגול כחול קפץ מעל הגדר",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है",
    "ทดสอบภาษาไทย 123 45.67 €100 50%",
    "emoji 😀👍🏽 👩‍👩‍👧 and control\u200bchars\u00a0here",
    "don't can't I'm it's (brackets) [MASKED] <tag> #hash @at a/b",
    "ALL CAPS WORDS and MixedCase iPhone eBay",
    "",
    " ",
    "``quoted'' 'single' \"double\"",
    "a\u0301 combining e\u0301 vs é; ½ ² ™ Ⅷ",
]
_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def _lines() -> list[str]:
    words = [word for line in LINES for word in line.split()]
    return [*LINES, *(" ".join(words[i : i + 7]) for i in range(0, len(words), 3))]


@cache
def _sentencepiece(**options: Any) -> bytes:
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(filter(str.strip, _lines() * 3)),
        model_writer=file,
        model_type="unigram",
        vocab_size=330,
        character_coverage=0.995,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return file.getvalue()


def sentencepiece_model(**options: Any) -> bytes:
    """The bytes of a unigram model, with the options of the trainer."""
    return _sentencepiece(**options)


@cache
def made(kind: str) -> Any:
    """A tokenizer of transformers."""
    return KINDS[kind]()


def size(kind: str) -> int:
    """The number of its tokens."""
    return len(made(kind))


def _wordpiece() -> Any:
    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(_lines(), vocab_size=300, show_progress=False)
    return transformers.BertTokenizer(vocab=trained.get_vocab(), do_lower_case=True)


def byte_bpe() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The tokens and merges of a byte-level BPE with the special tokens of RoBERTa."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(_lines(), vocab_size=400, special_tokens=_SPECIAL, show_progress=False)
    merges = json.loads(trained._tokenizer.to_str())["model"]["merges"]
    return trained.get_vocab(), [tuple(pair) for pair in merges]


def _roberta() -> Any:
    ids, merges = byte_bpe()
    return transformers.RobertaTokenizer(vocab=ids, merges=merges, mask_token=AddedToken("<mask>", lstrip=True))


def _mpnet() -> Any:
    trained = BertWordPieceTokenizer(lowercase=True)
    special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
    trained.train_from_iterator(_lines(), vocab_size=300, show_progress=False, special_tokens=special)
    return transformers.MPNetTokenizer(vocab=trained.get_vocab(), do_lower_case=True)


def _of_file(name: str, kind: str, model: bytes) -> Any:
    """A tokenizer of a class of transformers, given a SentencePiece model in a file of this name."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(model)
        return getattr(transformers, kind).from_pretrained(folder)


def _albert() -> Any:
    control = {"pad_piece": "<pad>", "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    model = sentencepiece_model(**control, control_symbols="[CLS],[SEP],[MASK]")
    return _of_file("spiece.model", "AlbertTokenizer", model)


def _deberta_model() -> bytes:
    control = {"pad_piece": "[PAD]", "pad_id": 0, "unk_piece": "[UNK]", "unk_id": 3, "bos_piece": "[CLS]", "bos_id": 1}
    return sentencepiece_model(**control, eos_piece="[SEP]", eos_id=2)


KINDS = {
    "wordpiece": _wordpiece,
    "byte-bpe": _roberta,
    "unigram": lambda: _of_file("sentencepiece.bpe.model", "XLMRobertaTokenizer", sentencepiece_model()),
    "mpnet": _mpnet,
    "albert": _albert,
    "deberta": lambda: _of_file("spm.model", "DebertaV2Tokenizer", _deberta_model()),
}
